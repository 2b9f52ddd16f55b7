//! Telling what bytes are, and printing them for a person.
//!
//! [`identify`] guesses the format of bytes from markers and lengths, [`describe`] prints them. A
//! user who knows better names the format: [`Format`] is read from its name.
//!
//! ```
//! use gannet_wire::inspect::{Format, describe, identify};
//!
//! let bytes = [2, 0, 1, 0, 0x64, 0, 0, 0];
//! let format = identify(&bytes).unwrap();
//! assert_eq!(format, Format::SourceId);
//!
//! let mut text = String::new();
//! describe(format, &bytes, &mut text)?;
//! assert_eq!(text, "0: Detector_Readout_0x00000064\n");
//! # Ok::<(), gannet_wire::Error>(())
//! ```

mod capture;
mod describe;
mod identify;
mod indented;
mod payload;

use core::fmt;
use core::str::FromStr;

use crate::error::{Error, Result};

pub use describe::{ITEMS_SHOWN, describe};
pub use identify::identify;
pub use payload::payload_items;

/// Makes the formats and their names from one table.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident = $name:literal,)*) => {
        /// A format that can be printed. Where items of fixed length follow each other, such as
        /// frames or primitives, it stands for all that fill the bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Self] = &[$(Self::$format),*];

            /// The name by which a user asks for the format.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
            }
        }

        /// The names, for messages.
        const NAMES: &str = concat!("one of these:" $(, " ", $name)*);
    };
}

formats! {
    /// Fragment with its payload.
    Fragment = "fragment",
    /// Trigger record header with its component requests.
    TriggerRecord = "trigger-record",
    /// Time slice header.
    TimeSlice = "time-slice",
    /// Component requests.
    ComponentRequest = "component-request",
    /// Source identifiers.
    SourceId = "source-id",
    /// Trigger primitives of version 2.
    TriggerPrimitive = "trigger-primitive",
    /// Trigger primitives of version 1.
    TriggerPrimitiveV1 = "trigger-primitive-v1",
    /// Trigger activities with their primitives.
    TriggerActivity = "trigger-activity",
    /// Trigger candidates with their activities.
    TriggerCandidate = "trigger-candidate",
    /// WIBEth frames.
    WibEth = "wibeth",
    /// TDEEth frames.
    TdeEth = "tdeeth",
    /// ProtoDUNE-SP WIB frames.
    ProtoWib = "protowib",
    /// DAQ Ethernet header, whatever follows it.
    DaqEthernet = "daq-ethernet",
    /// Ethernet frame and what it carries.
    Ethernet = "ethernet",
    /// IPv4 packet and what it carries.
    Ipv4 = "ipv4",
    /// UDP datagram and what it carries.
    Udp = "udp",
    /// Packet of an APElink: header, payload and footer.
    ApeLink = "apelink",
    /// pcap capture and its packets.
    Pcap = "pcap",
    /// pcapng capture and its packets.
    Pcapng = "pcapng",
    /// RDMA packet of the torus.
    Rdma = "rdma",
    /// Packet of RoCEv2, as a UDP datagram carries it.
    RoCe = "roce",
    /// Merged events of the RICH of NA62.
    M2Egp = "m2egp",
    /// Datagram with events of the RICH of NA62.
    Mgp = "mgp",
    /// Packet of primitives of NA62.
    Mtp = "mtp",
    /// Packet of an optical module of KM3NeT.
    Clb = "clb",
    /// Capture of packets of optical modules of KM3NeT.
    ClbCapture = "clb-capture",
    /// Time slices, summary slices and events of KM3NeT.
    Km3NetDaq = "km3net-daq",
    /// Events of a readout board of NA62.
    Mep = "mep",
    /// Frame of the TDM line of a KM3NeT-Italy tower.
    Tdm = "tdm",
    /// Command to a front-end module, or its acknowledgement.
    SlowControl = "slow-control",
    /// Messages between endpoints of the fabric.
    Exchange = "exchange",
    /// Message between the readout and the builder of a run.
    ReadoutLink = "readout-link",
    /// Frame of a link of the torus in software: credit and packets.
    ApeLinkFrame = "apelink-frame",
    /// Message between hosts at the ends of a cable of the torus.
    Neighbour = "neighbour",
}

/// Prints the name.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a name as [`Format::name`] gives it.
impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let format = Self::ALL.iter().find(|format| format.name() == name);
        format.copied().ok_or(Error::Text { what: "format", expected: NAMES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_listed_in_the_error() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
            assert!(NAMES.split(' ').any(|name| name == format.name()));
        }
        let error = "wib-eth".parse::<Format>().unwrap_err();
        assert!(error.to_string().contains("trigger-primitive-v1"), "{error}");
    }
}
