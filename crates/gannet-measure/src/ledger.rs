//! The ledger: for every stage, what was offered equals what was delivered plus what was dropped.
//!
//! Each stage declares its reasons for dropping with [`drop_reasons!`](crate::drop_reasons), owns
//! an [`Account`], and counts every item exactly once as delivered or as dropped for one reason.
//! [`Statement`]s are snapshots that anyone may print, add up and check.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;

use crate::counter::Counter;

/// The reasons for which one stage drops items.
pub trait Reason: Copy + 'static {
    /// Every reason, in the order of [`Reason::index`].
    const ALL: &'static [Self];
    /// Position in [`Reason::ALL`].
    fn index(self) -> usize;
    /// Name for reports and metrics, in snake case.
    fn name(self) -> &'static str;
    /// What it means, in a sentence: that of its declaration.
    fn meaning(self) -> &'static str;
}

/// Declares an enum of drop reasons and implements [`ledger::Reason`](crate::ledger::Reason). What is written about a
/// reason here is what people are told.
///
/// ```
/// gannet_measure::drop_reasons! {
///     /// Why a stage refused a frame.
///     pub enum FrameDrop {
///         /// The datagram was shorter than a frame.
///         Truncated => "truncated",
///         /// No such stream is configured.
///         UnknownStream => "unknown_stream",
///     }
/// }
/// use gannet_measure::ledger::Reason;
/// assert_eq!(FrameDrop::UnknownStream.name(), "unknown_stream");
/// assert_eq!(FrameDrop::UnknownStream.meaning(), "No such stream is configured.");
/// ```
#[macro_export]
macro_rules! drop_reasons {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[doc = $meaning:literal])* $variant:ident => $text:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[doc = $meaning])* $variant),+ }

        impl $crate::ledger::Reason for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            fn index(self) -> usize { self as usize }
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
            fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),*).trim_ascii()),+ }
            }
        }
    };
}

/// Live counters of one stage: one thread writes, any thread reads.
#[derive(Debug)]
pub struct Account<R> {
    offered: Counter,
    delivered: Counter,
    dropped: Box<[Counter]>,
    reason: PhantomData<fn() -> R>,
}

impl<R: Reason> Default for Account<R> {
    fn default() -> Self {
        Self {
            offered: Counter::default(),
            delivered: Counter::default(),
            dropped: R::ALL.iter().map(|_| Counter::default()).collect(),
            reason: PhantomData,
        }
    }
}

impl<R: Reason> Account<R> {
    /// Counts `n` items that arrived at the stage.
    #[inline]
    pub fn offer(&self, n: u64) {
        self.offered.add(n);
    }

    /// Counts `n` items that left the stage as they should.
    #[inline]
    pub fn deliver(&self, n: u64) {
        self.delivered.add(n);
    }

    /// Counts `n` items that the stage dropped for `reason`.
    #[inline]
    pub fn discard(&self, reason: R, n: u64) {
        self.dropped[reason.index()].add(n);
    }

    /// Number of items dropped for `reason` so far.
    pub fn dropped(&self, reason: R) -> u64 {
        self.dropped[reason.index()].get()
    }

    /// Number of items delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.get()
    }

    /// Snapshot under the name `stage`. Exact once the writing thread has come to rest.
    pub fn statement(&self, stage: &str) -> Statement {
        // Read in the reverse of the order in which they are written, so that a snapshot of a
        // running stage may show items in flight but never more delivered than offered.
        let dropped =
            R::ALL.iter().map(|reason| Drop::of(*reason, self.dropped(*reason))).collect();
        let delivered = self.delivered.get();
        let offered = self.offered.get();
        Statement { stage: stage.into(), offered, delivered, under_way: 0, dropped }
    }
}

/// Items dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Drop {
    /// Name of the reason, in snake case.
    pub reason: String,
    /// Number of items.
    pub count: u64,
    /// What the reason means, in a sentence; empty where nobody has said it.
    #[serde(skip)]
    pub meaning: &'static str,
}

