//! NICs that speak word by word, in the spare bits of credit words, on lines that lose some.

use gannet_lattice::{Direction, Lattice, Node};
use gannet_lofamo::{Disassembler, Host, Mode, Nic, NicAction, Thresholds, Timing};
use gannet_measure::random::Random;
use gannet_torus::link::{Config, Counters, Link, Origin};
use gannet_wire::apelink::Header;
use gannet_wire::lofamo::{Assembler, Diagnostic, Status};

const CREDIT_NS: u64 = 1000;
const PERIOD_NS: u64 = 1_000_000;

/// A node whose links carry a credit word each microsecond.
struct Station {
    host: Host,
    nic: Nic,
    disassemblers: Vec<Disassembler>,
    assemblers: [Assembler; 6],
    host_works: bool,
    nic_works: bool,
    /// Interrupts: what the host was told.
    told: Vec<Diagnostic>,
}

struct Machine {
    lattice: Lattice,
    stations: Vec<Station>,
    now_ns: u64,
    /// Part of the credit words that fail their check.
    loss: f64,
    random: Random,
}

impl Machine {
    fn new(lattice: &str, loss: f64) -> Self {
        let lattice: Lattice = lattice.parse().unwrap();
        let timing = Timing::new(Mode::Push, PERIOD_NS);
        let station = |node| Station {
            host: Host::new(node, timing),
            nic: Nic::new(lattice, node, timing, Thresholds::default()),
            disassemblers: Direction::ALL.map(Disassembler::new).to_vec(),
            assemblers: [Assembler::default(); 6],
            host_works: true,
            nic_works: true,
            told: Vec::new(),
        };
        let stations = lattice.all().map(station).collect();
        Self { lattice, stations, now_ns: 0, loss, random: Random::new(5) }
    }

    /// Runs for `ns`: a credit word each way on each link a microsecond, a beat twice in a period.
    fn run(&mut self, ns: u64) {
        let end_ns = self.now_ns + ns;
        while self.now_ns < end_ns {
            self.now_ns += CREDIT_NS;
            for node in self.lattice.all() {
                self.step(node);
            }
        }
    }

    fn step(&mut self, node: Node) {
        let now_ns = self.now_ns;
        let station = &mut self.stations[node.index()];
        let told = &mut station.told;
        let mut out = |action| {
            if let NicAction::Notify(diagnostic) = action {
                told.push(diagnostic);
            }
        };
        if !station.nic_works {
            return;
        }
        if station.host_works && now_ns.is_multiple_of(PERIOD_NS / 2) {
            station.nic.beat(now_ns, station.host.beat(now_ns, &mut |_| ()), &mut out);
        }
        station.nic.poll(now_ns, &mut out);
        let lattice = self.lattice;
        for direction in Direction::ALL.into_iter().filter(|&d| lattice.has(d)) {
            let station = &mut self.stations[node.index()];
            let word = station.disassemblers[direction.index()].word(now_ns, &mut station.nic);
            let far = self.lattice.neighbour(node, direction);
            if !self.random.chance(self.loss) {
                self.credit(far, direction.opposite(), word);
            }
        }
    }

    /// A credit word with these spare bits comes to `node`.
    fn credit(&mut self, node: Node, direction: Direction, word: u16) {
        let station = &mut self.stations[node.index()];
        let told = &mut station.told;
        let mut out = |action| {
            if let NicAction::Notify(diagnostic) = action {
                told.push(diagnostic);
            }
        };
        station.nic.credit(self.now_ns, direction, &mut out);
        if let Some(diagnostic) = station.assemblers[direction.index()].take(word) {
            station.nic.receive(self.now_ns, direction, &diagnostic, &mut out);
        }
    }

    fn remote(&self, node: u32, direction: Direction) -> (Status, Status) {
        let descriptor = self.stations[node as usize].nic.remote(self.now_ns, direction);
        (descriptor.host, descriptor.nic)
    }
}

#[test]
fn neighbours_learn_of_each_other_word_by_word_whatever_is_lost() {
    for loss in [0.0, 0.1, 0.3] {
        let mut machine = Machine::new("4x3", loss);
        machine.run(2 * PERIOD_NS);
        for node in machine.lattice.all() {
            for direction in Direction::ALL.into_iter().filter(|&d| machine.lattice.has(d)) {
                let known = machine.remote(node.0, direction);
                assert_eq!(known, (Status::Normal, Status::Normal), "{node} {direction} {loss}");
            }
        }
        machine.stations[5].host_works = false;
        machine.run(2 * PERIOD_NS);
        // X- of node 6 and Y+ of node 1 lead to node 5.
        for (node, direction) in [(6, Direction::XMinus), (1, Direction::YPlus)] {
            assert_eq!(machine.remote(node, direction), (Status::Failed, Status::Normal), "{loss}");
        }
        assert_eq!(machine.remote(4, Direction::XMinus).0, Status::Normal);
        machine.stations[5].host_works = true;
        machine.run(2 * PERIOD_NS);
        assert_eq!(machine.remote(6, Direction::XMinus).0, Status::Normal, "it recovers, too");
    }
}

