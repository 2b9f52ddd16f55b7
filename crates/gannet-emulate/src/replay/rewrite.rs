//! Timestamps and sequence numbers that go on from pass to pass.

use std::collections::BTreeMap;

use gannet_wire::{Heading, Rhythm, Step, StreamKey};

/// Most streams that are kept apart.
const STREAMS_MAX: usize = 4096;
/// A timestamp this far from the one before it is taken for an error: one hour, in seconds.
const GAP_MAX_S: u64 = 3600;

/// What the first pass showed of one stream.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Heading,
    last: Heading,
    rhythm: Rhythm,
}

/// Rewrites what frames tell in all passes after the first, from which it learns.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewriter {
    streams: BTreeMap<StreamKey, Seen>,
    previous: Option<u64>,
    /// Passes ended.
    pass: u64,
    /// Ticks by which a pass is later than the one before it.
    span: u64,
    /// Length of a pass in nanoseconds.
    span_ns: u64,
}

impl Rewriter {
    /// Ends a pass.
    pub(super) fn begin_pass(&mut self) {
        if self.pass == 0 {
            self.span = self.learned_span();
            // Several front ends in one recording count the same clock.
            let clock = self.streams.values().next().map(|seen| seen.rhythm.clock);
            self.span_ns = clock.map_or(0, |clock| clock.ns(self.span));
        }
        self.pass += 1;
    }

    /// Length of a pass in nanoseconds; 0 as long as it is not known.
    pub(super) fn pass_ns(&self) -> u64 {
        self.span_ns
    }

    /// What a frame that was recorded as `heading` tells in this pass, one after the first.
    pub(super) fn rewritten(&self, heading: &Heading) -> Heading {
        let begin = heading.begin.wrapping_add(self.pass.wrapping_mul(self.span));
        let sequence = self.streams.get(&heading.stream).map_or(heading.sequence, |seen| {
            let frames = self.pass.wrapping_mul(seen.frames_per_pass(self.span));
            let modulus = u64::from(seen.rhythm.sequence_modulus);
            (u64::from(heading.sequence).wrapping_add(frames) % modulus) as u32
        });
        Heading { begin, sequence, ..*heading }
    }

    /// Looks at a frame of the first pass.
    pub(super) fn learn(&mut self, heading: &Heading, rhythm: &Rhythm) {
        let gap_max = GAP_MAX_S * rhythm.clock.per_s();
        if self.previous.is_some_and(|previous| previous.abs_diff(heading.begin) > gap_max) {
            return;
        }
        self.previous = Some(heading.begin);
        let full = self.streams.len() >= STREAMS_MAX;
        match self.streams.get_mut(&heading.stream) {
            Some(seen) => {
                if heading.begin < seen.first.begin {
                    seen.first = *heading;
                }
                if heading.begin > seen.last.begin {
                    seen.last = *heading;
                }
            }
            None if !full => {
                let seen = Seen { first: *heading, last: *heading, rhythm: *rhythm };
                self.streams.insert(heading.stream, seen);
            }
            None => {}
        }
    }

    /// Ticks from the first frame of any stream to the end of the last, in whole frames of all.
    fn learned_span(&self) -> u64 {
        let first = self.streams.values().map(|seen| seen.first.begin).min().unwrap_or(0);
        let end = |seen: &Seen| seen.last.begin.saturating_add(seen.rhythm.step.longest());
        let end = self.streams.values().map(end).max().unwrap_or(0);
        let steps = self.streams.values().filter_map(|seen| match seen.rhythm.step {
            Step::Fixed(step) | Step::Slices { length: step } => Some(step),
            Step::Varying { .. } => None,
        });
        let common = steps.fold(1, least_common_multiple);
        (end - first).next_multiple_of(common)
    }
}

