use super::*;
use gannet_measure::random::Random;
use gannet_measure::ticks::TickRate;
use proptest::prelude::*;
use std::collections::BTreeSet;

const STEP: u64 = 2048;
const WINDOW: usize = 64;
const RHYTHM: Rhythm =
    Rhythm { clock: TickRate::hz(62_500_000), step: Step::Fixed(STEP), sequence_modulus: 4096 };
/// Time of a real frame.
const EPOCH: u64 = 107_544_625_968_523_275;

/// A stream that numbers its frames as it should.
struct FrontEnd {
    timestamp: u64,
    sequence: u32,
}

impl FrontEnd {
    fn frame(&self, index: u64) -> (u64, u32) {
        let sequence = (u64::from(self.sequence) + index) % 4096;
        (self.timestamp.wrapping_add(STEP * index), sequence as u32)
    }
}

const STREAM: FrontEnd = FrontEnd { timestamp: EPOCH, sequence: 4000 };

fn checker() -> Continuity {
    Continuity::new(&RHYTHM, WINDOW, 0)
}

/// Feeds frames by index; returns the verdicts, also those on frames kept, in their order.
fn feed(checker: &mut Continuity, indices: impl IntoIterator<Item = u64>) -> Vec<Verdict> {
    feed_frames(checker, indices.into_iter().map(|index| STREAM.frame(index)))
}

fn feed_frames(
    checker: &mut Continuity,
    frames: impl IntoIterator<Item = (u64, u32)>,
) -> Vec<Verdict> {
    let judge = |(timestamp, sequence)| checker.frame(timestamp, sequence, 0);
    let verdicts = |judgement: Judgement| judgement.kept.into_iter().chain([judgement.frame]);
    frames.into_iter().map(judge).flat_map(verdicts).collect()
}

/// Every frame is in exactly one class.
fn assert_closes(counts: &Counts) {
    let classes = counts.in_step + counts.duplicate + counts.out_of_step;
    assert_eq!(counts.frames, classes, "{counts:?}");
}

#[test]
fn the_verdicts_by_name() {
    use Verdict::{BeforeFirst, Duplicate, First, Gap, InOrder, Late};
    let mut checker = checker();
    let verdicts = feed(&mut checker, [10, 11, 14, 12, 12, 11, 15, 13, 9]);
    let gap = Gap { missing: 2 };
    let expected = [First, InOrder, gap, Late, Duplicate, Duplicate, InOrder, Late, BeforeFirst];
    assert_eq!(verdicts, expected);
    let counts = *checker.counts();
    assert_eq!((counts.missing, counts.late, counts.duplicate, counts.outage), (0, 2, 2, 0));
    assert_eq!((counts.in_step, counts.before_first, counts.sequence_disagreements), (7, 1, 0));
    assert_eq!(checker.newest(), Some(STREAM.frame(15).0));
    assert_eq!(checker.first_timestamp(), Some(STREAM.frame(9).0));
}

#[test]
fn a_stream_begins_with_the_oldest_of_its_first_frames() {
    use Verdict::{BeforeFirst, Duplicate, First, InOrder, Late};
    let mut checker = checker();
    let verdicts = feed(&mut checker, [10, 7, 11, 7, 9, 7, 8]);
    assert_eq!(verdicts, [First, BeforeFirst, InOrder, Duplicate, Late, Duplicate, Late]);
    let counts = *checker.counts();
    assert_eq!((counts.in_step, counts.missing, counts.duplicate), (5, 0, 2));
    assert_eq!(checker.first_timestamp(), Some(STREAM.frame(7).0));
    assert_closes(&counts);
}

#[test]
fn the_sequence_number_wraps_without_a_word() {
    let mut checker = checker();
    feed(&mut checker, 0..10_000);
    assert_eq!((checker.counts().in_step, checker.counts().sequence_disagreements), (10_000, 0));
}

