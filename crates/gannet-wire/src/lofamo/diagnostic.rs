//! A descriptor on its way: seven words of 16 bits, one in each of seven successive credit words.
//!
//! ```text
//!  15    13   12   11                    0
//! +--------+------+-----------------------+
//! | index  |toggle|         part          |
//! |   3    |  1   |          12           |
//! +--------+------+-----------------------+
//! ```
//!
//! `index` counts the words of a message from 0 to 6; 7 marks a word that carries nothing. `toggle`
//! changes from one message to the next. The parts, index 0 lowest, make 84 bits: the descriptor
//! (64), a kind (4) and a CRC-16 of both (16).
//!
//! The receiver takes a message only from seven words in order, of one toggle, and with the right
//! check; a word that comes again at once counts once, since credits are sent at their own pace. A
//! lost or torn word costs one message, and the sender repeats what it has to say: so a loss delays
//! and never misleads.
//!
//! Source: that diagnostics ride in spare bits of credit words, arXiv:1307.0433; the coding is ours.
//! CRC-16 with polynomial 0x1021 and initial value 0xffff (ITU-T V.41, "CCITT-FALSE").

use core::fmt;

use super::FaultDescriptorRepr;

/// Credit words that carry one message.
pub const DIAGNOSTIC_WORDS: usize = 7;
/// A word that carries nothing.
pub const IDLE_WORD: u16 = 0xe000;

const PART_BITS: u32 = 12;
const INDEX_SHIFT: u32 = 13;
const TOGGLE: u16 = 1 << 12;
const KIND_SHIFT: u32 = 64;
const CHECK_SHIFT: u32 = 68;
/// Set in every kind of this version, so that a line of zeros is no message.
const KIND_PRESENT: u8 = 1;
const KIND_RELAYED: u8 = 2;

/// One message: a descriptor, and whether it is passed on for another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// What the origin says of itself.
    pub descriptor: FaultDescriptorRepr,
    /// Whether it comes from further away than the link's other end, to be brought to the master.
    pub relayed: bool,
}

impl Diagnostic {
    /// The words to put in seven successive credit words; `toggle` must change from one message of
    /// a link to the next.
    pub fn words(&self, toggle: bool) -> [u16; DIAGNOSTIC_WORDS] {
        let kind = KIND_PRESENT | if self.relayed { KIND_RELAYED } else { 0 };
        let descriptor = self.descriptor.word();
        let bits = u128::from(descriptor)
            | u128::from(kind) << KIND_SHIFT
            | u128::from(check(descriptor, kind)) << CHECK_SHIFT;
        core::array::from_fn(|index| {
            let part = (bits >> (PART_BITS * index as u32)) as u16 & 0xfff;
            (index as u16) << INDEX_SHIFT | if toggle { TOGGLE } else { 0 } | part
        })
    }

    /// The message of 84 bits, if its kind is known and its check is right.
    fn from_bits(bits: u128) -> Option<Self> {
        let (descriptor, kind) = (bits as u64, (bits >> KIND_SHIFT) as u8 & 0xf);
        let whole = kind & !KIND_RELAYED == KIND_PRESENT
            && (bits >> CHECK_SHIFT) as u16 == check(descriptor, kind);
        let descriptor = FaultDescriptorRepr::from_word(descriptor);
        whole.then_some(Self { descriptor, relayed: kind & KIND_RELAYED != 0 })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {:<22} {}", self.descriptor, "relayed", self.relayed)
    }
}

