//! The builder's end: the readouts of a run, and what they have found.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

use gannet_fabric::messenger::Messenger;
use gannet_trigger::Item;
use gannet_wire::Step;
use gannet_wire::readout_link::{Ask, Greeting, Hello, Message, Refusal, Span};
use gannet_wire::record::{Record, Records};

use super::far_stream::FarStream;
use super::guest::{Guest, Standing};
use super::item_intake::ItemIntake;
use super::presence::Readout;
use super::{LinkError, Orders, Presence};
use crate::items::ItemSender;
use crate::latency::Window;
use crate::receiver::StreamStatus;
use crate::request::{DataRequest, error_bits};
use crate::windows::StreamAnswer;

/// Most readouts of a builder.
pub const READOUTS_MAX: usize = 64;
/// Most that have come and are none, or none yet.
const OTHERS_MAX: usize = 16;

/// What is asked of the readouts.
#[derive(Debug)]
pub(super) enum Order {
    Ask(u64, DataRequest),
    Awaited(u32, bool),
    Close,
}

/// What a readout has to be for the builder to want it, and how long is waited for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcoming {
    /// Digest of the configuration.
    pub digest: u64,
    /// Number of the run.
    pub run: u32,
    /// How long the first readouts wait for those of the other streams before they begin, and those that have ended
    /// stay for the others, in nanoseconds.
    pub gather_ns: u64,
    /// How long one that says nothing is listened to, and one whose streams another readout has waits for that to be
    /// found gone, in nanoseconds.
    pub patience_ns: u64,
}

/// What happened to one that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A readout with these streams is part of the run.
    Joined {
        /// Its streams.
        streams: Vec<u32>,
    },
    /// A readout with these streams was refused, and was told so.
    Refused {
        /// The streams that it said to have.
        streams: Vec<u32>,
        /// Why.
        refusal: Refusal,
    },
    /// A readout with these streams is gone, or does not keep to the rules.
    Left {
        /// Its streams.
        streams: Vec<u32>,
        /// Why.
        error: LinkError,
    },
    /// One that has not become a readout is gone.
    Strange(LinkError),
}

/// Takes what readouts send, and asks each for windows of its streams.
///
/// Each stream belongs to one readout at a time. What is asked of a stream that has none is answered at once, as by one
/// that never came.
pub struct BuilderEnd<I> {
    welcoming: Welcoming,
    items: ItemIntake<I>,
    streams: Vec<FarStream>,
    presence: Arc<Presence>,
    orders: Orders,
    /// Whether nobody asks any more.
    is_over: bool,
    is_closed: bool,
    guests: Vec<Guest>,
    /// How many have come so far, and how many of them have streams now.
    came: u64,
    readouts: usize,
    /// Since when a readout waits for those of the other streams, and whether that is over.
    gathering_ns: Option<u64>,
    is_gathered: bool,
    message: Vec<u8>,
}

impl<I: Item + Record> BuilderEnd<I> {
    /// The end for readouts of these streams. What they find goes to `items`, at most `frame_items_max` at a time.
    pub fn new(
        welcoming: Welcoming,
        items: ItemSender<I>,
        frame_items_max: usize,
        streams: impl IntoIterator<Item = (Arc<StreamStatus>, Step)>,
        orders: Orders,
    ) -> Self {
        let stream = |(status, step)| FarStream::new(status, step);
        let streams: Vec<_> = streams.into_iter().map(stream).collect();
        Self {
            welcoming,
            items: ItemIntake::new(items, frame_items_max),
            presence: Arc::new(Presence::new(streams.len())),
            streams,
            orders,
            is_over: false,
            is_closed: false,
            guests: Vec::new(),
            came: 0,
            readouts: 0,
            gathering_ns: None,
            is_gathered: false,
            message: Vec::new(),
        }
    }

    /// Which streams have a readout.
    pub fn presence(&self) -> Arc<Presence> {
        Arc::clone(&self.presence)
    }

    /// Whether the readouts of all streams have said that no more items will come.
    pub fn has_ended(&self) -> bool {
        self.streams.iter().all(|stream| stream.ended)
    }

