//! The recorder's account, in the unit of each stage: records, primitives, frames, chunks.

use gannet_measure::ledger::{Drop, Reason, Statement};

use super::format::{Kind, Label};
use super::queue::ChunkDrop;

/// What the recorder counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Chunks of every kind.
    Chunk,
    /// Trigger records.
    Record,
    /// Trigger primitives of time slices.
    Primitive,
    /// Frames of streams that are recorded as they come.
    RawFrame,
    /// Intervals in which the trigger was busy.
    BusyInterval,
    /// Events and slices as the programs of KM3NeT exchange them.
    DaqObject,
}

impl Item {
    /// Every item, in the order of their accounts.
    pub const ALL: [Self; 6] = [
        Self::Chunk,
        Self::Record,
        Self::Primitive,
        Self::RawFrame,
        Self::BusyInterval,
        Self::DaqObject,
    ];

    /// Name of the stage of the ledger that counts these items up to the file.
    pub const fn stage(self) -> &'static str {
        match self {
            Self::Chunk => "recorder",
            Self::Record => "records",
            Self::Primitive => "recorded_primitives",
            Self::RawFrame => "raw_frames",
            Self::BusyInterval => "busy_intervals",
            Self::DaqObject => "daq_objects",
        }
    }

    /// What the items in a chunk are, besides the chunk itself, and how many.
    fn within(label: &Label) -> Option<(Self, u64)> {
        let items = u64::from(label.items);
        match label.kind {
            // Its items are fragments; the record is one.
            Kind::TRIGGER_RECORD => Some((Self::Record, 1)),
            Kind::TP_SLICE => Some((Self::Primitive, items)),
            Kind::RAW_FRAMES | Kind::SIZED_FRAMES => Some((Self::RawFrame, items)),
            Kind::BUSY => Some((Self::BusyInterval, items)),
            Kind::DAQ_OBJECTS => Some((Self::DaqObject, items)),
            _ => None,
        }
    }
}

/// How many of each [`Item`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally([u64; Item::ALL.len()]);

impl Tally {
    /// The chunk of this label and what is in it.
    pub fn of(label: &Label) -> Self {
        let mut tally = Self::default();
        tally.0[Item::Chunk as usize] = 1;
        if let Some((item, count)) = Item::within(label) {
            tally.0[item as usize] = count;
        }
        tally
    }

    /// Number of `item`s.
    pub fn get(&self, item: Item) -> u64 {
        self.0[item as usize]
    }

    /// What both tallies have at least.
    pub(super) fn common(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|item| self.0[item].min(other.0[item])))
    }

    /// Adds another tally.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Takes away another tally, which must be part of this one.
    pub(super) fn take(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine -= theirs);
    }
}

/// The account of every item. What was offered is waiting, delivered, or dropped for a reason.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    offered: Tally,
    delivered: Tally,
    waiting: Tally,
    dropped: [Tally; ChunkDrop::ALL.len()],
}

impl Accounts {
    /// Counts a chunk that will be written.
    pub fn accept(&mut self, tally: &Tally) {
        self.offered.add(tally);
        self.waiting.add(tally);
    }

    /// Counts a chunk that is dropped at once.
    pub fn refuse(&mut self, tally: &Tally, reason: ChunkDrop) {
        self.offered.add(tally);
        self.dropped[reason.index()].add(tally);
    }

    /// Counts accepted chunks as safe.
    pub fn deliver(&mut self, tally: &Tally) {
        self.waiting.take(tally);
        self.delivered.add(tally);
    }

    /// Counts all accepted chunks that are not safe as dropped, and returns what they were.
    pub fn give_up(&mut self, reason: ChunkDrop) -> Tally {
        let lost = std::mem::take(&mut self.waiting);
        self.dropped[reason.index()].add(&lost);
        lost
    }

    /// Counts chunks that were safe as dropped after all.
    pub fn lose(&mut self, tally: &Tally, reason: ChunkDrop) {
        self.delivered.take(tally);
        self.dropped[reason.index()].add(tally);
    }

    /// Counts chunks that were dropped for `reason` as safe after all.
    pub fn regain(&mut self, tally: &Tally, reason: ChunkDrop) {
        let dropped = &mut self.dropped[reason.index()];
        let regained = tally.common(dropped);
        dropped.take(&regained);
        self.delivered.add(&regained);
    }

    /// The account of one item.
    pub fn statement(&self, item: Item) -> Statement {
        let drop = |reason: &ChunkDrop| Drop::of(*reason, self.dropped[reason.index()].get(item));
        Statement {
            stage: item.stage().into(),
            offered: self.offered.get(item),
            delivered: self.delivered.get(item),
            under_way: self.waiting.get(item),
            dropped: ChunkDrop::ALL.iter().map(drop).collect(),
        }
    }

    /// The accounts of all items.
    pub fn statements(&self) -> Vec<Statement> {
        Item::ALL.iter().map(|item| self.statement(*item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_in_their_own_unit() {
        let counts = |kind| {
            let tally = Tally::of(&Label::new(kind).counts(7, 2));
            Item::ALL.map(|item| tally.get(item))
        };
        assert_eq!(counts(Kind::TRIGGER_RECORD), [1, 1, 0, 0, 0, 0]);
        assert_eq!(counts(Kind::TP_SLICE), [1, 0, 7, 0, 0, 0]);
        assert_eq!(counts(Kind::RAW_FRAMES), [1, 0, 0, 7, 0, 0]);
        assert_eq!(counts(Kind::SIZED_FRAMES), [1, 0, 0, 7, 0, 0]);
        assert_eq!(counts(Kind::BUSY), [1, 0, 0, 0, 7, 0]);
        assert_eq!(counts(Kind::DAQ_OBJECTS), [1, 0, 0, 0, 0, 7]);
        assert_eq!(counts(Kind::RUN_END), [1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_item_is_waiting_delivered_or_dropped() {
        let frames = |count| Tally::of(&Label::new(Kind::RAW_FRAMES).counts(count, 0));
        let mut accounts = Accounts::default();
        accounts.accept(&frames(100));
        accounts.accept(&frames(20));
        accounts.accept(&frames(3));
        accounts.refuse(&frames(5000), ChunkDrop::DiskFull);
        accounts.deliver(&frames(100));
        accounts.deliver(&frames(20));
        assert_eq!(accounts.statement(Item::RawFrame).under_way, 3);
        accounts.lose(&frames(20), ChunkDrop::FileRemoved);
        assert_eq!(accounts.give_up(ChunkDrop::Deadline), frames(3));
        assert_eq!(
            accounts.statement(Item::RawFrame).to_string(),
            "raw_frames: offered 5123 delivered 100 dropped 5023 disk_full=5000 file_removed=20 \
             deadline=3"
        );
        assert_eq!(accounts.statement(Item::Chunk).dropped_total(), 3);
        assert!(accounts.statements().iter().all(Statement::closes));
    }
}
