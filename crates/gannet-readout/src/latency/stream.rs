//! Windows of time cut out of one stream.

use std::sync::Arc;

use gannet_memory::Overwritten;

use super::entry::Mark;
use super::shared::Shared;
use super::window::Window;

/// Time stamps of the oldest and the newest frame that a buffer holds, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First tick of the oldest frame.
    pub oldest: u64,
    /// First tick of the newest frame.
    pub newest: u64,
}

/// The latency buffer of one stream, as one of its readers sees it: no reader takes anything from
/// another.
#[derive(Debug)]
pub struct StreamBuffer {
    shared: Arc<Shared>,
    mark: Mark,
    /// Whether each frame that is cut has its length before it.
    sized: bool,
}

impl StreamBuffer {
    pub(super) fn new(shared: Arc<Shared>, reader: usize) -> Self {
        Self { shared, mark: Mark { reader, ..Mark::default() }, sized: false }
    }

    /// The same, for frames that differ in length: each that is cut has its length before it, 32
    /// bits, little endian.
    #[must_use]
    pub fn with_lengths(self) -> Self {
        Self { sized: true, ..self }
    }

    /// Time stamp of the newest frame, without looking for the oldest.
    pub fn newest(&self) -> Option<u64> {
        self.shared.newest()
    }

    /// Oldest and newest frame held, or `None` when there is none.
    pub fn extent(&mut self) -> Option<Extent> {
        let newest = self.shared.newest()?;
        let oldest = self.shared.oldest(newest, &mut self.mark)?;
        Some(Extent { oldest, newest })
    }

    /// Appends to `out` every whole frame that overlaps `window`, in the order of time, and
    /// returns how many frames were overwritten under the reader's eyes; those are left out.
    ///
    /// A frame overlaps when it begins before `window.end` and ends after `window.begin`. It ends
    /// a step after its begin; where the step varies, where a later frame begins, and after the
    /// longest step at the latest.
    pub fn cut(&self, window: Window, out: &mut Vec<u8>) -> u64 {
        let Some(cells) = self.shared.cells() else { return 0 };
        if window.begin >= window.end {
            return 0;
        }
        let mut overwritten = 0;
        for frame in self.shared.overlapping(window, &self.mark) {
            let used = out.len();
            if self.sized {
                out.extend(frame.len.to_le_bytes());
            }
            let begin = out.len();
            out.resize(begin + frame.len as usize, 0);
            if let Err(Overwritten) = cells.copy(frame.cell, &mut out[begin..]) {
                out.truncate(used);
                overwritten += 1;
            }
        }
        overwritten
    }
}

#[cfg(test)]
mod tests {
    use gannet_memory::{Geometry, clop};
    use gannet_wire::Step;

    use super::super::index;
    use super::*;

    #[test]
    fn each_reader_learns_of_late_frames_and_leaps_by_itself() {
        for step in [Step::Fixed(10), Step::Varying { longest: 10 }] {
            let (mut producer, reader) = clop(Geometry { cell_bytes: 1, cells: 64 }).unwrap();
            let (mut writer, mut readers) = index::<3>(8, step);
            writer.attach(reader);
            let mut put = |begin| writer.insert(begin, producer.land(&[0]), 1, false);
            put(100);
            put(110);
            let oldest = |readers: &mut [StreamBuffer; 3]| {
                readers.each_mut().map(|reader| reader.extent().unwrap().oldest)
            };
            assert_eq!(oldest(&mut readers), [100; 3]);
            put(90);
            assert_eq!(oldest(&mut readers), [90; 3], "{step:?}");
            put(100_000);
            assert_eq!(oldest(&mut readers), [90; 3], "{step:?}");
            for reader in &readers {
                let mut found = Vec::new();
                reader.cut(Window { begin: 0, end: 200_000 }, &mut found);
                assert_eq!(found.len(), 4, "{step:?}");
            }
        }
    }
}