    /// Takes no more items, so that the trigger comes to its end; those that come are counted as dropped.
    pub fn stop(&mut self) {
        self.items.stop();
    }

    /// Whether nobody asks for windows any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether one more may come.
    pub fn has_room(&self) -> bool {
        self.guests.len() - self.readouts < OTHERS_MAX
    }

    /// Whether anybody has come and is still there.
    pub fn has_guests(&self) -> bool {
        !self.guests.is_empty()
    }

    /// Takes in one that has come and may become a readout.
    pub fn admit(&mut self, now_ns: u64, messenger: Messenger) {
        self.came += 1;
        self.guests.push(Guest::new(messenger, self.came, now_ns));
    }

    /// Whether the readouts and this end have taken all that was said, and know it of each other.
    pub fn is_settled(&self) -> bool {
        self.guests.iter().filter(|guest| guest.is_joined()).all(Guest::is_settled)
    }

    /// Exchanges messages with all that have come, and tells what becomes of them; gives whether anything came.
    pub fn step(&mut self, now_ns: u64, tell: &mut impl FnMut(Event)) -> bool {
        let mut guests = mem::take(&mut self.guests);
        let (mut next, mut has_heard) = (0, false);
        while let Some(guest) = guests.get_mut(next) {
            match self.serve(now_ns, guest, tell) {
                Ok(heard) => {
                    has_heard |= heard;
                    next += 1;
                }
                Err(error) => self.dismiss(guests.swap_remove(next), error, tell),
            }
        }
        self.guests = guests;
        self.take_orders(now_ns);
        self.items.flush_due(now_ns);
        has_heard
    }

    fn serve(
        &mut self,
        now_ns: u64,
        guest: &mut Guest,
        tell: &mut impl FnMut(Event),
    ) -> Result<bool, LinkError> {
        let alive = guest.look(now_ns);
        let mut bytes = mem::take(&mut self.message);
        let mut has_heard = false;
        while guest.receive(&mut bytes) {
            has_heard = true;
            self.hear(now_ns, guest, &bytes, tell)?;
        }
        self.message = bytes;
        alive?;
        let waited_ns = now_ns.saturating_sub(guest.since_ns);
        let is_out_of_time = waited_ns > self.welcoming.patience_ns;
        match guest.standing {
            Standing::Strange | Standing::Refused if is_out_of_time => {
                return Err(LinkError::Message("nothing for too long"));
            }
            Standing::Greeted => self.claim(now_ns, guest, is_out_of_time, tell),
            Standing::Gathered if !self.is_over && self.is_gathered(now_ns) => {
                self.welcome(now_ns, guest, tell);
            }
            Standing::Joined if self.has_stayed(now_ns, guest) && guest.has_answered_all() => {
                guest.let_go();
            }
            _ => {}
        }
        guest.send()?;
        Ok(has_heard)
    }

    fn hear(
        &mut self,
        now_ns: u64,
        guest: &mut Guest,
        bytes: &[u8],
        tell: &mut impl FnMut(Event),
    ) -> Result<(), LinkError> {
        let parsed = Message::parse(bytes);
        let parsed = parsed.map_err(|_| LinkError::Message("bytes that are no message"))?;
        match (parsed, guest.standing) {
            (Message::Hello(hello), Standing::Strange) => self.greet(now_ns, guest, &hello, tell),
            (Message::Items(items), Standing::Joined) => {
                self.items.take(now_ns, guest.id, &items, &mut self.streams)?;
            }
            (Message::Figures(figures), Standing::Joined) => {
                let is_whole = figures.words().len() == StreamStatus::WORDS;
                let stream = self.stream_of(guest.id, figures.stream).filter(|_| is_whole);
                stream.ok_or(LinkError::Message("figures"))?.set_figures(figures.words());
            }
            (Message::Fragment(fragment), Standing::Joined) => {
                if let Some(answer) = guest.take_fragment(&fragment)? {
                    self.answer(answer);
                }
            }
            (Message::Ended, Standing::Joined) => {
                guest.ended_ns = Some(now_ns);
                for stream in &guest.streams {
                    self.streams[*stream as usize].ended = true;
                }
                // Where it is the last, the run ends with it.
                if !self.has_ended() {
                    let ended = guest.streams.iter().map(|stream| *stream as usize);
                    ended.for_each(|stream| self.presence.set(stream, Readout::Ended));
                }
            }
            _ => return Err(LinkError::Message("a message out of turn")),
        }
        Ok(())
    }