#[test]
fn an_outage_longer_than_the_sequence_number_is_counted_by_the_time() {
    let mut checker = checker();
    feed(&mut checker, 0..100);
    let verdicts = feed(&mut checker, 40_000..40_003);
    assert!(matches!(verdicts[0], Verdict::OutOfStep { .. }), "{verdicts:?}");
    assert_eq!(
        verdicts[1..],
        [Verdict::Gap { missing: 39_900 }, Verdict::InOrder, Verdict::InOrder]
    );
    assert_eq!((checker.counts().missing, checker.counts().out_of_step), (39_900, 0));
    assert_closes(checker.counts());
}

#[test]
fn a_leap_that_looked_like_a_gap_is_none_once_the_clock_is_back() {
    let mut checker = checker();
    feed(&mut checker, [0, 1, 2, 5]);
    let verdicts = feed(&mut checker, 4_096_006..4_096_010);
    assert_eq!(verdicts[1], Verdict::Gap { missing: 4_096_000 });
    feed(&mut checker, [4_096_020]);
    assert_eq!(checker.counts().missing, 2 + 4_096_000 + 10);
    // The frames sent meanwhile had the wrong time.
    let verdicts = feed(&mut checker, 21..30);
    assert!(matches!(verdicts[0], Verdict::Restart { ticks } if ticks < 0), "{verdicts:?}");
    let counts = *checker.counts();
    assert_eq!((counts.missing, counts.outage, counts.restarts), (12, 0, 1));
    assert_closes(&counts);
}

#[test]
fn a_leap_soon_after_a_gap_counts_by_what_came_since_it() {
    let mut checker = checker();
    feed(&mut checker, (0..2000).chain(12_000..14_000).chain(14_100..14_110));
    feed(&mut checker, (4_110_110..4_110_115).chain(14_115..14_130));
    let counts = *checker.counts();
    assert_eq!((counts.missing, counts.unsure, counts.outage), (10_000 + 100, 0, 0));
    assert_closes(&counts);
}

#[test]
fn a_gap_stays_one_when_the_clock_leaps_to_before_it() {
    let mut checker = checker();
    feed(&mut checker, (1000..1010).chain(40_000..40_010).chain(0..10));
    let counts = *checker.counts();
    assert_eq!((counts.missing, counts.restarts), (40_000 - 1010, 1));
}

/// Frames of the stream's begin, days off in time, with sequence numbers that agree or are off.
fn stray(days: i64, off: i64, frames: i64) -> impl Iterator<Item = (u64, u32)> {
    let indices = (0..frames).map(move |n| days * 2_636_718_750 + n);
    indices.map(move |index| {
        let timestamp = EPOCH.wrapping_add_signed(index * STEP as i64);
        (timestamp, (4000 + off + index).rem_euclid(4096) as u32)
    })
}

#[test]
fn what_a_stream_that_comes_back_lacks_is_bounded_by_what_came_instead() {
    for (days, off) in [(1, 0), (1, 7), (-1, 0), (-1, 7)] {
        let mut checker = checker();
        feed(&mut checker, 0..100);
        feed_frames(&mut checker, stray(days, off, 2));
        let leapt = checker.counts().restarts == 0;
        assert_eq!(leapt, (days, off) == (1, 0), "{:?}", checker.counts());
        // One frame comes late, just after it came back.
        let verdicts = feed(&mut checker, [5100, 5101, 5099, 5102]);
        assert!(matches!(verdicts[1], Verdict::Restart { .. }), "{verdicts:?}");
        assert_eq!(verdicts[3..], [Verdict::Late, Verdict::InOrder]);
        let counts = *checker.counts();
        assert_eq!((counts.missing, counts.unsure, counts.away), (4999 - 2, 2, false), "{days}");
        assert_closes(&counts);
        // Again, in the midst of its frames: nothing is missing.
        feed_frames(&mut checker, stray(days, 9, 2));
        feed(&mut checker, 5103..5110);
        let counts = *checker.counts();
        assert_eq!((counts.missing, counts.unsure, counts.away), (4999 - 2, 2, false), "{days}");
    }
}

