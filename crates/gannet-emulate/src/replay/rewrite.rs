//! Timestamps and sequence numbers that go on from pass to pass.

use std::collections::BTreeMap;

use crate::front_end::COLDDATA_MASK;
use gannet_wire::tpc_streams::STREAMS_MAX;
use gannet_wire::{GeoId, daq_ethernet, tdeeth, wibeth};

/// Detector number of the top of a vertical-drift detector, which sends TDEEth frames.
const VD_TOP: u16 = 11;
/// A timestamp this far from the one before it is taken for an error: one hour, in ticks.
const GAP_MAX: u64 = 3600 * 62_500_000;
/// Nanoseconds of a tick.
const TICK_NS: u64 = 16;

/// What the first pass showed of one stream.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: (u64, u16),
    last: (u64, u16),
    step: u64,
}

/// Rewrites the headers of all passes after the first, from which it learns.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewriter {
    streams: BTreeMap<GeoId, Seen>,
    previous: Option<u64>,
    /// Passes ended.
    pass: u64,
    /// Ticks by which a pass is later than the one before it.
    span: u64,
}

impl Rewriter {
    /// Ends a pass.
    pub(super) fn begin_pass(&mut self) {
        if self.pass == 0 {
            self.span = self.learned_span();
        }
        self.pass += 1;
    }

    /// Length of a pass in nanoseconds; 0 as long as it is not known.
    pub(super) fn pass_ns(&self) -> u64 {
        self.span * TICK_NS
    }

    /// Rewrites the first bytes of a frame, at least a DAQ header.
    pub(super) fn rewrite(&mut self, head: &mut [u8]) {
        let mut daq = daq_ethernet::Header::new_unchecked(&mut *head);
        let (geo, timestamp, sequence) = (daq.geo_id(), daq.timestamp(), daq.seq_id());
        if self.pass == 0 {
            return self.learn(geo, timestamp, sequence);
        }
        let later = self.pass.wrapping_mul(self.span);
        daq.set_timestamp(timestamp.wrapping_add(later));
        if let Some(seen) = self.streams.get(&geo) {
            let frames = self.pass.wrapping_mul(seen.frames_per_pass(self.span)) as u16;
            daq.set_seq_id(sequence.wrapping_add(frames) % daq_ethernet::SEQ_MODULUS);
        }
        let own = &mut head[daq_ethernet::HEADER_LEN..];
        if geo.detector != VD_TOP
            && let Ok(mut wib) = wibeth::Header::new_checked(own)
        {
            let add = |cold: u16| cold.wrapping_add(later as u16) & COLDDATA_MASK;
            wib.set_colddata_timestamp_0(add(wib.colddata_timestamp_0()));
            wib.set_colddata_timestamp_1(add(wib.colddata_timestamp_1()));
        }
    }

    fn learn(&mut self, geo: GeoId, timestamp: u64, sequence: u16) {
        if self.previous.is_some_and(|previous| previous.abs_diff(timestamp) > GAP_MAX) {
            return;
        }
        self.previous = Some(timestamp);
        let now = (timestamp, sequence);
        let full = self.streams.len() >= STREAMS_MAX;
        match self.streams.get_mut(&geo) {
            Some(seen) => {
                if timestamp < seen.first.0 {
                    seen.first = now;
                }
                if timestamp > seen.last.0 {
                    seen.last = now;
                }
            }
            None if !full => {
                let top = geo.detector == VD_TOP;
                let step = if top { tdeeth::TICKS_PER_FRAME } else { wibeth::TICKS_PER_FRAME };
                self.streams.insert(geo, Seen { first: now, last: now, step });
            }
            None => {}
        }
    }

    /// Ticks from the first frame of any stream to the end of the last, in whole frames of all.
    fn learned_span(&self) -> u64 {
        let first = self.streams.values().map(|seen| seen.first.0).min().unwrap_or(0);
        let end = self.streams.values().map(|seen| seen.last.0 + seen.step).max().unwrap_or(0);
        let steps = self.streams.values().map(|seen| seen.step);
        let common = steps.fold(1, least_common_multiple);
        (end - first).next_multiple_of(common)
    }
}

impl Seen {
    /// Frames that the stream's front end made in `span` ticks, by its own count (modulo 2^16,
    /// of which 4096 is a divisor).
    fn frames_per_pass(&self, span: u64) -> u64 {
        let counted = u64::from(self.last.1.wrapping_sub(self.first.1));
        let uncounted = (span - (self.last.0 - self.first.0)) / self.step;
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

    fn head(geo: GeoId, timestamp: u64, sequence: u16) -> [u8; 32] {
        let mut head = [0; 32];
        let mut daq = daq_ethernet::Header::new_unchecked(&mut head[..]);
        daq.set_geo_id(geo);
        daq.set_timestamp(timestamp);
        daq.set_seq_id(sequence);
        head
    }

    fn rewritten(rewriter: &mut Rewriter, head: [u8; 32]) -> (u64, u16) {
        let mut head = head;
        rewriter.rewrite(&mut head);
        let daq = daq_ethernet::Header::new_unchecked(head);
        (daq.timestamp(), daq.seq_id())
    }

    #[test]
    fn both_kinds_of_front_end_stay_in_step() {
        let (wib, tde) = (GeoId::new(10, 1, 0, 0), GeoId::new(11, 1, 0, 0));
        let mut rewriter = Rewriter::default();
        for index in 0..3 {
            rewritten(&mut rewriter, head(wib, 10_000 + index * 2048, 4094 + index as u16));
            rewritten(&mut rewriter, head(tde, 10_000 + index * 2000, index as u16));
        }
        rewriter.begin_pass();
        // 6144 ticks were seen; the least common multiple of 2048 and 2000 is 256,000.
        assert_eq!(rewriter.pass_ns(), 256_000 * 16);
        assert_eq!(
            rewritten(&mut rewriter, head(wib, 10_000, 4094)),
            (266_000, (4094 + 125) % 4096)
        );
        assert_eq!(rewritten(&mut rewriter, head(tde, 10_000, 0)), (266_000, 128));
    }

    #[test]
    fn a_wild_timestamp_does_not_stretch_the_pass() {
        let geo = GeoId::new(3, 1, 0, 0);
        let mut rewriter = Rewriter::default();
        for timestamp in [10_000, 12_048, 1 << 60, 14_096] {
            rewritten(&mut rewriter, head(geo, timestamp, 0));
        }
        rewriter.begin_pass();
        assert_eq!(rewriter.span, 3 * 2048);
    }

    #[test]
    fn sequence_numbers_go_on_even_if_frames_were_not_counted_right() {
        let geo = GeoId::new(3, 1, 0, 0);
        let mut rewriter = Rewriter::default();
        for (timestamp, sequence) in [(0, 10), (2048, 11), (4096, 500)] {
            rewritten(&mut rewriter, head(geo, timestamp, sequence));
        }
        for pass in 1..=3u64 {
            rewriter.begin_pass();
            let expected = (pass * 6144, (10 + pass * 491) as u16);
            assert_eq!(rewritten(&mut rewriter, head(geo, 0, 10)), expected);
        }
    }
}
