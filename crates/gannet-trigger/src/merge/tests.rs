use gannet_wire::daq_ethernet::CLOCK;
use proptest::prelude::*;

use super::*;
use crate::fixture::START;

const FRAME: u64 = 2048;
const MS: u64 = 1_000_000;

/// Something that is found in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    time: u64,
    channel: u32,
    charge: u64,
}

impl Item for Hit {
    type Place = (u32, u64);

    fn time(&self) -> u64 {
        self.time
    }

    fn place(&self) -> Self::Place {
        (self.channel, self.charge)
    }
}

/// A hit that begins `offset` ticks after [`START`].
fn hit(offset: u64, channel: u32) -> Hit {
    Hit { time: START + offset, channel, charge: 0 }
}

fn merger(streams: usize) -> Merger<Hit> {
    let config = MergeConfig { hold_ticks: FRAME, ..MergeConfig::default() };
    Merger::new(&config, streams, CLOCK).unwrap()
}

fn starts(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.time - START).collect()
}

#[test]
fn releases_up_to_the_slowest_stream_less_the_hold() {
    let (mut merger, mut out) = (merger(2), Merged::default());
    merger.push(0, &[hit(100, 1), hit(4000, 2)], START + 3 * FRAME, &mut out);
    merger.release(0, &mut out);
    assert!(out.ordered.is_empty(), "one of two cannot say what time it is");
    merger.push(1, &[hit(50, 3)], START + FRAME + 200, &mut out);
    merger.release(0, &mut out);
    assert_eq!(merger.released_to(), START + 200);
    assert_eq!(starts(&out.ordered), [50, 100]);
    merger.drain(&mut out);
    assert_eq!(starts(&out.ordered), [50, 100, 4000]);
    assert!(merger.counters().statement().closes());
}

#[test]
fn equal_times_come_in_the_order_of_channels() {
    let (mut merger, mut out) = (merger(2), Merged::default());
    merger.push(0, &[hit(7, 30), hit(7, 10)], START + FRAME, &mut out);
    merger.push(1, &[hit(7, 20)], START + FRAME, &mut out);
    merger.drain(&mut out);
    assert_eq!(out.ordered.iter().map(|tp| tp.channel).collect::<Vec<_>>(), [10, 20, 30]);
}

/// Lets streams 0 and 1 agree on `tick` at wall time 0.
fn both_at(merger: &mut Merger<Hit>, tick: u64) {
    let mut out = Merged::default();
    merger.push(0, &[], tick, &mut out);
    merger.push(1, &[], tick, &mut out);
    merger.release(0, &mut out);
}

#[test]
fn a_dead_stream_holds_the_others_no_longer_than_the_bounded_wait() {
    let (mut merger, mut out) = (merger(2), Merged::default());
    both_at(&mut merger, START + FRAME);
    merger.push(0, &[hit(100, 1)], START + 2 * FRAME, &mut out);
    merger.release(10 * MS, &mut out);
    merger.release(109 * MS, &mut out);
    assert!(out.ordered.is_empty() && !merger.is_late(1, 109 * MS));
    merger.release(110 * MS, &mut out);
    assert_eq!(starts(&out.ordered), [100]);
    assert!(merger.is_late(1, 110 * MS) && !merger.is_late(0, 110 * MS));
}

#[test]
fn what_a_late_stream_brings_is_handed_over_beside_the_order() {
    let (mut merger, mut out) = (merger(2), Merged::default());
    both_at(&mut merger, START);
    merger.push(0, &[hit(100, 1)], START + 2 * FRAME, &mut out);
    merger.release(10 * MS, &mut out);
    merger.release(110 * MS, &mut out);
    let released = merger.released_to() - START;
    merger.push(1, &[hit(90, 5), hit(released, 6)], START + FRAME + 1, &mut out);
    assert_eq!(starts(&out.late), [90]);
    merger.drain(&mut out);
    assert_eq!(starts(&out.ordered), [100, released]);
    assert_eq!(merger.counters().primitives.dropped(MergeDrop::Late), 1);
    assert!(merger.counters().statement().closes());
}