#[test]
fn as_many_frames_of_another_time_as_are_lacking_are_its_own() {
    for days in [1, -1] {
        let mut checker = checker();
        feed(&mut checker, 0..100);
        feed_frames(&mut checker, stray(days, 5, 5000).filter(|(_, sequence)| sequence % 10 != 1));
        feed(&mut checker, 5100..5110);
        let lost = stray(days, 5, 5000).filter(|(_, sequence)| sequence % 10 == 1).count() as u64;
        let counts = *checker.counts();
        assert_eq!((counts.missing, counts.unsure, counts.restarts), (lost, 0, 2));
    }
}

#[test]
fn a_stream_with_new_sequence_numbers_has_not_come_back() {
    let mut checker = checker();
    feed(&mut checker, 0..100);
    let again = FrontEnd { timestamp: STREAM.frame(5000).0, sequence: 77 };
    feed_frames(&mut checker, stray(1, 7, 3).chain((0..9).map(|n| again.frame(n))));
    let counts = *checker.counts();
    assert_eq!(
        (counts.missing, counts.away, counts.home, counts.earlier_series),
        (0, true, 100, 103)
    );
}

#[test]
fn frames_that_come_one_by_one_far_apart_confirm_each_other() {
    let mut checker = checker();
    feed(&mut checker, 0..100);
    let verdicts = feed(&mut checker, [10_000, 30_000, 31_000, 90_000]);
    let out_of_step = |index: usize| matches!(verdicts[index], Verdict::OutOfStep { .. });
    assert!(out_of_step(0) && out_of_step(2) && out_of_step(5), "{verdicts:?}");
    assert_eq!(verdicts[1], Verdict::Gap { missing: 9_900 });
    assert_eq!(verdicts[3..5], [Verdict::Gap { missing: 19_999 }, Verdict::Gap { missing: 999 }]);
    assert!(checker.keeps_frame());
    assert_eq!(checker.confirm_kept(), Some(Verdict::Gap { missing: 58_999 }));
    assert_eq!(checker.confirm_kept(), None);
    assert_eq!(checker.counts().out_of_step, 0);
    assert_eq!(checker.newest(), Some(STREAM.frame(90_000).0));
    assert_closes(checker.counts());
}

#[test]
fn a_frame_ahead_of_its_time_is_given_up_when_the_stream_goes_on() {
    let mut checker = checker();
    feed(&mut checker, 0..10);
    let (ahead, sequence) = STREAM.frame(4096 * 1000);
    checker.frame(ahead, sequence, 0);
    assert!(checker.keeps_frame());
    // One that comes late, or twice, tells nothing of it.
    feed(&mut checker, [9]);
    assert!(checker.keeps_frame());
    feed(&mut checker, [10]);
    assert!(!checker.keeps_frame());
    assert_eq!(checker.confirm_kept(), None);
    assert_eq!((checker.counts().out_of_step, checker.counts().missing), (1, 0));
}

#[test]
fn a_frame_later_than_the_window_is_out_of_step() {
    let mut checker = checker();
    feed(&mut checker, (0..10).chain(11..11 + WINDOW as u64));
    let verdicts = feed(&mut checker, [10, 100]);
    assert!(matches!(verdicts[0], Verdict::OutOfStep { ticks } if ticks < 0), "{verdicts:?}");
    assert_eq!(verdicts[1], Verdict::Gap { missing: 25 });
    assert_eq!(checker.counts().restarts, 0);
    assert_eq!(checker.counts().missing, 26, "what comes too late stays missing");
}

#[test]
fn a_stream_that_starts_again_is_followed_from_its_second_frame() {
    for base in [5, EPOCH - 1_000_000, EPOCH + STEP * 1000 + 7, u64::MAX - STEP] {
        let mut checker = checker();
        feed(&mut checker, 0..100);
        let again = FrontEnd { timestamp: base, sequence: 0 };
        let verdicts = feed_frames(&mut checker, (0..4).map(|n| again.frame(n)));
        let ticks = base.wrapping_sub(STREAM.frame(99).0) as i64;
        assert_eq!(verdicts[0], Verdict::OutOfStep { ticks: ticks.wrapping_sub(2048) });
        assert_eq!(verdicts[1], Verdict::Restart { ticks });
        assert_eq!(verdicts[2..], [Verdict::InOrder; 3]);
        assert_eq!((checker.counts().restarts, checker.counts().missing), (1, 0));
    }
}

