use std::thread;

use gannet_emulate::FrontEnd;
use gannet_emulate::rich::{Config, Packets, RichFrontEnd};
use gannet_kernels::Isa;
use gannet_memory::receive_list::{Overflow, Rules};
use gannet_readout::items::Segment;
use gannet_trigger::Finder;
use gannet_trigger::merge::MergeConfig;
use gannet_wire::FrameFormat;
use gannet_wire::na62::{FINE_CLOCK, PmMap, Source, Time, mtp};
use proptest::prelude::*;

use super::*;
use crate::buffers::Buffering;
use crate::finder::{DatagramAccounts, RichFinder};
use crate::primitive::RadiusClasses;
use crate::search::{FinderChoice, Search, SearchConfig};

/// The stages from datagrams to packets, on one thread but for the workers.
struct Chain {
    finders: Vec<RichFinder>,
    trigger: RichTrigger,
    datagrams: Arc<DatagramAccounts>,
    workers: Vec<thread::JoinHandle<()>>,
    found: Vec<RichItem>,
    outcome: Outcome<Origin>,
    packets: Vec<Vec<u8>>,
}

fn search(choice: FinderChoice) -> Search {
    let classes = RadiusClasses { muon_mm: 160.0, electron_mm: 186.0 };
    Search::new(&SearchConfig { finder: choice }, classes, &PmMap::numbered(), Isa::best()).unwrap()
}

impl Chain {
    fn new(packets: Packets, streams: usize, choice: FinderChoice, workers: usize) -> Self {
        let datagrams = Arc::<DatagramAccounts>::default();
        let finder = |stream: usize| match packets {
            Packets::Boards => RichFinder::of_hits(stream as u8, Arc::clone(&datagrams)),
            Packets::Merged => RichFinder::of_events(search(choice), Arc::clone(&datagrams)),
        };
        let mut merger = Merger::in_order(
            &MergeConfig { hold_ticks: 0, ..MergeConfig::default() },
            streams,
            FINE_CLOCK,
        )
        .unwrap();
        merger.go_on_after(FINE_CLOCK.ticks(200_000));
        let buffering = Buffering {
            count: 64,
            bytes: 1 << 14,
            rules: Rules { units_max: 100, timeout_ns: 100_000, overflow: Overflow::DropNewest },
            workers,
        };
        let (buffers, workers) = Buffers::new(&buffering, || search(choice));
        let board = |stream: usize| (packets == Packets::Boards).then_some(stream as u8);
        let trigger = RichTrigger::new(Parts {
            merger,
            boards: (0..streams).map(board).collect(),
            builder: EventBuilder::new(128),
            buffers,
            answerer: Answerer::new(Source::Rich, 1, 1_000_000),
            decisions: None,
        });
        Self {
            finders: (0..streams).map(finder).collect(),
            trigger,
            datagrams,
            workers: workers.into_iter().map(|work| thread::spawn(move || work(false))).collect(),
            found: Vec::new(),
            outcome: Outcome::default(),
            packets: Vec::new(),
        }
    }

    /// Takes a datagram of `stream` that arrives at `now_ns`.
    fn take(&mut self, stream: usize, datagram: &[u8], format: &impl FrameFormat, now_ns: u64) {
        let Ok(heading) = format.heading(datagram) else { return };
        self.found.clear();
        let finder = &mut self.finders[stream];
        finder.frame(&heading, datagram, &mut self.found);
        assert!(self.found.len() <= RichFinder::ITEMS_MAX);
        let (items, searched_to) = (self.found.len() as u32, finder.searched_to());
        let segment = Segment { stream: stream as u32, items, searched_to, arrival_ns: now_ns };
        self.trigger.take(&segment, &self.found, now_ns);
    }

    fn advance(&mut self, now_ns: u64) {
        self.trigger.advance(now_ns, &mut self.outcome);
        self.collect();
    }

    fn collect(&mut self) {
        self.packets.extend(self.outcome.answers.iter().map(<[u8]>::to_vec));
        self.outcome.answers.clear();
    }