#[test]
fn news_go_on_past_hosts_that_cannot_tell_the_master() {
    let mut machine = Machine::new("9", 0.05);
    machine.run(2 * PERIOD_NS);
    for station in &mut machine.stations[1..=5] {
        station.host_works = false;
    }
    machine.run(2 * PERIOD_NS);
    let hears = |machine: &Machine, node: usize| {
        let told = machine.stations[node].told.iter();
        let mut of = told.filter(|it| it.descriptor.origin == 3);
        of.any(|it| it.relayed && it.descriptor.host == Status::Failed)
    };
    // Hosts 2 and 4, its neighbours, are silent, and 1 and 5 beyond them.
    assert!(hears(&machine, 0) && hears(&machine, 6));
    // No host confirms here, so that news go all the way; and yet each node passes them on once.
    assert!(hears(&machine, 8));
    assert!(machine.stations.iter().all(|station| station.told.len() < 100));
}

#[test]
fn a_dead_nic_is_missed_within_microseconds() {
    let mut machine = Machine::new("4x3", 0.01);
    machine.run(2 * PERIOD_NS);
    machine.stations[5].nic_works = false;
    machine.run(15 * CREDIT_NS);
    for (node, direction) in [(6, Direction::XMinus), (4, Direction::XPlus)] {
        let links = machine.stations[node].nic.register().links();
        assert_eq!(links[direction.index()], Status::Failed);
        let expected = (Status::Unknown, Status::Unknown);
        assert_eq!(machine.remote(node as u32, direction), expected, "no longer vouched for");
    }
}

/// One way of a link: what a packet's arrivals and words are, and whether the far NIC learns.
#[derive(Debug, PartialEq)]
struct Passage {
    /// Word times at which packets arrived.
    arrivals: Vec<u64>,
    counters: [Counters; 2],
}

/// Sends packets over a link, with what NICs have to say in its credits or without.
fn pass(mut monitored: Option<(&mut Nic, &mut Nic)>) -> Passage {
    let end = |session| Link::new(Config { session, credit_interval: 8, ..Config::default() });
    let mut ends = [end(1).unwrap(), end(2).unwrap()];
    let mut disassembler = Disassembler::new(Direction::XPlus);
    let mut assembler = Assembler::default();
    let (mut arrivals, mut credits, mut payload) = (Vec::new(), 0, [0; 4096]);
    for now in 0..40_000 {
        if let Some((near, far)) = &mut monitored {
            if ends[0].counters().tx_credits > credits {
                credits = ends[0].counters().tx_credits;
                ends[0].set_diagnostics(disassembler.word(now, near));
            }
            if let Some(seen) = ends[1].diagnostics().filter(|seen| seen.at + 1 == now)
                && let Some(diagnostic) = assembler.take(seen.bits)
            {
                far.receive(now, Direction::XMinus, &diagnostic, &mut |_| ());
            }
        }
        if now % 97 == 0 {
            let size = (now % 4000) as usize;
            let header = Header { size: size as u16, ..Header::default() };
            // Refused now and then, for want of credits: with and without alike.
            let _ = ends[0].send(header, Origin::default(), &payload[..size]);
        }
        let words = ends.each_mut().map(|end| end.transmit(now).word);
        ends[0].receive(words[1], now);
        ends[1].receive(words[0], now);
        while ends[1].take(0, &mut payload).is_some() {
            arrivals.push(now);
        }
    }
    Passage { arrivals, counters: ends.map(|end| *end.counters()) }
}

#[test]
fn data_take_as_long_and_lines_carry_as_many_words_with_the_monitor_as_without() {
    let lattice: Lattice = "4".parse().unwrap();
    let nic = |node| {
        Nic::new(lattice, Node(node), Timing::new(Mode::Push, PERIOD_NS), Thresholds::default())
    };
    let (mut near, mut far) = (nic(0), nic(1));
    far.credit(0, Direction::XMinus, &mut |_| ());
    let with = pass(Some((&mut near, &mut far)));
    assert_eq!(far.remote(0, Direction::XMinus).nic, Status::Normal, "the neighbour was heard");
    assert!(with.arrivals.len() > 50, "{}", with.arrivals.len());
    assert_eq!(with, pass(None));
}
