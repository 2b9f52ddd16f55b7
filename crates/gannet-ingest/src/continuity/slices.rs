//! Frames that come in slices and are numbered from 0 in each, counted as one stream.
//!
//! Nothing tells how many frames a slice has, so a slice is taken to end with the last frame that
//! came of it before the next began. Frames of its end that come even later are told apart here.

/// Slices before the newest whose frames may come late.
const EARLIER: usize = 4;
/// Added to the number of a frame whose slice is not known, so that it follows none but its like.
const UNKNOWN: u32 = 3 << 30;

/// A slice of which frames came.
#[derive(Clone, Copy, Debug)]
struct Slice {
    begin: u64,
    /// Number in the stream of its frame 0.
    base: u32,
    /// Frames that it was taken to have when the next began; until then, those up to the newest.
    frames: u32,
    /// A bit for each frame from there on that came.
    tail: u64,
}

/// Where a frame is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has this number.
    Number(u32),
    /// It came after the next slice had begun and is behind what was believed to be the end of its own.
    Tail(Tail),
}

/// A frame behind what was believed to be the end of its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// It is the last known now, with so many between it and the last until then.
    Longer(u64),
    /// It is one of those between.
    Late,
    /// It had come.
    Duplicate,
    /// It is too far behind to be told apart.
    Unknown,
}

/// The slices of one stream.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    length: u64,
    newest: Option<Slice>,
    earlier: [Option<Slice>; EARLIER],
}

impl Slices {
    /// Slices of `length` ticks.
    pub(super) fn new(length: u64) -> Self {
        Self { length, newest: None, earlier: [None; EARLIER] }
    }

    /// Where a frame is that has the number `sequence` in the slice that begins at `begin`.
    #[inline]
    pub(super) fn place(&mut self, begin: u64, sequence: u32) -> Place {
        let Some(newest) = self.newest else { return Place::Number(sequence) };
        if begin == newest.begin {
            return Place::Number(newest.base.wrapping_add(sequence));
        }
        let ticks = begin.wrapping_sub(newest.begin) as i64;
        let (length, next) = (self.length as i64, newest.base.wrapping_add(newest.frames));
        if ticks > 0 && ticks % length == 0 {
            // Of a slice that did not come at least one frame is missing.
            let skipped = (ticks / length - 1) as u32;
            return Place::Number(next.wrapping_add(skipped).wrapping_add(sequence));
        }
        let earlier = self.earlier.iter_mut().flatten().find(|slice| slice.begin == begin);
        match earlier {
            Some(slice) if sequence < slice.frames => {
                Place::Number(slice.base.wrapping_add(sequence))
            }
            Some(slice) => Place::Tail(slice.take_tail(sequence)),
            None => {
                let slices = ticks.div_euclid(length) as u32;
                let number = next.wrapping_add(UNKNOWN).wrapping_add(slices);
                Place::Number(number.wrapping_add(sequence))
            }
        }
    }

    /// The stream goes on with a frame: `number` in the stream, `sequence` in its slice.
    #[inline]
    pub(super) fn go_on(&mut self, begin: u64, number: u32, sequence: u32) {
        let base = number.wrapping_sub(sequence);
        let slice = Slice { begin, base, frames: sequence.wrapping_add(1), tail: 0 };
        if let Some(newest) = self.newest.replace(slice)
            && newest.begin != begin
        {
            self.leave(&newest, begin);
        }
    }

    /// Remembers a slice that a newer one follows, and those in between, of which nothing came.
    fn leave(&mut self, slice: &Slice, next: u64) {
        let slices = next.wrapping_sub(slice.begin) as i64 / self.length as i64;
        if slices < 1 {
            self.earlier = [None; EARLIER];
            return;
        }
        let skipped = (slices - 1).min(EARLIER as i64) as u64;
        let lost = |slices: u64| Slice {
            begin: slice.begin.wrapping_add(slices * self.length),
            base: slice.base.wrapping_add(slice.frames).wrapping_add(slices as u32 - 1),
            frames: 1,
            tail: 0,
        };
        let first = slices as u64 - skipped;
        let lost = (first..slices as u64).map(lost);
        for slice in [*slice].into_iter().chain(lost) {
            self.earlier.rotate_right(1);
            self.earlier[0] = Some(slice);
        }
    }
}

