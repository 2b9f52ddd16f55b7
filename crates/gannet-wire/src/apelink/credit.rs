//! The credit word: how full the receive FIFOs are, and what is known of the packets received.
//!
//! ```text
//!   bits     width  field
//!  17:0    10 + 8   virtual channel 0: data FIFO used words, header FIFO used headers
//!  35:18   10 + 8   virtual channel 1
//!  53:36   10 + 8   virtual channel 2: ours, for links with escape channels
//!  71:54   10 + 8   virtual channel 3: ours
//!  87:72     16     diagnostics for the fault monitor: ours
//!  99:88     12     next: low bits of the sequence number that is expected next: ours
//! 107:100     8     session of the sender of this word: ours
//! 115:108     8     echo: session of the other end that this word answers, 0 for none: ours
//!   116       1     resend: a packet was lost or bad, send again from `next` on: ours
//! 119:117     3     tag 010: no control word has it, so a credit is never taken for one: ours
//! 127:120     8     check bits (SECDED)
//! ```
//!
//! The used counts are absolute, not increments: a credit word that is lost does no lasting harm,
//! the next one repairs it. A word with any wrong bit, even one that could be corrected, is ignored
//! for the same reason. A receiver may add a safety margin to both counts.
//!
//! `used` counts the packets up to `next` and none after it. So the other end, which knows what it
//! has sent since, knows how much room there is exactly, however long the line.
//!
//! Source: APE-group/APEIRON, VHDL `link_pkg`, `tx_ctrl`, `rx_ctrl` (counts and check bits).

use core::fmt;

use super::run::Run;
use super::{WORD_LEN, Word, secded};
use crate::error::{Error, Result};
use crate::layout::{array, put};
use crate::record::{Record, check_value};

/// Virtual channels that a credit word has room for.
pub const VIRTUAL_CHANNELS: usize = 4;
/// Largest number of used data words that is told; more are told as this many.
pub const DATA_USED_MAX: u16 = (1 << 10) - 1;
/// Largest number of used headers that is told; more are told as this many.
pub const HEADERS_USED_MAX: u16 = (1 << 8) - 1;
/// `next` counts packets modulo this number.
pub const NEXT_MODULUS: u32 = 1 << 12;

mod field {
    use super::{Run, VIRTUAL_CHANNELS};

    pub const DATA: [Run; VIRTUAL_CHANNELS] =
        [Run::new(9, 0), Run::new(27, 18), Run::new(45, 36), Run::new(63, 54)];
    pub const HEADERS: [Run; VIRTUAL_CHANNELS] =
        [Run::new(17, 10), Run::new(35, 28), Run::new(53, 46), Run::new(71, 64)];
    pub const DIAGNOSTICS: Run = Run::new(87, 72);
    pub const NEXT: Run = Run::new(99, 88);
    pub const SESSION: Run = Run::new(107, 100);
    pub const ECHO: Run = Run::new(115, 108);
    pub const RESEND: Run = Run::new(116, 116);
    pub const TAG: Run = Run::new(119, 117);
}

const TAG: u64 = 0b010;

/// What the FIFOs of a virtual channel hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Used {
    /// Words in the data FIFO, 10 bits.
    pub data: u16,
    /// Headers in the header FIFO, 8 bits.
    pub headers: u16,
}

/// A credit word as plain values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Credit {
    /// What is used, by virtual channel.
    pub used: [Used; VIRTUAL_CHANNELS],
    /// Bits for the fault monitor.
    pub diagnostics: u16,
    /// Sequence number that is expected next, modulo [`NEXT_MODULUS`].
    pub next: u16,
    /// Session of the sender, never 0 on a link.
    pub session: u8,
    /// Session of the other end as the sender knows it, 0 if it does not.
    pub echo: u8,
    /// Packets from `next` on have to be sent again.
    pub resend: bool,
}

impl Credit {
    /// The credit in `word`; nothing if any bit is wrong or the word is no credit.
    pub fn from_word(word: Word) -> Option<Self> {
        (secded::is_clean(word) && field::TAG.of(word) == TAG).then(|| Self::unchecked(word))
    }

    fn unchecked(word: Word) -> Self {
        Self {
            used: core::array::from_fn(|vc| Used {
                data: field::DATA[vc].of(word) as u16,
                headers: field::HEADERS[vc].of(word) as u16,
            }),
            diagnostics: field::DIAGNOSTICS.of(word) as u16,
            next: field::NEXT.of(word) as u16,
            session: field::SESSION.of(word) as u8,
            echo: field::ECHO.of(word) as u8,
            resend: field::RESEND.of(word) == 1,
        }
    }

