//! What is to happen to a machine while it runs, and what has.

use std::collections::VecDeque;

use gannet_lattice::{Cable, Direction, Faults, Lattice, Node};
use serde::Serialize;

use super::trace::LineError;
use crate::routes::Means;

/// Something that happens to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A cable fails: what is on it is lost, and packets that need it are thrown away.
    CableDown(Cable),
    /// A cable works again as it should.
    CableUp(Cable),
    /// A cable damages this part of the packets that it carries.
    CableFlaky(Cable, f64),
    /// A node loses its power, with all that it holds.
    NodeDown(Node),
    /// A host hangs: it sends no more, while its router goes on.
    HostHung(Node),
}

impl Event {
    /// The events that bring these faults about.
    pub fn all_of(faults: &Faults) -> impl Iterator<Item = Self> {
        faults.dead_nodes().map(Self::NodeDown).chain(faults.dead_cables().map(Self::CableDown))
    }
}

/// How the change to other routes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Switched {
    /// How the new routes get round the faults.
    pub means: Means,
    /// Cycles for which sources had to wait until the last packet on old routes was gone.
    pub drain_cycles: u32,
    /// Links of the longest new route.
    pub longest: u32,
}

/// Events in the order of their cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    events: VecDeque<(u32, Event)>,
}

/// Most events of a script; a cut counts once for each of its cables.
const EVENTS_MAX: usize = 100_000;

/// The lines that a script may have.
const FORMS: &str = "cycle,cable-down,NODE,LINK; cycle,cable-up,NODE,LINK; \
                     cycle,cable-flaky,NODE,LINK,PART; cycle,node-down,NODE; \
                     cycle,host-hung,NODE; cycle,cut,X|Y|Z,COORDINATE";

impl Script {
    /// These events, in the order of their cycles.
    fn new(mut events: Vec<(u32, Event)>) -> Self {
        events.sort_by_key(|&(cycle, _)| cycle);
        Self { events: events.into() }
    }

    /// Reads lines of a cycle, a kind of event, and where: `100,cable-down,12,X+`,
    /// `100,cable-up,12,X+`, `100,cable-flaky,12,X+,0.05`, `100,node-down,12`, `100,host-hung,12`, or
    /// `100,cut,X,3` for all cables from x = 3 to x = 4. Empty lines, and lines that begin with `#`,
    /// are passed over.
    ///
    /// # Errors
    ///
    /// The first line that is none of these, names what the lattice does not have, or has the event
    /// after the hundred-thousandth.
    pub fn parse(text: &str, lattice: Lattice) -> Result<Self, LineError> {
        let mut events = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let place = |problem| LineError { line, problem };
            let fields: Vec<&str> = content.split(',').map(str::trim).collect();
            let (cycle, rest) = fields.split_first().expect("splitting gives one field at least");
            let cycle = number(cycle, "cycle").map_err(place)?;
            let happen = Line { lattice }.events(rest).map_err(place)?;
            events.extend(happen.into_iter().map(|event| (cycle, event)));
            if events.len() > EVENTS_MAX {
                return Err(place(format!(
                    "more than {EVENTS_MAX} events, each cable of a cut counted: leave some out"
                )));
            }
        }
        Ok(Self::new(events))
    }

    /// Whether nothing is to happen.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Number of events in cycle `end` and later.
    pub fn after(&self, end: u32) -> usize {
        self.events.len() - self.events.partition_point(|&(cycle, _)| cycle < end)
    }

    /// Cycle of the next event.
    pub(super) fn next_at(&self) -> Option<u32> {
        self.events.front().map(|&(cycle, _)| cycle)
    }

    /// Takes the next event, if it is due.
    pub(super) fn take(&mut self, now: u32) -> Option<Event> {
        self.events.pop_front_if(|&mut (cycle, _)| cycle <= now).map(|(_, event)| event)
    }
}

/// Events to come, and the changes of routes that answer them.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    pub script: Script,
    /// Cycles from an event to the change of routes, if routes are to change.
    pub reroute_after: Option<u32>,
    pub reroute_at: Option<u32>,
    pub history: Vec<Happening>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Happening {
    /// Cycle before which it happened.
    pub cycle: u32,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A fault, or a repair.
    Event(Event),
    /// New routes are in use.
    Rerouted(Switched),
    /// No new routes were found, for this reason; the old ones stay.
    Refused(String),
}

impl Agenda {
    /// Cycle before which something is to happen.
    pub fn next_at(&self) -> Option<u32> {
        self.script.next_at().into_iter().chain(self.reroute_at).min()
    }
}

