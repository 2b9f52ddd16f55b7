//! Which of the newest frames have come.

/// Frames that a window can remember.
pub const WINDOW_FRAMES_MAX: usize = 1024;

const WORDS_MAX: usize = WINDOW_FRAMES_MAX / 64;

/// A bit for each of the newest frames, used in turn. Age 0 is the newest frame.
#[derive(Clone, Debug)]
pub(super) struct Window {
    words: [u64; WORDS_MAX],
    /// Number of bits in use, a multiple of 64.
    frames: u64,
    /// Bit of the newest frame.
    position: u64,
    /// Age of the first frame.
    first_age: u64,
}

impl Window {
    pub(super) fn new(frames: usize) -> Self {
        let frames = frames.next_multiple_of(64).clamp(64, WINDOW_FRAMES_MAX) as u64;
        Self { words: [0; WORDS_MAX], frames, position: 0, first_age: 0 }
    }

    /// Frames that are told apart.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Begins with one frame.
    pub(super) fn restart(&mut self) {
        self.words = [0; WORDS_MAX];
        (self.position, self.first_age) = (0, 0);
        self.insert(0);
    }

    /// Moves on by `steps` frames, the last of which has come.
    #[inline]
    pub(super) fn advance(&mut self, steps: u64) {
        self.position = (self.position + steps % self.frames) % self.frames;
        self.first_age = self.first_age.saturating_add(steps);
        (1..steps.min(self.frames)).for_each(|age| *self.word(age).0 &= !self.word(age).1);
        self.insert(0);
    }

    /// Notes that a frame has come; false if it had come before.
    pub(super) fn insert(&mut self, age: u64) -> bool {
        let (word, bit) = self.word(age);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether frames of this age are told apart.
    pub(super) fn remembers(&self, age: u64) -> bool {
        age < self.frames
    }

    /// Whether so many frames are no more than the window has.
    pub(super) fn covers(&self, frames: u64) -> bool {
        frames <= self.frames
    }

    /// Makes a frame of this age the first if it is older than the first so far; returns the
    /// number of frames between the two.
    pub(super) fn begin_by(&mut self, age: u64) -> Option<u64> {
        let between = age.checked_sub(self.first_age + 1)?;
        self.first_age = age;
        self.insert(age);
        Some(between)
    }

    /// Word and bit of a frame of an age less than the number of bits.
    fn word(&mut self, age: u64) -> (&mut u64, u64) {
        let index = (self.position + self.frames - age) % self.frames;
        (&mut self.words[(index / 64) as usize], 1 << (index % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn remembers_what_a_set_remembers(
            frames in 1usize..300,
            moves in proptest::collection::vec((any::<bool>(), 1u64..400), 1..200),
        ) {
            let mut window = Window::new(frames);
            let (mut naive, mut newest, mut first) = (HashSet::from([1000i64]), 1000, 1000);
            window.restart();
            for (advance, n) in moves {
                let frame = newest - n as i64;
                if advance {
                    newest += n as i64;
                    window.advance(n);
                    naive.insert(newest);
                } else if window.remembers(n) {
                    let between = u64::try_from(first - frame - 1).ok();
                    first = first.min(frame);
                    prop_assert_eq!(window.begin_by(n), between);
                    let is_new = naive.insert(frame);
                    prop_assert_eq!(window.insert(n), is_new && between.is_none());
                }
            }
        }
    }
}
