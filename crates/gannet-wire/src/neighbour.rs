//! What hosts of a torus tell each other over their cables: who they are, what they are joined to, and which machine
//! they make together.
//!
//! A message is one datagram:
//!
//! ```text
//! byte  0      4      5      6        8
//!      | magic | kind | 0    | length | body, so many bytes
//!
//! magic: "GTN" and the version; integers are little-endian, but for the magic
//!
//! call    identity                     who is at this end, to whoever is at the other
//! open    identity, Noise message      the first of a handshake
//! answer  Noise message                the second
//! sealed  counter (8), Noise message   items, as the handshake has agreed to seal them
//!
//! Zeros may follow an open and an answer, so that they are as long as the frames that are to pass.
//!
//! identity
//!   0  8  host                          16  4  longest frame of the cable, bytes
//!   8  8  life of the host              20  2  port
//!  22  2  flags: bit 0, frames of the link are to be proved; bit 1, a path of the service network; the others are 0
//!  24 32  name of the host, zero behind it
//!  56 16  name of the port, zero behind it
//! ```
//!
//! What sealed messages hold: [`Item`]. Where frames of the link are proved, [`PROOF_LEN`] bytes lie behind each.
//!
//! Source: ours. Handshake: the Noise protocol framework, revision 34, pattern NNpsk0.

mod item;

use core::fmt;

use crate::error::{Error, Result};
use crate::layout::{array, check_len, put};
use crate::record::{Record, check_value};

pub use item::{
    Advert, AdvertPort, HOSTS_MAX, Item, Kind, Order, OrderNode, PORTS_MAX, PortState, Taken,
};

/// Version of the layout.
pub const VERSION: u8 = 1;
/// Most bytes of the name of a host.
pub const HOST_NAME_MAX: usize = 32;
/// Most bytes of the name of a port.
pub const PORT_NAME_MAX: usize = 16;
/// Bytes behind a frame of the link that prove who has sent it: a number (8), greater than those before, and a tag (16).
pub const PROOF_LEN: usize = 24;
/// Bytes before the body of a message.
pub const HEAD_LEN: usize = 8;
/// Bytes before the Noise message of a [`Message::Sealed`].
pub const SEALED_AT: usize = HEAD_LEN + size_of::<u64>();

const FORMAT: &str = "torus neighbour";
/// Flags of an identity.
const PROTECTS: u16 = 1;
const SERVICE: u16 = 2;
const MAGIC: u32 = u32::from_be_bytes(*b"\0GTN");
const CALL: u8 = 1;
const OPEN: u8 = 2;
const ANSWER: u8 = 3;
const SEALED: u8 = 4;

/// A host, by a number that outlives its restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u64);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A short name of `N` bytes at most: letters, digits and signs of ASCII, without spaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<const N: usize>([u8; N]);

impl<const N: usize> Default for Name<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Name<N> {
    /// As much of `text` as fits, with `?` for what is no sign of ASCII.
    pub fn of(text: &str) -> Self {
        let signs =
            text.chars().map(|sign| if sign.is_ascii_graphic() { sign as u8 } else { b'?' });
        let mut name = [0; N];
        name.iter_mut().zip(signs).for_each(|(place, sign)| *place = sign);
        Self(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|&sign| sign == 0).unwrap_or(N);
        str::from_utf8(&self.0[..len]).unwrap_or_default()
    }

    fn parse(bytes: &[u8], field: &'static str) -> Result<Self> {
        let name: [u8; N] = array(bytes, 0);
        let len = name.iter().position(|&sign| sign == 0).unwrap_or(N);
        let stray = |sign: &&u8| !sign.is_ascii_graphic();
        match name[..len].iter().find(stray).or_else(|| name[len..].iter().find(|&&sign| sign != 0))
        {
            Some(&got) => Err(Error::Unknown { format: FORMAT, field, got: got.into() }),
            None => Ok(Self(name)),
        }
    }
}

impl<const N: usize> fmt::Display for Name<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Name<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Who is at an end of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The host.
    pub host: HostId,
    /// Which life of the host: greater after each start.
    pub life: u64,
    /// Number of the port.
    pub port: u16,
    /// Longest frame that the cable carries from there, bytes, with what proves it.
    pub frame_bytes: u32,
    /// Whether this end wants frames of the link to be proved, which both ends do then ([`PROOF_LEN`]).
    pub protects: bool,
    /// Whether this is no end of a cable, but of a path over the service network, which carries no frames of a link.
    pub is_service: bool,
    /// What people call the host.
    pub host_name: Name<HOST_NAME_MAX>,
    /// What people call the port.
    pub port_name: Name<PORT_NAME_MAX>,
}

impl Identity {
    /// Name of the host and of the port, as sentences have it.
    pub fn place(&self) -> impl fmt::Display + use<> {
        Place(*self)
    }
}

struct Place(Identity);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.0.host_name, self.0.port_name)
    }
}

impl Record for Identity {
    const FORMAT: &'static str = FORMAT;
    const LEN: usize = 72;