#[test]
fn a_hit_longer_than_the_hold_is_named_so() {
    let (mut merger, mut out) = (merger(1), Merged::default());
    merger.push(0, &[], START + 2 * FRAME, &mut out);
    merger.release(0, &mut out);
    merger.push(0, &[hit(FRAME - 1, 1), hit(FRAME, 2)], START + 3 * FRAME, &mut out);
    assert_eq!(starts(&out.late), [FRAME - 1]);
    assert_eq!(merger.counters().primitives.dropped(MergeDrop::TooLong), 1);
}

#[test]
fn a_corrupt_time_stamp_disturbs_only_its_own_primitives() {
    let (mut merger, mut out) = (merger(2), Merged::default());
    for stream in 0..2 {
        merger.push(stream, &[], START + FRAME, &mut out);
    }
    let mut wild = hit(0, 9);
    wild.time = 1 << 63;
    merger.push(0, &[wild], (1 << 63) + FRAME, &mut out);
    merger.release(0, &mut out);
    merger.release(10 * MS, &mut out);
    assert!(out.late.is_empty(), "it may be the time to come");
    for stream in 0..2 {
        merger.push(stream, &[hit(3 * FRAME, stream as u32)], START + 4 * FRAME, &mut out);
    }
    merger.release(20 * MS, &mut out);
    assert_eq!(out.late, [wild]);
    assert_eq!(merger.counters().primitives.dropped(MergeDrop::OutOfTime), 1);
    assert_eq!(merger.released_to(), START + 3 * FRAME);
    merger.push(0, &[hit(9 * FRAME, 4)], START + 5 * FRAME, &mut out);
    assert_eq!(out.late.len(), 2, "a primitive from the future of its stream");
}

#[test]
fn with_no_room_left_the_oldest_go_on_and_order_is_kept() {
    let config = MergeConfig { waiting_max: 3, ..MergeConfig::default() };
    let mut merger = Merger::new(&config, 2, CLOCK).unwrap();
    let mut out = Merged::default();
    both_at(&mut merger, START);
    let tps: Vec<_> = [5, 1, 4, 2, 3].into_iter().map(|start| hit(start, 0)).collect();
    merger.push(0, &tps, START + FRAME, &mut out);
    assert_eq!(starts(&out.ordered), [1, 2]);
    assert_eq!(merger.counters().overflows.get(), 2);
    merger.push(1, &[hit(2, 7), hit(3, 7)], START + FRAME, &mut out);
    assert_eq!(starts(&out.late), [2]);
    merger.drain(&mut out);
    assert_eq!(starts(&out.ordered), [1, 2, 3, 3, 4, 5]);
    assert!(merger.counters().statement().closes());
}

#[test]
fn bad_values_are_refused() {
    let none = MergeConfig { waiting_max: 0, ..MergeConfig::default() };
    assert!(none.check().unwrap_err().to_string().contains("waiting_max"));
    let impatient = MergeConfig { late_after: Span(0), ..MergeConfig::default() };
    assert!(impatient.check().unwrap_err().to_string().contains("late_after"));
    let narrow = MergeConfig { agree_within: Span::ms(99), ..MergeConfig::default() };
    assert!(narrow.check().unwrap_err().to_string().contains("agree_within"));
}

