//! Paths as people write them, in TOML.
//!
//! [`TopologyFile`] is the file as it is written; [`TopologyFile::paths`] tests every value, and says where the
//! first wrong one stands.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use gannet_measure::quantity::{Bytes, Span};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::hop::{Hop, HopKind, Side, Window};
use crate::path::{Path, Visit};
use crate::rate::{Generation, InfinibandRate, PcieLink, Wire};

/// Most paths of a file, and most hops of one.
const PATHS_MAX: usize = 256;
const HOPS_MAX: usize = 64;
/// Longest time from one end of a hop to the other: light has been to the moon and back.
const LATENCY_MAX: Span = Span::s(3);
/// Payload of packets where none is given.
const PAYLOAD_BYTES: u64 = 256;
/// Payload of packets on wires where none is given.
const MTU_BYTES: u64 = 4096;
/// Width of a memory port where none is given.
const PORT_BITS: u32 = 256;
/// Lanes of InfiniBand where none are given.
const WIRE_LANES: u8 = 4;

/// Paths between memories, each a list of hops.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// The paths.
    pub path: Vec<PathTable>,
}

/// A path from one memory to another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathTable {
    /// What it is called.
    pub name: String,
    /// What data pass, in the order of a PUT.
    pub hop: Vec<HopTable>,
    /// What is done with data at the far end, one step after the other.
    pub visit: Option<VisitTable>,
}

/// Data put to the far end, worked on there, and fetched again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisitTable {
    /// Bytes that are put and fetched.
    pub bytes: Bytes,
    /// Rate of the work between, in GB/s.
    pub compute_gbyte_per_s: f64,
}

/// What a hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KindName {
    /// A PCI Express link. Needs `generation` and `lanes`.
    Pcie,
    /// A PCI Express switch between two devices. Needs `generation` and `lanes`.
    Switch,
    /// A root complex between two devices, with whatever joins several. Needs `generation` and `lanes`.
    RootComplex,
    /// InfiniBand. Needs `rate`.
    Infiniband,
    /// RDMA over Ethernet, version 2. Needs `gbit_per_s`.
    Roce,
    /// Any other wire. Needs `gbit_per_s`, after its code.
    Wire,
    /// A port of a memory. Needs `clock_mhz`.
    Memory,
}

/// On whose side of the path a hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SideName {
    /// Of the one that asks for PUT and GET: a PUT reads there, a GET writes.
    Requester,
    /// Of the one whose memory is meant: a PUT writes there, a GET reads.
    Responder,
}

/// A hop of a path. Which keys it takes depends on its kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HopTable {
    /// What it is.
    pub kind: KindName,
    /// What it is called; its kind if absent.
    pub name: Option<String>,
    /// On whose side it is; the responder's if absent.
    pub side: Option<SideName>,
    /// Generation of PCI Express, 1 to 6.
    pub generation: Option<u8>,
    /// Lanes of the link: of PCI Express 1 to 32, of InfiniBand 4 if absent.
    pub lanes: Option<u8>,
    /// Most bytes of a packet's payload (MPS): 128 to 4096 B, 256 B if absent.
    pub mps: Option<Bytes>,
    /// Bytes of a completion; as `mps` if absent. Some memories answer in pieces of 64 B.
    pub completion: Option<Bytes>,
    /// Rate of InfiniBand.
    pub rate: Option<InfinibandRate>,
    /// Rate of a wire, in Gbit/s.
    pub gbit_per_s: Option<f64>,
    /// Most bytes of a packet's payload on InfiniBand and RoCE; 4096 B if absent.
    pub mtu: Option<Bytes>,
    /// Width of a memory port; 256 if absent.
    pub bits: Option<u32>,
    /// Clock of a memory port, in MHz.
    pub clock_mhz: Option<f64>,
    /// The share of its rate that the hop passes on, above 0 and at most 1; 1 if absent.
    pub factor: Option<f64>,
    /// Bytes of reads that are under way at most. With `round_trip`.
    pub in_flight: Option<Bytes>,
    /// From a read to its completion. With `in_flight`.
    pub round_trip: Option<Span>,
    /// From one end of the hop to the other; 0 ns if absent. For `gannet bench fabric --backend sim`.
    pub latency: Option<Span>,
    /// Bytes that wait before the hop at most; 1 MiB if absent. For `gannet bench fabric --backend sim`.
    pub queue: Option<Bytes>,
    /// The measurement to which `factor` and `in_flight` were fitted. Predictions that rest on it say so.
    pub calibrated: Option<String>,
}

