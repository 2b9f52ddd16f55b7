//! Slow control: a command to a front-end module, which sets one value, and the acknowledgement of it.
//! One datagram each; the layout is ours.
//!
//! ```text
//! byte  0       1      2       3      4              6              8
//!      +-------+------+-------+------+--------------+--------------+
//!      |version| kind |status |  key length         | text length  |
//!      +-------+------+-------+------+--------------+--------------+
//!    8 |                        session                            |
//!      +-----------------------------+-----------------------------+
//!   16 |           number            |           module            |
//!      +-----------------------------+-----------------------------+
//!   24 | key, then value or reason: UTF-8                          |
//!      +-----------------------------------------------------------+
//!      | CRC-32 of all before |
//!      +----------------------+
//! ```
//!
//! Little-endian. Version 1. Kind 1 is a command: status is 0, and key and value follow. Kind 2 is an
//! acknowledgement: it has session, number and module of the command, no key, and a reason if the
//! status is 1. Byte 3 is the length of the key and bytes 4 to 5 that of the other text; bytes 6 to 7
//! are 0.
//!
//! Source: the layout is ours; the CRC is that of IEEE 802.3.

use core::fmt;
use core::ops::Range;

use crate::crc32::crc32;
use crate::error::{Error, Result};
use crate::layout::{array, check_len, put};
use crate::record::check_value;

/// Most bytes of a key.
pub const KEY_LEN_MAX: usize = 64;
/// Most bytes of a value, and of a reason.
pub const TEXT_LEN_MAX: usize = 1024;
/// Fewest bytes of a datagram.
pub const LEN_MIN: usize = HEADER_LEN + CRC_LEN;
/// Most bytes of a datagram.
pub const LEN_MAX: usize = LEN_MIN + KEY_LEN_MAX + TEXT_LEN_MAX;

const FORMAT: &str = "slow control";
const VERSION: u8 = 1;
const COMMAND: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const APPLIED: u8 = 0;
const REFUSED: u8 = 1;
const UNKNOWN_KEY: u8 = 2;
const HEADER_LEN: usize = 24;
const CRC_LEN: usize = 4;

mod field {
    pub const VERSION: usize = 0;
    pub const KIND: usize = 1;
    pub const STATUS: usize = 2;
    pub const KEY_LEN: usize = 3;
    pub const TEXT_LEN: usize = 4;
    pub const RESERVED: usize = 6;
    pub const SESSION: usize = 8;
    pub const NUMBER: usize = 16;
    pub const MODULE: usize = 20;
}

/// Which command it is: none has the same session, module and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// Random number of the sender's run.
    pub session: u64,
    /// Number of the command in the session; those to one module grow.
    pub number: u32,
    /// Identifier of the module.
    pub module: u32,
}

/// What a module made of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<'a> {
    /// The value is set.
    Applied,
    /// Nothing has changed, for this reason.
    Refused(&'a str),
    /// Nothing has changed: the module has no such key.
    UnknownKey,
}

/// Whether a text may be a key: 1 to [`KEY_LEN_MAX`] bytes without spaces, `=` and control characters.
pub fn is_key(text: &str) -> bool {
    let is_odd = |c: char| c == '=' || c.is_whitespace() || c.is_control();
    (1..=KEY_LEN_MAX).contains(&text.len()) && !text.contains(is_odd)
}

/// Whether a text may be a value or a reason: at most [`TEXT_LEN_MAX`] bytes without control characters.
pub fn is_text(text: &str) -> bool {
    text.len() <= TEXT_LEN_MAX && !text.contains(char::is_control)
}

