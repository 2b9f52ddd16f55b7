//! The frames of one stream, as they were recorded, in the order of time.

use std::collections::BTreeMap;

use gannet_ingest::continuity::{Continuity, Counts, Judgement, Verdict};
use gannet_kernels::tpg::block::Block;
use gannet_wire::{Rhythm, wibeth};

/// Frames by which one may come too late and still find its place; as many as the readout tells
/// apart.
const WINDOW_FRAMES: usize = 64;

/// Puts frames that came too late in their place, and leaves out those that came twice or whose
/// time does not fit.
///
/// Frames in order go straight through. Behind a gap they wait until what is missing has come, or
/// cannot come any more.
#[derive(Debug)]
pub(super) struct Sequence {
    continuity: Continuity,
    ticks_per_frame: u64,
    sequence_modulus: u32,
    /// Time and sequence number of the first frame.
    first: Option<(u64, u32)>,
    /// Whether sequence numbers are to be believed, by the first two frames: not all front ends
    /// count.
    is_counted: Option<bool>,
    /// Time of the next frame to be given out, once there was one.
    expected: Option<u64>,
    /// Frames that wait for those before them, by time.
    waiting: BTreeMap<u64, Box<Block>>,
    /// A frame whose time does not fit, until another agrees with it.
    kept: Option<(u64, Box<Block>)>,
}

/// A frame that is to be searched.
pub(super) struct InOrder<'a> {
    pub block: &'a Block,
    pub timestamp: u64,
    /// The stream goes on from another time with it.
    pub is_new_series: bool,
}

