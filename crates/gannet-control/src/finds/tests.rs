use std::sync::atomic::AtomicU64;

use super::*;

/// Ticks of a slice of time.
const TICKS: u64 = 1000;

/// A clock that is set.
#[derive(Default)]
struct Set(AtomicU64);

impl Clock for Set {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A deciding thread that turns once a slice, and somebody who may look.
struct Bench {
    clock: Arc<Set>,
    writer: FindsWriter<Mark>,
    finds: Finds,
}

fn mark(time: u64, channel: u32) -> Mark {
    Mark { time, channel, length: 10, charge: 5 }
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(Set::default());
        let looks = Looks { mark: |mark| Some(*mark), kind: |kind| kind.to_string() };
        let (writer, finds) = finds(looks, Arc::clone(&clock) as _, 1_000_000);
        Self { clock, writer, finds }
    }

    /// Slice `number`, in which these come.
    fn slice(&mut self, number: u64, marks: &[Mark], decided: Option<u64>) {
        let tick = Some(number * TICKS);
        let now_ns = self.clock.now_ns();
        if self.writer.is_watched(now_ns, tick) {
            self.writer.take(marks);
        }
        if let Some(decision) = decided {
            let begin = number * TICKS;
            self.writer.decided(&RecordRequest {
                trigger_number: decision,
                run_number: 1,
                trigger_timestamp: begin,
                trigger_type: 1 << 7,
                window: Window { begin, end: begin + TICKS / 2 },
                decided_ns: now_ns,
            });
            self.writer.active(&[Outline {
                begin,
                end: begin + 10,
                channel_first: 1,
                channel_last: 3,
            }]);
        }
        self.clock.0.fetch_add(SLICE_NS, Ordering::Relaxed);
        self.writer.turn(self.clock.now_ns(), Some((number + 1) * TICKS), false);
    }

    fn all(&self) -> Chosen {
        let choice = Choice { channel: None, from: None, to: None, last: MARKS_MAX };
        self.finds.primitives(&choice).unwrap()
    }
}

#[test]
fn nothing_is_kept_unless_somebody_looks() {
    let mut bench = Bench::new();
    bench.slice(1, &[mark(1000, 1)], Some(1));
    let chosen = bench.all();
    assert_eq!((chosen.marks.len(), chosen.held), (0, None));
    bench.slice(2, &[mark(2000, 1)], Some(2));
    assert_eq!(bench.all().marks, [mark(2000, 1)]);
    // Nobody comes for longer than a look lasts.
    bench.clock.0.fetch_add(LOOK_NS, Ordering::Relaxed);
    bench.slice(9, &[mark(9000, 1)], Some(9));
    assert!(bench.finds.shared.waiting.lock().unwrap().heads.is_empty());
    assert_eq!((bench.all().held, bench.finds.decisions(9).unwrap().0), (None, vec![]));
    bench.slice(10, &[mark(10_000, 1)], Some(10));
    // What was before the pause would look as if nothing had come in it.
    assert_eq!(bench.all().marks, [mark(10_000, 1)]);
    assert_eq!(bench.all().held, Some(Held { begin: 10_000, end: 10_000 }));
}

#[test]
fn a_sample_is_fair_and_says_how_much_it_is_of() {
    let mut bench = Bench::new();
    bench.all();
    // Ten times as many as are kept, one after the other in ten channels.
    let came = 10 * SLICE_MARKS as u64;
    let marks: Vec<_> = (0..came).map(|it| mark(1000 + it / 100, (it % 10) as u32)).collect();
    bench.slice(1, &marks, None);
    let chosen = bench.all();
    assert_eq!((chosen.kept, chosen.seen), (SLICE_MARKS as u64, came));
    for channel in 0..10 {
        let of_channel = chosen.marks.iter().filter(|mark| mark.channel == channel).count();
        // 500 are expected, to 5 standard deviations.
        assert!(of_channel.abs_diff(500) < 110, "{channel}: {of_channel}");
    }
    let early = chosen.marks.iter().filter(|mark| mark.time < 1250).count();
    assert!(early.abs_diff(SLICE_MARKS / 2) < 180, "{early}");
}

