//! The truth about light in the sea: muons and showers, and the hits that they made.

use std::collections::BTreeMap;
use std::io;

use gannet_wire::km3net::detector_file::Vector;
use serde::{Deserialize, Serialize};

use crate::front_end::InjectedEvent;

/// What made the light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A muon: a straight track that shines all along.
    Muon,
    /// A shower: a point that shines forward.
    Shower,
}

/// A hit of a photomultiplier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Identifier of the module.
    pub module: u32,
    /// Channel of the photomultiplier.
    pub channel: u8,
    /// Time since the slice began, in ns, when t0 was added.
    pub time_ns: f64,
    /// Time over threshold, in ns.
    pub tot: u8,
}

/// A muon or a shower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// Number of its slice, from the first that was emulated.
    pub slice: u64,
    /// Time at its vertex, in ns since 1970.
    pub time: u64,
    /// Time since its slice began, in ns, at its vertex.
    pub time_ns: f64,
    /// The vertex, or a point of the track, in metres.
    pub vertex: Vector,
    /// Where it goes, of length 1.
    pub direction: Vector,
    /// Its light, as a multiple of the least.
    pub brightness: f64,
    /// Hits with another one of the same module on another channel within 10 ns.
    pub l1_hits: usize,
    /// Modules with such hits.
    pub l1_modules: usize,
    /// Hits that found no room in their datagram.
    pub cut: usize,
    /// Its hits, by module and time.
    pub hits: Vec<Hit>,
}

impl Event {
    /// Counts the hits that are not alone in their module.
    pub(super) fn count_l1(&mut self) {
        (self.l1_hits, self.l1_modules) = (0, 0);
        for module in self.hits.chunk_by(|a, b| a.module == b.module) {
            let near =
                |a: &Hit, b: &Hit| a.channel != b.channel && (a.time_ns - b.time_ns).abs() <= L1_NS;
            let found = module.iter().filter(|a| module.iter().any(|b| near(a, b))).count();
            self.l1_hits += found;
            self.l1_modules += usize::from(found > 0);
        }
    }
}

/// What all modules sent in a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its number, from the first that was emulated.
    pub slice: u64,
    /// When it begins, in ns since 1970.
    pub time: u64,
    /// Hits of each module, by channel.
    pub hits: BTreeMap<u32, Vec<u32>>,
}

impl InjectedEvent for Slice {
    fn kind(&self) -> &'static str {
        "slice"
    }

    fn time(&self) -> u64 {
        self.time
    }

    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        Ok(serde_json::to_writer(out, self)?)
    }
}

/// Time within which hits of a module coincide.
const L1_NS: f64 = 10.0;

impl InjectedEvent for Event {
    fn kind(&self) -> &'static str {
        match self.kind {
            EventKind::Muon => "muon",
            EventKind::Shower => "shower",
        }
    }

    fn time(&self) -> u64 {
        self.time
    }

    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        Ok(serde_json::to_writer(out, self)?)
    }
}