    /// The credit with its check bits. Used counts above their maximum become it; bits above the
    /// width of another field are dropped.
    pub fn to_word(&self) -> Word {
        let mut data = field::DIAGNOSTICS.place(self.diagnostics.into())
            | field::NEXT.place(self.next.into())
            | field::SESSION.place(self.session.into())
            | field::ECHO.place(self.echo.into())
            | field::RESEND.place(self.resend.into())
            | field::TAG.place(TAG);
        for (vc, used) in self.used.iter().enumerate() {
            data |= field::DATA[vc].place(used.data.min(DATA_USED_MAX).into())
                | field::HEADERS[vc].place(used.headers.min(HEADERS_USED_MAX).into());
        }
        secded::encode(data)
    }
}

impl Record for Credit {
    const FORMAT: &'static str = "APElink credit word";
    const LEN: usize = WORD_LEN;

    fn check(bytes: &[u8]) -> Result<()> {
        let word = Word::from_le_bytes(array(bytes, 0));
        if !secded::is_clean(word) {
            return Err(Error::Value {
                format: Self::FORMAT,
                field: "edac",
                expected: (secded::encode(word) >> secded::DATA_BITS) as u64,
                got: (word >> secded::DATA_BITS) as u64,
            });
        }
        check_value(Self::FORMAT, "tag", TAG, field::TAG.of(word))
    }

    fn read(bytes: &[u8]) -> Self {
        Self::unchecked(Word::from_le_bytes(array(bytes, 0)))
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.to_word().to_le_bytes());
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Self::FORMAT)?;
        for (vc, Used { data, headers }) in self.used.iter().enumerate() {
            write!(f, "\n  used {vc:<17} {data} words, {headers} headers")?;
        }
        write!(f, "\n  {:<22} {:#06x}", "diagnostics", self.diagnostics)?;
        write!(f, "\n  {:<22} {}, modulo {NEXT_MODULUS}", "next", self.next)?;
        write!(f, "\n  {:<22} {}", "session", self.session)?;
        write!(f, "\n  {:<22} {}", "echo", self.echo)?;
        write!(f, "\n  {:<22} {}", "resend", self.resend)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ESCAPED_START, MAGIC, START};
    use super::*;
    use proptest::prelude::*;

    fn bits(set: impl FnOnce(&mut Credit)) -> Word {
        let mut credit = Credit::default();
        set(&mut credit);
        credit.to_word() & secded::DATA & !field::TAG.place(u64::MAX)
    }

    #[test]
    fn each_field_lies_where_the_table_says() {
        for vc in 0..VIRTUAL_CHANNELS {
            assert_eq!(bits(|c| c.used[vc].data = u16::MAX), 0x3ff << (18 * vc));
            assert_eq!(bits(|c| c.used[vc].headers = u16::MAX), 0xff << (18 * vc + 10));
        }
        assert_eq!(bits(|c| c.diagnostics = u16::MAX), 0xffff << 72);
        assert_eq!(bits(|c| c.next = u16::MAX), 0xfff << 88);
        assert_eq!(bits(|c| c.session = u8::MAX), 0xff << 100);
        assert_eq!(bits(|c| c.echo = u8::MAX), 0xff << 108);
        assert_eq!(bits(|c| c.resend = true), 1 << 116);
        assert_eq!(Credit::default().to_word() & secded::DATA, 0b010 << 117);
    }

    #[test]
    fn a_count_that_does_not_fit_is_told_as_the_largest_never_as_a_small_one() {
        let mut credit = Credit::default();
        credit.used[1] = Used { data: 1024, headers: 256 };
        let told = Credit::from_word(credit.to_word()).unwrap();
        assert_eq!(told.used[1], Used { data: 1023, headers: 255 });
    }

    #[test]
    fn a_word_with_any_wrong_bit_is_no_credit() {
        let word = Credit { next: 77, session: 3, ..Credit::default() }.to_word();
        for first in 0..128 {
            assert_eq!(Credit::from_word(word ^ 1 << first), None);
            for second in 0..first {
                assert_eq!(Credit::from_word(word ^ 1 << first ^ 1 << second), None);
            }
        }
    }

    #[test]
    fn malformed_words_are_refused_by_name() {
        let mut bytes = Credit::default().to_word().to_le_bytes();
        bytes[0] ^= 1;
        assert!(matches!(Credit::parse(&bytes), Err(Error::Value { field: "edac", .. })));
        let zeros = [0; WORD_LEN];
        assert!(matches!(Credit::parse(&zeros), Err(Error::Value { field: "tag", got: 0, .. })));
        assert!(matches!(Credit::parse(&zeros[1..]), Err(Error::Truncated { .. })));
    }

    proptest! {
        #[test]
        fn parse_after_emit_gives_back_any_credit_and_never_a_control_word(data: u128) {
            let credit = Credit::unchecked(data);
            let word = credit.to_word();
            prop_assert_eq!(Credit::from_word(word), Some(credit));
            prop_assert!(![MAGIC, START, ESCAPED_START].contains(&word));
        }
    }
}
