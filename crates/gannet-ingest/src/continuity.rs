//! Whether the frames of one stream follow one another.
//!
//! A stream numbers its frames twice: by a 64-bit time, and by a sequence number of fewer bits,
//! which wraps. Where time grows by a fixed step it decides how many frames are missing, since
//! longer outages alias in the sequence number; the sequence number is the cross-check that tells a
//! gap from a damaged or displaced time.
//!
//! | time against the newest frame      | sequence number | verdict |
//! | --- | --- | --- |
//! | one step later                     | any             | [`InOrder`](Verdict::InOrder), a disagreement is counted |
//! | more steps later, before it wraps   | agrees          | [`Gap`](Verdict::Gap) |
//! | earlier, within the window         | agrees          | [`Late`](Verdict::Late) or [`Duplicate`](Verdict::Duplicate) |
//! | anything else                      |                 | [`OutOfStep`](Verdict::OutOfStep) |
//!
//! Where the step varies the sequence number counts the frames, and time is the cross-check: it must
//! go the same way, by at most the longest step a frame. Of the counts that fit both the least is
//! taken; a loss that is longer than time asks for by more than half a modulus is not told from a
//! number that began anew. A gap longer than the window waits for a second frame that agrees, as a
//! damaged number is harder to tell than a damaged time.
//!
//! Where frames come in slices and are numbered anew in each, nothing tells how many a slice has. Those
//! between two that came are missing, and those before the first of a slice; of a slice of which none
//! came, one. What is lost behind the last of a slice is not known here, and not counted.
//!
//! One frame whose header was damaged never moves the count; it takes two frames that agree, and none
//! in between with which the stream goes on as before. So a
//! frame out of step is to be kept: when the next one continues it, the frame kept gets a verdict
//! of its own, a [`Gap`](Verdict::Gap) longer than that, or a [`Restart`](Verdict::Restart), and no
//! frame is lost. A frame continues another within the window; after a frame that fits the stream
//! but for the length of the gap any later one does, so that short pieces of a stream, such as a
//! recording has, may come far apart.
//!
//! Where the stream then still goes on as before, those frames were somebody else's: see `home`.
//!
//! A stream may come back: it goes on elsewhere, because its clock leaps or someone else sends in
//! its name, and then from where it was before, by time and sequence number. What it lacks since
//! then is known but for who sent the frames in between: its own with another time, or somebody
//! else's. So the count has two bounds, unless these are exactly those that it lacks. A clock that
//! leaps may by chance agree with its sequence number, and the leap is taken for a gap; if the
//! stream then goes on from a time within that gap, it was none.
//!
//! This is a state machine without clock, input and output.

mod home;
mod slices;
mod window;

use gannet_wire::{Rhythm, Step};
use home::{Home, Strangers};
use serde::Serialize;
use slices::{Place, Slices, Tail};
use window::Window;

pub use window::WINDOW_FRAMES_MAX;

/// Silence, beyond three frame periods, after which a stream is stalled. With a check at least
/// every 50 ms a stall is known within three frame periods and 100 ms.
pub const STALL_MARGIN_NS: u64 = 50_000_000;

/// How a frame stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first of the stream; the count begins with it.
    First,
    /// The one that was to come.
    InOrder,
    /// Newer than the one that was to come.
    Gap {
        /// Frames in between, which are missing now.
        missing: u64,
    },
    /// One that was missing until now.
    Late,
    /// One that was there before.
    Duplicate,
    /// Older than what was the first of the stream until now; the count begins with it instead.
    BeforeFirst,
    /// Its time or sequence number does not fit, or it is older than the window; not to be used
    /// unless the next frame [confirms](Judgement::kept) it.
    OutOfStep {
        /// Ticks from the time that was to come, or the last that was, to that of the frame.
        ticks: i64,
    },
    /// The stream goes on from another time.
    Restart {
        /// Ticks from the newest frame to this one.
        ticks: i64,
    },
}

/// How a frame stands to those before it, and what it tells of the one that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Verdict on the last frame that was out of step, if this one confirms it; that frame is to
    /// be used before this one.
    pub kept: Option<Verdict>,
    /// Verdict on the frame.
    pub frame: Verdict,
}

