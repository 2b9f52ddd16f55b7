//! The builder's end.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

use gannet_fabric::messenger::Messenger;
use gannet_measure::ledger::Account;
use gannet_trigger::Item;
use gannet_wire::readout_link::{Ask, Fragment, Hello, Items, Message, Refusal};
use gannet_wire::record::Record;

use super::{LinkError, Orders};
use crate::items::{ItemDrop, ItemSender};
use crate::latency::Window;
use crate::receiver::StreamStatus;
use crate::request::DataRequest;
use crate::windows::StreamAnswer;

/// Most bytes that one stream may have of a window.
const ANSWER_BYTES_MAX: u64 = 4 << 30;
/// Most messages that wait to be sent.
const WAITING_MAX: usize = 4096;

/// What is asked of a readout.
#[derive(Debug)]
pub(super) enum Order {
    Ask(u64, DataRequest),
    Awaited(u32, bool),
    Close,
}

/// What a readout has to be for the builder to want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcoming {
    /// Digest of the configuration.
    pub digest: u64,
    /// Number of the run.
    pub run: u32,
}

/// A window of a stream of which only a part has come.
#[derive(Debug)]
struct Part {
    error_bits: u32,
    whole: u64,
    frames: Vec<u8>,
}

/// Takes what a readout sends, and asks it for windows.
pub struct BuilderEnd<I> {
    welcoming: Welcoming,
    items: Option<ItemSender<I>>,
    account: Arc<Account<ItemDrop>>,
    frame_items_max: usize,
    statuses: Vec<Arc<StreamStatus>>,
    /// How far each stream was searched.
    searched_to: Vec<u64>,
    orders: Orders,
    /// Whether nobody asks any more.
    is_over: bool,
    awaited: Vec<bool>,
    is_closed: bool,
    joined: bool,
    ended: bool,
    /// Messages that wait for room.
    waiting: VecDeque<Vec<u8>>,
    /// Windows that were asked for of this readout since it joined, with the streams that have not answered.
    open: HashMap<u64, usize>,
    parts: HashMap<(u64, u32), Part>,
}

impl<I: Item + Record> BuilderEnd<I> {
    /// The end for a readout with these streams. What it finds goes to `items`, at most `frame_items_max` at a time.
    pub fn new(
        welcoming: Welcoming,
        items: ItemSender<I>,
        frame_items_max: usize,
        statuses: Vec<Arc<StreamStatus>>,
        orders: Orders,
    ) -> Self {
        let streams = statuses.len();
        Self {
            welcoming,
            account: items.account(),
            items: Some(items),
            frame_items_max,
            statuses,
            searched_to: vec![0; streams],
            orders,
            is_over: false,
            awaited: vec![true; streams],
            is_closed: false,
            joined: false,
            ended: false,
            waiting: VecDeque::new(),
            open: HashMap::new(),
            parts: HashMap::new(),
        }
    }

    /// Whether a readout is part of the run.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// Whether the readout has said that no more items will come.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes no more items, so that the trigger comes to its end; those that come are counted as dropped.
    pub fn stop(&mut self) {
        if let Some(items) = self.items.take() {
            items.finish();
        }
    }

    /// Whether nobody asks for windows any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Hands over items that have waited for long enough.
    pub fn flush_due(&mut self, now_ns: u64) {
        self.items.iter_mut().for_each(|items| items.flush_due(now_ns));
    }

    /// Takes note of what is asked for while no readout is there: it is answered when its time is up.
    pub fn take_orders(&mut self, now_ns: u64) {
        loop {
            match self.orders.orders.try_recv() {
                Ok(Order::Ask(number, request)) if self.joined => {
                    self.open.insert(number, self.statuses.len());
                    let Window { begin, end } = request.window();
                    let wait_ns = request.deadline_ns().saturating_sub(now_ns);
                    let ask = Ask { number, begin, end, wait_ns };
                    self.waiting.push_back(message(&Message::Ask(ask)));
                }
                Ok(Order::Ask(..)) => {}
                Ok(Order::Awaited(stream, awaited)) => {
                    self.awaited[stream as usize] = awaited;
                    if self.joined {
                        self.waiting.push_back(message(&Message::Awaited { stream, awaited }));
                    }
                }
                Ok(Order::Close) => {
                    self.is_closed = true;
                    if self.joined {
                        self.waiting.push_back(message(&Message::Close));
                    }
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    if !std::mem::replace(&mut self.is_over, true) && self.joined {
                        self.waiting.push_back(message(&Message::Done));
                    }
                    return;
                }
            }
        }
    }

    /// Whether all that was to be said to the readout was taken.
    pub fn has_said_all(&self, messenger: &Messenger) -> bool {
        self.waiting.is_empty() && messenger.taken_there() == messenger.sent()
    }

