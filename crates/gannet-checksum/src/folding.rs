//! Sums by carry-less products of whole vectors, which copy what they read.
//!
//! The message is a polynomial over GF(2), of which only the remainder by that of the CRC counts: a vector may be replaced by its product
//! with a power of x modulo the CRC, and so be added to a vector as many bits behind it. Four sums, each of every
//! fourth vector, hide how long a product takes.
//!
//! Source: V. Gopal et al., Fast CRC computation for generic polynomials using PCLMULQDQ instruction, Intel, 2009.

use crate::crc32c::power_of_x;
use crate::shm::{Piece, Source};

/// What vectors of `BYTES` bytes, 16-byte numbers side by side, can do. Who has one has found its instructions on this machine.
pub(crate) trait Lanes<const BYTES: usize>: Copy {
    type Vector: Copy;

    fn load(self, from: Piece<'_, BYTES>) -> Self::Vector;
    fn store(self, vector: Self::Vector, to: &mut [u8; BYTES]);
    /// The register of a sum at the front, zeros behind it.
    fn start(self, register: u32) -> Self::Vector;
    /// The same two halves in all numbers.
    fn halves(self, halves: [i64; 2]) -> Self::Vector;
    fn added(self, left: Self::Vector, right: Self::Vector) -> Self::Vector;
    /// The products of both halves of each number with those of `factors`, and `next`, all added.
    fn folded(self, sum: Self::Vector, factors: Self::Vector, next: Self::Vector) -> Self::Vector;

    /// What a register becomes by a word, by half of one and by a byte.
    fn word(self, register: u32, word: [u8; 8]) -> u32;
    fn half_word(self, register: u32, half: [u8; 4]) -> u32;
    fn byte(self, register: u32, byte: u8) -> u32;
}

/// Bytes that are read, and where they go, if anywhere, which is as long.
struct Bytes<'a> {
    from: Source<'a>,
    to: Option<&'a mut [u8]>,
}

impl<'a> Bytes<'a> {
    /// The next `N` bytes and their place; none when fewer are left.
    #[inline(always)]
    fn next<const N: usize>(&mut self) -> Option<(Piece<'a, N>, Option<&'a mut [u8; N]>)> {
        let (piece, rest) = self.from.split_first()?;
        self.from = rest;
        let place = match self.to.take() {
            None => None,
            Some(to) => {
                let (place, rest) = to.split_first_chunk_mut()?;
                self.to = Some(rest);
                Some(place)
            }
        };
        Some((piece, place))
    }

    /// The next `N` bytes, which are copied if they have a place.
    #[inline(always)]
    fn next_copied<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (piece, place) = self.next()?;
        let piece = piece.read();
        if let Some(place) = place {
            *place = piece;
        }
        Some(piece)
    }
}

/// What the register becomes by `from`, which is copied to `to` if that is given.
///
/// To be called where the instructions are enabled, into which it is put as a whole.
///
/// # Panics
/// When `from` and `to` have different lengths.
#[inline(always)]
pub(crate) fn advance<L: Lanes<BYTES>, const BYTES: usize, const BLOCK: usize>(
    lanes: L,
    mut register: u32,
    from: Source<'_>,
    to: Option<&mut [u8]>,
) -> u32 {
    const { assert!(BLOCK == 4 * BYTES) };
    assert!(to.as_ref().is_none_or(|to| to.len() == from.len()));
    let mut bytes = Bytes { from, to };
    if let Some(block) = bytes.next::<BLOCK>() {
        let [first, mut second, mut third, mut sum] = vectors(lanes, block);
        let mut first = lanes.added(first, lanes.start(register));
        let by_block = lanes.halves(const { factors(BLOCK) });
        let by_vector = lanes.halves(const { factors(BYTES) });
        while let Some(block) = bytes.next::<BLOCK>() {
            let next = vectors(lanes, block);
            first = lanes.folded(first, by_block, next[0]);
            second = lanes.folded(second, by_block, next[1]);
            third = lanes.folded(third, by_block, next[2]);
            sum = lanes.folded(sum, by_block, next[3]);
        }
        second = lanes.folded(first, by_vector, second);
        third = lanes.folded(second, by_vector, third);
        sum = lanes.folded(third, by_vector, sum);
        while let Some((piece, place)) = bytes.next() {
            sum = lanes.folded(sum, by_vector, vector(lanes, piece, place));
        }
        register = 0;
        let mut left = [0; BYTES];
        lanes.store(sum, &mut left);
        for word in left.as_chunks().0 {
            register = lanes.word(register, *word);
        }
    }
    while let Some(word) = bytes.next_copied() {
        register = lanes.word(register, word);
    }
    if let Some(half) = bytes.next_copied() {
        register = lanes.half_word(register, half);
    }
    while let Some([byte]) = bytes.next_copied() {
        register = lanes.byte(register, byte);
    }
    register
}

/// The vectors of a block, which are copied if they have a place.
#[inline(always)]
fn vectors<L: Lanes<BYTES>, const BYTES: usize, const BLOCK: usize>(
    lanes: L,
    (block, place): (Piece<'_, BLOCK>, Option<&mut [u8; BLOCK]>),
) -> [L::Vector; 4] {
    let pieces: [_; 4] = block.pieces();
    match place {
        None => [
            lanes.load(pieces[0]),
            lanes.load(pieces[1]),
            lanes.load(pieces[2]),
            lanes.load(pieces[3]),
        ],
        Some(place) => {
            let (places, _) = place.as_chunks_mut();
            [
                vector(lanes, pieces[0], Some(&mut places[0])),
                vector(lanes, pieces[1], Some(&mut places[1])),
                vector(lanes, pieces[2], Some(&mut places[2])),
                vector(lanes, pieces[3], Some(&mut places[3])),
            ]
        }
    }
}

/// A vector, which is copied if it has a place.
#[inline(always)]
fn vector<L: Lanes<BYTES>, const BYTES: usize>(
    lanes: L,
    piece: Piece<'_, BYTES>,
    place: Option<&mut [u8; BYTES]>,
) -> L::Vector {
    let vector = lanes.load(piece);
    if let Some(place) = place {
        lanes.store(vector, place);
    }
    vector
}

/// The factors of the halves of a number that is added to one so many bytes behind it.
const fn factors(bytes: usize) -> [i64; 2] {
    // The product of reflected numbers lies one bit lower than its factors say.
    let bits = 8 * bytes as u32 - 1;
    [(power_of_x(bits + 64) as i64) << 32, (power_of_x(bits) as i64) << 32]
}
