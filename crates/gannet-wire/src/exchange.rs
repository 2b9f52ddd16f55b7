//! What two endpoints of the fabric tell each other out of band: who they are, and which windows of
//! memory the other one may reach.
//!
//! A message has 64 bytes, little-endian, whatever it says:
//!
//! ```text
//! byte   0       4        6       8                                                       64
//!        | magic | version | kind | body, zero behind its last field                       |
//!
//! hello    8 nonce (32)   40 backend (4)   44 deadline in ms (4)
//! proof    8 code (32)
//! events   8 entries (4)
//! window   8 key (8)   16 bytes (8)   24 offset in its region, or its address over a torus (8)   32 bytes of the region (8)
//!         40 region (4)   44 label (4)   48 access (4): 0 read, 1 write
//! close    8 key (8)
//! closed   8 key (8)   16 events (8)
//! address  8 bytes of the whole (4)   12 place of these (4)   16 as many as are left, at most 48
//! region   8 number (4)   16 base (8)   24 key (8)
//! ```
//!
//! `hello` and `proof` come first, once from each side; see `gannet-fabric` for who says what when. An
//! address, in the words of the backend, comes in pieces of 48 bytes, the last one shorter.
//!
//! Source: our own.

use core::fmt;

use crate::error::{Error, Result};
use crate::layout::{array, put};
use crate::little_endian as le;
use crate::record::{Record, check_value};

/// Bytes of every message.
pub const LEN: usize = 64;
/// Marks a message: `GNXM`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"GNXM");
/// Bytes of an address in a message.
pub const PIECE_LEN: usize = LEN - field::PIECE;
/// Version of the layout.
pub const VERSION: u16 = 1;

mod field {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const KIND: usize = 6;
    pub const BODY: usize = 8;
    pub const BACKEND: usize = 40;
    pub const DEADLINE: usize = 44;
    pub const BYTES: usize = 16;
    pub const OFFSET: usize = 24;
    pub const REGION_BYTES: usize = 32;
    pub const REGION: usize = 40;
    pub const LABEL: usize = 44;
    pub const ACCESS: usize = 48;
    pub const PLACE: usize = 12;
    pub const PIECE: usize = 16;
    pub const BASE: usize = 16;
    pub const REGION_KEY: usize = 24;
}

/// Memory that the sender of a message lets its receiver reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// What an access has to name.
    pub key: u64,
    /// Length.
    pub bytes: u64,
    /// Where it begins in its region, bytes; over a torus, the virtual address of its first byte.
    pub offset: u64,
    /// Length of the region.
    pub region_bytes: u64,
    /// Number of the region with its owner.
    pub region: u32,
    /// What the application calls it.
    pub label: u32,
    /// Whether it may be written; if not, it may be read.
    pub is_writable: bool,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first one of each side.
    Hello {
        /// Drawn at random for this exchange.
        nonce: [u8; 32],
        /// Number of the backend.
        backend: u32,
        /// Time without a sign of life after which the sender gives the other one up, milliseconds.
        deadline_ms: u32,
    },
    /// That the sender knows the secret.
    Proof {
        /// Code of both hellos under the secret.
        code: [u8; 32],
    },
    /// Where the receiver puts its events for the sender.
    Events {
        /// Events that find room.
        entries: u32,
    },
    /// A window was opened.
    Window(Window),
    /// A window is taken back: the receiver is to stop using it, and to say so.
    Close {
        /// Its key.
        key: u64,
    },
    /// The receiver's window is used no more.
    Closed {
        /// Its key.
        key: u64,
        /// How many events the sender has written since the exchange: those of the window are among them.
        events: u64,
    },
    /// A piece of the address at which the sender takes data.
    Address {
        /// Bytes of the whole.
        bytes: u32,
        /// Where these begin in it.
        place: u32,
        /// As many of them as are left; zero behind them.
        piece: [u8; PIECE_LEN],
    },
    /// How a card reaches the memory in which windows lie.
    Region {
        /// Number of the region with its owner.
        region: u32,
        /// Address of its first byte.
        base: u64,
        /// What an access of a card has to name.
        key: u64,
    },
}