    /// A stream, if that readout has it.
    fn stream_of(&mut self, owner: u64, stream: u32) -> Option<&mut FarStream> {
        let stream = self.streams.get_mut(stream as usize);
        stream.filter(|stream| stream.owner == Some(owner))
    }

    fn greet(
        &mut self,
        now_ns: u64,
        guest: &mut Guest,
        Hello { greeting, spans }: &Hello<'_>,
        tell: &mut impl FnMut(Event),
    ) {
        let &Greeting { digest, epoch, item_len } = greeting;
        let refusal = match numbers(spans, self.streams.len()) {
            _ if digest != self.welcoming.digest => Refusal::Configuration,
            _ if item_len as usize != I::LEN => Refusal::Items,
            None => Refusal::Streams,
            Some(streams) => {
                (guest.epoch, guest.streams) = (epoch, streams);
                return guest.stand(Standing::Greeted, now_ns);
            }
        };
        refuse(guest, refusal, now_ns, tell);
    }

    /// Gives a readout its streams, unless others have them, which may be found gone until it is out of time.
    fn claim(
        &mut self,
        now_ns: u64,
        guest: &mut Guest,
        is_out_of_time: bool,
        tell: &mut impl FnMut(Event),
    ) {
        let is_taken = |stream: &u32| self.streams[*stream as usize].owner.is_some();
        match guest.streams.iter().any(is_taken) {
            true if is_out_of_time => refuse(guest, Refusal::Streams, now_ns, tell),
            true => {}
            false if self.readouts == READOUTS_MAX => refuse(guest, Refusal::Full, now_ns, tell),
            false => {
                for stream in &guest.streams {
                    self.streams[*stream as usize].give_to(guest.id, guest.epoch);
                }
                self.readouts += 1;
                guest.stand(Standing::Gathered, now_ns);
            }
        }
    }

    /// Whether the readouts of all streams have come, or were waited for long enough.
    fn is_gathered(&mut self, now_ns: u64) -> bool {
        let since_ns = *self.gathering_ns.get_or_insert(now_ns);
        self.is_gathered |= now_ns.saturating_sub(since_ns) >= self.welcoming.gather_ns
            || self.streams.iter().all(|stream| stream.owner.is_some());
        self.is_gathered
    }

    /// Whether a readout that has ended before others has stayed for long enough. Where it is the last, it stays until
    /// nobody asks any more.
    fn has_stayed(&self, now_ns: u64, guest: &Guest) -> bool {
        let stayed_ns = guest.ended_ns.map(|ended_ns| now_ns.saturating_sub(ended_ns));
        stayed_ns.is_some_and(|stayed_ns| stayed_ns >= self.welcoming.gather_ns)
            && !self.has_ended()
    }

    fn welcome(&mut self, now_ns: u64, guest: &mut Guest, tell: &mut impl FnMut(Event)) {
        guest.stand(Standing::Joined, now_ns);
        guest.say(&Message::Welcome { run: self.welcoming.run });
        for stream in guest.streams.clone() {
            self.presence.set(stream as usize, Readout::AtWork);
            if !self.streams[stream as usize].awaited {
                guest.say(&Message::Awaited { stream, awaited: false });
            }
        }
        if self.is_closed {
            guest.say(&Message::Close);
        }
        tell(Event::Joined { streams: guest.streams.clone() });
    }