impl Seen {
    /// Frames that the stream's front end made in `span` ticks, by its own count (modulo 2^64, of
    /// which the modulus of sequence numbers is a divisor).
    fn frames_per_pass(&self, span: u64) -> u64 {
        let counted = u64::from(self.last.sequence).wrapping_sub(self.first.sequence.into());
        let uncounted = match self.rhythm.step {
            Step::Fixed(step) => (span - (self.last.begin - self.first.begin)) / step,
            Step::Varying { .. } => 1,
            // Every slice is numbered from 0.
            Step::Slices { .. } => return 0,
        };
        counted.wrapping_add(uncounted)
    }
}

/// Smallest number of which both are divisors.
fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::ticks::TickRate;
    use gannet_wire::{FrameFormat, GeoId, TpcFormat};

    fn heading(stream: GeoId, begin: u64, sequence: u32) -> Heading {
        Heading { stream: stream.into(), begin, sequence }
    }

    /// Shows a frame to the rewriter in the first pass, and has it rewritten in a later one.
    fn told(rewriter: &mut Rewriter, heading: Heading) -> (u64, u32) {
        let detector = GeoId::from_bits(heading.stream.0).detector;
        if rewriter.pass == 0 {
            rewriter.learn(&heading, &TpcFormat::of_detector(detector).rhythm());
            return (heading.begin, heading.sequence);
        }
        let rewritten = rewriter.rewritten(&heading);
        (rewritten.begin, rewritten.sequence)
    }

    #[test]
    fn both_kinds_of_front_end_stay_in_step() {
        let (wib, tde) = (GeoId::new(10, 1, 0, 0), GeoId::new(11, 1, 0, 0));
        let mut rewriter = Rewriter::default();
        for index in 0..3 {
            told(&mut rewriter, heading(wib, 10_000 + index * 2048, 4094 + index as u32));
            told(&mut rewriter, heading(tde, 10_000 + index * 2000, index as u32));
        }
        rewriter.begin_pass();
        // 6144 ticks were seen; the least common multiple of 2048 and 2000 is 256,000.
        assert_eq!(rewriter.pass_ns(), 256_000 * 16);
        assert_eq!(told(&mut rewriter, heading(wib, 10_000, 4094)), (266_000, (4094 + 125) % 4096));
        assert_eq!(told(&mut rewriter, heading(tde, 10_000, 0)), (266_000, 128));
    }

    #[test]
    fn a_wild_timestamp_does_not_stretch_the_pass() {
        let geo = GeoId::new(3, 1, 0, 0);
        let mut rewriter = Rewriter::default();
        for timestamp in [10_000, 12_048, 1 << 60, 14_096] {
            told(&mut rewriter, heading(geo, timestamp, 0));
        }
        rewriter.begin_pass();
        assert_eq!(rewriter.span, 3 * 2048);
    }

    #[test]
    fn sequence_numbers_go_on_even_if_frames_were_not_counted_right() {
        let geo = GeoId::new(3, 1, 0, 0);
        let mut rewriter = Rewriter::default();
        for (timestamp, sequence) in [(0, 10), (2048, 11), (4096, 500)] {
            told(&mut rewriter, heading(geo, timestamp, sequence));
        }
        for pass in 1..=3u64 {
            rewriter.begin_pass();
            let expected = (pass * 6144, (10 + pass * 491) as u32);
            assert_eq!(told(&mut rewriter, heading(geo, 0, 10)), expected);
        }
    }

    #[test]
    fn frames_of_varying_step_go_on_with_the_next_number() {
        let rhythm = Rhythm {
            clock: TickRate::hz(1000),
            step: Step::Varying { longest: 10 },
            sequence_modulus: 256,
        };
        let (stream, mut rewriter) = (StreamKey(1), Rewriter::default());
        let heading = |begin, sequence| Heading { stream, begin, sequence };
        for (begin, sequence) in [(100, 254), (103, 255), (103, 0), (112, 1)] {
            rewriter.learn(&heading(begin, sequence), &rhythm);
        }
        rewriter.begin_pass();
        assert_eq!(rewriter.rewritten(&heading(100, 254)), heading(122, 2));
        assert_eq!(rewriter.rewritten(&heading(112, 1)), heading(134, 5));
        assert_eq!(rewriter.pass_ns(), 22_000_000);
    }
}
