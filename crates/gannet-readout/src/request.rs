//! Data requests: what a latency buffer answers when asked for a window of time.
//!
//! A request is a state machine without clock or thread: it is tried against the buffer until its
//! answer is final or its time is up. The situations and their error bits are those of DUNE's
//! readout (DUNE-DAQ/datahandlinglibs `DefaultRequestHandlerModel`).

use crate::latency::{Extent, StreamBuffer, Window};

/// What is wrong with an answer, as bits.
pub mod error_bits {
    /// The data asked for were not found.
    pub const DATA_NOT_FOUND: u32 = 1 << 0;
    /// Only part of the data asked for is there.
    pub const INCOMPLETE: u32 = 1 << 1;
    /// The window asked for was too large.
    pub const INVALID_WINDOW: u32 = 1 << 2;
}

/// How a window lies to what the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The buffer is empty, or no frame overlaps the window.
    NotFound,
    /// The window begins after the newest frame.
    NotYet,
    /// The window ends before the oldest frame.
    TooOld,
    /// The window ends after the newest frame.
    Partial,
    /// The window begins before the oldest frame.
    PartiallyOld,
    /// The buffer covers the window.
    Found,
    /// The window is empty, reversed or longer than allowed.
    Invalid,
}

impl Finding {
    /// Situation of `window` when the buffer holds `extent`.
    pub fn of(extent: Option<Extent>, window: Window) -> Self {
        match extent {
            None => Self::NotFound,
            Some(extent) if window.begin > extent.newest => Self::NotYet,
            Some(extent) if window.end < extent.oldest => Self::TooOld,
            Some(extent) if window.end > extent.newest => Self::Partial,
            Some(extent) if window.begin < extent.oldest => Self::PartiallyOld,
            Some(_) => Self::Found,
        }
    }

    /// Whether waiting for more frames may improve the answer.
    ///
    /// An empty buffer is waited for as well: its stream may be about to start.
    pub fn may_improve(self, extent: Option<Extent>) -> bool {
        matches!(self, Self::NotYet | Self::Partial) || (self == Self::NotFound && extent.is_none())
    }

    /// [`error_bits`] of an answer with this finding.
    pub fn error_bits(self) -> u32 {
        match self {
            Self::NotFound | Self::NotYet | Self::TooOld => error_bits::DATA_NOT_FOUND,
            Self::Partial => error_bits::INCOMPLETE,
            Self::PartiallyOld => error_bits::INCOMPLETE | error_bits::DATA_NOT_FOUND,
            Self::Found => 0,
            Self::Invalid => error_bits::INVALID_WINDOW,
        }
    }
}

/// The final answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How the window lay to the data when the answer was given.
    pub finding: Finding,
    /// What is wrong with it: [`error_bits`].
    pub error_bits: u32,
    /// Whole frames that overlap the window, in the order of time.
    pub frames: Vec<u8>,
    /// Frames that were overwritten while they were being cut out.
    pub overwritten: u64,
}

/// One window asked of one stream.
#[derive(Clone, Copy, Debug)]
pub struct DataRequest {
    window: Window,
    deadline_ns: u64,
}

impl DataRequest {
    /// Request for `window` that is answered with what is there once `deadline_ns` has come.
    pub fn new(window: Window, deadline_ns: u64) -> Self {
        Self { window, deadline_ns }
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// When it is answered with what is there, on the clock of who asks.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// The answer, or `None` while waiting may improve it and there is time left.
    ///
    /// Windows longer than `window_ticks_max` are answered as invalid without data.
    pub fn attempt(
        &self,
        buffer: &mut StreamBuffer,
        now_ns: u64,
        window_ticks_max: u64,
    ) -> Option<Answer> {
        if !self.window.is_valid(window_ticks_max) {
            return Some(Answer::without_data(Finding::Invalid));
        }
        let extent = buffer.extent();
        let finding = Finding::of(extent, self.window);
        if finding.may_improve(extent) && now_ns < self.deadline_ns {
            return None;
        }
        Some(match finding {
            Finding::NotYet | Finding::Partial | Finding::PartiallyOld | Finding::Found => {
                self.cut(buffer, extent, finding)
            }
            _ => Answer::without_data(finding),
        })
    }

    /// Cuts the window out and settles the finding by what was really there.
    fn cut(&self, buffer: &StreamBuffer, extent: Option<Extent>, finding: Finding) -> Answer {
        let mut frames = Vec::new();
        let overwritten = buffer.cut(self.window, &mut frames);
        let is_ahead = finding == Finding::NotYet;
        if frames.is_empty() {
            let finding = if is_ahead { Finding::NotYet } else { Finding::NotFound };
            return Answer { overwritten, ..Answer::without_data(finding) };
        }
        // The newest frame may reach into a window that begins after it.
        let finding = if is_ahead { Finding::Partial } else { finding };
        let mut error_bits = finding.error_bits();
        // A window can overhang the buffer on both sides, and its oldest frames can be
        // overwritten between the look at the extent and the copy.
        let old = extent.is_some_and(|extent| self.window.begin < extent.oldest);
        if overwritten > 0 || old {
            error_bits |= Finding::PartiallyOld.error_bits();
        }
        let finding = match finding {
            Finding::Found if overwritten > 0 => Finding::PartiallyOld,
            other => other,
        };
        Answer { finding, error_bits, frames, overwritten }
    }
}

impl Answer {
    fn without_data(finding: Finding) -> Self {
        Self { finding, error_bits: finding.error_bits(), frames: Vec::new(), overwritten: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Option<Extent> = Some(Extent { oldest: 2048, newest: 20_480 });

    fn finding(begin: u64, end: u64) -> Finding {
        Finding::of(HELD, Window { begin, end })
    }

    #[test]
    fn an_empty_buffer_finds_nothing() {
        assert_eq!(Finding::of(None, Window { begin: 0, end: 1 }), Finding::NotFound);
        assert_eq!(Finding::NotFound.error_bits(), error_bits::DATA_NOT_FOUND);
    }

    #[test]
    fn a_window_after_the_newest_frame_is_not_yet_there() {
        assert_eq!(finding(20_481, 20_500), Finding::NotYet);
        assert_eq!(Finding::NotYet.error_bits(), error_bits::DATA_NOT_FOUND);
        assert!(Finding::NotYet.may_improve(HELD));
    }

    #[test]
    fn a_window_before_the_oldest_frame_is_too_old() {
        assert_eq!(finding(0, 2047), Finding::TooOld);
        assert_eq!(Finding::TooOld.error_bits(), error_bits::DATA_NOT_FOUND);
        assert!(!Finding::TooOld.may_improve(HELD));
    }

    #[test]
    fn a_window_that_ends_after_the_newest_frame_is_partial() {
        assert_eq!(finding(20_480, 20_481), Finding::Partial);
        assert_eq!(finding(0, 20_481), Finding::Partial);
        assert_eq!(Finding::Partial.error_bits(), error_bits::INCOMPLETE);
        assert!(Finding::Partial.may_improve(HELD));
    }

    #[test]
    fn a_window_that_begins_before_the_oldest_frame_is_partially_old() {
        assert_eq!(finding(2047, 20_480), Finding::PartiallyOld);
        assert_eq!(
            Finding::PartiallyOld.error_bits(),
            error_bits::INCOMPLETE | error_bits::DATA_NOT_FOUND
        );
    }

    #[test]
    fn a_window_inside_the_buffer_is_found() {
        assert_eq!(finding(2048, 20_480), Finding::Found);
        assert_eq!(Finding::Found.error_bits(), 0);
    }
}
