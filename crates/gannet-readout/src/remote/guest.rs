//! One readout, as its builder knows it.

use std::collections::{HashMap, VecDeque};

use gannet_fabric::messenger::Messenger;
use gannet_wire::readout_link::{Ask, Fragment, Message};

use super::LinkError;
use crate::windows::StreamAnswer;

/// Most bytes that one stream may have of a window.
const ANSWER_BYTES_MAX: u64 = 4 << 30;
/// Most messages that wait to be sent, some for each stream, and most windows that are not answered.
const WAITING_MAX: usize = 1 << 14;

/// Where the exchange with one that has come stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not said who it is.
    Strange,
    /// It has, and may have to wait until another one that has its streams is found to be gone.
    Greeted,
    /// It has its streams, and waits for the readouts of others.
    Gathered,
    /// It is part of the run.
    Joined,
    /// It cannot be, and was told so.
    Refused,
}

/// A window of a stream of which only a part has come.
#[derive(Debug)]
struct Part {
    error_bits: u32,
    whole: u64,
    frames: Vec<u8>,
}

/// A readout, or who may become one.
pub(super) struct Guest {
    messenger: Messenger,
    /// Its number among all that came.
    pub id: u64,
    pub standing: Standing,
    /// Since when it stands so.
    pub since_ns: u64,
    /// Number that it drew when it was started.
    pub epoch: u64,
    /// Its streams.
    pub streams: Vec<u32>,
    /// When it said that no more items come.
    pub ended_ns: Option<u64>,
    /// Whether it was told that it may go.
    pub may_go: bool,
    /// Messages that wait for room.
    waiting: VecDeque<Vec<u8>>,
    /// Windows that it was asked for, with the streams that have not answered.
    open: HashMap<u64, Vec<u32>>,
    parts: HashMap<(u64, u32), Part>,
}

impl Guest {
    /// One that has come over this messenger.
    pub fn new(messenger: Messenger, id: u64, now_ns: u64) -> Self {
        Self {
            messenger,
            id,
            standing: Standing::Strange,
            since_ns: now_ns,
            epoch: 0,
            streams: Vec::new(),
            ended_ns: None,
            may_go: false,
            waiting: VecDeque::new(),
            open: HashMap::new(),
            parts: HashMap::new(),
        }
    }

    /// Notes where the exchange stands from now on.
    pub fn stand(&mut self, standing: Standing, now_ns: u64) {
        (self.standing, self.since_ns) = (standing, now_ns);
    }

    /// Whether it is part of the run.
    pub fn is_joined(&self) -> bool {
        self.standing == Standing::Joined
    }

    /// Says something, as soon as there is room.
    pub fn say(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.waiting.push_back(bytes);
    }

    /// Tells it that it may go; nothing is asked of it any more.
    pub fn let_go(&mut self) {
        if !std::mem::replace(&mut self.may_go, true) {
            self.say(&Message::Done);
        }
    }

    /// Asks it for a window of all its streams.
    pub fn ask(&mut self, ask: Ask) {
        self.open.insert(ask.number, self.streams.clone());
        self.say(&Message::Ask(ask));
    }

    /// Looks what came; gives whether it is still there.
    pub fn look(&mut self, now_ns: u64) -> Result<(), LinkError> {
        Ok(self.messenger.step(now_ns)?)
    }

    /// Takes the next message; gives whether there was one.
    pub fn receive(&mut self, bytes: &mut Vec<u8>) -> bool {
        self.messenger.receive(bytes)
    }

    /// Sends what there is room for.
    pub fn send(&mut self) -> Result<(), LinkError> {
        while let Some(waiting) = self.waiting.front()
            && self.messenger.send(waiting)
        {
            self.waiting.pop_front();
        }
        match self.waiting.len().max(self.open.len()) > WAITING_MAX {
            true => Err(LinkError::Message("nothing, and takes nothing either")),
            false => Ok(()),
        }
    }

    /// Whether it has answered all that it was asked.
    pub fn has_answered_all(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether each side has taken all that the other one had to say, and knows that.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty()
            && self.messenger.taken_there() == self.messenger.sent()
            && self.messenger.has_told_taken()
    }

    /// Takes a part of an answer; gives the answer when it is whole.
    pub fn take_fragment(
        &mut self,
        fragment: &Fragment<'_>,
    ) -> Result<Option<StreamAnswer>, LinkError> {
        let &Fragment { number, stream, error_bits, whole, place, bytes } = fragment;
        let wrong = LinkError::Message("a fragment that is none");
        let unanswered = self.open.get_mut(&number).ok_or(wrong)?;
        let at = unanswered.iter().position(|open| *open == stream).ok_or(wrong)?;
        if whole > ANSWER_BYTES_MAX {
            return Err(wrong);
        }
        let key = (number, stream);
        let part = self.parts.entry(key).or_insert(Part { error_bits, whole, frames: Vec::new() });
        if part.frames.len() as u64 != place || part.whole != whole {
            return Err(wrong);
        }
        part.frames.extend_from_slice(bytes);
        if (part.frames.len() as u64) < whole {
            return Ok(None);
        }
        unanswered.swap_remove(at);
        if unanswered.is_empty() {
            self.open.remove(&number);
        }
        Ok(self.parts.remove(&key).map(|Part { error_bits, frames, .. }| StreamAnswer {
            number,
            stream: stream as usize,
            error_bits,
            frames,
            unreachable: false,
        }))
    }

    /// Windows of streams that it was asked for and has not answered.
    pub fn unanswered(self) -> impl Iterator<Item = (u64, u32)> {
        self.open
            .into_iter()
            .flat_map(|(number, streams)| streams.into_iter().map(move |stream| (number, stream)))
    }
}
