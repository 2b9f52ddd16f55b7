//! What a node of a torus and a process that uses it tell each other: messages over a socket of the host, and entries of
//! two rings in memory that both map.
//!
//! A message has 64 bytes, little-endian, whatever it says; descriptors of memory and of what wakes go with it:
//!
//! ```text
//! byte   0       4        6       8                                                       64
//!        | magic | version | kind | body, zero behind its last field                       |
//!
//! hello         8 process (2): 0 for any
//! register      8 region (4)  12 reach (4)  16 bytes (8)  24 address (8)         with its memory
//! deregister    8 region (4)
//! posts         8 process (2)  12 entries (4)                                    with the ring
//! completions   8 entries (4)                                                    with the ring
//! wake          8 whom (4): 0 the node, 1 the process                            with an eventfd
//! place         8 node (4)  12 sizes (3 x 2)  18 whether there is one (2)  20 burst (4)
//! registered    8 region (4)
//! deregistered  8 region (4)
//! refused       8 reason (4)  12 region (4)
//! view          8 region (4)  12 reach (4)  16 bytes (8)  24 address (8)  32 offset (8)  40 of (4)
//! carry         8 region (4)  12 rings (4)  16 buffers (4)  20 first (1)         with the device
//! ```
//!
//! The process says hello and is answered by `posts`, `completions`, `wake` twice and `place`, or by `refused`. From then on
//! `place` comes whenever the machine has another shape.
//!
//! An entry of a ring has seven words of 64 bits, low bits first:
//!
//! ```text
//!          post                                     completion
//! word 0   kind 8, 24 zero, request 32              kind 8, outcome 8, 16 zero, request 32
//!      1   node 32, process 16                      node 32, process 16
//!      2   address there                            address
//!      3   region 32                                length 32, tag 32
//!      4   offset in the region                     -
//!      5   length 32, tag 32                        -
//! ```
//!
//! Source: our own.

use core::fmt;

use crate::error::{Error, Result};
use crate::layout::put;
use crate::little_endian as le;
use crate::record::{Record, check_value};

/// Bytes of every message.
pub const LEN: usize = 64;
/// Marks a message: `GNTU`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"GNTU");
/// Version of messages and entries.
pub const VERSION: u16 = 1;
/// Words of an entry of a ring.
pub const WORDS: usize = 7;
/// Most posts of a process that are under way; so many completions always find room.
pub const POSTS_MAX: u64 = 256;

/// Longest memory that is registered at once, bytes.
pub const REGION_BYTES_MAX: u64 = 4 << 30;

mod field {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const KIND: usize = 6;
    pub const BODY: usize = 8;
    pub const SECOND: usize = 12;
    pub const BYTES: usize = 16;
    pub const BUFFERS: usize = 16;
    pub const FIRST: usize = 20;
    pub const BURST: usize = 20;
    pub const ADDRESS: usize = 24;
    pub const HAS_PLACE: usize = 18;
    pub const OFFSET: usize = 32;
    pub const OF: usize = 40;
}

/// What other nodes may do with memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: it is only where data come from that the process sends.
    Own,
    /// GET.
    Read,
    /// PUT and GET.
    Write,
}

impl Reach {
    const ALL: [Self; 3] = [Self::Own, Self::Read, Self::Write];
}

/// Why a node refuses what a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another process has the number asked for.
    Taken,
    /// As many processes as may be, or as the system lets it serve, use the node.
    Processes,
    /// As much memory as may be is registered.
    Memory,
    /// The memory cannot be mapped, or has another length than was said.
    Attach,
    /// The address is not that of a page, or has another place in its page than the bytes, or they end beyond 2^48; or others of the process are there.
    Address,
    /// The number of the region is in use, or a view is of none, or not all within it.
    Region,
    /// The node carries nothing for the process, or not with this memory.
    Device,
}

