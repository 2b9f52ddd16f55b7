//! What decides: the trigger of a detector, as the deciding thread knows it.

use std::sync::Arc;

use gannet_log::Chunk;
use gannet_measure::ledger::Account;
use gannet_trigger::Item;

use crate::items::Segment;
use crate::record::{Origin, Part, RecordRequest};

gannet_measure::drop_reasons! {
    /// Why something that the trigger records was not handed to the recorder.
    pub enum ProductDrop {
        /// The recorder was too slow for all that came before.
        RecorderBusy => "recorder_busy",
    }
}

gannet_measure::drop_reasons! {
    /// Why an answer did not leave.
    pub enum AnswerDrop {
        /// The network did not take it.
        Unsent => "unsent",
    }
}

/// Decides what to read out, from the items of all streams; a state machine without clock or thread.
pub trait Trigger: Send + 'static {
    /// What it decides on.
    type Item: Item;
    /// What a part of a record is.
    type Origin: Origin;
    /// Whether it can decide nothing for a while.
    const CAN_PAUSE: bool = false;

    /// Takes the items of a segment: those of its stream that ended before the tick up to which it was
    /// searched, since the last call for this stream, at wall time `now_ns`.
    fn take(&mut self, segment: &Segment, items: &[Self::Item], now_ns: u64);

    /// Whether the time of `stream` is near the time that most streams agree on.
    fn agrees(&self, stream: usize) -> bool;

    /// Takes note that so many `records` were finished: as many more may be asked for.
    fn records_done(&mut self, records: usize);

    /// Goes on as far as all streams allow, and adds what follows to `outcome`. To be called every few
    /// milliseconds.
    fn advance(&mut self, now_ns: u64, outcome: &mut Outcome<Self::Origin>);

    /// Decides nothing from now on. Items are taken as before; what a decision would have been made of is counted as
    /// dropped for the pause. Only called where [`CAN_PAUSE`](Self::CAN_PAUSE) is set.
    fn pause(&mut self) {}

    /// Decides again.
    fn resume(&mut self) {}

    /// Goes on to the end: nothing more will be taken.
    fn drain(&mut self, now_ns: u64, outcome: &mut Outcome<Self::Origin>);
}

/// What a trigger gives out. The caller owns it, and empties it after each call.
#[derive(Debug)]
pub struct Outcome<O> {
    /// Decisions, in their order.
    pub decisions: Vec<RecordRequest>,
    /// What is added to the records of decisions, these or earlier ones, by their numbers.
    pub added: Vec<(u64, Vec<Part<O>>)>,
    /// What is recorded beside records.
    pub products: Vec<Product>,
    /// Groups of items that it made, for whoever looks on; nobody else has to read them.
    pub activities: Vec<Outline>,
    /// What is sent at once to whoever waits for answers.
    pub answers: Answers,
    /// Time goes on from a point in the past, behind all that is in here.
    pub began_anew: bool,
}

impl<O> Default for Outcome<O> {
    fn default() -> Self {
        Self {
            decisions: vec![],
            added: vec![],
            products: vec![],
            activities: vec![],
            answers: Answers::default(),
            began_anew: false,
        }
    }
}

/// Where a group of items lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// First tick.
    pub begin: u64,
    /// First tick after it.
    pub end: u64,
    /// Least number of a channel in it.
    pub channel_first: u32,
    /// Greatest.
    pub channel_last: u32,
}

/// A chunk for the log, and the account that its items were offered to.
#[derive(Debug)]
pub struct Product {
    /// The chunk.
    pub chunk: Chunk,
    /// Where its items are counted as handed over, or dropped.
    pub account: Arc<Account<ProductDrop>>,
}

/// Datagrams on their way to whoever waits for answers, in their order.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Answers {
    /// Adds the datagram that `write` appends to what it is given.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The datagrams.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets them and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
