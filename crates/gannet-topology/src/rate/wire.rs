//! Wires between machines: InfiniBand, RDMA over Ethernet, and any other of a known rate.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes of an InfiniBand packet that are no payload: LRH 8, BTH 12, invariant CRC 4, variant CRC 2.
///
/// Source: InfiniBand Architecture Specification 1, chapters 7 and 9.
const INFINIBAND_BYTES: u32 = 26;
/// The same of RoCEv2 over IPv4: preamble and gap 20, Ethernet 14 and 4, IP 20, UDP 8, BTH 12, invariant CRC 4.
const ROCE_BYTES: u32 = 82;

/// Rates of InfiniBand, by the names of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum InfinibandRate {
    /// 10 Gbit/s a lane, 8b/10b.
    #[serde(rename = "QDR")]
    Qdr,
    /// 14.0625 Gbit/s a lane, 64b/66b.
    #[serde(rename = "FDR")]
    Fdr,
    /// 25.78125 Gbit/s a lane, 64b/66b.
    #[serde(rename = "EDR")]
    Edr,
    /// 50 Gbit/s a lane after coding.
    #[serde(rename = "HDR")]
    Hdr,
    /// 100 Gbit/s a lane after coding.
    #[serde(rename = "NDR")]
    Ndr,
}

impl InfinibandRate {
    /// Data rate of a lane after its code, Gbit/s.
    pub fn lane_gbit_per_s(self) -> f64 {
        match self {
            Self::Qdr => 10.0 * 0.8,
            Self::Fdr => 14.0625 * 64.0 / 66.0,
            Self::Edr => 25.78125 * 64.0 / 66.0,
            Self::Hdr => 50.0,
            Self::Ndr => 100.0,
        }
    }
}

/// Prints the name.
impl fmt::Display for InfinibandRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qdr => "QDR",
            Self::Fdr => "FDR",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
            Self::Ndr => "NDR",
        })
    }
}

/// A wire, with the packets on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire {
    /// InfiniBand of this data rate.
    Infiniband {
        /// Rate after coding.
        gbit_per_s: f64,
        /// Most bytes of a packet's payload.
        mtu_bytes: u32,
    },
    /// RoCEv2 on an Ethernet of this rate.
    Roce {
        /// Rate of the Ethernet.
        gbit_per_s: f64,
        /// Most bytes of a packet's payload.
        mtu_bytes: u32,
    },
    /// Another wire, of this rate after everything that is known to be taken off.
    Other {
        /// Rate after coding.
        gbit_per_s: f64,
    },
}

impl Wire {
    /// What it carries of payload, GB/s.
    pub fn gbyte_per_s(&self) -> f64 {
        let (gbit_per_s, mtu, overhead) = match *self {
            Self::Infiniband { gbit_per_s, mtu_bytes } => (gbit_per_s, mtu_bytes, INFINIBAND_BYTES),
            Self::Roce { gbit_per_s, mtu_bytes } => (gbit_per_s, mtu_bytes, ROCE_BYTES),
            Self::Other { gbit_per_s } => return gbit_per_s / 8.0,
        };
        gbit_per_s / 8.0 * f64::from(mtu) / f64::from(mtu.saturating_add(overhead))
    }
}

/// Prints what it is and its rate.
impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infiniband { gbit_per_s, mtu_bytes } => {
                write!(f, "InfiniBand, {gbit_per_s:.0} Gbit/s, MTU {mtu_bytes} B")
            }
            Self::Roce { gbit_per_s, mtu_bytes } => {
                write!(f, "RoCEv2, {gbit_per_s:.0} Gbit/s, MTU {mtu_bytes} B")
            }
            Self::Other { gbit_per_s } => write!(f, "{gbit_per_s:.1} Gbit/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 0.005, "{found} is not {wanted}");
    }

    #[test]
    fn four_lanes_carry_the_rates_of_the_standard() {
        use InfinibandRate::{Edr, Fdr, Hdr, Ndr, Qdr};
        let rates = [(Qdr, 4.0), (Fdr, 6.82), (Edr, 12.5), (Hdr, 25.0), (Ndr, 50.0)];
        for (rate, wanted) in rates {
            close(4.0 * rate.lane_gbit_per_s() / 8.0, wanted);
        }
    }

    #[test]
    fn packets_take_their_headers() {
        close(Wire::Infiniband { gbit_per_s: 100.0, mtu_bytes: 4096 }.gbyte_per_s(), 12.42);
        let roce = |mtu_bytes| Wire::Roce { gbit_per_s: 8.0, mtu_bytes }.gbyte_per_s();
        close(roce(4096), 0.980);
        close(roce(1024), 0.926);
        // APElink: 28 Gbit/s, 8b/10b, and the published efficiency of 0.784.
        close(Wire::Other { gbit_per_s: 28.0 * 0.8 * 0.784 }.gbyte_per_s(), 2.195);
    }
}