#[test]
fn a_sequence_jump_and_a_flipped_bit_count_once_each() {
    let mut checker = checker();
    feed(&mut checker, 0..10);
    for index in 10..40 {
        let (timestamp, sequence) = STREAM.frame(index);
        let jump = if index >= 20 { 77 } else { 0 };
        let flip = if index == 15 || index == 30 { 0x200 } else { 0 };
        let sequence = ((sequence + jump) % 4096) ^ flip;
        assert_eq!(checker.frame(timestamp, sequence, 0).frame, Verdict::InOrder);
    }
    assert_eq!(checker.counts().sequence_disagreements, 3);
}

#[test]
fn a_wrong_step_is_never_in_step() {
    let mut checker = Continuity::new(&Rhythm { step: Step::Fixed(2000), ..RHYTHM }, WINDOW, 0);
    feed(&mut checker, 0..1000);
    assert_eq!((checker.counts().in_step, checker.counts().out_of_step), (1, 999));
}

#[test]
fn silence_is_reported_once_and_in_time() {
    const MS: u64 = 1_000_000;
    let deadline = 3 * 32_768 + 100 * MS;
    let mut checker = Continuity::new(&RHYTHM, WINDOW, 7);
    let mut reported = Vec::new();
    for now_ns in (7..1000 * MS).step_by(50 * MS as usize) {
        if now_ns > 500 * MS && !checker.is_stalled() && checker.counts().frames == 0 {
            panic!("a stream that never comes is stalled");
        }
        if checker.check_stalled(now_ns) {
            reported.push(now_ns);
        }
    }
    assert!(reported.len() == 1 && reported[0] - 7 <= deadline, "{reported:?}");
    checker.frame(EPOCH, 0, 1000 * MS);
    assert!(!checker.is_stalled() && !checker.check_stalled(1050 * MS));
    assert!(checker.check_stalled(1000 * MS + deadline));
    assert_eq!(checker.counts().stalls, 2);
}

