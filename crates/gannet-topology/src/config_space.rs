//! Configuration space of a PCI device: payload and read sizes, and access control, out of its bytes.
//!
//! The kernel shows 64 bytes of it to anybody and the rest to root, so each field may be absent. Whatever
//! the bytes are, they are read or refused; lists of capabilities that run in a ring end.
//!
//! Source: PCI Local Bus Specification 3.0, section 6.7; PCI Express Base Specification 6.0, sections 7.5.3 and
//! 7.7.11 (access control services).

use serde::Serialize;

/// Where the status register, and the pointer to the first capability, are.
const STATUS: usize = 0x06;
const CAPABILITIES: usize = 0x34;
/// Bit of the status that says that there are capabilities.
const HAS_CAPABILITIES: u16 = 1 << 4;
/// First byte behind the header, below which no capability is.
const HEADER_END: usize = 0x40;
/// First extended capability.
const EXTENDED: usize = 0x100;
/// Identity of the capability of PCI Express, and of that of access control.
const EXPRESS: u8 = 0x10;
const ACCESS_CONTROL: u16 = 0x0d;
/// Capabilities that fit into their space: lists of more are rings.
const CAPABILITIES_MAX: usize = 48;
const EXTENDED_MAX: usize = 960;

/// What a device is to the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PortType {
    /// The end of a link, of any kind.
    Endpoint,
    /// Port of a root complex.
    Root,
    /// Port of a switch towards the root.
    Upstream,
    /// Port of a switch away from the root.
    Downstream,
    /// A bridge to or from older buses, or part of a root complex.
    Other,
}

/// What the capability of PCI Express tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Express {
    /// Place in the tree.
    pub port: PortType,
    /// Most bytes of a payload that the device could take.
    pub payload_bytes_max: Option<u32>,
    /// Most bytes of a payload that it is set to (MPS).
    pub payload_bytes: Option<u32>,
    /// Most bytes that it asks for in a read (MRRS).
    pub read_request_bytes: Option<u32>,
    /// Whether its packets may overtake others.
    pub relaxed_ordering: bool,
}

/// What access control is switched on at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Acs {
    /// Requests to other ports of the switch go up to the root complex instead.
    pub request_redirect: bool,
    /// Completions do.
    pub completion_redirect: bool,
    /// Requests that come back to where they came from are passed up.
    pub upstream_forwarding: bool,
    /// Requests with an address of another bus are refused.
    pub source_validation: bool,
}

impl Acs {
    /// Whether traffic between two ports of a switch makes the way through the root complex.
    pub fn redirects(&self) -> bool {
        self.request_redirect || self.completion_redirect
    }
}

/// The capability of PCI Express in the configuration space `bytes`, if they reach that far.
pub fn express(bytes: &[u8]) -> Option<Express> {
    if half(bytes, STATUS)? & HAS_CAPABILITIES == 0 {
        return None;
    }
    let mut at = usize::from(*bytes.get(CAPABILITIES)? & !3);
    for _ in 0..CAPABILITIES_MAX {
        if at < HEADER_END {
            return None;
        }
        let (identity, next) = (*bytes.get(at)?, *bytes.get(at + 1)? & !3);
        if identity == EXPRESS {
            return express_at(bytes, at);
        }
        at = usize::from(next);
    }
    None
}

fn express_at(bytes: &[u8], at: usize) -> Option<Express> {
    let kind = half(bytes, at + 2)? >> 4 & 15;
    let (capabilities, control) = (half(bytes, at + 4)?, half(bytes, at + 8)?);
    Some(Express {
        port: match kind {
            0 | 1 => PortType::Endpoint,
            4 => PortType::Root,
            5 => PortType::Upstream,
            6 => PortType::Downstream,
            _ => PortType::Other,
        },
        payload_bytes_max: size(capabilities),
        payload_bytes: size(control >> 5),
        read_request_bytes: size(control >> 12),
        relaxed_ordering: control >> 4 & 1 == 1,
    })
}