impl Refused {
    const ALL: [Self; 7] = [
        Self::Taken,
        Self::Processes,
        Self::Memory,
        Self::Attach,
        Self::Address,
        Self::Region,
        Self::Device,
    ];
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "another process of this node has this number",
            Self::Processes => "as many processes as it serves use the node",
            Self::Memory => "as much memory as it serves is registered with the node",
            Self::Attach => "the node cannot map the memory",
            Self::Address => {
                "the address is not that of a page, or the memory would reach beyond 2^48, or the process has memory there"
            }
            Self::Region => {
                "the process has a region of this number, or the view is not all within one"
            }
            Self::Device => "the node does not carry packets of a device for this process",
        })
    }
}

/// Where a host is in the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of its node.
    pub node: u32,
    /// Nodes in each dimension.
    pub sizes: [u16; 3],
    /// Longest PUT that leaves in one message of the kernel, bytes; 0 if nothing is known of it.
    pub burst_bytes: u32,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first one of a process.
    Hello {
        /// The number that it wants to have; 0 for any.
        process: u16,
    },
    /// Memory of the process is to be registered; it comes with the message.
    Register {
        /// Number by which the process calls it.
        region: u32,
        /// What others may do with it.
        reach: Reach,
        /// Its length.
        bytes: u64,
        /// Virtual address of its first byte.
        address: u64,
    },
    /// Memory is to be used no more.
    Deregister {
        /// Its number.
        region: u32,
    },
    /// The ring for posts, which comes with the message.
    Posts {
        /// Number of the process.
        process: u16,
        /// Entries of the ring.
        entries: u32,
    },
    /// The ring for completions, which comes with the message.
    Completions {
        /// Entries of the ring.
        entries: u32,
    },
    /// What wakes one of both, which comes with the message.
    Wake {
        /// Whether it is the process that is woken; the node if not.
        is_process: bool,
    },
    /// Where the host is in the machine, if there is one.
    Place(Option<Place>),
    /// Memory is registered.
    Registered {
        /// Its number.
        region: u32,
    },
    /// Memory is used no more.
    Deregistered {
        /// Its number.
        region: u32,
    },
    /// What was asked for last is refused.
    Refused {
        /// Why.
        reason: Refused,
        /// Number of the memory in question.
        region: u32,
    },
    /// A part of registered memory is to be reached at an address of its own. It is answered, and taken back by number, as
    /// memory is; it goes with the memory that it is of.
    View {
        /// Number by which the process calls it.
        region: u32,
        /// What others may do with it.
        reach: Reach,
        /// Its length.
        bytes: u64,
        /// Virtual address of its first byte, with the same place in a page as that byte.
        address: u64,
        /// Where it begins in the memory, bytes.
        offset: u64,
        /// Number of the memory.
        of: u32,
    },
    /// IP packets are to be carried between a network device, which comes with the message, and the other nodes. It is answered, and
    /// taken back by number, as memory is; [`Deregistered`](Self::Deregistered) comes unasked when the device is gone.
    Carry {
        /// Number by which the process calls it.
        region: u32,
        /// Number of the memory to which other nodes put packets.
        rings: u32,
        /// Number of the memory for packets of the device.
        buffers: u32,
        /// First byte of the addresses of all nodes.
        first: u8,
    },
}

impl Message {
    const KINDS: u16 = 12;

    fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Register { .. } => 2,
            Self::Deregister { .. } => 3,
            Self::Posts { .. } => 4,
            Self::Completions { .. } => 5,
            Self::Wake { .. } => 6,
            Self::Place(_) => 7,
            Self::Registered { .. } => 8,
            Self::Deregistered { .. } => 9,
            Self::Refused { .. } => 10,
            Self::View { .. } => 11,
            Self::Carry { .. } => 12,
        }
    }
}

impl Record for Message {
    const FORMAT: &'static str = "message between a node and a process";
    const LEN: usize = LEN;