impl Message {
    const KINDS: u16 = 8;

    fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Proof { .. } => 2,
            Self::Events { .. } => 3,
            Self::Window(_) => 4,
            Self::Close { .. } => 5,
            Self::Closed { .. } => 6,
            Self::Address { .. } => 7,
            Self::Region { .. } => 8,
        }
    }

    /// The message as it is sent.
    pub fn to_bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        self.emit(&mut bytes);
        bytes
    }
}

impl Record for Message {
    const FORMAT: &'static str = "message between endpoints";
    const LEN: usize = LEN;

    fn check(bytes: &[u8]) -> Result<()> {
        check_value(Self::FORMAT, "magic", MAGIC.into(), le::u32(bytes, field::MAGIC).into())?;
        let version = le::u16(bytes, field::VERSION);
        check_value(Self::FORMAT, "version", VERSION.into(), version.into())?;
        let kind = le::u16(bytes, field::KIND);
        if !(1..=Self::KINDS).contains(&kind) {
            let expected = Self::KINDS.into();
            return Err(Error::Value {
                format: Self::FORMAT,
                field: "kind",
                expected,
                got: kind.into(),
            });
        }
        let access = le::u32(bytes, field::ACCESS);
        if kind == 4 && access > 1 {
            let (expected, got) = (1, access.into());
            return Err(Error::Value { format: Self::FORMAT, field: "access", expected, got });
        }
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        let key = le::u64(bytes, field::BODY);
        match le::u16(bytes, field::KIND) {
            1 => Self::Hello {
                nonce: array(bytes, field::BODY),
                backend: le::u32(bytes, field::BACKEND),
                deadline_ms: le::u32(bytes, field::DEADLINE),
            },
            2 => Self::Proof { code: array(bytes, field::BODY) },
            3 => Self::Events { entries: le::u32(bytes, field::BODY) },
            4 => Self::Window(Window {
                key,
                bytes: le::u64(bytes, field::BYTES),
                offset: le::u64(bytes, field::OFFSET),
                region_bytes: le::u64(bytes, field::REGION_BYTES),
                region: le::u32(bytes, field::REGION),
                label: le::u32(bytes, field::LABEL),
                is_writable: le::u32(bytes, field::ACCESS) == 1,
            }),
            5 => Self::Close { key },
            6 => Self::Closed { key, events: le::u64(bytes, field::BYTES) },
            7 => Self::Address {
                bytes: le::u32(bytes, field::BODY),
                place: le::u32(bytes, field::PLACE),
                piece: array(bytes, field::PIECE),
            },
            _ => Self::Region {
                region: le::u32(bytes, field::BODY),
                base: le::u64(bytes, field::BASE),
                key: le::u64(bytes, field::REGION_KEY),
            },
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..LEN].fill(0);
        put(bytes, field::MAGIC, MAGIC.to_le_bytes());
        put(bytes, field::VERSION, VERSION.to_le_bytes());
        put(bytes, field::KIND, self.kind().to_le_bytes());
        match *self {
            Self::Hello { nonce, backend, deadline_ms } => {
                put(bytes, field::BODY, nonce);
                put(bytes, field::BACKEND, backend.to_le_bytes());
                put(bytes, field::DEADLINE, deadline_ms.to_le_bytes());
            }
            Self::Proof { code } => put(bytes, field::BODY, code),
            Self::Events { entries } => put(bytes, field::BODY, entries.to_le_bytes()),
            Self::Window(window) => {
                put(bytes, field::BODY, window.key.to_le_bytes());
                put(bytes, field::BYTES, window.bytes.to_le_bytes());
                put(bytes, field::OFFSET, window.offset.to_le_bytes());
                put(bytes, field::REGION_BYTES, window.region_bytes.to_le_bytes());
                put(bytes, field::REGION, window.region.to_le_bytes());
                put(bytes, field::LABEL, window.label.to_le_bytes());
                put(bytes, field::ACCESS, u32::from(window.is_writable).to_le_bytes());
            }
            Self::Close { key } => put(bytes, field::BODY, key.to_le_bytes()),
            Self::Closed { key, events } => {
                put(bytes, field::BODY, key.to_le_bytes());
                put(bytes, field::BYTES, events.to_le_bytes());
            }
            Self::Address { bytes: whole, place, piece } => {
                put(bytes, field::BODY, whole.to_le_bytes());
                put(bytes, field::PLACE, place.to_le_bytes());
                put(bytes, field::PIECE, piece);
            }
            Self::Region { region, base, key } => {
                put(bytes, field::BODY, region.to_le_bytes());
                put(bytes, field::BASE, base.to_le_bytes());
                put(bytes, field::REGION_KEY, key.to_le_bytes());
            }
        }
    }
}

