//! The sending end of the spare bits of one link's credit words.

use gannet_lattice::Direction;
use gannet_wire::lofamo::DIAGNOSTIC_WORDS;

use super::nic::Nic;

/// Gives the 16 spare bits of each credit word of one link, message after message.
///
/// Every credit word carries a part, whether or not there is news: what is on the line does not
/// depend on it in number or length.
#[derive(Clone, Debug)]
pub struct Disassembler {
    direction: Direction,
    words: [u16; DIAGNOSTIC_WORDS],
    next: usize,
    toggle: bool,
}

impl Disassembler {
    /// The disassembler of the link in `direction`.
    pub fn new(direction: Direction) -> Self {
        Self { direction, words: [0; DIAGNOSTIC_WORDS], next: DIAGNOSTIC_WORDS, toggle: false }
    }

    /// The bits for the next credit word.
    #[inline]
    pub fn word(&mut self, now_ns: u64, nic: &mut Nic) -> u16 {
        if self.next == DIAGNOSTIC_WORDS {
            self.words = nic.diagnostic(now_ns, self.direction).words(self.toggle);
            self.toggle = !self.toggle;
            self.next = 0;
        }
        self.next += 1;
        self.words[self.next - 1]
    }
}
