//! Which hits of a module others confirm, and how strictly.

use gannet_kernels::coincidences::supernova::coincidences;
use gannet_kernels::coincidences::{CalibratedHit, Coincidence, Confirmed, Partners, Rule};
use gannet_kernels::{Isa, IsaError};
use gannet_wire::km3net::detector_file::Vector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hits that are handed on or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All hits.
    L0,
    /// Hits that another photomultiplier of the module confirms.
    L1,
    /// Those that one confirms which looks in nearly the same direction.
    L2,
    /// Those of coincidences of many photomultipliers, which a supernova makes more frequent.
    Sn,
}

impl Level {
    /// Its bit in the levels of a hit.
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// When hits are of a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LevelConfig {
    /// Most time between hits that confirm each other, in ns.
    pub window_ns: u32,
    /// Largest angle between photomultipliers that confirm each other at L2, in degrees.
    pub l2_angle_deg: f64,
    /// Least photomultipliers of a coincidence of the supernova stream.
    pub sn_multiplicity: u32,
}

impl Default for LevelConfig {
    fn default() -> Self {
        Self { window_ns: 10, l2_angle_deg: 90.0, sn_multiplicity: 4 }
    }
}

/// Finds the hits of a module that others confirm.
#[derive(Debug)]
pub struct Levels {
    l1: Confirmed,
    l2: Confirmed,
    window_ns: u32,
    sn_multiplicity: u32,
    found: Vec<CalibratedHit>,
    strict: Vec<CalibratedHit>,
    many: Vec<Coincidence>,
}

impl Levels {
    /// For a module whose photomultipliers look along `axes`.
    ///
    /// # Errors
    /// When this machine lacks the instruction set.
    pub fn new(config: &LevelConfig, axes: &[Vector], isa: Isa) -> Result<Self, IsaError> {
        let window_ns = config.window_ns;
        let confirmed = |partners| Confirmed::new(Rule { window_ns, partners }, isa);
        Ok(Self {
            l1: confirmed(Partners::all())?,
            l2: confirmed(Partners::within(axes, config.l2_angle_deg.to_radians()))?,
            window_ns,
            sn_multiplicity: config.sn_multiplicity,
            found: Vec::new(),
            strict: Vec::new(),
            many: Vec::new(),
        })
    }

    /// The hits of `hits`, which are in order of time, that others confirm, each with the bits of its
    /// levels.
    pub fn find(
        &mut self,
        hits: &[CalibratedHit],
    ) -> impl ExactSizeIterator<Item = (CalibratedHit, u8)> {
        let Self { l1, l2, window_ns, sn_multiplicity, found, strict, many } = self;
        found.clear();
        strict.clear();
        many.clear();
        l1.find(hits, found);
        // Whatever is of a stricter level is of L1, and decided by hits that are.
        l2.find(found, strict);
        coincidences(found, *window_ns, *sn_multiplicity, many);
        let (mut strict, mut many) = (strict.iter().peekable(), many.iter().peekable());
        let window_ns = *window_ns;
        found.iter().map(move |&hit| {
            let mut levels = Level::L0.bit() | Level::L1.bit();
            while strict.next_if(|next| **next < hit).is_some() {}
            if strict.next_if(|next| **next == hit).is_some() {
                levels |= Level::L2.bit();
            }
            while many.next_if(|next| next.time + window_ns < hit.time()).is_some() {}
            if many.peek().is_some_and(|next| next.time <= hit.time()) {
                levels |= Level::Sn.bit();
            }
            (hit, levels)
        })
    }
}

#[cfg(test)]
mod tests {
    use gannet_wire::km3net::detector_file::directions;

    use super::*;

    #[test]
    fn hits_have_the_levels_of_their_coincidences() {
        let mut levels = Levels::new(&LevelConfig::default(), &directions(), Isa::best()).unwrap();
        let hit = |time, channel| CalibratedHit::new(time, channel, 20);
        // Channel 0 looks up, 30 down.
        let hits = [
            hit(100, 0),
            hit(105, 30),
            hit(200, 0),
            hit(211, 1),
            hit(300, 0),
            hit(301, 1),
            hit(400, 0),
            hit(402, 1),
            hit(402, 1),
            hit(404, 2),
            hit(410, 30),
            hit(411, 29),
        ];
        let found: Vec<_> = levels.find(&hits).collect();
        let [l1, l2, sn] = [Level::L1, Level::L2, Level::Sn].map(Level::bit);
        let names = |bits: u8| [bits & l1 > 0, bits & l2 > 0, bits & sn > 0];
        let all: Vec<_> = found.iter().map(|(hit, bits)| (hit.time(), names(*bits))).collect();
        let (a, b, c, d) = (true, false, true, true);
        assert_eq!(
            all[..4],
            [(100, [a, b, b]), (105, [a, b, b]), (300, [a, c, b]), (301, [a, c, b]),]
        );
        assert!(all[4..9].iter().all(|(_, levels)| levels[0] && levels[2] == d), "{all:?}");
        assert_eq!(all[9].1, [a, c, b], "a coincidence ends after its window");
    }
}