/// Access control in the configuration space `bytes`; nothing is on where the device has none. Absent where the
/// bytes end before it could be seen.
pub fn acs(bytes: &[u8]) -> Option<Acs> {
    let mut at = EXTENDED;
    for _ in 0..EXTENDED_MAX {
        let (identity, next) = (half(bytes, at)?, usize::from(half(bytes, at + 2)? >> 4) & !3);
        if identity == ACCESS_CONTROL {
            let control = half(bytes, at + 6)?;
            let bit = |place: u32| control >> place & 1 == 1;
            return Some(Acs {
                source_validation: bit(0),
                request_redirect: bit(2),
                completion_redirect: bit(3),
                upstream_forwarding: bit(4),
            });
        }
        if next < EXTENDED {
            return Some(Acs::default());
        }
        at = next;
    }
    None
}

/// A number of bytes as its three lowest bits tell it: 128, 256, up to 4096.
fn size(bits: u16) -> Option<u32> {
    let power = bits & 7;
    (power < 6).then(|| 128 << power)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*pair))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Space of a downstream port: payload 256 of 512 B, reads of 512 B, both redirections on.
    fn downstream_port() -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[STATUS] = 0x10;
        bytes[CAPABILITIES] = 0x50;
        bytes[0x50..0x54].copy_from_slice(&[0x05, 0x80, 0, 0]);
        bytes[0x80..0x84].copy_from_slice(&[EXPRESS, 0, 0x62, 0]);
        bytes[0x84] = 2;
        bytes[0x88..0x8a].copy_from_slice(&(1u16 << 5 | 2 << 12 | 1 << 4).to_le_bytes());
        bytes[0x100..0x104].copy_from_slice(&[0x01, 0, 0x01, 0x20]);
        bytes[0x200..0x204].copy_from_slice(&[0x0d, 0, 0x01, 0]);
        bytes[0x206] = 0b1101;
        bytes
    }

    #[test]
    fn fields_lie_where_the_specification_has_them() {
        let bytes = downstream_port();
        let expected = Express {
            port: PortType::Downstream,
            payload_bytes_max: Some(512),
            payload_bytes: Some(256),
            read_request_bytes: Some(512),
            relaxed_ordering: true,
        };
        assert_eq!(express(&bytes), Some(expected));
        let acs = acs(&bytes).unwrap();
        assert!(acs.redirects() && acs.source_validation && !acs.upstream_forwarding);
    }

    #[test]
    fn what_the_kernel_hides_is_unknown_and_what_is_absent_is_off() {
        let bytes = downstream_port();
        assert_eq!((express(&bytes[..64]), acs(&bytes[..256])), (None, None));
        let mut without = bytes.clone();
        without[0x102..0x104].copy_from_slice(&[1, 0]);
        assert_eq!(acs(&without), Some(Acs::default()));
        assert_eq!(acs(&bytes[..0x204]), None);
    }

    #[test]
    fn a_ring_of_capabilities_ends() {
        let mut bytes = downstream_port();
        bytes[0x51] = 0x50;
        bytes[0x102..0x104].copy_from_slice(&[0x01, 0x10]);
        assert_eq!((express(&bytes), acs(&bytes)), (None, None));
    }

    #[test]
    fn reserved_sizes_are_unknown() {
        assert_eq!([0, 5, 6, 7].map(size), [Some(128), Some(4096), None, None]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..4200),
            pointer in any::<u8>(),
        ) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.get_mut(STATUS) { *byte |= 0x10; }
            if let Some(byte) = bytes.get_mut(CAPABILITIES) { *byte = pointer; }
            let sizes = express(&bytes).map(|e| [e.payload_bytes, e.read_request_bytes]);
            for size in sizes.into_iter().flatten().flatten() {
                prop_assert!((128..=4096).contains(&size) && size.is_power_of_two());
            }
            let _any = acs(&bytes);
        }

        #[test]
        fn damage_at_any_place_is_read_or_refused(at in 0usize..4096, value in any::<u8>(), len in 0usize..4096) {
            let mut bytes = downstream_port();
            bytes[at] = value;
            bytes.truncate(len);
            let _any = (express(&bytes), acs(&bytes));
        }
    }
}