    /// Exchanges messages with the readout; gives whether anything came.
    ///
    /// # Errors
    /// When the readout is gone or does not keep to the rules, or is none of this run; then it is to be
    /// [`left`](Self::leave).
    pub fn step(&mut self, now_ns: u64, messenger: &mut Messenger) -> Result<bool, LinkError> {
        let alive = messenger.step(now_ns);
        let mut bytes = Vec::new();
        let mut came = false;
        while messenger.receive(&mut bytes) {
            came = true;
            self.hear(now_ns, &bytes)?;
        }
        alive?;
        self.take_orders(now_ns);
        while let Some(waiting) = self.waiting.front() {
            if !messenger.send(waiting) {
                break;
            }
            self.waiting.pop_front();
        }
        if self.waiting.len() > WAITING_MAX {
            return Err(LinkError::Message("nothing, and takes nothing either"));
        }
        self.flush_due(now_ns);
        Ok(came)
    }

    /// Forgets a readout that is gone. Its streams are silent until it comes back.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.joined) && !self.ended {
            self.statuses.iter().for_each(|status| status.stalled.set(1));
        }
        self.waiting.clear();
        self.open.clear();
        self.parts.clear();
    }

    fn hear(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), LinkError> {
        let parsed = Message::parse(bytes);
        let parsed = parsed.map_err(|_| LinkError::Message("bytes that are no message"))?;
        match (parsed, self.joined) {
            (Message::Hello(hello), false) => self.welcome(&hello),
            (Message::Items(items), true) => self.take_items(now_ns, &items),
            (Message::Figures(figures), true) => {
                let status = self.statuses.get(figures.stream as usize);
                let is_whole = figures.words().len() == StreamStatus::WORDS;
                let status = status.filter(|_| is_whole).ok_or(LinkError::Message("figures"))?;
                status.set_words(figures.words());
                Ok(())
            }
            (Message::Fragment(fragment), true) => self.take_fragment(&fragment),
            (Message::Ended, true) => {
                self.ended = true;
                self.stop();
                Ok(())
            }
            _ => Err(LinkError::Message("a message out of turn")),
        }
    }

    fn welcome(&mut self, hello: &Hello) -> Result<(), LinkError> {
        let &Hello { digest, first, streams, item_len } = hello;
        let refusal = if digest != self.welcoming.digest {
            Some(Refusal::Configuration)
        } else if first != 0 || streams as usize != self.statuses.len() {
            Some(Refusal::Streams)
        } else {
            (item_len as usize != I::LEN).then_some(Refusal::Items)
        };
        if let Some(refusal) = refusal {
            self.waiting.push_back(message(&Message::Refused(refusal)));
            return Ok(());
        }
        self.joined = true;
        self.waiting.push_back(message(&Message::Welcome { run: self.welcoming.run }));
        for (stream, awaited) in self.awaited.iter().enumerate().filter(|(_, awaited)| !**awaited) {
            let stream = stream as u32;
            self.waiting.push_back(message(&Message::Awaited { stream, awaited: *awaited }));
        }
        Ok(())
    }

    fn take_items(&mut self, now_ns: u64, items: &Items<'_>) -> Result<(), LinkError> {
        let wrong = LinkError::Message("items that are none");
        let mut found = items.items::<I>().map_err(|_| wrong)?;
        if items.segments().any(|segment| segment.stream as usize >= self.statuses.len()) {
            return Err(wrong);
        }
        let Some(sender) = &mut self.items else {
            let count = found.len() as u64;
            self.account.offer(count);
            self.account.discard(ItemDrop::AfterStop, count);
            return Ok(());
        };
        for segment in items.segments() {
            let searched_to = &mut self.searched_to[segment.stream as usize];
            let arrival_ns = now_ns.saturating_sub(segment.age_ns);
            let mut left = segment.items as usize;
            loop {
                let count = left.min(self.frame_items_max);
                left -= count;
                // Nothing is said to have been searched of which items are still to come.
                *searched_to = match left {
                    0 => segment.searched_to,
                    _ => segment.searched_to.min(*searched_to),
                };
                sender.append(segment.stream, arrival_ns, |out| {
                    out.extend(found.by_ref().take(count));
                    *searched_to
                });
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn take_fragment(&mut self, fragment: &Fragment<'_>) -> Result<(), LinkError> {
        let &Fragment { number, stream, error_bits, whole, place, bytes } = fragment;
        let wrong = LinkError::Message("a fragment that is none");
        let left = self.open.get_mut(&number).ok_or(wrong)?;
        if stream as usize >= self.statuses.len() || whole > ANSWER_BYTES_MAX {
            return Err(wrong);
        }
        let key = (number, stream);
        let part = self.parts.entry(key).or_insert(Part { error_bits, whole, frames: Vec::new() });
        if part.frames.len() as u64 != place || part.whole != whole {
            return Err(wrong);
        }
        part.frames.extend_from_slice(bytes);
        if part.frames.len() as u64 == whole
            && let Some(Part { error_bits, frames, .. }) = self.parts.remove(&key)
        {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&number);
            }
            let stream = stream as usize;
            let _unasked =
                self.orders.answers.send(StreamAnswer { number, stream, error_bits, frames });
        }
        Ok(())
    }
}

fn message(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}