    fn check(bytes: &[u8]) -> Result<()> {
        let flags = u16::from_le_bytes(array(bytes, 22));
        check_value(FORMAT, "flags", 0, (flags & !(PROTECTS | SERVICE)).into())?;
        Name::<HOST_NAME_MAX>::parse(&bytes[24..], "host name")?;
        Name::<PORT_NAME_MAX>::parse(&bytes[56..], "port name").map(drop)
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            host: HostId(u64::from_le_bytes(array(bytes, 0))),
            life: u64::from_le_bytes(array(bytes, 8)),
            frame_bytes: u32::from_le_bytes(array(bytes, 16)),
            port: u16::from_le_bytes(array(bytes, 20)),
            protects: u16::from_le_bytes(array(bytes, 22)) & PROTECTS != 0,
            is_service: u16::from_le_bytes(array(bytes, 22)) & SERVICE != 0,
            host_name: Name(array(bytes, 24)),
            port_name: Name(array(bytes, 56)),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.host.0.to_le_bytes());
        put(bytes, 8, self.life.to_le_bytes());
        put(bytes, 16, self.frame_bytes.to_le_bytes());
        put(bytes, 20, self.port.to_le_bytes());
        let protects = if self.protects { PROTECTS } else { 0 };
        let service = if self.is_service { SERVICE } else { 0 };
        put(bytes, 22, (protects | service).to_le_bytes());
        put(bytes, 24, self.host_name.0);
        put(bytes, 56, self.port_name.0);
    }
}

/// A message from one end of a cable to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Who is at this end.
    Call(Identity),
    /// The first message of a handshake, and who claims to send it.
    Open(Identity, &'a [u8]),
    /// The second message of a handshake.
    Answer(&'a [u8]),
    /// Items, sealed with this number.
    Sealed(u64, &'a [u8]),
}

/// Whether a datagram is to be read as a message, and not as a frame of the link.
#[inline]
pub fn is_message(bytes: &[u8]) -> bool {
    bytes.get(..3) == Some(&MAGIC.to_be_bytes()[1..])
}

/// Whether a datagram is a [`Message::Call`], which is for whoever is at the other end.
#[inline]
pub fn is_call(bytes: &[u8]) -> bool {
    is_message(bytes) && bytes.get(4) == Some(&CALL)
}

impl<'a> Message<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// When it is no message, or one of another version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        check_len(FORMAT, bytes, HEAD_LEN)?;
        let start = u32::from_be_bytes(array(bytes, 0));
        check_value(FORMAT, "magic", MAGIC.into(), (start >> 8).into())?;
        if start as u8 != VERSION {
            let got = (start & 0xff).into();
            return Err(Error::Version { format: FORMAT, known: "1", got });
        }
        check_value(FORMAT, "reserved", 0, bytes[5].into())?;
        let (head, rest) = bytes.split_at(HEAD_LEN);
        let len = usize::from(u16::from_le_bytes(array(head, 6)));
        check_len(FORMAT, rest, len)?;
        let (body, behind) = rest.split_at(len);
        match head[4] {
            OPEN | ANSWER => {
                let stray = behind.iter().find(|&&byte| byte != 0).copied().unwrap_or(0);
                check_value(FORMAT, "bytes behind it", 0, stray.into())?;
            }
            _ => check_value(FORMAT, "length", rest.len() as u64, len as u64)?,
        }
        let identity = || -> Result<(Identity, &'a [u8])> {
            Ok((Identity::parse(body)?, &body[Identity::LEN..]))
        };
        match head[4] {
            CALL => {
                let (identity, rest) = identity()?;
                check_value(FORMAT, "bytes behind the identity", 0, rest.len() as u64)?;
                Ok(Self::Call(identity))
            }
            OPEN => identity().map(|(identity, noise)| Self::Open(identity, noise)),
            ANSWER => Ok(Self::Answer(body)),
            SEALED => {
                check_len(FORMAT, body, size_of::<u64>())?;
                let (counter, noise) = body.split_at(size_of::<u64>());
                Ok(Self::Sealed(u64::from_le_bytes(array(counter, 0)), noise))
            }
            got => Err(Error::Unknown { format: FORMAT, field: "kind", got: got.into() }),
        }
    }

    /// Writes the message to the front of `bytes`, and gives its length; nothing where it does not fit, or is longer
    /// than a message can be.
    pub fn emit(&self, bytes: &mut [u8]) -> Option<usize> {
        let (kind, identity, noise): (_, Option<&Identity>, &[u8]) = match self {
            Self::Call(identity) => (CALL, Some(identity), &[]),
            Self::Open(identity, noise) => (OPEN, Some(identity), noise),
            Self::Answer(noise) => (ANSWER, None, noise),
            Self::Sealed(_, noise) => (SEALED, None, noise),
        };
        let counter = if let Self::Sealed(counter, _) = self { Some(counter) } else { None };
        let before =
            identity.map_or(0, |_| Identity::LEN) + counter.map_or(0, |_| size_of::<u64>());
        let len = u16::try_from(before + noise.len()).ok()?;
        let body = bytes.get_mut(..HEAD_LEN + usize::from(len))?;
        head(kind, len, body);
        let body = &mut body[HEAD_LEN..];
        if let Some(identity) = identity {
            identity.emit(body);
        }
        if let Some(counter) = counter {
            put(body, 0, counter.to_le_bytes());
        }
        body[before..].copy_from_slice(noise);
        Some(HEAD_LEN + usize::from(len))
    }
}