/// View of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// View of a whole datagram, of which everything but the [CRC](Self::verify_crc) is tested.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Version`] of another version; [`Error::Value`] of a length or
    /// reserved field that is wrong; [`Error::Unknown`] of another kind or status; [`Error::Text`] of
    /// texts that [`is_key`] and [`is_text`] refuse.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self> {
        check_len(FORMAT, bytes, LEN_MIN)?;
        let view = Self { bytes };
        view.check()?;
        Ok(view)
    }

    fn check(&self) -> Result<()> {
        let bytes = self.bytes;
        let byte = |at: usize| u64::from(bytes[at]);
        if bytes[field::VERSION] != VERSION {
            let got = byte(field::VERSION);
            return Err(Error::Version { format: FORMAT, known: "1", got });
        }
        let value = |name, expected: usize, got: usize| {
            check_value(FORMAT, name, expected as u64, got as u64)
        };
        value("length", self.text_range().end + CRC_LEN, bytes.len())?;
        let reserved = u16::from_le_bytes(array(bytes, field::RESERVED));
        check_value(FORMAT, "reserved", 0, reserved.into())?;
        let unknown = |field, got| Err(Error::Unknown { format: FORMAT, field, got });
        let texts = [self.key_range(), self.text_range()].map(|range| text_of(&bytes[range]));
        let [Some(key), Some(text)] = texts else { return Err(BAD_TEXT) };
        let fits = match bytes[field::KIND] {
            COMMAND => {
                check_value(FORMAT, "status", 0, byte(field::STATUS))?;
                is_key(key)
            }
            ACKNOWLEDGEMENT => {
                value("key length", 0, key.len())?;
                match bytes[field::STATUS] {
                    APPLIED | UNKNOWN_KEY => value("text length", 0, text.len())?,
                    REFUSED => {}
                    _ => return unknown("status", byte(field::STATUS)),
                }
                true
            }
            _ => return unknown("kind", byte(field::KIND)),
        };
        if fits && is_text(text) { Ok(()) } else { Err(BAD_TEXT) }
    }

    fn key_range(&self) -> Range<usize> {
        HEADER_LEN..HEADER_LEN + usize::from(self.bytes[field::KEY_LEN])
    }

    fn text_range(&self) -> Range<usize> {
        let begin = self.key_range().end;
        let len = u16::from_le_bytes(array(self.bytes, field::TEXT_LEN));
        begin..begin + usize::from(len)
    }

    /// Whether the CRC is that of the bytes before it.
    pub fn verify_crc(&self) -> bool {
        let (bytes, end) = (self.bytes, self.text_range().end);
        crc32(&bytes[..end]) == u32::from_le_bytes(array(bytes, end))
    }

    /// Session, number and module.
    pub fn address(&self) -> Address {
        Address {
            session: u64::from_le_bytes(array(self.bytes, field::SESSION)),
            number: u32::from_le_bytes(array(self.bytes, field::NUMBER)),
            module: u32::from_le_bytes(array(self.bytes, field::MODULE)),
        }
    }

    /// The key of a command; empty in an acknowledgement.
    pub fn key(&self) -> &'a str {
        text_of(&self.bytes[self.key_range()]).unwrap_or_default()
    }

    /// The value of a command, or the reason of a refusal.
    pub fn text(&self) -> &'a str {
        text_of(&self.bytes[self.text_range()]).unwrap_or_default()
    }

    /// What an acknowledgement says; absent: it is a command.
    pub fn answer(&self) -> Option<Answer<'a>> {
        let answer = || match self.bytes[field::STATUS] {
            APPLIED => Answer::Applied,
            REFUSED => Answer::Refused(self.text()),
            _ => Answer::UnknownKey,
        };
        (self.bytes[field::KIND] == ACKNOWLEDGEMENT).then(answer)
    }

    fn repr(&self) -> Repr<'a> {
        let address = self.address();
        match self.answer() {
            None => Repr::Command { address, key: self.key(), value: self.text() },
            Some(answer) => Repr::Acknowledgement { address, answer },
        }
    }
}

/// Prints one field a line, and whether the CRC is right.
impl fmt::Display for Datagram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crc = if self.verify_crc() { "right" } else { "wrong" };
        write!(f, "{}\n  {:<22} {crc}", self.repr(), "CRC")
    }
}

const BAD_TEXT: Error =
    Error::Text { what: FORMAT, expected: "a key without spaces and `=`, then one line of UTF-8" };

fn text_of(bytes: &[u8]) -> Option<&str> {
    core::str::from_utf8(bytes).ok()
}

/// A datagram as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr<'a> {
    /// Sets `key` of a module to `value`.
    Command {
        /// Which command it is.
        address: Address,
        /// What to set; see [`is_key`].
        key: &'a str,
        /// To what; see [`is_text`].
        value: &'a str,
    },
    /// What became of a command.
    Acknowledgement {
        /// Which command it was.
        address: Address,
        /// What became of it.
        answer: Answer<'a>,
    },
}