/// Frames 0..`n` with losses and duplicates, each displaced by less than the window.
fn disturbed(seed: u64, n: u64, loss: f64, duplicate: f64, displacement: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut frames = Vec::new();
    for index in 0..n {
        if random.chance(loss) {
            continue;
        }
        frames.push((index + random.below(displacement), index));
        if random.chance(duplicate) {
            frames.push((index + random.below(displacement), index));
        }
    }
    frames.sort_by_key(|(due, _)| *due);
    frames.into_iter().map(|(_, index)| index).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn loss_duplicates_and_reordering_are_counted_exactly(
        seed: u64, n in 1u64..3000, loss in 0.0..0.9f64, duplicate in 0.0..0.5f64,
        displacement in 1..WINDOW as u64,
    ) {
        let frames = disturbed(seed, n, loss, duplicate, displacement);
        let mut checker = checker();
        feed(&mut checker, frames.iter().copied());
        let counts = *checker.counts();
        let (Some(&came_first), Some(&newest)) = (frames.first(), frames.iter().max()) else {
            return Ok(());
        };
        let distinct: BTreeSet<u64> = frames.iter().copied().collect();
        let first = *distinct.first().unwrap();
        prop_assert_eq!(checker.first_timestamp(), Some(STREAM.frame(first).0));
        prop_assert_eq!(counts.missing, newest - first + 1 - distinct.len() as u64);
        prop_assert_eq!(counts.in_step, distinct.len() as u64);
        prop_assert_eq!(counts.duplicate, (frames.len() - distinct.len()) as u64);
        prop_assert_eq!((counts.out_of_step, counts.restarts), (0, 0));
        assert_closes(&counts);
        let (mut seen, mut low, mut high) = (BTreeSet::new(), came_first, came_first);
        let (mut late, mut before_first) = (0, 0);
        for index in frames {
            before_first += u64::from(index < low);
            late += u64::from(seen.insert(index) && low < index && index < high);
            (low, high) = (low.min(index), high.max(index));
        }
        prop_assert_eq!(counts.before_first, before_first);
        prop_assert_eq!(counts.late, late);
    }

    #[test]
    fn outages_of_any_length_are_counted_exactly(
        outages in proptest::collection::vec((1u64..20_000, 1u64..50), 1..20),
    ) {
        let (mut checker, mut next, mut lost) = (checker(), 0, 0);
        feed(&mut checker, 0..1);
        for (outage, frames) in outages {
            next += outage;
            lost += outage - 1;
            feed(&mut checker, next..next + frames);
            next += frames - 1;
        }
        feed(&mut checker, [next + 1]);
        prop_assert_eq!((checker.counts().missing, checker.counts().restarts), (lost, 0));
        assert_closes(checker.counts());
    }

    #[test]
    fn restarts_are_counted_exactly_and_lose_nothing(
        runs in proptest::collection::vec((any::<u64>(), 1u32..4096, 2u64..200), 1..20),
    ) {
        let (mut checker, restarts) = (checker(), runs.len() as u64);
        let (mut newest, mut frames) = (STREAM.frame(99), 100);
        feed(&mut checker, 0..100);
        for (timestamp, off, length) in runs {
            // A sequence number that does not agree with the time tells a restart.
            let steps = timestamp.wrapping_sub(newest.0) as i64 / STEP as i64;
            let expected = i64::from(newest.1) + steps;
            let sequence = (expected + i64::from(off)).rem_euclid(4096) as u32;
            prop_assume!(timestamp.wrapping_sub(newest.0) != STEP);
            let again = FrontEnd { timestamp, sequence };
            for (timestamp, sequence) in (0..length).map(|n| again.frame(n)) {
                checker.frame(timestamp, sequence, 0);
            }
            newest = again.frame(length - 1);
            frames += length;
        }
        let counts = checker.counts();
        prop_assert_eq!((counts.restarts, counts.out_of_step), (restarts, 0));
        prop_assert_eq!((counts.missing, counts.frames), (0, frames));
        assert_closes(counts);
    }

    #[test]
    fn one_flipped_bit_of_the_time_costs_one_frame(bit in 0u32..64, at in 1u64..100) {
        let mut checker = checker();
        feed(&mut checker, 0..at);
        let (timestamp, sequence) = STREAM.frame(at);
        let verdict = checker.frame(timestamp ^ 1 << bit, sequence, 0).frame;
        let out_of_step = matches!(verdict, Verdict::OutOfStep { .. });
        prop_assert!(out_of_step, "{:?}", verdict);
        prop_assert_eq!(feed(&mut checker, [at + 1, at + 2])[0], Verdict::Gap { missing: 1 });
        prop_assert_eq!((checker.counts().missing, checker.counts().restarts), (1, 0));
    }

    #[test]
    fn no_input_makes_it_panic_or_lose_a_frame(
        frames in proptest::collection::vec((0u64..6, any::<u64>(), any::<u32>()), 0..300),
        step in 1u64..5000,
    ) {
        let mut checker = Continuity::new(&Rhythm { step: Step::Fixed(step), ..RHYTHM }, WINDOW, 0);
        let (mut timestamp, mut sequence) = (0u64, 0u32);
        for (kind, random_time, random_sequence) in frames {
            (timestamp, sequence) = match kind {
                0 => (random_time, random_sequence),
                1 => (timestamp.wrapping_sub(step * (random_time % 99)), sequence),
                _ => (timestamp.wrapping_add(step), (sequence + 1) % 4096),
            };
            sequence %= 4096;
            checker.frame(timestamp, sequence, 0);
            assert_closes(checker.counts());
        }
    }
}

const LONGEST: u64 = 5000;

/// A stream whose step varies: the time of each of its frames, numbered from 250 on.
struct Varying(Vec<u64>);