    /// The packets and what any thread may see.
    fn finish(mut self, now_ns: u64) -> (Vec<Vec<u8>>, RichCounters) {
        self.trigger.drain(now_ns, &mut self.outcome);
        self.collect();
        let counters = self.trigger.counters();
        drop(self.trigger);
        self.workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(self.datagrams.events.statement("events").closes());
        for statement in [counters.merge.statement(), counters.searched.statement("search")] {
            assert!(statement.closes(), "{statement}");
        }
        (self.packets, counters)
    }
}

/// Runs `blocks` datagrams of each stream, but for those that `keeps` refuses.
fn run(
    config: &Config,
    chain: (FinderChoice, usize),
    blocks: u64,
    keeps: impl Fn(usize, u64) -> bool,
) -> (Vec<Vec<u8>>, RichCounters, RichFrontEnd) {
    let mut front_end = RichFrontEnd::new(config, &PmMap::numbered()).unwrap();
    let mut all = Chain::new(config.packets, config.streams(), chain.0, chain.1);
    let format = front_end.format().clone();
    let mut now_ns = 0;
    for index in 0..blocks {
        now_ns = FINE_CLOCK.ns(front_end.begin(index + 1)) + 5_000_000;
        for stream in (0..config.streams()).filter(|stream| keeps(*stream, index)) {
            let datagram = front_end.frame(stream, index);
            all.take(stream, &datagram, &format, now_ns);
        }
        all.advance(now_ns);
    }
    let (packets, counters) = all.finish(now_ns);
    (packets, counters, front_end)
}

/// The primitives of all packets, which are one for each 6.4 us.
fn primitives(packets: &[Vec<u8>]) -> Vec<(u64, PrimitiveId)> {
    let mut frames = Vec::new();
    let mut all = Vec::new();
    for packet in packets {
        let packet = mtp::Packet::new_checked(packet).unwrap();
        let frame = packet.header().timestamp_high;
        frames.push(frame);
        for mtp::Primitive { id, time } in packet.primitives() {
            assert_eq!(time.frame(), frame);
            all.push((time.fine_units(), PrimitiveId(id)));
        }
    }
    assert!(frames.windows(2).all(|pair| pair[1] == pair[0] + 1), "a packet for each 6.4 us");
    assert!(all.is_sorted_by_key(|(time, _)| *time));
    all
}

fn config(packets: Packets) -> Config {
    Config { packets, rate_hz: 1e6, pool: 512, seed: 7, ..Config::default() }
}

#[test]
fn every_event_of_the_front_end_is_answered_at_its_time() {
    let of_boards = config(Packets::Boards);
    let (packets, counters, front_end) =
        run(&of_boards, (FinderChoice::Single, 0), 200, |_, _| true);
    let answered = primitives(&packets);
    let events = 200 * front_end.block_events() as u64;
    let expected: Vec<u64> = (0..events)
        .map(|number| front_end.event(number))
        .filter(|(_, event)| !event.hits.is_empty())
        .map(|(time, _): (Time, _)| time.fine_units())
        .collect();
    assert_eq!(answered.iter().map(|(time, _)| *time).collect::<Vec<_>>(), expected);
    assert_eq!(counters.answers.late.get(), 0);
    assert_eq!(counters.events.incomplete.get(), 0);
    assert!(answered.iter().all(|(_, id)| !id.is_incomplete() && id.rings() <= 1));
    let with_ring = answered.iter().filter(|(_, id)| id.rings() == 1).count();
    assert!(with_ring * 10 > answered.len() * 9, "{with_ring} of {}", answered.len());
}

#[test]
fn events_merged_before_and_here_have_the_same_rings() {
    let choice = (FinderChoice::Multi, 0);
    let (boards, ..) = run(&config(Packets::Boards), choice, 100, |_, _| true);
    let (merged, counters, front_end) = run(&config(Packets::Merged), choice, 100, |_, _| true);
    let merged = primitives(&merged);
    assert_eq!(merged.len() as u64, counters.answers.events.delivered());
    assert_eq!(merged.len(), 100 * front_end.block_events());
    let shares = |all: &[(u64, PrimitiveId)]| {
        [0, 1, 2, 3].map(|rings| {
            all.iter().filter(|(_, id)| id.rings() == rings).count() as f64 / all.len() as f64
        })
    };
    let both = shares(&primitives(&boards)).into_iter().zip(shares(&merged));
    assert!(both.clone().all(|(a, b)| (a - b).abs() < 0.03), "{:?}", both.collect::<Vec<_>>());
}

