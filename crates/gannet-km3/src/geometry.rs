//! What is known of the modules that are read: where they are, where they look, how far their clocks are off.

use gannet_kernels::coincidences::Calibration;
use gannet_wire::km3net::detector_file::{DetectorFile, Vector};
use serde::{Deserialize, Serialize};

/// The modules that are read, in the order of their streams.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Identifier of the detector.
    pub detector: u32,
    /// The modules.
    pub modules: Vec<Optical>,
    /// Largest time that is added to that of a hit, in ns.
    pub t0_max: u32,
}

/// A module that is read.
#[derive(Clone, Debug)]
pub struct Optical {
    /// Identifier.
    pub id: u32,
    /// String on which it hangs.
    pub string: u32,
    /// Where it is, in m.
    pub position: Vector,
    /// Where its photomultipliers look, by channel.
    pub axes: Vec<Vector>,
    /// What is added to the times of its hits, in ns, by channel.
    pub t0_ns: Vec<u32>,
}

impl Geometry {
    /// The modules `ids` of `detector`, or the first of them that it does not have.
    pub fn of(detector: &DetectorFile, ids: impl IntoIterator<Item = u32>) -> Result<Self, u32> {
        let pmts = || detector.modules().iter().flat_map(|module| &module.pmts);
        let least = pmts().map(|pmt| pmt.t0_ns).fold(f64::INFINITY, f64::min);
        let module = |id| -> Result<Optical, u32> {
            let module = detector.module(id).ok_or(id)?;
            Ok(Optical {
                id,
                string: module.string,
                position: module.position,
                axes: module.pmts.iter().map(|pmt| pmt.direction).collect(),
                t0_ns: module.pmts.iter().map(|pmt| (pmt.t0_ns - least).round() as u32).collect(),
            })
        };
        let modules = ids.into_iter().map(module).collect::<Result<Vec<_>, _>>()?;
        let t0_max = modules.iter().flat_map(|module| &module.t0_ns).copied().max().unwrap_or(0);
        Ok(Self { detector: detector.id, modules, t0_max })
    }

    /// What the log of a run keeps of it.
    pub fn stored(&self) -> Vec<StoredModule> {
        let stored = |Optical { id, string, position, t0_ns, .. }: &Optical| StoredModule {
            id: *id,
            string: *string,
            position: *position,
            t0_ns: t0_ns.clone(),
        };
        self.modules.iter().map(stored).collect()
    }
}

/// What the log of a run keeps of a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredModule {
    /// Identifier.
    pub id: u32,
    /// String on which it hangs.
    pub string: u32,
    /// Where it is, in m.
    pub position: Vector,
    /// What is added to the times of its hits, in ns, by channel.
    pub t0_ns: Vec<u32>,
}

impl Optical {
    /// What the kernels add to the times of its hits.
    pub fn calibration(&self) -> Calibration {
        Calibration::new(&self.t0_ns)
    }

    /// The time of a hit as the module sent it.
    pub fn sent_time(&self, time: u64, channel: u8) -> u64 {
        let t0 = self.t0_ns.get(usize::from(channel)).copied().unwrap_or(0);
        time - u64::from(t0)
    }
}