    fn check(bytes: &[u8]) -> Result<()> {
        check_value(Self::FORMAT, "magic", MAGIC.into(), le::u32(bytes, field::MAGIC).into())?;
        let version = le::u16(bytes, field::VERSION);
        check_value(Self::FORMAT, "version", VERSION.into(), version.into())?;
        let kind = le::u16(bytes, field::KIND);
        let below = |field: &'static str, got: u64, count: usize| match got < count as u64 {
            true => Ok(()),
            false => {
                let expected = count as u64 - 1;
                Err(Error::Value { format: Self::FORMAT, field, expected, got })
            }
        };
        below("kind", u64::from(kind).wrapping_sub(1), usize::from(Self::KINDS))?;
        match kind {
            2 | 11 => below("reach", le::u32(bytes, field::SECOND).into(), Reach::ALL.len()),
            6 => below("whom", le::u32(bytes, field::BODY).into(), 2),
            7 => below("whether", le::u16(bytes, field::HAS_PLACE).into(), 2),
            10 => below("reason", le::u32(bytes, field::BODY).into(), Refused::ALL.len()),
            _ => Ok(()),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let first = le::u32(bytes, field::BODY);
        let second = le::u32(bytes, field::SECOND);
        match le::u16(bytes, field::KIND) {
            1 => Self::Hello { process: first as u16 },
            2 => Self::Register {
                region: first,
                reach: Reach::ALL[second as usize],
                bytes: le::u64(bytes, field::BYTES),
                address: le::u64(bytes, field::ADDRESS),
            },
            3 => Self::Deregister { region: first },
            4 => Self::Posts { process: first as u16, entries: second },
            5 => Self::Completions { entries: first },
            6 => Self::Wake { is_process: first == 1 },
            7 => {
                let size = |at: usize| le::u16(bytes, field::SECOND + 2 * at);
                let burst_bytes = le::u32(bytes, field::BURST);
                let place = Place { node: first, sizes: [size(0), size(1), size(2)], burst_bytes };
                Self::Place((le::u16(bytes, field::HAS_PLACE) == 1).then_some(place))
            }
            8 => Self::Registered { region: first },
            9 => Self::Deregistered { region: first },
            10 => Self::Refused { reason: Refused::ALL[first as usize], region: second },
            12 => Self::Carry {
                region: first,
                rings: second,
                buffers: le::u32(bytes, field::BUFFERS),
                first: bytes[field::FIRST],
            },
            _ => Self::View {
                region: first,
                reach: Reach::ALL[second as usize],
                bytes: le::u64(bytes, field::BYTES),
                address: le::u64(bytes, field::ADDRESS),
                offset: le::u64(bytes, field::OFFSET),
                of: le::u32(bytes, field::OF),
            },
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..LEN].fill(0);
        put(bytes, field::MAGIC, MAGIC.to_le_bytes());
        put(bytes, field::VERSION, VERSION.to_le_bytes());
        put(bytes, field::KIND, self.kind().to_le_bytes());
        let first = match *self {
            Self::Hello { process } => process.into(),
            Self::Register { region, reach, bytes: length, address } => {
                put(bytes, field::SECOND, (reach as u32).to_le_bytes());
                put(bytes, field::BYTES, length.to_le_bytes());
                put(bytes, field::ADDRESS, address.to_le_bytes());
                region
            }
            Self::View { region, reach, bytes: length, address, offset, of } => {
                put(bytes, field::SECOND, (reach as u32).to_le_bytes());
                put(bytes, field::BYTES, length.to_le_bytes());
                put(bytes, field::ADDRESS, address.to_le_bytes());
                put(bytes, field::OFFSET, offset.to_le_bytes());
                put(bytes, field::OF, of.to_le_bytes());
                region
            }
            Self::Carry { region, rings, buffers, first } => {
                put(bytes, field::SECOND, rings.to_le_bytes());
                put(bytes, field::BUFFERS, buffers.to_le_bytes());
                bytes[field::FIRST] = first;
                region
            }
            Self::Posts { process, entries } => {
                put(bytes, field::SECOND, entries.to_le_bytes());
                process.into()
            }
            Self::Completions { entries } => entries,
            Self::Wake { is_process } => is_process.into(),
            Self::Place(None) => 0,
            Self::Place(Some(Place { node, sizes, burst_bytes })) => {
                put(bytes, field::BURST, burst_bytes.to_le_bytes());
                for (at, size) in sizes.into_iter().enumerate() {
                    put(bytes, field::SECOND + 2 * at, size.to_le_bytes());
                }
                put(bytes, field::HAS_PLACE, 1u16.to_le_bytes());
                node
            }
            Self::Deregister { region }
            | Self::Registered { region }
            | Self::Deregistered { region } => region,
            Self::Refused { reason, region } => {
                put(bytes, field::SECOND, region.to_le_bytes());
                reason as u32
            }
        };
        put(bytes, field::BODY, first.to_le_bytes());
    }
}