/// What the backend over UDP says as its address. Little-endian.
///
/// ```text
/// 0   port 16   2   longest datagram 32 (bytes)   6   number 64   14
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpAddress {
    /// Port that takes datagrams, at the address that the connection comes from.
    pub port: u16,
    /// Bytes of the longest datagram that is taken.
    pub datagram_max: u32,
    /// What each datagram has to begin with.
    pub number: u64,
}

impl Record for UdpAddress {
    const FORMAT: &'static str = "address over UDP";
    const LEN: usize = 14;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self { port: le::u16(bytes, 0), datagram_max: le::u32(bytes, 2), number: le::u64(bytes, 6) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.port.to_le_bytes());
        put(bytes, 2, self.datagram_max.to_le_bytes());
        put(bytes, 6, self.number.to_le_bytes());
    }
}

/// Prints it without the number, which strangers are not to know.
impl fmt::Display for UdpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}, datagrams of up to {} bytes", self.port, self.datagram_max)
    }
}

/// What the backend over a torus says as its address. Little-endian.
///
/// ```text
/// 0   node 32   4   process 16   6   room for events 32   10   address of its words 64   18
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorusAddress {
    /// Node of its host.
    pub node: u32,
    /// Its number there.
    pub process: u16,
    /// How many events it can have that it has not taken.
    pub events: u32,
    /// Virtual address of the words that the other side writes.
    pub words: u64,
}

impl Record for TorusAddress {
    const FORMAT: &'static str = "address over a torus";
    const LEN: usize = 18;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            node: le::u32(bytes, 0),
            process: le::u16(bytes, 4),
            events: le::u32(bytes, 6),
            words: le::u64(bytes, 10),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.node.to_le_bytes());
        put(bytes, 4, self.process.to_le_bytes());
        put(bytes, 6, self.events.to_le_bytes());
        put(bytes, 10, self.words.to_le_bytes());
    }
}

/// Prints it without the virtual address, which strangers are not to know.
impl fmt::Display for TorusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, process, events, .. } = self;
        write!(f, "process {process} of node {node}, room for {events} events")
    }
}

