//! Which of the sockets that share an address a stream comes by.
//!
//! Left alone, the kernel chooses by addresses and ports: all streams of one sender come by one
//! socket, and by another when it restarts on another port. Here a small program of the
//! classic BPF, which needs no rights, reads the key of the stream out of the datagram.
//!
//! The keys are put in order and cut into shares of equal numbers of streams, so that neighbours,
//! which often have one sender, stay together. With several addresses there are as many shares more,
//! dealt out in turn: if every address gets a part of the streams in order, each of its sockets
//! has its part of that.
//!
//! Of a coalesced message the program sees the first datagram, which decides for all of them.

use std::ops::RangeInclusive;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_IMM, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_LSH, BPF_MEM,
    BPF_MISC, BPF_OR, BPF_RET, BPF_RSH, BPF_ST, BPF_TAX, BPF_X, sock_filter,
};

/// Shares at most; each takes two of the 4096 instructions that a program may have.
const SHARES_MAX: usize = 1024;

/// Spreads streams over sockets.
#[derive(Clone, Debug)]
pub struct Spread {
    key: Vec<RangeInclusive<u32>>,
    streams: Vec<u32>,
}

impl Spread {
    /// Spreads the streams of the given keys, which stand in the bits `key` of each datagram.
    ///
    /// Bit `b` of a datagram is bit `b % 8` of its byte `b / 8`. The runs of bits are put together
    /// to a number of 32 bits at most, the first run on top.
    pub fn new(
        key: impl IntoIterator<Item = RangeInclusive<u32>>,
        streams: impl IntoIterator<Item = u32>,
    ) -> Self {
        let mut streams: Vec<u32> = streams.into_iter().collect();
        streams.sort_unstable();
        streams.dedup();
        Self { key: key.into_iter().collect(), streams }
    }

    /// The least key of each share after the first, with the socket of the share.
    fn shares(&self, addresses: usize, sockets: u32) -> Vec<(u32, u32)> {
        let count = (addresses * sockets as usize).min(SHARES_MAX);
        let first = |share: usize| (share * self.streams.len()).div_ceil(count);
        (1..count)
            .filter_map(|share| Some((*self.streams.get(first(share))?, share as u32 % sockets)))
            .collect()
    }

    /// The program that gives the number of the socket, for a source of so many addresses with so
    /// many sockets each. What is too short to have a key goes to socket 0.
    pub(super) fn program(&self, addresses: usize, sockets: u32) -> Vec<sock_filter> {
        let mut program = Vec::new();
        let mut step = |code: u32, k: u32, jf: u8| {
            program.push(sock_filter { code: code as u16, jt: 0, jf, k });
        };
        step(BPF_LD | BPF_IMM, 0, 0);
        for bits in &self.key {
            let (first, last) = (*bits.start(), *bits.end());
            step(BPF_ST, 0, 0);
            step(BPF_LD | BPF_IMM, 0, 0);
            for byte in (first / 8..=last / 8).rev() {
                step(BPF_ALU | BPF_LSH | BPF_K, 8, 0);
                step(BPF_MISC | BPF_TAX, 0, 0);
                step(BPF_LD | BPF_B | BPF_ABS, byte, 0); // a datagram that ends before it: 0 is returned
                step(BPF_ALU | BPF_OR | BPF_X, 0, 0);
            }
            let width = last - first + 1;
            step(BPF_ALU | BPF_RSH | BPF_K, first % 8, 0);
            step(BPF_ALU | BPF_AND | BPF_K, u32::MAX >> (32 - width), 0);
            step(BPF_MISC | BPF_TAX, 0, 0);
            step(BPF_LD | BPF_MEM, 0, 0);
            step(BPF_ALU | BPF_LSH | BPF_K, width, 0);
            step(BPF_ALU | BPF_OR | BPF_X, 0, 0);
        }
        for (first, socket) in self.shares(addresses, sockets).into_iter().rev() {
            step(BPF_JMP | BPF_JGE | BPF_K, first, 1);
            step(BPF_RET | BPF_K, socket, 0);
        }
        step(BPF_RET | BPF_K, 0, 0);
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of each socket when the streams are `0..streams`.
    fn spread(streams: u32, addresses: usize, sockets: u32) -> Vec<usize> {
        let spread = Spread::new([0..=31], (0..streams).rev());
        let shares = spread.shares(addresses, sockets);
        let mut counts = vec![0; sockets as usize];
        for key in 0..streams {
            let share = shares.iter().rev().find(|(first, _)| key >= *first);
            counts[share.map_or(0, |(_, socket)| *socket as usize)] += 1;
        }
        counts
    }

    #[test]
    fn streams_are_spread_as_evenly_as_their_number_allows() {
        assert_eq!(spread(64, 1, 2), [32, 32]);
        assert_eq!(spread(64, 1, 4), [16; 4]);
        assert_eq!(spread(64, 1, 8), [8; 8]);
        assert_eq!(spread(64, 1, 3), [22, 21, 21]);
        assert_eq!(spread(64, 2, 4), [16; 4]);
        assert_eq!(spread(1024, 1, 256), [4; 256]);
        assert_eq!(spread(1024, 64, 256), [4; 256]);
        assert_eq!(spread(2, 1, 4).iter().sum::<usize>(), 2);
        assert_eq!(spread(2, 1, 4).iter().max(), Some(&1));
    }

    #[test]
    fn neighbours_stay_together() {
        let shares = Spread::new([0..=31], 0..64).shares(1, 4);
        assert_eq!(shares, [(16, 1), (32, 2), (48, 3)]);
    }

    #[test]
    fn the_longest_program_is_one_that_the_kernel_takes() {
        let program = Spread::new([0..=31], 0..1024).program(64, 256);
        assert!(program.len() <= 4096, "{}", program.len());
    }
}