#[test]
fn any_number_of_workers_gives_the_same_packets() {
    let config = config(Packets::Boards);
    let of = |workers| run(&config, (FinderChoice::Multi, workers), 60, |_, _| true).0;
    let here = primitives(&of(0));
    assert!(!here.is_empty());
    for workers in [1, 3] {
        let there: Vec<_> = primitives(&of(workers));
        // When a buffer is searched decides in which call a packet leaves, so lateness may differ.
        assert_eq!(there.len(), here.len());
        let same = |(a, b): (&(u64, PrimitiveId), &(u64, PrimitiveId))| {
            a.0 == b.0 && a.1.late() == b.1.late()
        };
        assert!(there.iter().zip(&here).all(same), "{workers} workers");
    }
}

#[test]
fn a_silent_board_costs_no_event_of_the_others_and_is_told() {
    let config = config(Packets::Boards);
    let silent = |stream: usize, block: u64| stream != 2 || !(100..300).contains(&block);
    let (packets, counters, front_end) = run(&config, (FinderChoice::Single, 0), 500, silent);
    let answered = primitives(&packets);
    let begin = front_end.begin(100);
    let end = front_end.begin(300);
    // An event that only the silent board saw leaves no trace.
    let seen = |number: u64| {
        let (time, event) = front_end.event(number);
        let is_silent = (begin..end).contains(&time.fine_units());
        let boards = event.boards();
        let hits = if is_silent { boards[0] + boards[1] + boards[3] } else { boards.iter().sum() };
        (hits > 0).then(|| time.fine_units())
    };
    let events = 500 * front_end.block_events() as u64;
    let expected = (0..events).filter_map(seen).count();
    // The time of an event is that of its first board, so that only the number can be compared.
    let late = counters.merge.primitives.dropped(gannet_trigger::merge::MergeDrop::Late);
    assert!(answered.len() + late as usize >= expected, "{} of {expected}", answered.len());
    assert!(answered.len() <= expected);
    let told = answered.iter().filter(|(_, id)| id.is_incomplete()).count();
    let in_gap = answered.iter().filter(|(time, _)| (begin..end).contains(time)).count();
    assert!(told >= in_gap, "{told} told of {in_gap}");
    assert!(told <= in_gap + 4 * front_end.block_events(), "{told} told of {in_gap}");
    assert_eq!(told as u64, counters.events.incomplete.get());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_datagrams_are_counted_and_harm_nobody(
        damage in prop::collection::vec((0..4usize, 0..40u64, 0..800usize, any::<u8>()), 0..60),
        is_merged: bool,
    ) {
        let packets = if is_merged { Packets::Merged } else { Packets::Boards };
        let config = config(packets);
        let mut front_end = RichFrontEnd::new(&config, &PmMap::numbered()).unwrap();
        let mut chain = Chain::new(packets, config.streams(), FinderChoice::Multi, 0);
        let format = front_end.format().clone();
        let mut now_ns = 0;
        for index in 0..40 {
            now_ns = FINE_CLOCK.ns(front_end.begin(index + 1)) + 5_000_000;
            for stream in 0..config.streams() {
                let mut datagram = front_end.frame(stream, index);
                for (_, _, at, byte) in damage.iter().filter(|(s, i, ..)| (*s, *i) == (stream, index)) {
                    let at = at % datagram.len();
                    datagram[at] ^= byte;
                }
                chain.take(stream, &datagram, &format, now_ns);
            }
            chain.advance(now_ns);
        }
        let (packets, counters) = chain.finish(now_ns);
        let answered: usize = packets
            .iter()
            .map(|packet| mtp::Packet::new_checked(packet).unwrap().primitives().count())
            .sum();
        prop_assert_eq!(answered as u64, counters.answers.events.delivered());
        let statement = counters.answers.events.statement("answered");
        prop_assert!(statement.closes());

    }
}