/// What is wrong with a value, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Path of the key, such as `path[0].hop[1].lanes`.
    pub place: String,
    /// What is wrong.
    pub cause: String,
    /// What to write instead.
    pub suggestion: String,
}

impl Wrong {
    fn new(place: String, cause: impl Into<String>, suggestion: impl Into<String>) -> Self {
        Self { place, cause: cause.into(), suggestion: suggestion.into() }
    }
}

impl TopologyFile {
    /// The JSON schema of the file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Self)
    }

    /// The paths, with every value tested.
    ///
    /// # Errors
    /// The first value that cannot be meant.
    pub fn paths(&self) -> Result<Vec<Path>, Wrong> {
        if self.path.is_empty() || self.path.len() > PATHS_MAX {
            let cause = format!("there are {} paths", self.path.len());
            return Err(Wrong::new(
                "path".into(),
                cause,
                format!("write 1 to {PATHS_MAX} of them"),
            ));
        }
        let mut names = BTreeSet::new();
        let mut paths = Vec::with_capacity(self.path.len());
        for (number, table) in self.path.iter().enumerate() {
            if !names.insert(&table.name) {
                let place = format!("path[{number}].name");
                let cause = format!("another path is called {:?}, too", table.name);
                return Err(Wrong::new(place, cause, "give each path a name of its own"));
            }
            paths.push(table.path(number)?);
        }
        Ok(paths)
    }
}

impl PathTable {
    fn path(&self, number: usize) -> Result<Path, Wrong> {
        let at = |key: &str| format!("path[{number}].{key}");
        if self.hop.is_empty() || self.hop.len() > HOPS_MAX {
            let cause = format!("there are {} hops", self.hop.len());
            return Err(Wrong::new(at("hop"), cause, format!("write 1 to {HOPS_MAX} of them")));
        }
        let place = |hop| format!("path[{number}].hop[{hop}]");
        let hops = self.hop.iter().enumerate().map(|(hop, table)| table.hop(&place(hop)));
        let hops = hops.collect::<Result<_, _>>()?;
        let visit = self.visit.map(|VisitTable { bytes, compute_gbyte_per_s }| {
            let place = at("visit.compute_gbyte_per_s");
            positive(compute_gbyte_per_s, place)?;
            Ok(Visit { bytes: bytes.bytes(), compute_gbyte_per_s })
        });
        Ok(Path { name: self.name.clone(), hops, visit: visit.transpose()? })
    }
}

impl KindName {
    /// Keys that are of this kind, first those that it needs.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Pcie | Self::Switch | Self::RootComplex => {
                (&["generation", "lanes"], &["mps", "completion"])
            }
            Self::Infiniband => (&["rate"], &["lanes", "mtu"]),
            Self::Roce => (&["gbit_per_s"], &["mtu"]),
            Self::Wire => (&["gbit_per_s"], &[]),
            Self::Memory => (&["clock_mhz"], &["bits"]),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Pcie => "the PCI Express link",
            Self::Switch => "the switch",
            Self::RootComplex => "the root complex",
            Self::Infiniband | Self::Roce | Self::Wire => "the wire",
            Self::Memory => "the memory port",
        }
    }
}

impl HopTable {
    fn hop(&self, at: &str) -> Result<Hop, Wrong> {
        self.check_keys(at)?;
        let factor = self.factor.unwrap_or(1.0);
        if !(factor > 0.0 && factor <= 1.0) {
            let cause = format!("{factor} is no share");
            return Err(Wrong::new(
                format!("{at}.factor"),
                cause,
                "write a number above 0, at most 1",
            ));
        }
        let window = match (self.in_flight, self.round_trip) {
            (None, None) => None,
            (Some(in_flight), Some(round_trip)) if in_flight.bytes() > 0 && round_trip.ns() > 0 => {
                Some(Window { in_flight, round_trip })
            }
            (Some(_), Some(_)) => {
                let cause = "nothing is in flight, or it takes no time";
                return Err(Wrong::new(format!("{at}.in_flight"), cause, "write both above 0"));
            }
            _ => {
                let key = if self.in_flight.is_some() { "in_flight" } else { "round_trip" };
                let cause = "one of `in_flight` and `round_trip` is missing";
                return Err(Wrong::new(format!("{at}.{key}"), cause, "write both, or none"));
            }
        };
        let name = self.name.clone().unwrap_or_else(|| self.kind.words().to_owned());
        let side = match self.side {
            Some(SideName::Requester) => Side::Requester,
            Some(SideName::Responder) | None => Side::Responder,
        };
        let hop = Hop::new(name, self.hop_kind(at)?);
        let latency = self.latency.unwrap_or(hop.latency);
        if latency > LATENCY_MAX {
            let cause = format!("{latency} is out of range");
            let suggestion = format!("write a time of at most \"{LATENCY_MAX}\"");
            return Err(Wrong::new(format!("{at}.latency"), cause, suggestion));
        }
        let queue = self.queue.unwrap_or(hop.queue);
        Ok(Hop { side, factor, window, latency, queue, calibrated: self.calibrated.clone(), ..hop })
    }