impl Sequence {
    /// Frames that follow `rhythm`.
    pub fn new(rhythm: &Rhythm) -> Self {
        Self {
            continuity: Continuity::new(rhythm, WINDOW_FRAMES, 0),
            ticks_per_frame: rhythm.step.longest(),
            sequence_modulus: rhythm.sequence_modulus,
            first: None,
            is_counted: None,
            expected: None,
            waiting: BTreeMap::new(),
            kept: None,
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        self.continuity.counts()
    }

    /// Earliest time of the frames that wait, in ticks.
    pub fn waits_from(&self) -> Option<u64> {
        let kept = self.kept.as_ref().map(|(timestamp, _)| *timestamp);
        let kept = kept.filter(|timestamp| self.expected.is_some_and(|next| *timestamp >= next));
        self.waiting
            .first_key_value()
            .map(|(timestamp, _)| *timestamp)
            .into_iter()
            .chain(kept)
            .min()
    }

    /// Takes the next frame that was recorded, and gives out what is in order now.
    pub fn frame(&mut self, frame: &wibeth::Frame<&[u8]>, mut give: impl FnMut(InOrder<'_>)) {
        let timestamp = frame.timestamp();
        let sequence = self.number(timestamp, frame.daq().seq_id().into());
        let Judgement { kept, frame: verdict } = self.continuity.frame(timestamp, sequence, 0);
        let is_next = matches!(verdict, Verdict::First | Verdict::InOrder);
        if kept.is_none() && self.waiting.is_empty() && is_next {
            let block = frame.adc_block();
            return self.give(InOrder { block, timestamp, is_new_series: false }, &mut give);
        }
        if let Some(verdict) = kept {
            self.resume(verdict, &mut give);
        }
        let copy = || Box::new(*frame.adc_block());
        match verdict {
            Verdict::Duplicate | Verdict::BeforeFirst => {}
            Verdict::OutOfStep { .. } => self.kept = Some((timestamp, copy())),
            Verdict::Restart { .. } => {
                self.give_waiting(u64::MAX, &mut give);
                let block = frame.adc_block();
                self.give(InOrder { block, timestamp, is_new_series: true }, &mut give);
            }
            _ => drop(self.waiting.insert(timestamp, copy())),
        }
        self.give_ready(&mut give);
    }

    /// Gives out all that waits, at the end. The frame kept is one of the stream where
    /// `is_searched` says that a run has taken it, unless what comes after it has been given out.
    pub fn finish(&mut self, is_searched: bool, mut give: impl FnMut(InOrder<'_>)) {
        let is_ahead = |kept: &(u64, _)| self.expected.is_none_or(|next| kept.0 >= next);
        if is_searched
            && self.kept.as_ref().is_some_and(is_ahead)
            && let Some(verdict) = self.continuity.confirm_kept()
        {
            self.resume(verdict, &mut give);
        }
        self.give_waiting(u64::MAX, &mut give);
    }

    /// The sequence number of a frame, or the one that its time stands for.
    fn number(&mut self, timestamp: u64, sequence: u32) -> u32 {
        let (first, number) = *self.first.get_or_insert((timestamp, sequence));
        let steps = (timestamp.wrapping_sub(first) as i64).div_euclid(self.ticks_per_frame as i64);
        let modulus = i64::from(self.sequence_modulus);
        let by_time = (i64::from(number) + steps).rem_euclid(modulus) as u32;
        let is_counted = *match timestamp == first {
            true => return sequence,
            false => self.is_counted.get_or_insert(by_time == sequence),
        };
        if is_counted { sequence } else { by_time }
    }

    fn give(&mut self, frame: InOrder<'_>, give: &mut impl FnMut(InOrder<'_>)) {
        self.expected = Some(frame.timestamp.wrapping_add(self.ticks_per_frame));
        give(frame);
    }

    /// Gives out what comes before a frame that was kept, and that frame.
    fn resume(&mut self, verdict: Verdict, give: &mut impl FnMut(InOrder<'_>)) {
        self.give_waiting(u64::MAX, give);
        if let Some((timestamp, block)) = self.kept.take() {
            let is_new_series = matches!(verdict, Verdict::Restart { .. });
            self.give(InOrder { block: &block, timestamp, is_new_series }, give);
        }
    }

    /// Gives out what follows on the last frame, and what no missing frame can come before.
    fn give_ready(&mut self, give: &mut impl FnMut(InOrder<'_>)) {
        let newest = self.continuity.newest().unwrap_or(0);
        let passed = newest.saturating_sub(WINDOW_FRAMES as u64 * self.ticks_per_frame);
        self.give_waiting(passed, give);
        while let Some(timestamp) = self.expected
            && let Some(block) = self.waiting.remove(&timestamp)
        {
            self.give(InOrder { block: &block, timestamp, is_new_series: false }, give);
        }
    }

    /// Gives out what waits up to `tick`.
    fn give_waiting(&mut self, tick: u64, give: &mut impl FnMut(InOrder<'_>)) {
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= tick
        {
            let (timestamp, block) = entry.remove_entry();
            self.give(InOrder { block: &block, timestamp, is_new_series: false }, give);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::random::Random;
    use gannet_wire::tpc_frame::FRAME_LEN;
    use gannet_wire::{FrameFormat, TpcFormat};

    const STEP: u64 = wibeth::TICKS_PER_FRAME;
    const START: u64 = 1 << 50;

    /// Feeds frames by number, with sequence numbers or without; what comes out, by number.
    fn run(sequence: &mut Sequence, numbers: &[u64], is_counted: bool) -> Vec<u64> {
        let mut out = Vec::new();
        let mut bytes = [0; FRAME_LEN];
        for number in numbers {
            let mut frame = wibeth::Frame::new_unchecked(&mut bytes[..]);
            frame.daq_mut().set_timestamp(START + number * STEP);
            frame.daq_mut().set_seq_id(if is_counted { (number % 4096) as u16 } else { 0 });
            sequence.frame(&wibeth::Frame::new_unchecked(&bytes[..]), |given| {
                assert!(!given.is_new_series);
                out.push((given.timestamp - START) / STEP);
            });
            let waits = sequence.waits_from().map(|tick| (tick - START) / STEP);
            assert!(waits.is_none_or(|first| out.last().is_some_and(|last| *last < first)));
        }
        sequence.finish(true, |given| out.push((given.timestamp - START) / STEP));
        out
    }

    #[test]
    fn frames_within_the_window_find_their_place_and_doubles_are_left_out() {
        let mut random = Random::new(3);
        for is_counted in [true, false] {
            // The first two stay in their place.
            let mut numbers: Vec<(u64, u64)> = (0..3000).map(|n| (n, n)).collect();
            numbers.retain(|(n, _)| *n < 2 || n % 17 != 0);
            numbers.iter_mut().skip(2).for_each(|(due, _)| *due += 2 + random.below(60));
            numbers.sort_unstable();
            let mut numbers: Vec<u64> = numbers.into_iter().map(|(_, number)| number).collect();
            // Each right behind the frame itself, so that none falls out of the window.
            (0..10).for_each(|n| numbers.insert(300 * n + 4, numbers[300 * n + 3]));
            let mut sequence = Sequence::new(&TpcFormat::WibEth.rhythm());
            let out = run(&mut sequence, &numbers, is_counted);
            let expected: Vec<u64> = (0..3000).filter(|n| *n < 2 || n % 17 != 0).collect();
            assert_eq!(out, expected);
            let counts = sequence.counts();
            let missing = 3000 - expected.len() as u64;
            assert_eq!((counts.duplicate, counts.missing), (10, missing), "{counts:?}");
            assert_eq!((counts.out_of_step, counts.restarts), (0, 0));
        }
    }

    #[test]
    fn gaps_of_any_length_lose_nothing_and_a_frame_too_late_is_left_out() {
        for is_counted in [true, false] {
            let mut sequence = Sequence::new(&TpcFormat::WibEth.rhythm());
            let numbers = [0, 1, 2, 5000, 5001, 90_000, 90_001, 90_003];
            let mut fed: Vec<u64> = numbers.to_vec();
            fed.extend(90_004..90_100);
            fed.push(89_990);
            let out = run(&mut sequence, &fed, is_counted);
            assert_eq!(out[..8], numbers);
            assert_eq!(out.len(), fed.len() - 1);
            let counts = sequence.counts();
            assert_eq!((counts.out_of_step, counts.duplicate), (1, 0), "{counts:?}");
        }
    }
}
