//! What was found and decided, for somebody who looks: primitives, activities and decisions of the last moments.
//!
//! The deciding thread keeps a fair sample of a slice of time by itself and hands it over when nobody is at the
//! place where it goes. It waits for nobody: a slice that cannot be handed over goes on, and one that nobody
//! fetches is counted and forgotten. When nobody looks, it reads one number a batch.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gannet_measure::clock::Clock;
use gannet_measure::random::Random;
use gannet_readout::latency::Window;
use gannet_readout::record::RecordRequest;
use gannet_readout::trigger::Outline;
use schemars::JsonSchema;
use serde::Serialize;

/// Most primitives that are kept of a second.
pub const PRIMITIVES_PER_S: usize = 50_000;
/// Most primitives of an answer.
pub const MARKS_MAX: usize = 20_000;
/// Most decisions of an answer, and those that are kept.
pub const DECISIONS_MAX: usize = 4096;
/// How long a look lasts: who comes again within this time finds all that came meanwhile, in nanoseconds.
pub const LOOK_NS: u64 = 5_000_000_000;

/// Time of a slice, in nanoseconds.
const SLICE_NS: u64 = 100_000_000;
/// Most primitives of a slice.
const SLICE_MARKS: usize = PRIMITIVES_PER_S / 10;
/// Most activities, and most decisions, of a slice.
const SLICE_OTHERS: usize = 256;
/// Slices that wait to be fetched: more than come in a look.
const WAITING_SLICES: usize = 64;
/// Most primitives that are kept: of 20 s at least.
const KEPT_MARKS: usize = 20 * PRIMITIVES_PER_S;
/// Most slices that are kept: of 10 minutes.
const KEPT_SLICES: usize = 6000;

/// A primitive, as any detector has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it begins, in ticks.
    pub time: u64,
    /// Number of its channel.
    pub channel: u32,
    /// How long it lasts, or is over threshold, in ticks.
    pub length: u32,
    /// Its charge, in the units of the detector.
    pub charge: u32,
}

/// How a detector's items and decisions look to somebody who does not know it.
#[derive(Clone, Copy)]
pub struct Looks<I> {
    /// An item as a primitive, if it is one.
    pub mark: fn(&I) -> Option<Mark>,
    /// Name of the kind of a decision with this type.
    pub kind: fn(u64) -> String,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Its number, and that of its record.
    pub number: u64,
    /// When it was about, in ticks.
    pub time: u64,
    /// Its type, whose meaning is the detector's.
    pub kind: u64,
    /// What is read out.
    pub window: Window,
}

/// A part of what came, each of which had the same chance.
#[derive(Clone, Debug)]
struct Sample<T> {
    kept: Vec<T>,
    seen: u64,
    most: usize,
}

impl<T: Copy> Sample<T> {
    fn new(most: usize) -> Self {
        Self { kept: Vec::with_capacity(most), seen: 0, most }
    }

    #[inline]
    fn offer(&mut self, item: T, random: &mut Random) {
        self.seen += 1;
        if self.kept.len() < self.most {
            self.kept.push(item);
        } else if let Some(place) = self.kept.get_mut(random.below(self.seen) as usize) {
            *place = item;
        }
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.seen = 0;
    }
}

/// What stands before a slice.
#[derive(Clone, Copy, Debug)]
struct Head {
    marks: usize,
    activities: usize,
    decisions: usize,
    /// Primitives that came in it.
    seen: u64,
    /// Tick to which the data had come when it began.
    from: u64,
    /// Whether nobody knows what was before it.
    is_first: bool,
}

/// Slices that wait to be fetched, one behind the other.
#[derive(Debug)]
struct Waiting {
    heads: Vec<Head>,
    marks: Vec<Mark>,
    activities: Vec<Outline>,
    decisions: Vec<Decided>,
}

impl Waiting {
    fn new() -> Self {
        let others = WAITING_SLICES * SLICE_OTHERS;
        Self {
            heads: Vec::with_capacity(WAITING_SLICES),
            marks: Vec::with_capacity(WAITING_SLICES * SLICE_MARKS),
            activities: Vec::with_capacity(others),
            decisions: Vec::with_capacity(others),
        }
    }

    fn clear(&mut self) {
        self.heads.clear();
        self.marks.clear();
        self.activities.clear();
        self.decisions.clear();
    }
}

/// What the deciding thread and those who look share.
struct Shared {
    /// Until when somebody looks, on the clock of the run, in nanoseconds.
    until_ns: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Primitives that came and that nobody fetched in time.
    missed: AtomicU64,
}