/// Prints what it says; no key and no code of a secret.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello { backend, deadline_ms, .. } => {
                write!(f, "hello of backend {backend}, gives up after {deadline_ms} ms")
            }
            Self::Proof { .. } => f.write_str("proof of the secret"),
            Self::Events { entries } => write!(f, "room for {entries} events"),
            Self::Window(Window { bytes, region, label, is_writable, .. }) => {
                let access = if *is_writable { "written" } else { "read" };
                write!(f, "window {label}: {bytes} bytes of region {region} may be {access}")
            }
            Self::Close { .. } => f.write_str("a window is taken back"),
            Self::Closed { .. } => f.write_str("a window is used no more"),
            Self::Address { bytes, place, .. } => {
                write!(f, "address of {bytes} bytes, from {place} on")
            }
            Self::Region { region, base, .. } => write!(f, "region {region} begins at {base:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_over_udp_has_fourteen_bytes() {
        let address =
            UdpAddress { port: 0x0201, datagram_max: 0x0605_0403, number: 0x0e0d_0c0b_0a09_0807 };
        let mut bytes = [0; UdpAddress::LEN];
        address.emit(&mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(UdpAddress::parse(&bytes).unwrap(), address);
        assert!(UdpAddress::parse(&bytes[..13]).is_err());
    }

    #[test]
    fn an_address_over_a_torus_has_eighteen_bytes() {
        let (node, process, events) = (0x0403_0201, 0x0605, 0x0a09_0807);
        let address = TorusAddress { node, process, events, words: 0x1211_100f_0e0d_0c0b };
        let mut bytes = [0; TorusAddress::LEN];
        address.emit(&mut bytes);
        assert!(bytes.into_iter().eq(1..=18));
        assert_eq!(TorusAddress::parse(&bytes).unwrap(), address);
        assert!(TorusAddress::parse(&bytes[..17]).is_err());
    }

    const WINDOW: Window = Window {
        key: 0x0807_0605_0403_0201,
        bytes: 100,
        offset: 4096,
        region_bytes: 8192,
        region: 3,
        label: 9,
        is_writable: true,
    };

    #[test]
    fn known_bytes() {
        let bytes = Message::Window(WINDOW).to_bytes();
        assert_eq!(bytes[..16], *b"GNXM\x01\0\x04\0\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!((bytes[16], bytes[25], bytes[33]), (100, 16, 32));
        assert_eq!((bytes[40], bytes[44], bytes[48]), (3, 9, 1));
        assert_eq!(Message::parse(&bytes), Ok(Message::Window(WINDOW)));
        let text = Message::Window(WINDOW).to_string();
        assert_eq!(text, "window 9: 100 bytes of region 3 may be written");
    }

    #[test]
    fn each_malformed_field_by_name() {
        let good = Message::Window(WINDOW).to_bytes();
        for (at, value, name) in
            [(0, 0, "magic"), (4, 2, "version"), (6, 0, "kind"), (6, 9, "kind"), (48, 2, "access")]
        {
            let mut bytes = good;
            bytes[at] = value;
            let error = Message::parse(&bytes).unwrap_err();
            assert!(matches!(error, Error::Value { field, .. } if field == name), "{error}");
        }
        assert!(matches!(Message::parse(&good[..63]), Err(Error::Truncated { .. })));
    }

    fn messages() -> impl Strategy<Value = Message> {
        let hello = any::<([u8; 32], u32, u32)>().prop_map(|(nonce, backend, deadline_ms)| {
            Message::Hello { nonce, backend, deadline_ms }
        });
        let window = any::<(u64, u64, u64, u64, u32, u32, bool)>().prop_map(
            |(key, bytes, offset, region_bytes, region, label, is_writable)| {
                Message::Window(Window {
                    key,
                    bytes,
                    offset,
                    region_bytes,
                    region,
                    label,
                    is_writable,
                })
            },
        );
        prop_oneof![
            hello,
            any::<[u8; 32]>().prop_map(|code| Message::Proof { code }),
            any::<u32>().prop_map(|entries| Message::Events { entries }),
            window,
            any::<u64>().prop_map(|key| Message::Close { key }),
            any::<(u64, u64)>().prop_map(|(key, events)| Message::Closed { key, events }),
            any::<(u32, u32, [u8; PIECE_LEN])>()
                .prop_map(|(bytes, place, piece)| Message::Address { bytes, place, piece }),
            any::<(u32, u64, u64)>().prop_map(|(region, base, key)| Message::Region {
                region,
                base,
                key
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_comes_back(message in messages()) {
            prop_assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        }
    }
}