/// Frames of each stream: the offsets and channels of the primitives that end in each.
fn streams() -> impl Strategy<Value = Vec<Vec<Vec<(u64, u32)>>>> {
    let frame =
        prop::collection::vec(((0..FRAME / 8).prop_map(|eighth| eighth * 16), 0u32..4), 0..4);
    prop::collection::vec(prop::collection::vec(frame, 1..12), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn order_of_output_does_not_depend_on_the_interleaving(
        streams in streams(),
        order in prop::collection::vec((0usize..60, any::<bool>()), 60),
    ) {
        let mut merger = merger(streams.len());
        let mut out = Merged::default();
        let mut expected = Vec::new();
        let mut next = vec![0; streams.len()];
        let mut picks = order.into_iter().cycle();
        while next.iter().zip(&streams).any(|(&next, frames)| next < frames.len()) {
            let (pick, release) = picks.next().unwrap();
            let open: Vec<_> =
                (0..streams.len()).filter(|&s| next[s] < streams[s].len()).collect();
            let stream = open[pick % open.len()];
            // A hit that ends in a frame began at most one frame before it.
            let begin = next[stream] as u64 * FRAME;
            let hit_of = |&(offset, channel): &(u64, u32)| {
                // Streams may have channels in common, with different hits.
                Hit { charge: stream as u64, ..hit(begin + offset, channel) }
            };
            let tps: Vec<_> = streams[stream][next[stream]].iter().map(hit_of).collect();
            expected.extend_from_slice(&tps);
            next[stream] += 1;
            merger.push(stream, &tps, START + begin + 2 * FRAME, &mut out);
            if release {
                merger.release(0, &mut out);
            }
        }
        merger.drain(&mut out);
        expected.sort();
        prop_assert_eq!(&out.ordered, &expected);
        prop_assert!(out.late.is_empty());
        prop_assert!(merger.counters().statement().closes());
    }
}

#[test]
fn streams_behind_by_more_than_they_may_be_hold_nobody_up() {
    let (mut merger, mut out) = (merger(4), Merged::default());
    merger.go_on_after(10 * FRAME);
    for stream in 0..4 {
        merger.push(stream, &[], START, &mut out);
    }
    merger.release(0, &mut out);
    merger.push(0, &[hit(0, 1)], START + 30 * FRAME, &mut out);
    merger.release(1, &mut out);
    assert!(out.ordered.is_empty(), "one stream ahead is not what most have reached");
    merger.push(1, &[], START + 20 * FRAME, &mut out);
    merger.release(2, &mut out);
    assert_eq!(starts(&out.ordered), [0], "two of four are at 20 frames, all go on to 9");
    assert_eq!(merger.released_to(), START + 9 * FRAME);
    assert_eq!(merger.searched(2), START);
    merger.push(2, &[hit(8 * FRAME, 3), hit(9 * FRAME, 3)], START + 11 * FRAME, &mut out);
    merger.drain(&mut out);
    assert_eq!(starts(&out.ordered), [0, 9 * FRAME]);
    assert_eq!(starts(&out.late), [8 * FRAME]);
}

proptest! {
    #[test]
    fn all_ways_to_wait_give_the_same_order(
        batches in prop::collection::vec(
            (0..5usize, prop::collection::vec((0..200u64, 0..3u32), 0..12), any::<bool>()),
            0..60,
        ),
        releases in prop::collection::vec(0..220u64, 0..20),
    ) {
        let (mut any, mut own) = (AnyOrder::<Hit>::new(5), InOrder::<Hit>::new(5));
        let mut batched = Batched::<Hit>::new(5);
        let (mut from_any, mut from_own, mut from_batched) = (Vec::new(), Vec::new(), Vec::new());
        let (mut releases, mut charge) = (releases.into_iter(), 0..);
        for (index, (stream, times, is_sorted)) in batches.into_iter().enumerate() {
            let mut items: Vec<Hit> = times
                .into_iter()
                .zip(&mut charge)
                .map(|((time, own), charge)| Hit { time, channel: 3 * stream as u32 + own, charge })
                .collect();
            if is_sorted {
                items.sort_by_key(|hit| (hit.time(), hit.place()));
            }
            items.iter().for_each(|hit| any.push(stream, *hit));
            batched.extend(stream, &items);
            match index % 2 {
                0 => own.extend(stream, &items),
                _ => items.iter().for_each(|hit| own.push(stream, *hit)),
            }
            if index % 4 == 3 && let Some(tick) = releases.next() {
                any.release(tick, &mut |hit| from_any.push(*hit));
                own.release(tick, &mut |hit| from_own.push(*hit));
                batched.release(tick, &mut |hit| from_batched.push(*hit));
            }
            prop_assert_eq!((any.len(), any.first_time()), (own.len(), own.first_time()));
            prop_assert_eq!((any.len(), any.first_time()), (batched.len(), batched.first_time()));
        }
        any.release(u64::MAX, &mut |hit| from_any.push(*hit));
        own.release(u64::MAX, &mut |hit| from_own.push(*hit));
        batched.release(u64::MAX, &mut |hit| from_batched.push(*hit));
        prop_assert_eq!(&from_any, &from_own);
        prop_assert_eq!(from_any, from_batched);
    }
}