/// Reads one line.
struct Line {
    lattice: Lattice,
}

impl Line {
    fn events(&self, fields: &[&str]) -> Result<Vec<Event>, String> {
        let event = match *fields {
            ["cable-down", node, link] => Event::CableDown(self.cable(node, link)?),
            ["cable-up", node, link] => Event::CableUp(self.cable(node, link)?),
            ["cable-flaky", node, link, part] => {
                let loss = part.parse().ok().filter(|loss| (0.0..=1.0).contains(loss));
                let loss = loss.ok_or_else(|| format!("`{part}` is no part of packets, 0 to 1"))?;
                Event::CableFlaky(self.cable(node, link)?, loss)
            }
            ["node-down", node] => Event::NodeDown(self.node(node)?),
            ["host-hung", node] => Event::HostHung(self.node(node)?),
            ["cut", dimension, coordinate] => return self.cut(dimension, coordinate),
            _ => return Err(format!("`{}` is no event; lines are {FORMS}", fields.join(","))),
        };
        Ok(vec![event])
    }

    fn node(&self, text: &str) -> Result<Node, String> {
        let (node, nodes) = (number(text, "node")?, self.lattice.nodes());
        if (node as usize) < nodes {
            return Ok(Node(node));
        }
        Err(format!("there is no node {node}: {} has {nodes} nodes", self.lattice))
    }

    fn cable(&self, node: &str, link: &str) -> Result<Cable, String> {
        let node = self.node(node)?;
        let direction: Direction = link.parse()?;
        if !self.lattice.has(direction) {
            return Err(format!("{} has no links {direction}", self.lattice));
        }
        Ok(self.lattice.cable(node, direction))
    }

    /// All cables from one coordinate to the next.
    fn cut(&self, dimension: &str, coordinate: &str) -> Result<Vec<Event>, String> {
        let direction: Direction = format!("{dimension}+").parse()?;
        let (dimension, at) = (direction.dimension(), number(coordinate, "coordinate")?);
        let lattice = self.lattice;
        if !lattice.has(direction) || at >= u32::from(lattice.sizes()[dimension]) {
            return Err(format!("{lattice} has no cables {direction} at coordinate {at}"));
        }
        let is_cut = |node: &Node| u32::from(lattice.coordinates(*node)[dimension]) == at;
        let cable = |node| Event::CableDown(lattice.cable(node, direction));
        Ok(lattice.all().filter(is_cut).map(cable).collect())
    }
}

fn number(text: &str, name: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no {name}: a whole number is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Script, LineError> {
        Script::parse(text, "4x3".parse().unwrap())
    }

    #[test]
    fn events_are_read_in_the_order_of_their_cycles() {
        let script = parse("# faults\n\n90, node-down, 5\n10,cable-down,0,X-\n").unwrap();
        let events = Vec::from(script.events);
        let cable = Cable { from: Node(3), dimension: 0 };
        assert_eq!(events, [(10, Event::CableDown(cable)), (90, Event::NodeDown(Node(5)))]);
        assert_eq!(parse("7,cut,X,1").unwrap().events.len(), 3);
    }

    #[test]
    fn events_from_a_cycle_on_are_counted() {
        let script = parse("90,node-down,5\n10,node-down,1\n90,node-down,2\n").unwrap();
        assert_eq!([0, 10, 11, 90, 91].map(|end| script.after(end)), [3, 3, 2, 2, 0]);
    }

    #[test]
    fn a_script_has_so_many_events_and_no_more() {
        let cuts = |count| parse(&"1,cut,X,1\n".repeat(count));
        assert_eq!(cuts(EVENTS_MAX / 3).unwrap().after(0), EVENTS_MAX / 3 * 3);
        let error = cuts(EVENTS_MAX / 3 + 1).unwrap_err().to_string();
        assert!(error.starts_with("line 33334: more than 100000 events"), "{error}");
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        for (text, problem) in [
            ("\nx,node-down,1", "line 2: `x` is no cycle"),
            ("1,node-down,12", "line 1: there is no node 12: 4x3x1 has 12 nodes"),
            ("1,cable-down,1,Z+", "line 1: 4x3x1 has no links Z+"),
            ("1,cable-down,1,W+", "line 1: `W+` is no link"),
            ("1,cable-flaky,1,X+,2", "line 1: `2` is no part"),
            ("1,cut,Y,3", "line 1: 4x3x1 has no cables Y+ at coordinate 3"),
            ("1,explode,3", "line 1: `explode,3` is no event"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