/// The end of the deciding thread.
pub(crate) struct FindsWriter<I> {
    shared: Arc<Shared>,
    mark: fn(&I) -> Option<Mark>,
    random: Random,
    marks: Sample<Mark>,
    activities: Sample<Outline>,
    decisions: Sample<Decided>,
    /// When the slice began, if somebody looks.
    begun_ns: Option<u64>,
    from: u64,
    is_first: bool,
}

impl<I> FindsWriter<I> {
    /// Whether somebody looks, when the data have come to `tick`.
    #[inline]
    pub fn is_watched(&mut self, now_ns: u64, tick: Option<u64>) -> bool {
        if now_ns >= self.shared.until_ns.load(Ordering::Relaxed) {
            if self.begun_ns.take().is_some() {
                self.clear();
            }
            return false;
        }
        // Before the first data there is nothing to be complete.
        let Some(tick) = tick else { return false };
        if self.begun_ns.is_none() {
            (self.begun_ns, self.from, self.is_first) = (Some(now_ns), tick, true);
        }
        true
    }

    /// Takes items, while somebody looks.
    pub fn take(&mut self, items: &[I]) {
        let marks = items.iter().filter_map(self.mark);
        marks.for_each(|mark| self.marks.offer(mark, &mut self.random));
    }

    /// Takes a decision, if somebody looks.
    pub fn decided(&mut self, request: &RecordRequest) {
        if self.begun_ns.is_some() {
            let decided = Decided {
                number: request.trigger_number,
                time: request.trigger_timestamp,
                kind: request.trigger_type,
                window: request.window,
            };
            self.decisions.offer(decided, &mut self.random);
        }
    }

    /// Takes activities, if somebody looks.
    pub fn active(&mut self, activities: &[Outline]) {
        if self.begun_ns.is_some() {
            activities.iter().for_each(|each| self.activities.offer(*each, &mut self.random));
        }
    }

    /// Ends the slice when it is time, the data having come to `tick`. Those that come after one after which time
    /// `began_anew` know nothing of it.
    pub fn turn(&mut self, now_ns: u64, tick: Option<u64>, began_anew: bool) {
        let Some(begun_ns) = self.begun_ns else { return };
        if began_anew {
            self.clear();
            self.begun_ns = None;
        } else if now_ns.saturating_sub(begun_ns) >= SLICE_NS && self.hand_over() {
            self.clear();
            (self.begun_ns, self.from) = (Some(now_ns), tick.unwrap_or(self.from));
        }
    }

    /// Hands the slice over, or gives it up because nobody fetches; false when somebody is at the place.
    fn hand_over(&mut self) -> bool {
        let Ok(mut waiting) = self.shared.waiting.try_lock() else { return false };
        if waiting.heads.len() == WAITING_SLICES {
            self.shared.missed.fetch_add(self.marks.seen, Ordering::Relaxed);
            self.is_first = true;
            return true;
        }
        waiting.heads.push(Head {
            marks: self.marks.kept.len(),
            activities: self.activities.kept.len(),
            decisions: self.decisions.kept.len(),
            seen: self.marks.seen,
            from: self.from,
            is_first: mem::take(&mut self.is_first),
        });
        // There is room for so many slices: nothing is allocated.
        waiting.marks.extend_from_slice(&self.marks.kept);
        waiting.activities.extend_from_slice(&self.activities.kept);
        waiting.decisions.extend_from_slice(&self.decisions.kept);
        true
    }

    fn clear(&mut self) {
        self.marks.clear();
        self.activities.clear();
        self.decisions.clear();
    }
}

/// What is kept of a slice.
#[derive(Debug)]
struct Slice {
    from: u64,
    seen: u64,
    /// In the order of time.
    marks: Vec<Mark>,
    activities: Vec<Outline>,
}

impl Slice {
    fn overlaps(&self, window: Window) -> bool {
        let (first, last) = (self.marks.first(), self.marks.last());
        first.is_some_and(|mark| mark.time < window.end)
            && last.is_some_and(|mark| mark.time >= window.begin)
    }

    fn within(&self, window: Window) -> &[Mark] {
        let at = |tick| self.marks.partition_point(|mark| mark.time < tick);
        &self.marks[at(window.begin)..at(window.end).max(at(window.begin))]
    }
}

/// What is kept for those who look.
struct Kept {
    spare: Waiting,
    slices: VecDeque<Slice>,
    marks: usize,
    /// In the order of their numbers.
    decisions: VecDeque<Decided>,
}

/// Ticks of which all primitives are there, or a fair part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Held {
    /// The first.
    pub begin: u64,
    /// The first after them.
    pub end: u64,
}

/// Which primitives somebody wants to see.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Of this channel; of all where it is absent.
    pub channel: Option<u32>,
    /// First tick at which they may begin.
    pub from: Option<u64>,
    /// First tick at which they may not.
    pub to: Option<u64>,
    /// The newest, so many at most, up to [`MARKS_MAX`].
    pub last: usize,
}