fn head(kind: u8, len: u16, bytes: &mut [u8]) {
    put(bytes, 0, (MAGIC << 8 | u32::from(VERSION)).to_be_bytes());
    put(bytes, 4, [kind, 0]);
    put(bytes, 6, len.to_le_bytes());
}

/// Writes the head of a [`Message::Sealed`] whose Noise message of `len` bytes lies at [`SEALED_AT`] of `bytes`, and
/// gives the length of all.
///
/// # Panics
/// If `bytes` has no room for the head.
pub fn emit_sealed_head(counter: u64, len: u16, bytes: &mut [u8]) -> usize {
    head(SEALED, len.saturating_add(size_of::<u64>() as u16), bytes);
    put(bytes, HEAD_LEN, counter.to_le_bytes());
    SEALED_AT + usize::from(len)
}

/// Prints what can be read without the key.
impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = |f: &mut fmt::Formatter<'_>, identity: &Identity| {
            write!(f, "\n  {:<22} {} ({})", "host", identity.host_name, identity.host)?;
            write!(f, "\n  {:<22} {}", "life", identity.life)?;
            write!(f, "\n  {:<22} {} ({})", "port", identity.port, identity.port_name)?;
            write!(f, "\n  {:<22} {} bytes", "longest frame", identity.frame_bytes)?;
            write!(f, "\n  {:<22} {}", "protects frames", identity.protects)
        };
        match self {
            Self::Call(who) => {
                write!(f, "{FORMAT}: call")?;
                identity(f, who)
            }
            Self::Open(who, noise) => {
                write!(f, "{FORMAT}: first message of a handshake, {} bytes", noise.len())?;
                identity(f, who)
            }
            Self::Answer(noise) => {
                write!(f, "{FORMAT}: second message of a handshake, {} bytes", noise.len())
            }
            Self::Sealed(counter, noise) => {
                write!(f, "{FORMAT}: sealed message {counter}, {} bytes", noise.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn identity() -> impl Strategy<Value = Identity> {
        let names = ("[!-~]{0,32}", "[!-~]{0,16}");
        (any::<(u64, u64, u16, u32, [bool; 2])>(), names).prop_map(
            |((host, life, port, frame_bytes, [protects, is_service]), names)| Identity {
                protects,
                is_service,
                host: HostId(host),
                life,
                port,
                frame_bytes,
                host_name: Name::of(&names.0),
                port_name: Name::of(&names.1),
            },
        )
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(
            identity in identity(), noise in vec(any::<u8>(), 0..300), counter: u64,
        ) {
            for message in [
                Message::Call(identity),
                Message::Open(identity, &noise),
                Message::Answer(&noise),
                Message::Sealed(counter, &noise),
            ] {
                let mut bytes = vec![0xff; 500];
                let len = message.emit(&mut bytes).unwrap();
                prop_assert!(is_message(&bytes[..len]));
                prop_assert_eq!(is_call(&bytes[..len]), matches!(message, Message::Call(_)));
                prop_assert_eq!(Message::parse(&bytes[..len]), Ok(message));
                prop_assert!(Message::parse(&bytes[..len - 1]).is_err());
                prop_assert!(Message::parse(&bytes[..=len]).is_err());
                prop_assert_eq!(message.emit(&mut bytes[..len - 1]), None);
            }
            let mut sealed = vec![0; SEALED_AT + noise.len()];
            sealed[SEALED_AT..].copy_from_slice(&noise);
            let len = emit_sealed_head(counter, noise.len() as u16, &mut sealed);
            prop_assert_eq!(Message::parse(&sealed[..len]), Ok(Message::Sealed(counter, &noise)));
        }

        #[test]
        fn no_bytes_make_it_panic(body in vec(any::<u8>(), 0..200), kind in 0u8..6, cut in 0usize..10) {
            let mut message = Vec::from(*b"GTN\x01");
            message.extend([kind, 0, body.len() as u8, 0]);
            message.extend(&body);
            let _parsed = Message::parse(&message);
            let _parsed = Message::parse(&message[..message.len() - cut.min(message.len())]);
            let _parsed = Message::parse(&body);
        }
    }

    #[test]
    fn a_name_that_could_write_on_a_terminal_is_none() {
        let mut bytes = [0; Identity::LEN];
        Identity { host_name: Name::of("n07"), ..Identity::default() }.emit(&mut bytes);
        Identity::parse(&bytes).unwrap();
        for sign in [b'\x1b', b' ', 0x80, 0] {
            bytes[24] = sign;
            let error = Identity::parse(&bytes).unwrap_err();
            assert_eq!(error.to_string().split(" is ").next(), Some("torus neighbour: host name"));
        }
        assert_eq!(Name::<4>::of("a bcde").as_str(), "a?bc");
    }
}