/// What happened to a stream so far, in frames unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All that came: in step + duplicate + out of step.
    pub frames: u64,
    /// Frames to be used, each for the first time.
    pub in_step: u64,
    /// Frames that did not come, or too late to be told from duplicates.
    pub missing: u64,
    /// Frames in step that filled a gap.
    pub late: u64,
    /// Frames that had come before.
    pub duplicate: u64,
    /// Frames in step that were older than the first until then, or than the first since the last
    /// restart.
    pub before_first: u64,
    /// Frames whose place is not known, those that may still be confirmed included.
    pub out_of_step: u64,
    /// Frames in step that came from elsewhere, while the stream went on where it was.
    pub strange: u64,
    /// Times that the stream went on from another time.
    pub restarts: u64,
    /// Frames in order whose sequence number was not.
    pub sequence_disagreements: u64,
    /// Frames missing in the last gap of more than 4094, which may turn out to be a leap of the clock.
    pub outage: u64,
    /// Frames that may be missing beyond `missing`: others came in their place from another time,
    /// and the stream came back.
    pub unsure: u64,
    /// Whether the stream went on from another time and has not come back.
    pub away: bool,
    /// Frames in step before it went away, or else before the last outage.
    pub home: u64,
    /// Frames in step before the last restart.
    pub earlier_series: u64,
    /// Times that the stream fell silent.
    pub stalls: u64,
}

/// A frame that fits nowhere, kept to see whether another continues it.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    timestamp: u64,
    sequence: u32,
    /// Number that it tells itself: the sequence number, or that in its slice.
    told: u32,
    /// The newest frame when it came: the stream is to be silent until another continues it.
    newest: (u64, u32),
}

/// The end of what came of a stream before it went on elsewhere.
#[derive(Clone, Copy, Debug)]
struct Left {
    timestamp: u64,
    sequence: u32,
    /// Frames missing until then.
    missing: u64,
}

/// Where the stream is.
#[derive(Clone, Debug)]
struct Line {
    slices: Option<Slices>,
    window: Window,
    /// Time of the newest frame; of no meaning before the first.
    newest: u64,
    /// Sequence number that the newest frame should have.
    newest_sequence: u32,
    /// By how much the last frame in order disagreed with its sequence number.
    disagreement: u32,
    /// Where it went away, or else where the last outage began.
    left: Option<Left>,
    /// Time of the frame behind the last outage.
    outage_end: u64,
}

/// Checks one stream.
#[derive(Clone, Debug)]
pub struct Continuity {
    /// Never in slices: these are put into one count.
    step: Step,
    /// Bits of sequence numbers.
    sequence_mask: u32,
    /// Steps to a frame that is believed to have a gap before it without a second one.
    gap_steps_max: u64,
    silence_max_ns: u64,
    counts: Counts,
    /// Time of the first frame before any restart; of no meaning before it came.
    first: u64,
    line: Line,
    suspect: Option<Suspect>,
    /// Where it was before it went on elsewhere.
    home: Option<Home>,
    /// The last who sent in its name from elsewhere.
    strangers: Option<Strangers>,
    heard_ns: u64,
    stalled: bool,
}

impl Line {
    /// Time of the newest frame and the sequence number that it should have.
    fn end(&self) -> (u64, u32) {
        (self.newest, self.newest_sequence)
    }
}

