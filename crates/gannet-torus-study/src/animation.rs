//! A simulation as a sequence of pictures: load of links and faults over time.

use gannet_lattice::{Cable, Direction, Faults, LINKS, Node};
use gannet_torus::simulator::{Event, Happening, Slice, What};
use serde::Serialize;

use super::Error;
use super::experiment::Experiment;
use super::limits::Limits;
use super::point::Point;

/// Most loads of links in all frames together: what a page of some megabytes can hold.
pub const CELLS_MAX: usize = 4 << 20;

/// Digits of a load, from 0 to a flit in every cycle.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A sequence of frames.
#[derive(Clone, Debug, Serialize)]
pub struct Animation {
    /// What is shown, in a line.
    pub title: String,
    /// Sizes in x, y and z.
    pub sizes: [u16; 3],
    /// Flits per node and cycle that are offered.
    pub load: f64,
    /// What the machine could do at best.
    pub limits: Limits,
    /// The frames in the order of time.
    pub frames: Vec<Frame>,
    /// The latency-load curve, by load.
    pub curve: Vec<CurvePoint>,
}

/// What moved in some cycles.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// First cycle.
    pub cycle: u32,
    /// Cycles.
    pub cycles: u32,
    /// Flits per node and cycle that arrived.
    pub accepted: f64,
    /// Mean cycles of the packets that arrived; absent where none did.
    pub latency: Option<f64>,
    /// 99th percentile of the same.
    pub latency_p99: Option<u64>,
    /// Packets lost.
    pub lost: u64,
    /// Packets sent again.
    pub replayed: u64,
    /// Load of the links by node and direction, one of 64 digits each.
    pub links: String,
    /// What does not work at the end of the frame.
    pub faults: Vec<Mark>,
    /// What has happened in the frame.
    pub events: Vec<String>,
}

/// A fault in a frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Cycle at which it began.
    pub cycle: u32,
    /// `node`, `host`, `cable` or `flaky`.
    pub kind: &'static str,
    /// The node, or that from which the cable leads in a plus direction.
    pub node: Node,
    /// The link of a cable, as a number in the order X+, X-, Y+, Y-, Z+, Z-.
    pub direction: Option<usize>,
}

/// A point of the latency-load curve.
#[derive(Clone, Debug, Serialize)]
pub struct CurvePoint {
    /// Offered, flits per node and cycle.
    pub load: f64,
    /// Accepted, flits per node and cycle.
    pub accepted: f64,
    /// Mean cycles; absent where saturated.
    pub latency: Option<f64>,
}

impl From<&Point> for CurvePoint {
    fn from(point: &Point) -> Self {
        let latency = point.latency_mean_cycles.filter(|_| !point.saturated).map(short);
        Self { load: point.load, accepted: short(point.accepted), latency }
    }
}

