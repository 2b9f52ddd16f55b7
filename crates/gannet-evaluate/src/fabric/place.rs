//! Where it was measured.

use serde::Serialize;

/// Where it was measured.
#[derive(Clone, Debug)]
pub enum Place {
    /// Between two processes, as time passes.
    Processors(Placing),
    /// Over a path that is described, in virtual time.
    Path(SimulatedPath),
}

/// Where the two processes ran.
#[derive(Clone, Debug, Serialize)]
pub struct Placing {
    /// Processors of the one that measures and of its partner, if threads can be kept on them.
    pub processors: Option<[usize; 2]>,
    /// Half a round trip of a cache line between them, ns.
    pub line_ns: f64,
    /// Cache lines that pass from one to the other in a second.
    pub lines_per_s: f64,
}

/// A path that was simulated, and what became of its packets.
#[derive(Clone, Debug)]
pub struct SimulatedPath {
    /// What it is called.
    pub name: String,
    /// How many hops it has.
    pub hops: usize,
    /// Rate of the slowest hop, GB/s: of PUTs, and of GETs.
    pub gbyte_per_s: [f64; 2],
    /// From one end to the other without the time that bytes take, ns.
    pub latency_ns: u64,
    /// Packets that were sent in all, in both directions.
    pub sent: u64,
    /// Those of them that found no room at a hop.
    pub dropped: u64,
    /// Those of them that were lost otherwise.
    pub lost: u64,
}

impl Place {
    /// It in words, a sentence a line.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Processors(Placing { processors, line_ns, lines_per_s }) => {
                let placing = match processors {
                    Some([here, there]) => format!("processors {here} and {there}"),
                    None => "both processes wherever the system put them".to_owned(),
                };
                let millions = lines_per_s * 1e-6;
                let lines = format!(
                    "a cache line passes between them in {line_ns:.0} ns, {millions:.1} M of them in a second"
                );
                vec![placing, lines]
            }
            Self::Path(path) => path.lines(),
        }
    }
}

impl SimulatedPath {
    fn lines(&self) -> Vec<String> {
        let Self { name, hops, gbyte_per_s: [put, get], latency_ns, sent, dropped, lost } = self;
        vec![
            format!(
                "virtual time: \"{name}\" is described, not measured, and processors take no time"
            ),
            format!(
                "{hops} hops, {latency_ns} ns from one end to the other; the slowest carries {put:.2} GB/s of PUTs and {get:.2} GB/s of GETs"
            ),
            format!(
                "{sent} packets, of which {dropped} found no room at a hop and {lost} were lost"
            ),
        ]
    }
}
