//! Frames that somebody else sends in the name of a stream.
//!
//! Two frames that agree lead a stream elsewhere. If that was a restart or an outage, nothing comes any more
//! from where it was, its *home*. If something does, the stream never went: the first such frame leads it
//! back, and what was counted since is undone. Frames that came meanwhile were those of strangers. However
//! many they send, nothing more is missing, as long as no more than [`PROVEN`] of them agree between two
//! frames of the stream.
//!
//! Nothing in a frame proves who sent it, so these are not told apart: a frame within the window of the
//! newest, which is taken for one of the stream and may hide one that was lost, and a longer run of
//! strangers' frames, which is a restart. A stream that itself restarts while strangers send is followed
//! from the first two of its frames that come in a row.

use super::slices::{Place, Tail};
use super::{Continuity, Counts, Line, Verdict};

/// Frames after which a stream has gone elsewhere for good.
const PROVEN: u64 = 1024;

/// Where a stream was before it went on elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Home {
    line: Line,
    counts: Counts,
    /// Whether it went no farther than the window.
    is_near: bool,
    /// Frames of strangers that came before, if they are the stream's own now.
    strange: u64,
}

/// Those who sent from elsewhere until the stream went home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strangers {
    /// Time of their last frame.
    newest: u64,
    frames: u64,
}

impl Continuity {
    /// Notes where the stream is before it goes on elsewhere, within the window or not. If it was not there
    /// for good, its home stays what it was.
    pub(super) fn leave_home(&mut self, is_near: bool) {
        if self.home.as_ref().is_none_or(|home| home.is_proven(&self.counts)) {
            self.home =
                Some(Home { line: self.line.clone(), counts: self.counts, is_near, strange: 0 });
        }
    }

    /// Whether the last outage, or its being away, began at home.
    pub(super) fn has_left_home(&self) -> bool {
        let left = self.line.left.map(|left| (left.timestamp, left.sequence));
        left.is_some() && left == self.home.as_ref().map(|home| home.line.end())
    }

    /// Judges a frame that does not fit where the stream is, if it does where that was before. One behind the
    /// last from there was held up on its way; one ahead leads the stream back, unless it has fewer steps to
    /// go from where the stream is now.
    pub(super) fn at_home(&mut self, timestamp: u64, told: u32) -> Option<Verdict> {
        let mut home = self.home.take_if(|home| !home.is_proven(&self.counts))?;
        let (end, away) = (home.line.end(), self.counts);
        let ahead = self.steps_to(timestamp, told);
        // The ends of slices are not known, so that what is behind one may have been taken for late.
        let reach = if self.line.slices.is_some() { PROVEN } else { self.line.window.frames() };
        std::mem::swap(&mut self.line, &mut home.line);
        self.counts.missing = home.counts.missing;
        let verdict = match self.place(timestamp, told) {
            Place::Number(sequence) => {
                let steps_max = ahead.map_or(reach, |steps| reach.min(steps - 1));
                let verdict = self.near(timestamp, sequence, steps_max);
                self.go_on_in_slices(timestamp, sequence, told);
                verdict
            }
            Place::Tail(Tail::Unknown) => None,
            Place::Tail(tail) => Some(self.tail(timestamp, tail)),
        };
        if self.line.end() != end {
            return Some(self.go_home(&home, &away));
        }
        std::mem::swap(&mut self.line, &mut home.line);
        let missing = std::mem::replace(&mut home.counts.missing, self.counts.missing);
        self.counts.missing =
            away.missing.saturating_add(home.counts.missing).saturating_sub(missing);
        home.counts.in_step += self.counts.in_step - away.in_step;
        self.home = Some(home);
        verdict
    }

    /// Steps to a frame ahead of the newest, if it agrees.
    fn steps_to(&mut self, timestamp: u64, told: u32) -> Option<u64> {
        let Place::Number(sequence) = self.place(timestamp, told) else { return None };
        let steps = self.steps(self.line.end(), (timestamp, sequence))?;
        u64::try_from(steps).ok().filter(|steps| *steps > 0)
    }

    /// Undoes what was counted while the stream was `away`, now that it is home again. Frames that it lacks
    /// since may have come from elsewhere; if these are just as many, and not by chance, they are its own.
    fn go_home(&mut self, home: &Home, away: &Counts) -> Verdict {
        let counts = &mut self.counts;
        let lacks = counts.missing - home.counts.missing;
        let came = away.in_step - home.counts.in_step;
        let may_be_own = lacks.min(came);
        counts.missing -= may_be_own;
        if came != lacks || came <= self.line.window.frames() {
            counts.unsure = counts.unsure.saturating_add(may_be_own);
            counts.strange += came + home.strange;
        }
        counts.restarts += 1;
        let Counts { outage, away, home: before, earlier_series, .. } = home.counts;
        *counts = Counts { outage, away, home: before, earlier_series, ..*counts };
        let newest = home.line.newest;
        self.strangers = Some(Strangers { newest, frames: came });
        self.suspect = None;
        Verdict::Restart { ticks: self.line.newest.wrapping_sub(newest) as i64 }
    }

    /// Frames of strangers that are the stream's own now that it goes on behind them at `timestamp`: it had
    /// gone there, and a frame from before came late.
    pub(super) fn own_again(&mut self, timestamp: u64) -> u64 {
        let near = self.line.window.frames().saturating_mul(self.step.longest());
        let is_behind = |strangers: &mut Strangers| {
            (1..=near).contains(&timestamp.wrapping_sub(strangers.newest))
        };
        let Some(Strangers { frames, .. }) = self.strangers.take_if(is_behind) else { return 0 };
        self.counts.strange = self.counts.strange.saturating_sub(frames);
        self.home.iter_mut().for_each(|home| home.strange = frames);
        frames
    }
}

impl Home {
    /// Whether the gap to where it went is within the window, so that what is behind the end of a slice came
    /// late.
    pub(super) fn is_near(&self) -> bool {
        self.is_near
    }

    fn is_proven(&self, counts: &Counts) -> bool {
        counts.in_step - self.counts.in_step > PROVEN
    }
}

#[cfg(test)]
mod tests;