impl Slice {
    fn take_tail(&mut self, sequence: u32) -> Tail {
        let index = sequence - self.frames;
        let known = u64::BITS - self.tail.leading_zeros();
        let Some(bit) = 1_u64.checked_shl(index) else { return Tail::Unknown };
        let has_come = self.tail & bit != 0;
        self.tail |= bit;
        match index.checked_sub(known) {
            Some(between) => Tail::Longer(between.into()),
            None if has_come => Tail::Duplicate,
            None => Tail::Late,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use gannet_measure::ticks::TickRate;
    use gannet_wire::{Rhythm, Step};
    use proptest::prelude::*;

    use crate::continuity::{Continuity, Verdict};

    const LENGTH: u64 = 100_000_000;
    const EPOCH: u64 = 1_700_000_000 * 1_000_000_000;

    fn checker() -> Continuity {
        let (clock, step) = (TickRate::hz(1_000_000_000), Step::Slices { length: LENGTH });
        Continuity::new(&Rhythm { clock, step, sequence_modulus: 1 << 31 }, 64, 0)
    }

    /// Feeds frames, each with the number of its slice and its number in it.
    fn feed(checker: &mut Continuity, frames: &[(u64, u32)]) -> Vec<Verdict> {
        let frame =
            |&(slice, number): &(u64, u32)| checker.frame(EPOCH + slice * LENGTH, number, 0).frame;
        frames.iter().map(frame).collect()
    }

    #[test]
    fn the_verdicts_by_name_in_slices() {
        use Verdict::{BeforeFirst, Duplicate, First, Gap, InOrder, Late, OutOfStep};
        let mut checker = checker();
        let frames = [(0, 1), (0, 2), (1, 0), (0, 0), (1, 0), (1, 3), (1, 2), (3, 1), (1, 1)];
        let (two, one) = (Gap { missing: 2 }, Gap { missing: 2 });
        let expected = [First, InOrder, InOrder, BeforeFirst, Duplicate, two, Late, one, Late];
        assert_eq!(feed(&mut checker, &frames), expected);
        // Of slice 2 one frame was missing, of slice 3 the first.
        assert_eq!(checker.counts().missing, 2);
        // The end of slice 1 comes after slice 3 has begun, and slice 2 turns out to have three frames.
        let frames = [(1, 6), (1, 4), (1, 4), (1, 5), (2, 2), (2, 0), (2, 1), (2, 1)];
        let expected = [Late, Late, Duplicate, Late, Late, Late, Late, Duplicate];
        assert_eq!(feed(&mut checker, &frames), expected);
        assert_eq!(checker.counts().missing, 1);
        // A time between two begins is of no slice.
        let verdict = checker.frame(EPOCH + 3 * LENGTH + 1, 2, 0).frame;
        assert!(matches!(verdict, OutOfStep { .. }), "{verdict:?}");
        assert_eq!(feed(&mut checker, &[(3, 2)]), [InOrder]);
    }

    #[test]
    fn a_stream_in_slices_begins_anew_with_two_frames() {
        let mut checker = checker();
        feed(&mut checker, &[(1000, 0), (1000, 1), (1001, 0)]);
        let verdicts = feed(&mut checker, &[(3, 0), (3, 1), (4, 0), (4, 2)]);
        assert!(matches!(verdicts[0], Verdict::OutOfStep { .. }));
        assert_eq!(
            verdicts[1..],
            [Verdict::InOrder, Verdict::InOrder, Verdict::Gap { missing: 1 }]
        );
        let counts = checker.counts();
        assert_eq!((counts.restarts, counts.missing, counts.in_step), (1, 1, 7));
    }

    #[test]
    fn an_outage_of_many_slices_is_known_by_the_second_frame() {
        let mut checker = checker();
        feed(&mut checker, &[(0, 0), (0, 1), (100, 0), (100, 1)]);
        assert_eq!((checker.counts().missing, checker.counts().in_step), (99, 4));
        assert_eq!(checker.counts().restarts, 0);
    }

    proptest! {
        #[test]
        fn what_is_missing_is_counted_slice_by_slice(
            sizes in prop::collection::vec(10..40_u32, 1..40),
            moves in prop::collection::vec((0..10_u64, any::<bool>(), 0..8_u64), 1600),
        ) {
            // Frames lost, doubled, and up to eight places late, but for the first.
            let sent = sizes.iter().enumerate().flat_map(|(slice, &size)| {
                (0..size).map(move |number| (slice as u64, number))
            });
            let mut came: Vec<(u64, (u64, u32))> = Vec::new();
            for (place, (frame, (loss, doubled, late))) in sent.zip(&moves).enumerate() {
                let copies = if *loss == 0 { 0 } else { 1 + u64::from(*doubled && *loss == 1) };
                came.extend((0..copies).map(|copy| (place as u64 + late * (copy + 1), frame)));
            }
            came.sort_by_key(|(place, _)| *place);
            let mut frames: Vec<_> = came.into_iter().map(|(_, frame)| frame).collect();
            frames.insert(0, (0, 0));
            let mut checker = checker();
            feed(&mut checker, &frames);

            let distinct: BTreeSet<_> = frames.iter().collect();
            let mut slices: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
            distinct.iter().for_each(|&&(slice, number)| _ = slices.entry(slice).or_default().insert(number));
            let last = *slices.keys().last().unwrap();
            let missing: u64 = (0..=last).map(|slice| slices.get(&slice).map_or(1, |numbers| {
                u64::from(*numbers.last().unwrap()) + 1 - numbers.len() as u64
            })).sum();
            let counts = checker.counts();
            prop_assert_eq!(counts.missing, missing);
            prop_assert_eq!(counts.in_step, distinct.len() as u64);
            prop_assert_eq!(counts.duplicate, (frames.len() - distinct.len()) as u64);
            prop_assert_eq!((counts.out_of_step, counts.restarts), (0, 0));
        }

        #[test]
        fn no_input_in_slices_makes_it_panic_or_lose_a_frame(
            frames in prop::collection::vec((0..8_u64, any::<u64>(), any::<u32>()), 0..300),
        ) {
            let (mut checker, mut begin, mut number) = (checker(), EPOCH, 0_u32);
            for (kind, time, any_number) in frames {
                (begin, number) = match kind {
                    0 => (time, any_number),
                    1 => (begin.wrapping_sub(LENGTH * (time % 4)), any_number % 100),
                    2 => (begin.wrapping_add(LENGTH * (time % 9)), any_number % 3),
                    3 => (begin.wrapping_add(time % LENGTH), number),
                    _ => (begin, number.wrapping_add(1)),
                };
                checker.frame(begin, number, 0);
                let counts = checker.counts();
                prop_assert_eq!(counts.frames, counts.in_step + counts.duplicate + counts.out_of_step);
            }
        }
    }
}