impl<'a> Repr<'a> {
    /// The values of a whole datagram.
    ///
    /// # Errors
    /// As [`Datagram::new_checked`], and [`Error::Value`] of a CRC that is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let view = Datagram::new_checked(bytes)?;
        let end = view.text_range().end;
        let stored = u32::from_le_bytes(array(bytes, end));
        check_value(FORMAT, "CRC", crc32(&bytes[..end]).into(), stored.into())?;
        Ok(view.repr())
    }

    /// Kind, status, key and text.
    fn parts(&self) -> (u8, u8, &'a str, &'a str) {
        match *self {
            Self::Command { key, value, .. } => (COMMAND, 0, key, value),
            Self::Acknowledgement { answer, .. } => match answer {
                Answer::Applied => (ACKNOWLEDGEMENT, APPLIED, "", ""),
                Answer::Refused(reason) => (ACKNOWLEDGEMENT, REFUSED, "", reason),
                Answer::UnknownKey => (ACKNOWLEDGEMENT, UNKNOWN_KEY, "", ""),
            },
        }
    }

    /// Which command it is, or was.
    pub fn address(&self) -> Address {
        match *self {
            Self::Command { address, .. } | Self::Acknowledgement { address, .. } => address,
        }
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        let (_, _, key, text) = self.parts();
        LEN_MIN + key.len() + text.len()
    }

    /// Writes the datagram.
    ///
    /// # Panics
    /// When the bytes are fewer than [`buffer_len`](Self::buffer_len), or a text is longer than the
    /// format allows.
    pub fn emit(&self, bytes: &mut [u8]) {
        let (kind, status, key, text) = self.parts();
        assert!(key.len() <= KEY_LEN_MAX && text.len() <= TEXT_LEN_MAX, "a text is too long");
        let Address { session, number, module } = self.address();
        put(bytes, field::VERSION, [VERSION, kind, status, key.len() as u8]);
        put(bytes, field::TEXT_LEN, (text.len() as u16).to_le_bytes());
        put(bytes, field::RESERVED, [0; 2]);
        put(bytes, field::SESSION, session.to_le_bytes());
        put(bytes, field::NUMBER, number.to_le_bytes());
        put(bytes, field::MODULE, module.to_le_bytes());
        let text_at = HEADER_LEN + key.len();
        let end = text_at + text.len();
        bytes[HEADER_LEN..text_at].copy_from_slice(key.as_bytes());
        bytes[text_at..end].copy_from_slice(text.as_bytes());
        let crc = crc32(&bytes[..end]);
        put(bytes, end, crc.to_le_bytes());
    }
}

/// Prints one field a line.
impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { session, number, module } = self.address();
        let kind = if matches!(self, Self::Command { .. }) { "command" } else { "acknowledgement" };
        write!(f, "{FORMAT} {kind}\n  {:<22} {session:#018x}", "session")?;
        write!(f, "\n  {:<22} {number}\n  {:<22} {module}", "number", "module")?;
        match self {
            Self::Command { key, value, .. } => write!(f, "\n  {:<22} {key} = {value}", "sets"),
            Self::Acknowledgement { answer, .. } => write!(f, "\n  {:<22} {answer}", "answer"),
        }
    }
}