/// CRC-16 of the descriptor, lowest byte first, and the kind.
fn check(descriptor: u64, kind: u8) -> u16 {
    descriptor.to_le_bytes().iter().chain([&kind]).fold(0xffff, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// Puts messages together from the words that come with the credit words of one link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assembler {
    bits: u128,
    /// Words taken of the message under way.
    taken: u16,
    toggle: u16,
    last: Option<u16>,
}

impl Assembler {
    /// Takes the next word, and gives the message that it completes.
    ///
    /// Words of credit words that failed their own check must be left out, not passed in.
    #[inline]
    pub fn take(&mut self, word: u16) -> Option<Diagnostic> {
        if self.last.replace(word) == Some(word) {
            return None;
        }
        let (index, toggle) = (word >> INDEX_SHIFT, word & TOGGLE);
        if word == IDLE_WORD || index > 0 && (index != self.taken || toggle != self.toggle) {
            self.taken = 0;
            return None;
        }
        if index == 0 {
            *self = Self { toggle, last: Some(word), ..Self::default() };
        }
        self.bits |= u128::from(word & 0xfff) << (PART_BITS * u32::from(index));
        self.taken = index + 1;
        if usize::from(self.taken) < DIAGNOSTIC_WORDS {
            return None;
        }
        self.taken = 0;
        Diagnostic::from_bits(self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn diagnostic(word: u64, relayed: bool) -> Diagnostic {
        Diagnostic { descriptor: FaultDescriptorRepr::from_word(word), relayed }
    }

    fn all(assembler: &mut Assembler, words: &[u16]) -> Vec<Diagnostic> {
        words.iter().filter_map(|&word| assembler.take(word)).collect()
    }

    #[test]
    fn the_check_is_ccitt_false() {
        assert_eq!(check(u64::from_le_bytes(*b"12345678"), b'9'), 0x29b1);
    }

    #[test]
    fn known_words() {
        let words = diagnostic(0x0fff_fe12_34ab_d2d7, true).words(true);
        let parts = words.map(|word| word & 0xfff);
        assert_eq!(parts[..5], [0x2d7, 0xabd, 0x234, 0xfe1, 0xfff]);
        assert_eq!(parts[5] & 0xff, 0x30, "highest bits of the origin, and kind 3");
        assert!((0..7).all(|index| words[index] >> 12 == (index as u16) << 1 | 1));
    }

    #[test]
    fn constant_words_are_no_message() {
        for word in [0, 0xffff, IDLE_WORD, 0x1000] {
            assert_eq!(all(&mut Assembler::default(), &[word; 100]), []);
        }
    }

    #[test]
    fn a_message_with_a_word_lost_torn_or_swapped_is_dropped_and_the_next_is_taken() {
        let (first, second) = (diagnostic(u64::MAX / 3, false), diagnostic(77, true));
        for broken in 0..DIAGNOSTIC_WORDS {
            let mut lost = first.words(false).to_vec();
            lost.remove(broken);
            let mut torn = first.words(false).to_vec();
            torn[broken] ^= 0x0400;
            let mut swapped = first.words(false).to_vec();
            swapped.swap(broken, (broken + 1) % DIAGNOSTIC_WORDS);
            for mut words in [lost, torn, swapped] {
                words.extend(second.words(true));
                assert_eq!(all(&mut Assembler::default(), &words), [second], "{broken}");
            }
        }
    }

    #[test]
    fn halves_of_two_messages_are_not_put_together() {
        for cut in 1..DIAGNOSTIC_WORDS {
            for (toggle, apart) in [(true, 1), (false, 2)] {
                let mut words = diagnostic(1, false).words(false)[..cut].to_vec();
                words.extend_from_slice(&diagnostic(u64::MAX, true).words(toggle)[cut..]);
                assert_eq!(all(&mut Assembler::default(), &words), [], "{cut}, {apart} apart");
            }
        }
    }

    #[test]
    fn words_that_come_again_count_once() {
        let sent = [diagnostic(1 << 50, true), diagnostic(1 << 50, true), diagnostic(9, false)];
        let line = sent.iter().enumerate().flat_map(|(at, it)| it.words(at % 2 == 1));
        let line: Vec<u16> = line.flat_map(|word| [word; 3]).collect();
        assert_eq!(all(&mut Assembler::default(), &line), sent);
    }

    proptest! {
        #[test]
        fn messages_in_a_row_come_back(words: Vec<(u64, bool)>) {
            let sent: Vec<Diagnostic> = words.iter().map(|&(w, r)| diagnostic(w, r)).collect();
            let line: Vec<u16> = sent.iter().enumerate().flat_map(|(at, it)| it.words(at % 2 == 1)).collect();
            prop_assert_eq!(all(&mut Assembler::default(), &line), sent);
        }

        #[test]
        fn whatever_is_lost_nothing_is_invented(
            words in prop::collection::vec((any::<u64>(), any::<bool>()), 1..20),
            lost: u128,
        ) {
            let sent: Vec<Diagnostic> = words.iter().map(|&(w, r)| diagnostic(w, r)).collect();
            let line = sent.iter().enumerate().flat_map(|(at, it)| it.words(at % 2 == 1));
            let kept: Vec<u16> = line.enumerate().filter(|(at, _)| lost >> (at % 128) & 1 == 0).map(|(_, word)| word).collect();
            prop_assert!(all(&mut Assembler::default(), &kept).iter().all(|it| sent.contains(it)));
        }
    }
}