impl Varying {
    /// `frames` frames, `shortest` to [`LONGEST`] ticks apart.
    fn new(seed: u64, frames: u64, shortest: u64) -> Self {
        let mut random = Random::new(seed);
        let step = |time: &mut u64, _| {
            *time += shortest + random.below(LONGEST - shortest + 1);
            Some(*time)
        };
        Self((0..frames).scan(EPOCH, step).collect())
    }

    fn frame(&self, index: u64) -> (u64, u32) {
        (self.0[index as usize], 250 + index as u32)
    }
}

fn varying_checker(sequence_modulus: u32) -> Continuity {
    let step = Step::Varying { longest: LONGEST };
    Continuity::new(&Rhythm { step, sequence_modulus, ..RHYTHM }, WINDOW, 0)
}

#[test]
fn the_verdicts_by_name_where_the_step_varies() {
    use Verdict::{BeforeFirst, Duplicate, First, Gap, InOrder, Late, OutOfStep, Restart};
    let mut checker = varying_checker(256);
    // Two frames may begin at the same time.
    let times = [7, 7, 9, 4000, 9000, 9001, 9001].map(|time| EPOCH + time);
    let fed = [1, 2, 5, 4, 4, 1, 6, 0, 3];
    let fed = fed.map(|index: usize| (times[index], 254 + index as u32));
    let verdicts = feed_frames(&mut checker, fed);
    let gap = Gap { missing: 2 };
    let expected = [First, InOrder, gap, Late, Duplicate, Duplicate, InOrder, BeforeFirst, Late];
    assert_eq!(verdicts, expected);
    let counts = *checker.counts();
    assert_eq!((counts.missing, counts.in_step, counts.out_of_step), (0, 7, 0));
    // Further in time than a step can be, then where it was to come.
    let verdicts = feed_frames(&mut checker, [(EPOCH + 30_000, 261), (EPOCH + 9002, 261)]);
    assert_eq!(verdicts, [OutOfStep { ticks: 30_000 - 9001 - LONGEST as i64 }, InOrder]);
    // Its number begins anew while its time goes on.
    let verdicts = feed_frames(&mut checker, [(EPOCH + 9003, 200), (EPOCH + 9004, 201)]);
    assert_eq!(verdicts[1..], [Restart { ticks: 1 }, InOrder]);
    assert_eq!((checker.counts().missing, checker.counts().restarts), (0, 1));
    assert_closes(checker.counts());
}

#[test]
fn frames_without_numbers_are_missing_where_time_leaps() {
    let mut checker = varying_checker(1);
    let times = [0, 10, 10, LONGEST + 10, 4 * LONGEST + 11].map(|time| (EPOCH + time, 0));
    let verdicts = feed_frames(&mut checker, times);
    use Verdict::{Duplicate, First, Gap, InOrder};
    assert_eq!(verdicts, [First, InOrder, Duplicate, InOrder, Gap { missing: 3 }]);
}