/// Four digits behind the point are more than a picture shows.
fn short(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl Experiment {
    /// Simulates `frames` times `frame_cycles` cycles from the start, at a load; `progress` hears how
    /// many frames are done.
    ///
    /// # Errors
    /// When the load is out of range, or the frames are too many for a page.
    pub fn frames(
        &self,
        load: f64,
        frames: usize,
        frame_cycles: u32,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Frame>, Error> {
        let nodes = self.machine().setup.lattice.nodes();
        if frames.saturating_mul(nodes * LINKS) > CELLS_MAX {
            return Err(Error::TooManyFrames { frames, nodes, most: CELLS_MAX / nodes / LINKS });
        }
        let mut simulation = self.simulation(load)?;
        let mut state = State::new(&self.machine().faults);
        let mut heard = 0;
        (0..frames)
            .map(|done| {
                progress(done);
                let slice = simulation.slice(frame_cycles);
                let news = &simulation.history()[heard..];
                heard += news.len();
                news.iter().for_each(|happening| state.hear(happening));
                Ok(state.frame(&slice, nodes))
            })
            .collect()
    }
}

/// What does not work, and what was heard since the last frame.
struct State {
    faults: Vec<Mark>,
    events: Vec<String>,
}

impl State {
    fn new(faults: &Faults) -> Self {
        let mut state = Self { faults: Vec::new(), events: Vec::new() };
        faults.dead_nodes().for_each(|node| state.begin(0, "node", node, None));
        for cable in faults.dead_cables() {
            state.begin(0, "cable", cable.from, Some(cable));
        }
        state
    }

    fn hear(&mut self, happening: &Happening) {
        let cycle = happening.cycle;
        match &happening.what {
            What::Event(event) => self.apply(cycle, event),
            What::Rerouted(switched) => self.events.push(format!(
                "cycle {cycle}: new routes, {} cycles of waiting, {} links at most",
                switched.drain_cycles, switched.longest
            )),
            What::Refused(why) => self.events.push(format!("cycle {cycle}: no new routes: {why}")),
        }
    }

    fn apply(&mut self, cycle: u32, event: &Event) {
        let name = |cable: &Cable| {
            format!("{} {}", cable.from, Direction::of(cable.dimension, true).name())
        };
        let told = match event {
            Event::CableDown(cable) => {
                self.begin(cycle, "cable", cable.from, Some(*cable));
                format!("cable at {} dead", name(cable))
            }
            Event::CableUp(cable) => {
                self.repair(cable);
                format!("cable at {} works again", name(cable))
            }
            Event::CableFlaky(cable, loss) => {
                self.begin(cycle, "flaky", cable.from, Some(*cable));
                format!("cable at {} damages {:.1} % of the packets", name(cable), 100.0 * loss)
            }
            Event::NodeDown(node) => {
                self.begin(cycle, "node", *node, None);
                format!("{node} dead")
            }
            Event::HostHung(node) => {
                self.begin(cycle, "host", *node, None);
                format!("host of {node} hangs")
            }
        };
        self.events.push(format!("cycle {cycle}: {told}"));
    }

    fn begin(&mut self, cycle: u32, kind: &'static str, node: Node, cable: Option<Cable>) {
        if let Some(cable) = &cable {
            self.repair(cable);
        }
        let direction = cable.map(|cable| Direction::of(cable.dimension, true).index());
        self.faults.push(Mark { cycle, kind, node, direction });
    }

    fn repair(&mut self, cable: &Cable) {
        let direction = Some(Direction::of(cable.dimension, true).index());
        self.faults.retain(|mark| mark.node != cable.from || mark.direction != direction);
    }

    fn frame(&mut self, slice: &Slice, nodes: usize) -> Frame {
        let cycles = f64::from(slice.cycles.max(1));
        let digit = |flits: &u32| {
            let level = (f64::from(*flits) / cycles * 63.0).round().min(63.0);
            char::from(DIGITS[level as usize])
        };
        let has_arrived = slice.latency.count > 0;
        Frame {
            cycle: slice.cycle,
            cycles: slice.cycles,
            accepted: short(slice.accepted_flits as f64 / nodes as f64 / cycles),
            latency: has_arrived.then_some(short(slice.latency.mean)),
            latency_p99: has_arrived.then_some(slice.latency.p99),
            lost: slice.lost,
            replayed: slice.replayed,
            links: slice.links.as_flattened().iter().map(digit).collect(),
            faults: self.faults.clone(),
            events: std::mem::take(&mut self.events),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Timing};
    use gannet_torus::simulator::{Pattern, Script, Setup};

    fn machine(lattice: &str, pattern: Pattern) -> Machine {
        Machine::new(Setup::new(lattice.parse().unwrap()), pattern)
    }

    #[test]
    fn full_links_have_the_last_digit_and_idle_ones_the_first() {
        let experiment =
            Experiment::new(machine("4", Pattern::Neighbour), Timing::default()).unwrap();
        let frames = experiment.frames(1.0, 3, 200, &mut |_| ()).unwrap();
        assert_eq!(frames[2].links, "_AAAAA".repeat(4));
        assert_eq!((frames[2].cycle, frames[2].cycles, frames[2].accepted), (400, 200, 1.0));
    }

    #[test]
    fn faults_are_there_from_their_cycle_on_until_they_are_mended() {
        let mut machine = machine("4x4", Pattern::Uniform);
        machine.kill_node(9).unwrap();
        let lattice = machine.setup.lattice;
        let script = "120,cable-down,1,X-\n130,cable-flaky,5,Y+,0.5\n250,cable-up,0,X+\n";
        machine.script = Script::parse(script, lattice).unwrap();
        machine.reroute_after = Some(10);
        let experiment = Experiment::new(machine, Timing::default()).unwrap();
        let frames = experiment.frames(0.2, 3, 100, &mut |_| ()).unwrap();
        let kinds = |frame: &Frame| frame.faults.iter().map(|m| m.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&frames[0]), ["node"]);
        assert_eq!(kinds(&frames[1]), ["node", "cable", "flaky"]);
        assert_eq!(kinds(&frames[2]), ["node", "flaky"]);
        assert_eq!((frames[1].faults[1].cycle, frames[1].faults[1].node), (120, Node(0)));
        let told = frames[1].events.join("\n");
        assert!(told.contains("cable at node 0 X+ dead") && told.contains("new routes"), "{told}");
    }

    #[test]
    fn more_frames_than_a_page_holds_are_refused() {
        let experiment =
            Experiment::new(machine("8x8x8", Pattern::Uniform), Timing::default()).unwrap();
        let refused = experiment.frames(0.1, 2000, 1, &mut |_| ()).unwrap_err().to_string();
        assert!(refused.contains("at most 1365"), "{refused}");
    }
}