    /// Refuses keys of other kinds, and asks for those of this one.
    fn check_keys(&self, at: &str) -> Result<(), Wrong> {
        let given = [
            ("generation", self.generation.is_some()),
            ("lanes", self.lanes.is_some()),
            ("mps", self.mps.is_some()),
            ("completion", self.completion.is_some()),
            ("rate", self.rate.is_some()),
            ("gbit_per_s", self.gbit_per_s.is_some()),
            ("mtu", self.mtu.is_some()),
            ("bits", self.bits.is_some()),
            ("clock_mhz", self.clock_mhz.is_some()),
        ];
        let (needed, allowed) = self.kind.keys();
        for (key, is_given) in given {
            if is_given && !needed.contains(&key) && !allowed.contains(&key) {
                let cause = "a hop of this kind has no such key";
                let keys = [needed, allowed].concat().join(", ");
                return Err(Wrong::new(format!("{at}.{key}"), cause, format!("it has: {keys}")));
            }
            if !is_given && needed.contains(&key) {
                let cause = format!("a hop of this kind needs `{key}`");
                return Err(Wrong::new(at.to_owned(), cause, format!("add the key `{key}`")));
            }
        }
        Ok(())
    }

    fn hop_kind(&self, at: &str) -> Result<HopKind, Wrong> {
        let rate = self.gbit_per_s.unwrap_or_default();
        let mtu = || bytes(self.mtu, MTU_BYTES, 1..=65536, at, "mtu");
        Ok(match self.kind {
            KindName::Pcie | KindName::Switch | KindName::RootComplex => {
                HopKind::Pcie(self.link(at)?)
            }
            KindName::Infiniband => {
                let lanes = within(self.lanes.unwrap_or(WIRE_LANES), 1..=12, at, "lanes")?;
                let lane = self.rate.map_or(0.0, InfinibandRate::lane_gbit_per_s);
                let gbit_per_s = f64::from(lanes) * lane;
                HopKind::Wire(Wire::Infiniband { gbit_per_s, mtu_bytes: mtu()? })
            }
            KindName::Roce => {
                let gbit_per_s = positive(rate, format!("{at}.gbit_per_s"))?;
                HopKind::Wire(Wire::Roce { gbit_per_s, mtu_bytes: mtu()? })
            }
            KindName::Wire => {
                let gbit_per_s = positive(rate, format!("{at}.gbit_per_s"))?;
                HopKind::Wire(Wire::Other { gbit_per_s })
            }
            KindName::Memory => HopKind::Memory {
                bits: within(self.bits.unwrap_or(PORT_BITS), 1..=65536, at, "bits")?,
                clock_mhz: positive(self.clock_mhz.unwrap_or_default(), format!("{at}.clock_mhz"))?,
            },
        })
    }

    fn link(&self, at: &str) -> Result<PcieLink, Wrong> {
        let number = self.generation.unwrap_or_default();
        let generation = Generation::new(number).ok_or_else(|| {
            let cause = format!("there is no generation {number} of PCI Express");
            Wrong::new(format!("{at}.generation"), cause, "write a number from 1 to 6")
        })?;
        let lanes = within(self.lanes.unwrap_or_default(), 1..=32, at, "lanes")?;
        let payload_bytes = bytes(self.mps, PAYLOAD_BYTES, 128..=4096, at, "mps")?;
        let completion =
            bytes(self.completion, u64::from(payload_bytes), 1..=4096, at, "completion")?;
        Ok(PcieLink { generation, lanes, payload_bytes, completion_bytes: completion })
    }
}