impl Continuity {
    /// A checker for a stream whose frames follow `rhythm` and may come from `now_ns` on. It
    /// remembers the newest `window_frames` one by one, to tell late from duplicate: rounded up to
    /// a multiple of 64, at most [`WINDOW_FRAMES_MAX`].
    ///
    /// # Panics
    /// When a frame has no ticks, or the modulus of sequence numbers is no power of two.
    pub fn new(rhythm: &Rhythm, window_frames: usize, now_ns: u64) -> Self {
        let Rhythm { step, sequence_modulus, clock } = *rhythm;
        assert!(step.longest() > 0, "a frame lasts at least one tick");
        assert!(sequence_modulus.is_power_of_two(), "sequence numbers have whole bits");
        let window = Window::new(window_frames);
        let (step, sequence_mask, slices) = match step {
            Step::Slices { length } => {
                (Step::Varying { longest: length }, u32::MAX, Some(Slices::new(length)))
            }
            step => (step, sequence_modulus - 1, None),
        };
        Self {
            step,
            sequence_mask,
            gap_steps_max: match step {
                Step::Fixed(_) => sequence_mask.into(),
                Step::Varying { .. } | Step::Slices { .. } => window.frames(),
            },
            silence_max_ns: (3 * clock.ns(step.longest())).saturating_add(STALL_MARGIN_NS),
            counts: Counts::default(),
            first: 0,
            line: Line {
                slices,
                window,
                newest: 0,
                newest_sequence: 0,
                disagreement: 0,
                left: None,
                outage_end: 0,
            },
            suspect: None,
            home: None,
            strangers: None,
            heard_ns: now_ns,
            stalled: false,
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Time of the first frame in step, in ticks; after a restart still that of the stream's begin.
    pub fn first_timestamp(&self) -> Option<u64> {
        (self.counts.in_step > 0).then_some(self.first)
    }

    /// Time of the newest frame in step, in ticks.
    pub fn newest(&self) -> Option<u64> {
        (self.counts.in_step > 0).then_some(self.line.newest)
    }

    /// Whether the stream is silent.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Looks for silence; true when it is noticed, once for each. To be called every 50 ms or
    /// more often.
    pub fn check_stalled(&mut self, now_ns: u64) -> bool {
        if self.stalled || now_ns.saturating_sub(self.heard_ns) <= self.silence_max_ns {
            return false;
        }
        self.stalled = true;
        self.counts.stalls += 1;
        true
    }

    /// Takes in a frame with its time in ticks and its sequence number, and judges it.
    #[inline]
    pub fn frame(&mut self, timestamp: u64, sequence: u32, arrival_ns: u64) -> Judgement {
        let told = sequence & self.sequence_mask;
        self.counts.frames += 1;
        self.heard_ns = arrival_ns;
        self.stalled = false;
        let sequence = match self.place(timestamp, told) {
            Place::Number(number) => number,
            Place::Tail(tail) => {
                return Judgement { kept: None, frame: self.late_in_slice(timestamp, told, tail) };
            }
        };
        let judgement = match self.counts.in_step {
            0 => Judgement { kept: None, frame: self.first(timestamp, sequence) },
            _ => self.judge(timestamp, sequence, told),
        };
        self.go_on_in_slices(timestamp, sequence, told);
        judgement
    }

    /// Where a frame is by the number that it tells.
    #[inline]
    fn place(&mut self, timestamp: u64, told: u32) -> Place {
        match &mut self.line.slices {
            Some(slices) => slices.place(timestamp, told),
            None => Place::Number(told),
        }
    }

    /// Notes in which slice the stream is, if the frame is the newest.
    #[inline]
    fn go_on_in_slices(&mut self, timestamp: u64, sequence: u32, told: u32) {
        if self.line.slices.is_none() {
            return;
        }
        let is_newest = (timestamp, sequence) == self.line.end();
        if is_newest && let Some(slices) = &mut self.line.slices {
            slices.go_on(timestamp, sequence, told);
        }
    }

    /// Judges a frame behind what was believed to be the end of its slice.
    #[cold]
    fn late_in_slice(&mut self, timestamp: u64, told: u32, tail: Tail) -> Verdict {
        let is_end = self.home.as_ref().is_none_or(Home::is_near) && tail != Tail::Unknown;
        let at_home = if is_end { None } else { self.at_home(timestamp, told) };
        at_home.unwrap_or_else(|| self.tail(timestamp, tail))
    }

    /// Counts a frame behind what was believed to be the end of its slice.
    fn tail(&mut self, timestamp: u64, tail: Tail) -> Verdict {
        let counts = &mut self.counts;
        match tail {
            Tail::Longer(between) => counts.missing = counts.missing.saturating_add(between),
            Tail::Late => counts.missing = counts.missing.saturating_sub(1),
            Tail::Duplicate => {
                counts.duplicate += 1;
                return Verdict::Duplicate;
            }
            Tail::Unknown => {
                counts.out_of_step += 1;
                return Verdict::OutOfStep {
                    ticks: timestamp.wrapping_sub(self.line.newest) as i64,
                };
            }
        }
        counts.in_step += 1;
        counts.late += 1;
        Verdict::Late
    }

    /// Whether the last frame out of step may still be confirmed.
    pub fn keeps_frame(&self) -> bool {
        self.suspect.is_some_and(|suspect| suspect.newest == self.line.end())
    }

    /// Takes the frame kept for one of the stream although none after it confirmed it, for who
    /// knows from elsewhere that its time is right. Nothing comes of it when the frame does not fit
    /// the stream by its sequence number.
    pub fn confirm_kept(&mut self) -> Option<Verdict> {
        let suspect = self.suspect.filter(|_| self.keeps_frame())?;
        self.steps_ahead(suspect).or_else(|| self.steps_back(suspect))?;
        self.suspect = None;
        Some(self.resume(suspect))
    }

    #[inline]
    fn judge(&mut self, timestamp: u64, sequence: u32, told: u32) -> Judgement {
        let ticks = timestamp.wrapping_sub(self.line.newest);
        let is_next = match self.step {
            Step::Fixed(step) => ticks == step,
            Step::Varying { longest } | Step::Slices { length: longest } => {
                (1..=longest).contains(&ticks)
                    && self.off(self.line.newest_sequence, sequence, 1) == 0
            }
        };
        if is_next {
            self.cross_check(sequence);
            self.move_on(timestamp, 1);
            self.counts.in_step += 1;
            return Judgement { kept: None, frame: Verdict::InOrder };
        }
        self.unexpected(timestamp, sequence, told)
    }

    fn first(&mut self, timestamp: u64, sequence: u32) -> Verdict {
        (self.line.newest, self.line.newest_sequence) = (timestamp, sequence);
        self.first = timestamp;
        self.line.window.restart();
        self.counts.in_step += 1;
        Verdict::First
    }

    /// Compares the sequence number of the frame that was to come. One that is off for good is
    /// followed from its second frame on, so that a jump counts once and a flipped bit once.
    fn cross_check(&mut self, sequence: u32) {
        let off = self.off(self.line.newest_sequence, sequence, 1);
        if off != 0 && off == self.line.disagreement {
            self.line.newest_sequence =
                self.line.newest_sequence.wrapping_add(off) & self.sequence_mask;
            self.line.disagreement = 0;
            return;
        }
        self.counts.sequence_disagreements += u64::from(off != 0);
        self.line.disagreement = off;
    }

    /// Makes the frame `steps` after the newest the newest; those in between are missing.
    fn move_on(&mut self, timestamp: u64, steps: u64) {
        self.line.newest = timestamp;
        self.line.newest_sequence =
            self.line.newest_sequence.wrapping_add(steps as u32) & self.sequence_mask;
        self.line.window.advance(steps);
        self.counts.missing = self.counts.missing.saturating_add(steps - 1);
    }

    /// Steps from one frame to another, each with its time and sequence number, if these agree.
    fn steps(&self, from: (u64, u32), to: (u64, u32)) -> Option<i64> {
        let ticks = to.0.wrapping_sub(from.0) as i64;
        match self.step {
            Step::Fixed(step) => {
                let step = i64::try_from(step).ok()?;
                let steps = ticks / step;
                (ticks % step == 0 && self.off(from.1, to.1, steps) == 0).then_some(steps)
            }
            Step::Varying { longest } | Step::Slices { length: longest } => {
                let (mask, distance) = (self.sequence_mask, to.1.wrapping_sub(from.1));
                let half = self.sequence_mask.div_ceil(2);
                let is_back = ticks < 0 || (ticks == 0 && distance & mask > half);
                let distance = if is_back { distance.wrapping_neg() } else { distance };
                let least = ticks.unsigned_abs().div_ceil(longest);
                let beyond = u64::from(distance.wrapping_sub(least as u32) & mask);
                let steps = i64::try_from(least + beyond).ok()?;
                let is_near = beyond <= least.max(half.into());
                is_near.then_some(if is_back { -steps } else { steps })
            }
        }
    }

    /// Judges a frame that is not the one that was to come. One ahead may be nearer to where the stream was
    /// before than to where it is, but for one within the window.
    #[cold]
    fn unexpected(&mut self, timestamp: u64, sequence: u32, told: u32) -> Judgement {
        let window = self.line.window.frames().min(self.gap_steps_max);
        let near = self
            .near(timestamp, sequence, window)
            .or_else(|| self.at_home(timestamp, told))
            .or_else(|| self.near(timestamp, sequence, self.gap_steps_max));
        match near {
            Some(frame) => Judgement { kept: None, frame },
            None => self.suspicious(timestamp, sequence, told),
        }
    }

    /// Whether no frame came of the slice before that of a frame ahead.
    fn skips_slices(&self, timestamp: u64) -> bool {
        self.line.slices.is_some() && timestamp.wrapping_sub(self.line.newest) > self.step.longest()
    }

    /// Judges a frame that is at most `steps_max` ahead, or behind within the window.
    fn near(&mut self, timestamp: u64, sequence: u32, steps_max: u64) -> Option<Verdict> {
        match self.steps(self.line.end(), (timestamp, sequence))? {
            steps @ 1.. if steps as u64 <= steps_max => {
                let is_near = self.line.window.covers(steps as u64);
                if !is_near || self.skips_slices(timestamp) {
                    self.leave_home(is_near);
                }
                self.move_on(timestamp, steps as u64);
                self.counts.in_step += 1;
                Some(match steps {
                    1 => Verdict::InOrder,
                    _ => Verdict::Gap { missing: steps as u64 - 1 },
                })
            }
            steps @ ..=0 if self.line.window.remembers(steps.unsigned_abs()) => {
                Some(self.earlier(timestamp, steps.unsigned_abs()))
            }
            _ => None,
        }
    }

    /// Judges a frame that is `age` steps before the newest, within the window.
    fn earlier(&mut self, timestamp: u64, age: u64) -> Verdict {
        let between = self.line.window.begin_by(age);
        if let Some(between) = between {
            // What lies between it and the first so far is missing until it comes.
            if self.counts.restarts == 0 {
                self.first = timestamp;
            }
            self.counts.in_step += 1;
            self.counts.before_first += 1;
            self.counts.missing = self.counts.missing.saturating_add(between);
            return Verdict::BeforeFirst;
        }
        if !self.line.window.insert(age) {
            self.counts.duplicate += 1;
            return Verdict::Duplicate;
        }
        self.counts.in_step += 1;
        self.counts.late += 1;
        self.counts.missing = self.counts.missing.saturating_sub(1);
        Verdict::Late
    }

    /// Judges a frame that fits nowhere: either it continues one like it, or it is kept to see
    /// whether another continues it.
    fn suspicious(&mut self, timestamp: u64, sequence: u32, told: u32) -> Judgement {
        if let Some(suspect) = self.continued(timestamp, sequence) {
            self.suspect = None;
            let kept = Some(self.resume(suspect));
            return Judgement { kept, ..self.judge(timestamp, sequence, told) };
        }
        let newest = self.line.end();
        self.suspect = Some(Suspect { timestamp, sequence, told, newest });
        self.counts.out_of_step += 1;
        let due = self.line.newest.wrapping_add(self.step.longest());
        let ticks = timestamp.wrapping_sub(due) as i64;
        Judgement { kept: None, frame: Verdict::OutOfStep { ticks } }
    }

    /// The frame kept, if this one follows it.
    fn continued(&self, timestamp: u64, sequence: u32) -> Option<Suspect> {
        let suspect = self.suspect.filter(|_| self.keeps_frame())?;
        let steps = self.steps((suspect.timestamp, suspect.sequence), (timestamp, sequence))?;
        let steps = u64::try_from(steps).ok().filter(|steps| *steps > 0)?;
        let is_in_reach = self.line.window.covers(steps) || self.steps_ahead(suspect).is_some();
        is_in_reach.then_some(suspect)
    }

    /// Steps to a frame that would be next after a long outage, from the place of another.
    fn steps_from(&self, timestamp: u64, sequence: u32, suspect: Suspect) -> Option<u64> {
        let steps = self.steps((timestamp, sequence), (suspect.timestamp, suspect.sequence))?;
        u64::try_from(steps).ok().filter(|steps| *steps > 0)
    }

    /// Steps to it from the newest frame.
    fn steps_ahead(&self, suspect: Suspect) -> Option<u64> {
        let (timestamp, sequence) = self.line.end();
        self.steps_from(timestamp, sequence, suspect)
    }

    /// Steps to it from where the stream went away, or within the last outage from its begin.
    fn steps_back(&self, suspect: Suspect) -> Option<u64> {
        let left = self.line.left?;
        let steps = self.steps_from(left.timestamp, left.sequence, suspect)?;
        (self.counts.away || steps <= self.counts.outage).then_some(steps)
    }

    /// Goes on with a frame that was out of step: where it has the fewest steps to go, or else
    /// from another time.
    fn resume(&mut self, suspect: Suspect) -> Verdict {
        let verdict = self.resumed(suspect);
        self.go_on_in_slices(suspect.timestamp, suspect.sequence, suspect.told);
        verdict
    }

    fn resumed(&mut self, suspect: Suspect) -> Verdict {
        self.counts.out_of_step -= 1;
        self.leave_home(false);
        let has_left = self.has_left_home();
        let came_before = self.own_again(suspect.timestamp);
        let (ahead, back) = (self.steps_ahead(suspect), self.steps_back(suspect));
        let is_ahead = |steps: &u64| back.is_none_or(|back| *steps <= back);
        if let Some(steps) = ahead.filter(is_ahead) {
            let earlier = if has_left { self.counts.outage } else { 0 };
            if !has_left && !self.counts.away {
                self.leave();
            }
            self.counts.outage = earlier.saturating_add(steps - 1);
            self.line.outage_end = suspect.timestamp;
            self.move_on(suspect.timestamp, steps);
            self.counts.missing = self.counts.missing.saturating_sub(came_before);
            self.counts.in_step += 1;
            return Verdict::Gap { missing: steps - 1 };
        }
        let ticks = suspect.timestamp.wrapping_sub(self.line.newest) as i64;
        self.line.window.restart();
        if let Some(steps) = back {
            self.come_back(steps);
        } else if !self.counts.away {
            self.take_back_outage(suspect.timestamp);
            if !has_left {
                self.leave();
            }
            self.counts.away = true;
        }
        (self.line.newest, self.line.newest_sequence) = (suspect.timestamp, suspect.sequence);
        self.line.disagreement = 0;
        self.counts.restarts += 1;
        self.counts.earlier_series = self.counts.in_step;
        self.counts.in_step += 1;
        Verdict::Restart { ticks }
    }

    /// Notes where the stream is before it goes on elsewhere.
    fn leave(&mut self) {
        let (timestamp, sequence) = self.line.end();
        self.line.left = Some(Left { timestamp, sequence, missing: self.counts.missing });
        self.counts.home = self.counts.in_step;
    }

    /// Goes on `steps` after the place that it left: what came since may stand for what it lacks.
    fn come_back(&mut self, steps: u64) {
        let Some(left) = self.line.left.take() else { return };
        let counts = &mut self.counts;
        let (lacks, came) = (steps - 1, counts.in_step - counts.home);
        let leap = if counts.away { 0 } else { counts.outage };
        let missing_there = counts.missing.saturating_sub(left.missing).saturating_sub(leap);
        let least = lacks.saturating_sub(came);
        counts.missing = left.missing.saturating_add(least);
        if came.saturating_add(missing_there) != lacks {
            counts.unsure = counts.unsure.saturating_add(lacks - least);
        }
        (counts.away, counts.outage) = (false, 0);
        self.line.window.advance(steps);
    }

    /// Counts the last outage as none if the stream goes on from a time within it.
    fn take_back_outage(&mut self, timestamp: u64) {
        let back = self.line.outage_end.wrapping_sub(timestamp);
        let is_within = match (self.step, self.line.left) {
            (Step::Fixed(step), _) => (1..=self.counts.outage).contains(&(back / step)),
            (_, Some(left)) => {
                (1..self.line.outage_end.wrapping_sub(left.timestamp)).contains(&back)
            }
            (_, None) => false,
        };
        if is_within {
            self.counts.missing = self.counts.missing.saturating_sub(self.counts.outage);
        }
        self.counts.outage = 0;
    }

    /// By how much a sequence number is off, for a frame `steps` after the one with the number `from`.
    fn off(&self, from: u32, sequence: u32, steps: i64) -> u32 {
        sequence.wrapping_sub(from).wrapping_sub(steps as u32) & self.sequence_mask
    }
}

#[cfg(test)]
mod tests;