/// Prints what it says.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello { process: 0 } => f.write_str("hello of any process"),
            Self::Hello { process } => write!(f, "hello of process {process}"),
            Self::Register { region, bytes, address, reach } => {
                write!(f, "register region {region}: {bytes} bytes at {address:#x}, {reach:?}")
            }
            Self::View { region, bytes, address, reach, offset, of } => write!(
                f,
                "view {region}: {bytes} bytes from {offset} of region {of} at {address:#x}, {reach:?}"
            ),
            Self::Carry { region, first, .. } => {
                write!(f, "carry packets of device {region}, with addresses {first}.x.x.x")
            }
            Self::Deregister { region } => write!(f, "deregister region {region}"),
            Self::Posts { process, entries } => {
                write!(f, "room for {entries} posts of process {process}")
            }
            Self::Completions { entries } => write!(f, "room for {entries} completions"),
            Self::Wake { is_process: true } => f.write_str("what wakes the process"),
            Self::Wake { is_process: false } => f.write_str("what wakes the node"),
            Self::Place(None) => f.write_str("there is no machine"),
            Self::Place(Some(Place { node, sizes: [x, y, z], .. })) => {
                write!(f, "node {node} of {x}x{y}x{z}")
            }
            Self::Registered { region } => write!(f, "region {region} is registered"),
            Self::Deregistered { region } => write!(f, "region {region} is used no more"),
            Self::Refused { reason, .. } => write!(f, "refused: {reason}"),
        }
    }
}

/// What a post asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A PUT, of which the other process is told.
    Put = 1,
    /// A GET.
    Get = 2,
    /// A PUT of which the other process is told nothing.
    QuietPut = 3,
}

/// What a process wants the node to do: an entry of the ring for posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// What it is.
    pub operation: Operation,
    /// By which the process knows its completion.
    pub request: u32,
    /// The other node.
    pub node: u32,
    /// Process there.
    pub process: u16,
    /// Virtual address there.
    pub address: u64,
    /// Region of this process.
    pub region: u32,
    /// Where the bytes begin in it.
    pub offset: u64,
    /// How many.
    pub length: u32,
    /// What the other side is told with them.
    pub tag: u32,
}

impl From<Post> for [u64; WORDS] {
    fn from(post: Post) -> Self {
        [
            post.operation as u64 | u64::from(post.request) << 32,
            u64::from(post.node) | u64::from(post.process) << 32,
            post.address,
            post.region.into(),
            post.offset,
            u64::from(post.length) | u64::from(post.tag) << 32,
            0,
        ]
    }
}

impl From<[u64; WORDS]> for Post {
    /// Of any words: a process may write what it likes.
    fn from([kind, place, address, region, offset, length, _]: [u64; WORDS]) -> Self {
        Self {
            operation: match kind as u8 {
                2 => Operation::Get,
                3 => Operation::QuietPut,
                _ => Operation::Put,
            },
            request: (kind >> 32) as u32,
            node: place as u32,
            process: (place >> 32) as u16,
            address,
            region: region as u32,
            offset,
            length: length as u32,
            tag: (length >> 32) as u32,
        }
    }
}

