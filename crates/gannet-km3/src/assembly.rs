//! The datagrams of a module and a slice, put together as they land.

use gannet_kernels::coincidences::HITS_MAX;
use gannet_wire::Record;
use gannet_wire::km3net::clb::Optical;
use gannet_wire::km3net::{Hit, Status};

/// Datagrams of a slice that are told apart.
pub const DATAGRAMS_MAX: u32 = 1 << 15;

/// What came of a slice.
#[derive(Debug, Default)]
pub struct Assembly {
    /// Begin of the slice, in ns since 1970, if one is open.
    pub begin: Option<u64>,
    /// Its hits as they came.
    pub hits: Vec<u8>,
    /// Hits that there was no room for.
    pub cut: u64,
    status: Status,
    /// Whether each datagram said that the clock was locked.
    is_locked: bool,
    packets: u32,
    number_max: u32,
    has_trailer: bool,
    /// A bit for each datagram that came.
    came: Vec<u64>,
}

impl Assembly {
    /// Begins a slice; its memory is that of the last one.
    pub fn open(&mut self, begin: u64) {
        self.hits.clear();
        self.came.clear();
        let (hits, came) = (std::mem::take(&mut self.hits), std::mem::take(&mut self.came));
        *self = Self { begin: Some(begin), hits, came, is_locked: true, ..Self::default() };
    }

    /// Takes a datagram with its number in the slice, below [`DATAGRAMS_MAX`]. False if it came before.
    pub fn take(&mut self, number: u32, datagram: &Optical<'_>) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.came.len() <= word {
            self.came.resize(word + 1, 0);
        }
        if self.came[word] & bit != 0 {
            return false;
        }
        self.came[word] |= bit;
        self.packets += 1;
        self.number_max = self.number_max.max(number);
        let status = datagram.status();
        self.is_locked &= status.white_rabbit();
        self.has_trailer |= status.udp_trailer();
        for (all, word) in self.status.0.iter_mut().zip(status.0) {
            *all |= word;
        }
        let bytes = datagram.hit_bytes();
        let taken = bytes.len().min(Hit::LEN * HITS_MAX - self.hits.len());
        self.hits.extend_from_slice(&bytes[..taken]);
        self.cut += ((bytes.len() - taken) / Hit::LEN) as u64;
        true
    }

    /// Whether all datagrams up to the one that says it is the last are there.
    pub fn is_complete(&self) -> bool {
        self.has_trailer && self.packets == self.number_max + 1
    }

    /// Datagrams known to be missing.
    pub fn missing(&self) -> u32 {
        self.number_max + 1 - self.packets
    }

    /// What the module said of itself in any of its datagrams; its clock was locked if all say so.
    pub fn status(&self) -> Status {
        let trailer = self.status.udp_trailer();
        let (vetoed, full) = (self.status.vetoed(), self.status.fifo_almost_full());
        let Status([clock, fifo, ..]) = Status::new(self.is_locked, vetoed, trailer, full);
        let [_, _, third, fourth] = self.status.0;
        Status([clock, fifo, third, fourth])
    }

    /// Packets that came, and the largest number of one, as summaries tell them.
    pub fn daq_status(&self) -> u32 {
        self.packets & 0x7fff | self.number_max << 16
    }
}

#[cfg(test)]
mod tests {
    use gannet_wire::km3net::clb::{self, DataType, Header};

    use super::*;

    fn take(assembly: &mut Assembly, number: u32, status: Status, hits: usize) -> bool {
        let header = Header {
            data_type: DataType::Optical,
            run: 1,
            udp_sequence: number,
            utc_seconds: 5,
            ticks: 0,
            module: 101,
        };
        let mut bytes = vec![0; clb::optical_len(4, hits)];
        let hits = vec![Hit { channel: 1, time: 7, time_over_threshold: 9 }; hits];
        clb::emit_optical(&header, &status, 4, &hits, &mut bytes);
        assembly.take(number, &Optical::new_checked(&bytes, 4).unwrap())
    }

    #[test]
    fn a_slice_is_complete_when_its_last_datagram_and_all_before_are_there() {
        let mut assembly = Assembly::default();
        assembly.open(5_000_000_000);
        let free = Status::new(false, 1 << 3, false, 0);
        let [plain, last] = [false, true].map(|last| Status::new(true, 0, last, 1 << 30));
        assert!(take(&mut assembly, 2, last, 3) && !assembly.is_complete());
        assert!(take(&mut assembly, 0, plain, 4) && !assembly.is_complete());
        assert_eq!(assembly.missing(), 1);
        assert!(!take(&mut assembly, 2, last, 3), "it came before");
        assert!(take(&mut assembly, 1, free, 0) && assembly.is_complete());
        assert_eq!((assembly.hits.len(), assembly.missing()), (7 * Hit::LEN, 0));
        assert_eq!(assembly.daq_status(), 2 << 16 | 3);
        assert_eq!(assembly.status(), Status::new(false, 1 << 3, true, 1 << 30));
        assembly.open(5_100_000_000);
        assert!(take(&mut assembly, 2, plain, 1) && assembly.status().white_rabbit());
        assert_eq!((assembly.hits.len(), assembly.missing()), (Hit::LEN, 2));
    }

    #[test]
    fn hits_beyond_the_most_of_a_slice_are_cut_and_counted() {
        let mut assembly = Assembly::default();
        assembly.open(0);
        let plain = Status::new(true, 0, false, 0);
        for number in 0..10 {
            assert!(take(&mut assembly, number, plain, HITS_MAX / 8));
        }
        assert_eq!((assembly.hits.len(), assembly.cut), (Hit::LEN * HITS_MAX, HITS_MAX as u64 / 4));
    }
}
