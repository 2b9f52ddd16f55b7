//! Packets of a file, each with its time.

use gannet_lattice::{Lattice, Node};
use thiserror::Error;

use super::packet::PACKET_FLITS_MAX;

/// A packet of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// Cycle at which it is made.
    pub cycle: u32,
    /// Where it goes.
    pub destination: Node,
    /// Its length in flits.
    pub flits: u16,
}

/// The packets of a trace, by source, in the order of their cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub(super) by_source: Vec<Vec<TracedPacket>>,
}

/// Most packets of a trace.
const PACKETS_MAX: usize = 4 << 20;

/// What is wrong with a line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl Trace {
    /// Reads lines `cycle,source,destination,flits`; empty lines, lines that begin with `#`, and a
    /// first line of names are passed over, as is a byte-order mark.
    ///
    /// # Errors
    ///
    /// The first line that is not four numbers, names a node outside the lattice, or is a packet too
    /// many: a trace has at most 4194304.
    pub fn parse(text: &str, lattice: Lattice) -> Result<Self, LineError> {
        let (mut by_source, mut count) = (vec![Vec::new(); lattice.nodes()], 0);
        for (line, content) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let content = content.trim();
            let is_title = line == 1 && content.starts_with("cycle");
            if content.is_empty() || content.starts_with('#') || is_title {
                continue;
            }
            let place = |problem| LineError { line, problem };
            let (source, packet) = traced(content, lattice).map_err(place)?;
            count += 1;
            if count > PACKETS_MAX {
                return Err(place(format!("more than {PACKETS_MAX} packets: leave some out")));
            }
            by_source[source.index()].push(packet);
        }
        for packets in &mut by_source {
            packets.sort_by_key(|packet: &TracedPacket| packet.cycle);
        }
        Ok(Self { by_source })
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.by_source.iter().map(Vec::len).sum()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All packets with their sources.
    pub fn packets(&self) -> impl Iterator<Item = (Node, &TracedPacket)> {
        let sources = (0..).map(Node).zip(&self.by_source);
        sources.flat_map(|(source, packets)| packets.iter().map(move |packet| (source, packet)))
    }

    /// Number of packets made in cycle `end` and later.
    pub fn after(&self, end: u32) -> usize {
        self.by_source.iter().flatten().filter(|packet| packet.cycle >= end).count()
    }

    /// Length of the longest packet, in flits.
    pub fn longest(&self) -> u16 {
        self.by_source.iter().flatten().map(|packet| packet.flits).max().unwrap_or(0)
    }

    /// Cycle of the last packet.
    pub fn last_cycle(&self) -> u32 {
        self.by_source.iter().flatten().map(|packet| packet.cycle).max().unwrap_or(0)
    }
}

fn traced(line: &str, lattice: Lattice) -> Result<(Node, TracedPacket), String> {
    let mut numbers = line.split(',').map(|field| {
        field.trim().parse::<u32>().map_err(|_| format!("`{}` is no whole number", field.trim()))
    });
    let mut next = |name: &str| {
        numbers.next().unwrap_or_else(|| {
            Err(format!("{name} is missing; expected cycle,source,destination,flits"))
        })
    };
    let (cycle, source) = (next("the cycle")?, next("the source")?);
    let (destination, flits) = (next("the destination")?, next("the number of flits")?);
    if line.split(',').count() > 4 {
        return Err("more than cycle,source,destination,flits".to_owned());
    }
    if let Some(node) = [source, destination].into_iter().find(|&n| n as usize >= lattice.nodes()) {
        return Err(format!("there is no node {node}: {lattice} has {} nodes", lattice.nodes()));
    }
    let flits = u16::try_from(flits).ok().filter(|flits| (1..=PACKET_FLITS_MAX).contains(flits));
    let flits = flits.ok_or_else(|| format!("a packet has 1 to {PACKET_FLITS_MAX} flits"))?;
    Ok((Node(source), TracedPacket { cycle, destination: Node(destination), flits }))
}