/// What has become of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The other node does not answer, or there is none.
    Unreachable,
    /// The process there has no such memory, or ends before; said, too, where a PUT goes on behind the last page of memory.
    Unknown,
    /// It is not all within the memory there.
    OutOfRange,
    /// The memory there may only be read.
    ReadOnly,
    /// The other node answers as many GETs as it can.
    Busy,
    /// The post was wrong: no such node, no such region here, or bytes that it does not have.
    Invalid,
    /// The node of this host has ended.
    Ended,
}

impl Outcome {
    const ALL: [Self; 8] = [
        Self::Done,
        Self::Unreachable,
        Self::Unknown,
        Self::OutOfRange,
        Self::ReadOnly,
        Self::Busy,
        Self::Invalid,
        Self::Ended,
    ];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Unreachable => "the other node does not answer",
            Self::Unknown => "no process there has memory at this address",
            Self::OutOfRange => "not all of it is within the memory there",
            Self::ReadOnly => "the memory there may only be read",
            Self::Busy => "the other node answers as many GETs as it can",
            Self::Invalid => "there is no such node, or no such memory here",
            Self::Ended => "the node of this host has ended",
        })
    }
}

/// What happened: an entry of the ring for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A post is done, or has failed.
    Done {
        /// Which.
        request: u32,
        /// What has become of it.
        outcome: Outcome,
    },
    /// Another node has put bytes in memory of the process.
    Arrived {
        /// Which node.
        node: u32,
        /// Where the bytes begin.
        address: u64,
        /// How many.
        length: u32,
        /// What the other side says of them.
        tag: u32,
    },
    /// So many arrivals were not told, since the process took none for too long.
    Missed(u64),
}

impl From<Completion> for [u64; WORDS] {
    fn from(completion: Completion) -> Self {
        let mut words = [0; WORDS];
        match completion {
            Completion::Done { request, outcome } => {
                words[0] = 1 | (outcome as u64) << 8 | u64::from(request) << 32;
            }
            Completion::Arrived { node, address, length, tag } => {
                words[..2].copy_from_slice(&[2, node.into()]);
                words[2..4].copy_from_slice(&[address, u64::from(length) | u64::from(tag) << 32]);
            }
            Completion::Missed(count) => words[..3].copy_from_slice(&[3, 0, count]),
        }
        words
    }
}