/// Prints it in words.
impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::UnknownKey => f.write_str("unknown key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADDRESS: Address = Address { session: 0x0102_0304_0506_0708, number: 9, module: 10 };
    const COMMANDED: Repr<'_> = Repr::Command { address: ADDRESS, key: "hv", value: "1200" };

    fn bytes_of(repr: &Repr<'_>) -> Vec<u8> {
        let mut bytes = vec![0xa5; repr.buffer_len()];
        repr.emit(&mut bytes);
        bytes
    }

    /// The command with a change, and the CRC that fits it.
    fn refused(repr: &Repr<'_>, change: impl FnOnce(&mut [u8])) -> Error {
        let mut bytes = bytes_of(repr);
        change(&mut bytes);
        let end = bytes.len() - CRC_LEN;
        let crc = crc32(&bytes[..end]);
        put(&mut bytes, end, crc.to_le_bytes());
        Repr::parse(&bytes).unwrap_err()
    }

    fn value(field: &'static str, expected: u64, got: u64) -> Error {
        Error::Value { format: "slow control", field, expected, got }
    }

    #[test]
    fn a_command_has_its_fields_where_the_layout_says() {
        let bytes = bytes_of(&COMMANDED);
        let expected = [
            1, 1, 0, 2, 4, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 10, 0, 0, 0, b'h', b'v',
            b'1', b'2', b'0', b'0',
        ];
        assert_eq!(bytes[..30], expected);
        assert_eq!(bytes[30..], crc32(&expected).to_le_bytes());
        assert_eq!(Repr::parse(&bytes), Ok(COMMANDED));
        let view = Datagram::new_checked(&bytes).unwrap();
        assert_eq!((view.key(), view.text(), view.answer()), ("hv", "1200", None));
    }

    #[test]
    fn answers_come_back_and_are_printed() {
        let answers = [
            (Answer::Applied, "applied"),
            (Answer::Refused("above its limit"), "refused: above its limit"),
            (Answer::UnknownKey, "unknown key"),
        ];
        for (answer, text) in answers {
            let repr = Repr::Acknowledgement { address: ADDRESS, answer };
            let bytes = bytes_of(&repr);
            assert_eq!(Repr::parse(&bytes), Ok(repr));
            assert_eq!(Datagram::new_checked(&bytes).unwrap().answer(), Some(answer));
            let printed = repr.to_string();
            assert!(printed.starts_with("slow control acknowledgement\n"), "{printed}");
            assert!(printed.contains(text) && printed.contains("0x0102030405060708"), "{printed}");
        }
    }

    #[test]
    fn malformed_fields_are_named() {
        let version = Error::Version { format: "slow control", known: "1", got: 2 };
        assert_eq!(refused(&COMMANDED, |bytes| bytes[0] = 2), version);
        let unknown = |field, got| Error::Unknown { format: "slow control", field, got };
        assert_eq!(refused(&COMMANDED, |bytes| bytes[1] = 3), unknown("kind", 3));
        assert_eq!(refused(&COMMANDED, |bytes| bytes[2] = 1), value("status", 0, 1));
        assert_eq!(refused(&COMMANDED, |bytes| bytes[3] = 3), value("length", 35, 34));
        assert_eq!(refused(&COMMANDED, |bytes| bytes[5] = 1), value("length", 290, 34));
        assert_eq!(refused(&COMMANDED, |bytes| bytes[6] = 1), value("reserved", 0, 1));
        for odd in *b" =\n\xff" {
            assert_eq!(refused(&COMMANDED, |bytes| bytes[25] = odd), BAD_TEXT);
        }
        assert_eq!(refused(&COMMANDED, |bytes| bytes[28] = 7), BAD_TEXT);
        let no_key = |bytes: &mut [u8]| (bytes[3], bytes[4]) = (0, 6);
        assert_eq!(refused(&COMMANDED, no_key), BAD_TEXT);
        let answer = Answer::Refused("no");
        let refusal = Repr::Acknowledgement { address: ADDRESS, answer };
        assert_eq!(refused(&refusal, |bytes| bytes[2] = 3), unknown("status", 3));
        assert_eq!(refused(&refusal, |bytes| bytes[2] = 0), value("text length", 0, 2));
        let as_key = |bytes: &mut [u8]| (bytes[3], bytes[4]) = (2, 0);
        assert_eq!(refused(&refusal, as_key), value("key length", 0, 2));
    }

    #[test]
    fn damaged_bits_and_cut_datagrams_are_refused() {
        let bytes = bytes_of(&COMMANDED);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Repr::parse(&bytes).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|len| Repr::parse(&bytes[..len]).is_err()));
        let mut damaged = bytes;
        damaged[29] ^= 1;
        let view = Datagram::new_checked(&damaged).unwrap();
        assert!(view.to_string().contains("hv = 1201") && view.to_string().ends_with("wrong"));
    }

    #[test]
    fn keys_and_texts_have_bounds() {
        assert!(is_key("hv") && is_key(&"k".repeat(64)) && is_text("") && is_text("1 200 \u{b5}V"));
        for bad in ["", "a b", "a=b", "a\u{7}", &"k".repeat(65)] {
            assert!(!is_key(bad), "{bad:?}");
        }
        assert!(!is_text("\u{1b}[2J") && !is_text(&"v".repeat(1025)));
    }

    proptest! {
        #[test]
        fn every_command_comes_back(
            (session, number, module) in any::<(u64, u32, u32)>(),
            key in "[a-z.\u{e9}]{1,20}",
            text in "[ -~\u{b5}]{0,300}",
        ) {
            let address = Address { session, number, module };
            let repr = Repr::Command { address, key: &key, value: &text };
            let bytes = bytes_of(&repr);
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
            let answer = Answer::Refused(&text);
            let repr = Repr::Acknowledgement { address, answer };
            let bytes = bytes_of(&repr);
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
        }
    }
}
