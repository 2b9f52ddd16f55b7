//! What slows a way between two devices, and what to do about it.

use serde::Serialize;

use crate::device::Device;
use crate::rate::{Generation, PcieLink};
use crate::route::{PathClass, Route};

/// How good a way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing slows it.
    Good,
    /// Something does.
    Slow,
    /// Too little is told to say.
    Unknown,
}

/// What is to be said of a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How good it is.
    pub standing: Standing,
    /// What slows it most, in one sentence, and what to do about it.
    pub sentence: String,
    /// A command that mends it, as root, where there is one.
    pub remedy: Option<String>,
}

impl Verdict {
    fn new(standing: Standing, sentence: impl Into<String>) -> Self {
        Self { standing, sentence: sentence.into(), remedy: None }
    }
}

impl Route<'_> {
    /// What slows this way most.
    pub fn verdict(&self) -> Verdict {
        let slow = |sentence: String| Verdict::new(Standing::Slow, sentence);
        if self.links().all(|device| device.link.is_none()) {
            return Verdict::new(
                Standing::Unknown,
                "no link on the way is told, as in a virtual machine; look at the host",
            );
        }
        let Some(class) = self.class else {
            let sentence = "the kernel does not tell at which NUMA nodes the two are; look for the slots in the \
                            manual of the board";
            return Verdict::new(Standing::Unknown, sentence);
        };
        if class == PathClass::Sys {
            let [one, other] = self.ends.map(|end| end.numa_node.unwrap_or_default());
            return slow(format!(
                "it crosses the interconnect between NUMA nodes {one} and {other}, the slowest way of all; use a \
                 card at the accelerator's node, or move one of the two to the other's socket"
            ));
        }
        if let Some(port) = self.redirected_at() {
            let port = port.address;
            let remedy = format!("sudo setpci -s {port} ECAP_ACS+6.w=0000");
            let sentence = format!(
                "access control (ACS) at port {port} sends packets up through the root complex, though one switch \
                 joins the two; switch it off there: {remedy}"
            );
            return Verdict { remedy: Some(remedy), ..slow(sentence) };
        }
        if let Some(sentence) = self.links().find_map(|device| self.falls_short(device)) {
            return slow(sentence);
        }
        if class >= PathClass::Phb {
            return slow(self.through_root(class));
        }
        match self.small_payload() {
            Some(sentence) => slow(sentence),
            None => {
                Verdict::new(Standing::Good, "it stays below PCI switches, and nothing slows it")
            }
        }
    }

    /// How the link of a device falls short of what its ends could do.
    fn falls_short(&self, device: &Device) -> Option<String> {
        if !self.machine.is_down_trained(device) {
            return None;
        }
        let (now, possible) = (device.link?, self.machine.link_possible(device)?);
        Some(format!(
            "the link of {} runs at {now} where both ends could do {possible}; put the card in again or in another \
             slot (some save power so while idle: look again under load)",
            device.label()
        ))
    }

    fn through_root(&self, class: PathClass) -> String {
        let (what, pass) = match class {
            PathClass::Node => ("two root complexes of one NUMA node", "pass"),
            _ => ("the root complex", "passes"),
        };
        if self.ends.iter().any(|end| end.is_translated() == Some(true)) {
            return format!(
                "it goes through {what}, where the IOMMU translates each address, too; put both below one PCI \
                 switch, or start the kernel with iommu=pt"
            );
        }
        format!(
            "it goes through {what}, which {pass} on packets between devices more slowly than a switch does; put \
             both below one PCI switch if the board has one"
        )
    }

    /// What packets lose that are smaller than they could be.
    fn small_payload(&self) -> Option<String> {
        let (now, possible) = (self.payload_bytes()?, self.payload_bytes_possible()?);
        // The share that headers take does not depend on the link, but for flits.
        let generation = Generation::new(3)?;
        let rate = |bytes| PcieLink::new(generation, 1, bytes).write_gbyte_per_s();
        let lost = 1.0 - rate(now) / rate(possible);
        (now < possible).then(|| {
            format!(
                "packets carry {now} B where every device on the way could take {possible} B, which costs {:.0} % of \
                 the rate of writes; raise the maximum payload in the firmware, or start the kernel with \
                 pci=pcie_bus_perf",
                100.0 * lost
            )
        })
    }
}