#[test]
fn one_frame_a_day_ahead_does_not_lead_a_stream_of_varying_step() {
    let stream = Varying::new(1, 200, 0);
    let mut checker = varying_checker(1 << 31);
    for index in 0..200 {
        let (time, sequence) = stream.frame(index);
        let ahead = if index == 100 { 86_400 * 62_500_000 } else { 0 };
        checker.frame(time + ahead, sequence, 0);
    }
    let counts = *checker.counts();
    assert_eq!((counts.in_step, counts.missing, counts.out_of_step), (199, 1, 1));
    assert_eq!(checker.newest(), Some(stream.frame(199).0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn varying_steps_are_counted_exactly_by_the_number(
        seed: u64, n in 1u64..3000, shortest in 0..LONGEST, loss in 0.0..0.3f64,
        duplicate in 0.0..0.5f64, displacement in 1u64..32,
    ) {
        let stream = Varying::new(seed, n, shortest);
        let frames = disturbed(seed, n, loss, duplicate, displacement);
        let mut checker = varying_checker(256);
        feed_frames(&mut checker, frames.iter().map(|index| stream.frame(*index)));
        let counts = *checker.counts();
        let (Some(first), Some(newest)) = (frames.iter().min(), frames.iter().max()) else {
            return Ok(());
        };
        let distinct = frames.iter().collect::<BTreeSet<_>>().len() as u64;
        prop_assert_eq!(checker.first_timestamp(), Some(stream.frame(*first).0));
        prop_assert_eq!(checker.newest(), Some(stream.frame(*newest).0));
        prop_assert_eq!(counts.missing, newest - first + 1 - distinct);
        prop_assert_eq!(counts.in_step, distinct);
        prop_assert_eq!(counts.duplicate, frames.len() as u64 - distinct);
        prop_assert_eq!((counts.out_of_step, counts.restarts), (0, 0));
        assert_closes(&counts);
    }

    #[test]
    fn outages_between_varying_steps_are_counted_as_far_as_numbers_tell(
        seed: u64,
        outages in proptest::collection::vec((1u64..2000, 2u64..50), 1..10),
    ) {
        let frames = outages.iter().map(|(outage, frames)| outage + frames).sum::<u64>() + 1;
        // The longer modulus tells any of them, whatever the step; the shorter one tells how many
        // it is off by, as no step is less than half of the longest.
        for (modulus, shortest) in [(4096, 0), (256, LONGEST / 2)] {
            let stream = Varying::new(seed, frames, shortest);
            let mut checker = varying_checker(modulus);
            let (mut next, mut lost) = (0, 0);
            checker.frame(stream.frame(0).0, stream.frame(0).1, 0);
            for (outage, frames) in &outages {
                next += outage;
                lost += outage - 1;
                let frames = (next..next + frames).map(|index| stream.frame(index));
                feed_frames(&mut checker, frames.clone());
                next += frames.count() as u64 - 1;
            }
            let counts = *checker.counts();
            prop_assert_eq!((counts.restarts, counts.out_of_step), (0, 0));
            let untold = lost.checked_sub(counts.missing);
            prop_assert!(untold.is_some_and(|frames| frames.is_multiple_of(modulus.into())));
            prop_assert!(modulus == 256 || counts.missing == lost);
            assert_closes(&counts);
        }
    }

    #[test]
    fn a_stream_of_varying_step_begins_anew(
        runs in proptest::collection::vec((any::<u32>(), 2u64..200), 1..20), seed: u64,
    ) {
        let (mut checker, mut sent) = (varying_checker(1 << 31), 0);
        for (place, (sequence, frames)) in runs.iter().enumerate() {
            let stream = Varying::new(seed, *frames, 0);
            let back = place as u64 * 1000 * LONGEST;
            let anew = |index| (stream.frame(index).0 - back, sequence.wrapping_add(index as u32));
            feed_frames(&mut checker, (0..*frames).map(anew));
            sent += frames;
        }
        let counts = *checker.counts();
        prop_assert_eq!((counts.restarts, counts.in_step), (runs.len() as u64 - 1, sent));
        prop_assert_eq!((counts.missing, counts.out_of_step), (0, 0));
        assert_closes(&counts);
    }

    #[test]
    fn no_input_of_varying_step_makes_it_panic_or_lose_a_frame(
        frames in proptest::collection::vec((0u64..6, any::<u64>(), any::<u32>()), 0..300),
        longest in prop_oneof![1u64..5000, 1u64..1 << 40],
        bits in 0u32..32,
    ) {
        let rhythm = Rhythm {
            step: Step::Varying { longest },
            sequence_modulus: 1 << bits,
            clock: TickRate::hz(62_500_000),
        };
        let mut checker = Continuity::new(&rhythm, WINDOW, 0);
        let (mut timestamp, mut sequence) = (0u64, 0u32);
        for (kind, random_time, random_sequence) in frames {
            (timestamp, sequence) = match kind {
                0 => (random_time, random_sequence),
                1 => (timestamp.wrapping_sub(random_time % 99), sequence),
                _ => (timestamp.wrapping_add(random_time % longest), sequence.wrapping_add(1)),
            };
            checker.frame(timestamp, sequence, 0);
            assert_closes(checker.counts());
        }
    }
}