    /// Forgets one that is gone. Its streams are silent until another readout brings them.
    fn dismiss(&mut self, guest: Guest, error: LinkError, tell: &mut impl FnMut(Event)) {
        match guest.standing {
            Standing::Strange | Standing::Greeted => return tell(Event::Strange(error)),
            Standing::Refused => return,
            Standing::Gathered | Standing::Joined => {}
        }
        self.readouts -= 1;
        if self.readouts == 0 && !self.is_gathered {
            self.gathering_ns = None;
        }
        let has_ended = self.has_ended();
        for stream in guest.streams.iter().map(|stream| *stream as usize) {
            self.streams[stream].take_away();
            if !has_ended {
                self.presence.set(stream, Readout::Away);
            }
        }
        tell(Event::Left { streams: guest.streams.clone(), error });
        for (number, stream) in guest.unanswered() {
            self.answer(self.no_readout(number, stream as usize));
        }
    }

    fn take_orders(&mut self, now_ns: u64) {
        loop {
            match self.orders.orders.try_recv() {
                Ok(Order::Ask(number, request)) => self.ask(now_ns, number, request),
                Ok(Order::Awaited(stream, awaited)) => {
                    let FarStream { awaited: before, owner, .. } =
                        &mut self.streams[stream as usize];
                    *before = awaited;
                    let has = |guest: &&mut Guest| guest.is_joined() && Some(guest.id) == *owner;
                    if let Some(guest) = self.guests.iter_mut().find(has) {
                        guest.say(&Message::Awaited { stream, awaited });
                    }
                }
                Ok(Order::Close) => {
                    self.is_closed = true;
                    self.say_to_all(&Message::Close);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    if !mem::replace(&mut self.is_over, true) {
                        self.joined().for_each(Guest::let_go);
                    }
                    return;
                }
            }
        }
    }

    fn joined(&mut self) -> impl Iterator<Item = &mut Guest> {
        self.guests.iter_mut().filter(|guest| guest.is_joined())
    }

    fn say_to_all(&mut self, message: &Message<'_>) {
        self.joined().for_each(|guest| guest.say(message));
    }

    /// Asks the readouts for a window, and answers for the streams that have none, or one that is about to go.
    fn ask(&mut self, now_ns: u64, number: u64, request: DataRequest) {
        let Window { begin, end } = request.window();
        let wait_ns = request.deadline_ns().saturating_sub(now_ns);
        let mut guests = mem::take(&mut self.guests);
        let mut is_asked = vec![false; self.streams.len()];
        let stays = |guest: &&mut Guest| {
            guest.is_joined() && !guest.may_go && !self.has_stayed(now_ns, guest)
        };
        for guest in guests.iter_mut().filter(stays) {
            guest.ask(Ask { number, begin, end, wait_ns });
            guest.streams.iter().for_each(|stream| is_asked[*stream as usize] = true);
        }
        self.guests = guests;
        let unasked = is_asked.iter().enumerate().filter(|(_, is_asked)| !**is_asked);
        unasked.for_each(|(stream, _)| self.answer(self.no_readout(number, stream)));
    }

    /// The answer of a stream without readout, which may have had data unless its readout had ended.
    fn no_readout(&self, number: u64, stream: usize) -> StreamAnswer {
        let (error_bits, unreachable) = (error_bits::DATA_NOT_FOUND, !self.streams[stream].ended);
        StreamAnswer { number, stream, error_bits, frames: Vec::new(), unreachable }
    }

    fn answer(&self, answer: StreamAnswer) {
        let _unasked = self.orders.answers.send(answer);
    }
}

/// Numbers of the streams of a readout, if they are some of a run's and each is there once.
fn numbers(spans: &Records<'_, Span>, streams: usize) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for span in spans.clone() {
        let span = span.numbers().filter(|span| span.end as usize <= streams)?;
        let begin = numbers.last().map_or(0, |last| last + 1);
        if span.is_empty() || span.start < begin {
            return None;
        }
        numbers.extend(span);
    }
    (!numbers.is_empty()).then_some(numbers)
}

fn refuse(guest: &mut Guest, refusal: Refusal, now_ns: u64, tell: &mut impl FnMut(Event)) {
    guest.say(&Message::Refused(refusal));
    guest.stand(Standing::Refused, now_ns);
    tell(Event::Refused { streams: guest.streams.clone(), refusal });
}