#[test]
fn what_nobody_fetches_in_time_is_counted_and_is_no_part_of_what_is_held() {
    let mut bench = Bench::new();
    bench.all();
    bench.finds.shared.until_ns.store(u64::MAX, Ordering::Relaxed);
    let slices = WAITING_SLICES as u64;
    (1..=slices + 3).for_each(|number| bench.slice(number, &[mark(number * TICKS, 1)], None));
    let chosen = bench.all();
    assert_eq!((chosen.marks.len() as u64, chosen.missed), (slices, 3));
    bench.slice(100, &[mark(100 * TICKS, 1)], None);
    let held = bench.all().held.unwrap();
    assert!(held.begin > slices * TICKS, "{held:?}");
    assert_eq!(bench.all().marks, [mark(100 * TICKS, 1)]);
}

#[test]
fn a_slice_goes_on_while_somebody_fetches() {
    let mut bench = Bench::new();
    bench.all();
    let shared = Arc::clone(&bench.finds.shared);
    let guard = shared.waiting.lock().unwrap();
    bench.slice(1, &[mark(1000, 1)], None);
    drop(guard);
    bench.slice(2, &[mark(2000, 1)], None);
    let chosen = bench.all();
    assert_eq!((chosen.marks.len(), chosen.kept, chosen.missed), (2, 2, 0));
}

#[test]
fn a_decision_is_shown_with_what_is_in_its_window() {
    let mut bench = Bench::new();
    assert_eq!(bench.finds.display(1), Err(NoFinds::Nothing));
    bench.slice(1, &[], None);
    let marks = [mark(2000, 4), mark(2499, 5), mark(2500, 6), mark(1999, 7)];
    bench.slice(2, &marks, Some(5));
    bench.slice(3, &[], Some(8));
    bench.slice(4, &[], None);
    let shown = bench.finds.display(5).unwrap();
    assert_eq!(shown.chosen.marks, marks[..2]);
    assert_eq!((shown.activities.len(), shown.is_complete), (1, true));
    assert_eq!(bench.finds.kind(&shown.decided), "128");
    let (decisions, _) = bench.finds.decisions(1).unwrap();
    assert_eq!(decisions.iter().map(|it| it.number).collect::<Vec<_>>(), [8]);
    assert_eq!(bench.finds.display(4), Err(NoFinds::Gone { number: 4, oldest: 5, newest: 8 }));
    assert_eq!(bench.finds.display(6), Err(NoFinds::Unknown { number: 6, nearest: 5 }));
    // The primitives of the first leave when too many came after it.
    bench.finds.kept.lock().unwrap().slices.pop_front();
    bench.finds.kept.lock().unwrap().slices.pop_front();
    let gone = bench.finds.display(5);
    assert!(matches!(gone, Err(NoFinds::Overwritten { .. })), "{gone:?}");
}

#[test]
fn windows_are_those_of_what_is_held() {
    let mut bench = Bench::new();
    bench.all();
    for number in 1..=5 {
        bench.slice(number, &[mark(number * TICKS + 1, number as u32)], None);
    }
    let choose =
        |channel, from, to, last| bench.finds.primitives(&Choice { channel, from, to, last });
    assert_eq!(choose(Some(3), None, None, 10).unwrap().marks, [mark(3001, 3)]);
    assert_eq!(choose(None, Some(2001), Some(3001), 10).unwrap().marks, [mark(2001, 2)]);
    assert_eq!(choose(None, None, None, 2).unwrap().marks, [mark(4001, 4), mark(5001, 5)]);
    let refused = |from, to, last| choose(None, from, to, last).unwrap_err();
    let past = choose(None, None, Some(1000), 1).unwrap();
    assert!(past.marks.is_empty() && past.held.unwrap().begin >= 1000, "{past:?}");
    assert_eq!(choose(None, Some(9000), None, 1).unwrap().marks, [], "it is still to come");
    assert!(matches!(refused(Some(5), Some(5), 1), NoFinds::Reversed { .. }));
    for last in [0, MARKS_MAX + 1] {
        assert!(matches!(refused(None, None, last), NoFinds::TooMuch { most: MARKS_MAX, .. }));
    }
}

#[test]
fn what_came_before_time_began_anew_is_not_shown() {
    let mut bench = Bench::new();
    bench.all();
    bench.slice(50, &[mark(50_000, 1)], None);
    bench.writer.turn(bench.clock.now_ns(), Some(51_000), true);
    bench.slice(1, &[mark(1000, 1)], None);
    assert_eq!(bench.all().marks, [mark(1000, 1)]);
}