/// Primitives that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What is held; absent before the first slice.
    pub held: Option<Held>,
    /// The primitives, in the order of time.
    pub marks: Vec<Mark>,
    /// Primitives that were kept of the slices of time in which they lie.
    pub kept: u64,
    /// Primitives that came in those.
    pub seen: u64,
    /// Primitives since the start that nobody fetched in time.
    pub missed: u64,
}

/// A decision with what is in its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDisplay {
    /// The decision.
    pub decided: Decided,
    /// Its primitives.
    pub chosen: Chosen,
    /// Its activities.
    pub activities: Vec<Outline>,
    /// Whether all of its window has come.
    pub is_complete: bool,
}

/// Why there is nothing to see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFinds {
    /// More was asked for than there may be.
    #[error("{asked} {what} were asked for; 1 to {most} are allowed")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much.
        asked: usize,
        /// Most that there may be.
        most: usize,
    },
    /// The window ends before it begins.
    #[error("from={from} is not before to={to}")]
    Reversed {
        /// Its begin.
        from: u64,
        /// Its end.
        to: u64,
    },
    /// Nothing has come since somebody looks.
    #[error(
        "nothing is held yet: decisions and primitives are kept from the first look on, while the run takes data"
    )]
    Nothing,
    /// The window was overwritten, or came before somebody looked.
    #[error("these ticks are no longer held; ticks {} to {} are", held.begin, held.end)]
    Overwritten {
        /// What is held.
        held: Held,
    },
    /// The decision is older than those that are held.
    #[error("record {number} is no longer held; records {oldest} to {newest} are")]
    Gone {
        /// The decision.
        number: u64,
        /// The oldest that is held.
        oldest: u64,
        /// The newest.
        newest: u64,
    },
    /// There is no such decision.
    #[error("there is no record {number}; the nearest is {nearest}")]
    Unknown {
        /// What was asked for.
        number: u64,
        /// The one nearest to it.
        nearest: u64,
    },
}

/// The end of those who look.
pub struct Finds {
    shared: Arc<Shared>,
    kept: Mutex<Kept>,
    clock: Arc<dyn Clock>,
    kind: fn(u64) -> String,
    ticks_per_s: u64,
}

/// The two ends of what was found, where `clock` is that of the deciding thread.
pub(crate) fn finds<I>(
    looks: Looks<I>,
    clock: Arc<dyn Clock>,
    ticks_per_s: u64,
) -> (FindsWriter<I>, Finds) {
    let shared = Arc::new(Shared {
        until_ns: AtomicU64::new(0),
        waiting: Mutex::new(Waiting::new()),
        missed: AtomicU64::new(0),
    });
    let writer = FindsWriter {
        shared: Arc::clone(&shared),
        mark: looks.mark,
        random: Random::new(0),
        marks: Sample::new(SLICE_MARKS),
        activities: Sample::new(SLICE_OTHERS),
        decisions: Sample::new(SLICE_OTHERS),
        begun_ns: None,
        from: 0,
        is_first: true,
    };
    let kept = Kept {
        spare: Waiting::new(),
        slices: VecDeque::new(),
        marks: 0,
        decisions: VecDeque::new(),
    };
    (writer, Finds { shared, kept: Mutex::new(kept), clock, kind: looks.kind, ticks_per_s })
}

impl Finds {
    /// Ticks in a second.
    pub fn ticks_per_s(&self) -> u64 {
        self.ticks_per_s
    }

    /// Name of the kind of a decision.
    pub fn kind(&self, decided: &Decided) -> String {
        (self.kind)(decided.kind)
    }

    /// The primitives of `choice` that are held; those of a window that begins before are not all.
    ///
    /// # Errors
    /// When the window is none, or too much is asked for.
    pub fn primitives(&self, choice: &Choice) -> Result<Chosen, NoFinds> {
        at_most("primitives", choice.last, MARKS_MAX)?;
        let window = Window { begin: choice.from.unwrap_or(0), end: choice.to.unwrap_or(u64::MAX) };
        if window.begin >= window.end {
            return Err(NoFinds::Reversed { from: window.begin, to: window.end });
        }
        self.with_kept(|kept| Ok(self.chosen(kept, window, choice.channel, choice.last)))
    }

    /// The newest decisions, `last` at most, up to [`DECISIONS_MAX`], and what is held of primitives.
    ///
    /// # Errors
    /// When more are asked for.
    pub fn decisions(&self, last: usize) -> Result<(Vec<Decided>, Option<Held>), NoFinds> {
        at_most("decisions", last, DECISIONS_MAX)?;
        self.with_kept(|kept| {
            let newest = kept.decisions.iter().rev().take(last).rev().copied();
            Ok((newest.collect(), kept.held()))
        })
    }