impl Drop {
    /// So many items, dropped for `reason`.
    pub fn of(reason: impl Reason, count: u64) -> Self {
        Self { reason: reason.name().into(), count, meaning: reason.meaning() }
    }

    /// So many items, dropped for a reason that is called so.
    pub fn named(reason: impl Into<String>, count: u64) -> Self {
        Self { reason: reason.into(), count, meaning: "" }
    }
}

/// Snapshot of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statement {
    /// Name of the stage.
    pub stage: String,
    /// Items that arrived.
    pub offered: u64,
    /// Items that left as they should.
    pub delivered: u64,
    /// Items that arrived and are on their way through a stage that is still at work.
    pub under_way: u64,
    /// Items dropped, by reason; reasons with a count of zero are listed too.
    pub dropped: Vec<Drop>,
}

impl Statement {
    /// Items dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|drop| drop.count).sum()
    }

    /// Items dropped for `reason`.
    pub fn count(&self, reason: &str) -> u64 {
        self.dropped.iter().filter(|drop| drop.reason == reason).map(|drop| drop.count).sum()
    }

    /// Offered minus delivered, under way and dropped; zero when the stage is at rest and the books
    /// are right.
    pub fn unexplained(&self) -> i64 {
        let left = self.offered.wrapping_sub(self.delivered).wrapping_sub(self.under_way);
        left.wrapping_sub(self.dropped_total()) as i64
    }

    /// The same statement of a stage that is still at work: what it has not explained is under way.
    pub fn at_work(mut self) -> Self {
        self.under_way += u64::try_from(self.unexplained()).unwrap_or(0);
        self
    }

    /// Whether every item is accounted for.
    pub fn closes(&self) -> bool {
        self.unexplained() == 0
    }

    /// Adds the figures of another stage with the same reasons, for totals over threads.
    ///
    /// Reasons that only `other` has are appended.
    pub fn absorb(&mut self, other: &Statement) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.under_way += other.under_way;
        for drop in &other.dropped {
            match self.dropped.iter_mut().find(|mine| mine.reason == drop.reason) {
                Some(mine) => mine.count += drop.count,
                None => self.dropped.push(drop.clone()),
            }
        }
    }
}

/// One line: stage, offered, delivered, the reasons that occurred, what is under way and what is
/// unexplained.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: offered {} delivered {} dropped {}",
            self.stage,
            self.offered,
            self.delivered,
            self.dropped_total()
        )?;
        for drop in self.dropped.iter().filter(|drop| drop.count > 0) {
            write!(f, " {}={}", drop.reason, drop.count)?;
        }
        if self.under_way > 0 {
            write!(f, " under way {}", self.under_way)?;
        }
        match self.unexplained() {
            0 => Ok(()),
            n => write!(f, " UNEXPLAINED {n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::drop_reasons! {
        enum TestDrop {
            Short => "short",
            Unknown => "unknown",
        }
    }

    #[test]
    fn closes_when_every_item_is_delivered_or_dropped() {
        let account = Account::<TestDrop>::default();
        account.offer(10);
        account.deliver(7);
        account.discard(TestDrop::Short, 2);
        let statement = account.statement("ingest");
        assert_eq!(statement.unexplained(), 1);
        assert!(statement.to_string().ends_with("UNEXPLAINED 1"), "{statement}");
        let statement = statement.at_work();
        assert!(statement.closes() && statement.to_string().ends_with("under way 1"));
        account.discard(TestDrop::Unknown, 1);
        let statement = account.statement("ingest");
        assert!(statement.closes());
        assert_eq!(
            statement.to_string(),
            "ingest: offered 10 delivered 7 dropped 3 short=2 unknown=1"
        );
    }

    #[test]
    fn absorbing_adds_by_reason() {
        let account = Account::<TestDrop>::default();
        account.offer(3);
        account.deliver(2);
        account.discard(TestDrop::Short, 1);
        let mut total = account.statement("all");
        total.absorb(&account.statement("one"));
        assert_eq!((total.offered, total.delivered, total.dropped_total()), (6, 4, 2));
        assert!(total.closes());
    }
}