impl Completion {
    /// Of an entry; none if it says nothing.
    pub fn of([kind, node, address, length, ..]: [u64; WORDS]) -> Option<Self> {
        match kind as u8 {
            1 => {
                let outcome = *Outcome::ALL.get((kind >> 8) as usize & 0xff)?;
                Some(Self::Done { request: (kind >> 32) as u32, outcome })
            }
            2 => {
                let (node, tag) = (node as u32, (length >> 32) as u32);
                Some(Self::Arrived { node, address, length: length as u32, tag })
            }
            3 => Some(Self::Missed(address)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(message: &Message) -> [u8; LEN] {
        let mut bytes = [0xff; LEN];
        message.emit(&mut bytes);
        bytes
    }

    fn messages() -> impl Strategy<Value = Message> {
        let reach = prop::sample::select(&Reach::ALL[..]);
        let view_reach = prop::sample::select(&Reach::ALL[..]);
        let reason = prop::sample::select(&Refused::ALL[..]);
        let place = any::<(u32, [u16; 3], u32)>().prop_map(|(node, sizes, burst_bytes)| Place {
            node,
            sizes,
            burst_bytes,
        });
        prop_oneof![
            any::<u16>().prop_map(|process| Message::Hello { process }),
            (any::<u32>(), reach, any::<(u64, u64)>()).prop_map(
                |(region, reach, (bytes, address))| Message::Register {
                    region,
                    reach,
                    bytes,
                    address
                }
            ),
            any::<u32>().prop_map(|region| Message::Deregister { region }),
            any::<(u16, u32)>().prop_map(|(process, entries)| Message::Posts { process, entries }),
            any::<u32>().prop_map(|entries| Message::Completions { entries }),
            any::<bool>().prop_map(|is_process| Message::Wake { is_process }),
            prop::option::of(place).prop_map(Message::Place),
            any::<u32>().prop_map(|region| Message::Registered { region }),
            any::<u32>().prop_map(|region| Message::Deregistered { region }),
            (reason, any::<u32>()).prop_map(|(reason, region)| Message::Refused { reason, region }),
            (any::<(u32, u32)>(), view_reach, any::<(u64, u64, u64)>()).prop_map(
                |((region, of), reach, (bytes, address, offset))| Message::View {
                    region,
                    reach,
                    bytes,
                    address,
                    offset,
                    of
                }
            ),
            any::<(u32, u32, u32, u8)>().prop_map(|(region, rings, buffers, first)| {
                Message::Carry { region, rings, buffers, first }
            }),
        ]
    }

    #[test]
    fn known_bytes() {
        let place = Place { node: 0x0403_0201, sizes: [4, 3, 2], burst_bytes: 0x0102_0304 };
        let known = bytes(&Message::Place(Some(place)));
        assert_eq!(known[..16], *b"GNTU\x01\0\x07\0\x01\x02\x03\x04\x04\0\x03\0");
        assert_eq!(known[16..24], [2, 0, 1, 0, 4, 3, 2, 1]);
        assert!(known[24..].iter().all(|&byte| byte == 0));
        let post = Post {
            operation: Operation::Get,
            request: 5,
            node: 6,
            process: 7,
            address: 8,
            region: 9,
            offset: 10,
            length: 11,
            tag: 12,
        };
        let words = <[u64; WORDS]>::from(post);
        assert_eq!(words, [2 | 5 << 32, 6 | 7 << 32, 8, 9, 10, 11 | 12 << 32, 0]);
    }

    #[test]
    fn each_malformed_field_by_name() {
        let (reach, region) = (Reach::Write, 1);
        let good = bytes(&Message::Register { region, reach, bytes: 4096, address: 0 });
        for (at, value, name) in
            [(0, 0, "magic"), (4, 2, "version"), (6, 0, "kind"), (6, 13, "kind"), (12, 3, "reach")]
        {
            let mut bytes = good;
            bytes[at] = value;
            let error = Message::parse(&bytes).unwrap_err();
            assert!(matches!(error, Error::Value { field, .. } if field == name), "{error}");
        }
        assert!(matches!(Message::parse(&good[..63]), Err(Error::Truncated { .. })));
    }

    proptest! {
        #[test]
        fn every_message_comes_back(message in messages()) {
            prop_assert_eq!(Message::parse(&bytes(&message)), Ok(message));
        }

        #[test]
        fn what_is_read_of_any_bytes_says_the_same_again(mut any in any::<[u8; LEN]>(), kind in 0..14u8) {
            any[..8].copy_from_slice(&[b'G', b'N', b'T', b'U', 1, 0, kind, 0]);
            if let Ok(message) = Message::parse(&any) {
                prop_assert_eq!(Message::parse(&bytes(&message)), Ok(message));
            }
        }

        #[test]
        fn every_post_comes_back(words in any::<[u64; WORDS]>()) {
            let post = Post::from(words);
            prop_assert_eq!(Post::from(<[u64; WORDS]>::from(post)), post);
        }

        #[test]
        fn every_completion_comes_back(words in any::<[u64; WORDS]>(), kind in 0..5u64) {
            let [first, rest @ ..] = words;
            let [a, b, c, d, e, f] = rest;
            let words = [first & !0xffff | kind | first >> 16 & 0x700, a, b, c, d, e, f];
            if let Some(completion) = Completion::of(words) {
                prop_assert_eq!(Completion::of(completion.into()), Some(completion));
            }
        }
    }
}