    /// Decision `number` with what is in its window.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn display(&self, number: u64) -> Result<EventDisplay, NoFinds> {
        self.with_kept(|kept| {
            let (Some(oldest), Some(newest), Some(held)) =
                (kept.decisions.front(), kept.decisions.back(), kept.held())
            else {
                return Err(NoFinds::Nothing);
            };
            let nearest = kept.decisions.iter().min_by_key(|it| it.number.abs_diff(number));
            let decided = *nearest.expect("there is one");
            if number < oldest.number {
                let (oldest, newest) = (oldest.number, newest.number);
                return Err(NoFinds::Gone { number, oldest, newest });
            }
            if decided.number != number {
                return Err(NoFinds::Unknown { number, nearest: decided.number });
            }
            let window = decided.window;
            if window.begin < held.begin {
                return Err(NoFinds::Overwritten { held });
            }
            let activities = kept.slices.iter().flat_map(|slice| &slice.activities);
            let inside = |it: &&Outline| it.begin < window.end && it.end > window.begin;
            Ok(EventDisplay {
                decided,
                chosen: self.chosen(kept, window, None, MARKS_MAX),
                activities: activities.filter(inside).copied().collect(),
                is_complete: window.end <= held.end,
            })
        })
    }

    fn chosen(&self, kept: &Kept, window: Window, channel: Option<u32>, last: usize) -> Chosen {
        let slices = kept.slices.iter().filter(|slice| slice.overlaps(window));
        let (mut marks, mut in_slices, mut seen) = (Vec::<Mark>::new(), 0, 0);
        for slice in slices.rev() {
            let of_channel = |mark: &&Mark| channel.is_none_or(|channel| mark.channel == channel);
            marks.extend(slice.within(window).iter().filter(of_channel));
            in_slices += slice.marks.len() as u64;
            seen += slice.seen;
            // Those of a slice may begin before some of the one before it, but not by a whole one.
            if marks.len() > last + 2 * SLICE_MARKS {
                break;
            }
        }
        marks.sort_unstable_by_key(|mark| (mark.time, mark.channel));
        marks.drain(..marks.len().saturating_sub(last));
        let missed = self.shared.missed.load(Ordering::Relaxed);
        Chosen { held: kept.held(), marks, kept: in_slices, seen, missed }
    }

    /// Looks, from now on for a while, and at what is there.
    fn with_kept<T>(&self, look: impl FnOnce(&Kept) -> T) -> T {
        let now_ns = self.clock.now_ns();
        let before_ns = self.shared.until_ns.swap(now_ns + LOOK_NS, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        {
            let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut *waiting, &mut kept.spare);
        }
        kept.fetch();
        if now_ns >= before_ns {
            // Nobody knows what came since the last look ended: it would seem that nothing did.
            kept.forget();
        }
        look(kept)
    }
}

fn at_most(what: &'static str, asked: usize, most: usize) -> Result<(), NoFinds> {
    match (1..=most).contains(&asked) {
        true => Ok(()),
        false => Err(NoFinds::TooMuch { what, asked, most }),
    }
}

impl Kept {
    /// The last slice may still get some of its ticks.
    fn held(&self) -> Option<Held> {
        let (first, last) = (self.slices.front()?, self.slices.back()?);
        Some(Held { begin: first.from, end: last.from })
    }

    fn forget(&mut self) {
        self.slices.clear();
        self.decisions.clear();
        self.marks = 0;
    }

    /// Takes what waited.
    fn fetch(&mut self) {
        let (mut marks, mut activities) = (0, 0);
        let mut decisions = 0;
        for head in &self.spare.heads {
            if head.is_first {
                self.slices.clear();
                self.marks = 0;
            }
            let mut of_slice = self.spare.marks[marks..][..head.marks].to_vec();
            of_slice.sort_unstable_by_key(|mark| mark.time);
            self.slices.push_back(Slice {
                from: head.from,
                seen: head.seen,
                marks: of_slice,
                activities: self.spare.activities[activities..][..head.activities].to_vec(),
            });
            self.marks += head.marks;
            self.decisions.extend(&self.spare.decisions[decisions..][..head.decisions]);
            marks += head.marks;
            activities += head.activities;
            decisions += head.decisions;
            while self.marks > KEPT_MARKS || self.slices.len() > KEPT_SLICES {
                let Some(oldest) = self.slices.pop_front() else { break };
                self.marks -= oldest.marks.len();
            }
        }
        if decisions > 0 {
            // A sample does not keep their order.
            self.decisions.make_contiguous().sort_unstable_by_key(|decided| decided.number);
        }
        let too_many = self.decisions.len().saturating_sub(DECISIONS_MAX);
        self.decisions.drain(..too_many);
        self.spare.clear();
    }
}

#[cfg(test)]
mod tests;
