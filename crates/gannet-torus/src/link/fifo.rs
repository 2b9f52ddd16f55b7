//! The receive FIFO of one virtual channel: data words, and headers beside them.

use std::collections::VecDeque;

use gannet_wire::apelink::{Header, Used, Word};

use super::window::Origin;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The header; its size is that of the payload in bytes.
    pub header: Header,
    /// Where and when the packet began.
    pub origin: Origin,
}

/// Packets of one virtual channel in the order of arrival. The last one may be under way.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    data: VecDeque<Word>,
    data_max: usize,
    headers: VecDeque<Arrival>,
    headers_max: usize,
    /// Words of `data` that belong to whole packets.
    accepted: usize,
    /// There is room for the packet under way.
    fits: bool,
}

impl Fifo {
    pub(super) fn new(data_max: usize, headers_max: usize) -> Self {
        Self {
            data: VecDeque::with_capacity(data_max),
            data_max,
            headers: VecDeque::with_capacity(headers_max),
            headers_max,
            accepted: 0,
            fits: false,
        }
    }

    /// Begins a packet of `words` in the place of any other under way.
    pub(super) fn begin(&mut self, words: usize) {
        self.data.truncate(self.accepted);
        self.fits = self.accepted + words <= self.data_max && self.headers.len() < self.headers_max;
    }

    /// Adds a word to the packet under way; it is thrown away if the packet does not fit.
    pub(super) fn push(&mut self, word: Word) {
        if self.fits && self.data.len() < self.data_max {
            self.data.push_back(word);
        }
    }

    /// Forgets the packet under way.
    pub(super) fn abandon(&mut self) {
        self.data.truncate(self.accepted);
        self.fits = false;
    }

    /// Accepts the packet under way; `false` if there was no room for it.
    pub(super) fn accept(&mut self, arrival: Arrival) -> bool {
        let fits = self.fits;
        if fits {
            self.headers.push_back(arrival);
            self.accepted = self.data.len();
        }
        self.fits = false;
        fits
    }

    /// What whole packets take.
    pub(super) fn used(&self) -> Used {
        Used { data: self.accepted as u16, headers: self.headers.len() as u16 }
    }

    /// The oldest packet.
    pub(super) fn front(&self) -> Option<&Arrival> {
        self.headers.front()
    }

    /// The payload words of the oldest packet, the last one padded.
    pub(super) fn payload(&self) -> impl ExactSizeIterator<Item = Word> {
        let words = self.front().map_or(0, |arrival| arrival.header.payload_words());
        self.data.iter().take(words).copied()
    }

    /// Takes the oldest packet out.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let arrival = self.headers.pop_front()?;
        let words = arrival.header.payload_words();
        self.data.drain(..words);
        self.accepted -= words;
        Some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(size: u16) -> Arrival {
        Arrival { header: Header { size, ..Header::default() }, origin: Origin::default() }
    }

    fn put(fifo: &mut Fifo, words: u16) -> bool {
        fifo.begin(usize::from(words));
        (0..words).for_each(|word| fifo.push(word.into()));
        fifo.accept(arrival(16 * words))
    }

    #[test]
    fn counts_whole_packets_only() {
        let mut fifo = Fifo::new(8, 2);
        assert!(put(&mut fifo, 5));
        fifo.begin(3);
        fifo.push(7);
        assert_eq!(fifo.used(), Used { data: 5, headers: 1 });
        assert_eq!(fifo.pop(), Some(arrival(80)));
        assert_eq!(fifo.used(), Used { data: 0, headers: 0 });
        fifo.push(8);
        fifo.push(9);
        assert!(fifo.accept(arrival(48)));
        assert_eq!(fifo.payload().collect::<Vec<_>>(), [7, 8, 9]);
    }

    #[test]
    fn a_packet_without_room_is_thrown_away_and_the_others_stay() {
        let mut fifo = Fifo::new(8, 2);
        assert!(put(&mut fifo, 5));
        assert!(!put(&mut fifo, 4));
        assert!(put(&mut fifo, 3));
        assert!(!put(&mut fifo, 0), "no room for a third header");
        assert_eq!(fifo.used(), Used { data: 8, headers: 2 });
        fifo.pop();
        assert_eq!(fifo.payload().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