fn within<T>(value: T, range: RangeInclusive<T>, at: &str, key: &str) -> Result<T, Wrong>
where
    T: PartialOrd + std::fmt::Display,
{
    let (least, most) = (range.start(), range.end());
    let suggestion = format!("write a number from {least} to {most}");
    let cause = format!("{value} is out of range");
    let wrong = Wrong::new(format!("{at}.{key}"), cause, suggestion);
    range.contains(&value).then_some(value).ok_or(wrong)
}

fn bytes(
    value: Option<Bytes>,
    otherwise: u64,
    range: RangeInclusive<u64>,
    at: &str,
    key: &str,
) -> Result<u32, Wrong> {
    let value = value.map_or(otherwise, Bytes::bytes);
    let (least, most) = (Bytes(*range.start()), Bytes(*range.end()));
    let wrong = || {
        let cause = format!("{} is out of range", Bytes(value));
        let suggestion = format!("write a size from \"{least}\" to \"{most}\"");
        Wrong::new(format!("{at}.{key}"), cause, suggestion)
    };
    u32::try_from(value).ok().filter(|_| range.contains(&value)).ok_or_else(wrong)
}

/// A finite number above 0, below what any wire or clock reaches.
fn positive(value: f64, place: String) -> Result<f64, Wrong> {
    let wrong = || Wrong::new(place, format!("{value} is out of range"), "write a number above 0");
    (value > 0.0 && value < 1e9).then_some(value).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(hop: &str) -> Wrong {
        let text = format!("[[path]]\nname = \"a\"\n[[path.hop]]\n{hop}\n");
        toml::from_str::<TopologyFile>(&text).unwrap().paths().unwrap_err()
    }

    #[test]
    fn the_first_wrong_value_is_told_with_its_place() {
        let cases = [
            ("kind = 'pcie'\nlanes = 8", "path[0].hop[0]", "add the key `generation`"),
            ("kind = 'pcie'\nlanes = 8\ngeneration = 7", "path[0].hop[0].generation", "1 to 6"),
            ("kind = 'pcie'\nlanes = 0\ngeneration = 3", "path[0].hop[0].lanes", "1 to 32"),
            (
                "kind = 'memory'\nclock_mhz = 1\nmtu = '1 B'",
                "path[0].hop[0].mtu",
                "clock_mhz, bits",
            ),
            ("kind = 'memory'\nclock_mhz = nan", "path[0].hop[0].clock_mhz", "above 0"),
            ("kind = 'wire'\ngbit_per_s = 1\nfactor = 1.5", "path[0].hop[0].factor", "at most 1"),
            ("kind = 'wire'\ngbit_per_s = 1\nlatency = '4 s'", "path[0].hop[0].latency", "3 s"),
            (
                "kind = 'wire'\ngbit_per_s = 1\nin_flight = '1 B'",
                "path[0].hop[0].in_flight",
                "both",
            ),
        ];
        for (hop, place, suggestion) in cases {
            let wrong = wrong(hop);
            assert_eq!(wrong.place, place, "{hop}");
            assert!(wrong.suggestion.contains(suggestion), "{wrong:?}");
        }
        let twice = "[[path]]\nname = 'a'\nhop = [{ kind = 'wire', gbit_per_s = 1 }]\n".repeat(2);
        let wrong = toml::from_str::<TopologyFile>(&twice).unwrap().paths().unwrap_err();
        assert_eq!(wrong.place, "path[1].name");
        let none = toml::from_str::<TopologyFile>("path = []").unwrap().paths().unwrap_err();
        assert_eq!(none.place, "path");
    }

    proptest! {
        #[test]
        fn whatever_the_numbers_a_path_has_a_rate_or_is_refused(
            generation in 0u8..9, lanes: u8, mps: u64, factor: f64, clock: f64, in_flight: u64, trip: u64,
        ) {
            let text = format!(
                "[[path]]\nname = 'a'\n[[path.hop]]\nkind = 'switch'\ngeneration = {generation}\nlanes = {lanes}\n\
                 mps = '{mps} B'\nfactor = {factor:?}\nin_flight = '{in_flight} B'\nround_trip = '{trip} ns'\n\
                 [[path.hop]]\nkind = 'memory'\nclock_mhz = {clock:?}\n"
            );
            if let Ok(paths) = toml::from_str::<TopologyFile>(&text).map(|file| file.paths()) {
                for path in paths.unwrap_or_default() {
                    let prediction = path.predict();
                    let rates = [prediction.put, prediction.get].map(|rate| rate.unwrap().gbyte_per_s());
                    prop_assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0));
                }
            }
        }
    }
}
