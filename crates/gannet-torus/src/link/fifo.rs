//! The receive FIFO of one virtual channel: payloads, and headers beside them.

use std::collections::VecDeque;

use gannet_checksum::{Crc32c, copy};
use gannet_wire::apelink::frame::Room;
use gannet_wire::apelink::{Header, WORD_LEN};

use super::payloads::Payloads;
use super::window::Origin;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The header; its size is that of the payload in bytes.
    pub header: Header,
    /// Where and when the packet began.
    pub origin: Origin,
    /// The sum of the payload, padded to whole words.
    pub sum: Crc32c,
}

impl Arrival {
    /// Its payload out of that and the padding that came with it, as it goes on: with zeros, of which its sum then is.
    pub(super) fn going_on<'a>(&mut self, padded: &'a [u8]) -> &'a [u8] {
        let (own, padding) = padded.split_at(self.header.size.into());
        if padding.iter().any(|&byte| byte != 0) {
            self.sum = Crc32c::of_padded(own);
        }
        own
    }
}

/// A packet of which not all has come.
#[derive(Clone, Copy, Debug)]
struct Coming {
    /// Where its payload is put.
    at: usize,
    words: usize,
    /// Bytes of payload that are there.
    filled: usize,
}

/// Packets of one virtual channel in the order of arrival, and the one that is under way.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    payloads: Payloads,
    words_max: usize,
    /// Words of payload of whole packets.
    words: usize,
    /// Whole packets and where their payloads are.
    packets: VecDeque<(Arrival, usize)>,
    packets_max: usize,
    /// The packet under way, if there is one and room for it.
    coming: Option<Coming>,
}

impl Fifo {
    pub(super) fn new(words_max: usize, packets_max: usize, packet_words: usize) -> Self {
        Self {
            payloads: Payloads::new(words_max, packet_words),
            words_max,
            words: 0,
            packets: VecDeque::with_capacity(packets_max),
            packets_max,
            coming: None,
        }
    }

    /// Begins a packet of `words` in the place of any other under way.
    pub(super) fn begin(&mut self, words: usize) {
        let fits = self.words + words <= self.words_max && self.packets.len() < self.packets_max;
        let at = self.payloads.place(words, self.packets.is_empty());
        self.coming = fits.then_some(Coming { at, words, filled: 0 });
    }

    /// Adds whole words to the payload of the packet under way, and gives the sum of those before and of them, where `sum` is that of those
    /// before; they are thrown away if the packet does not fit.
    pub(super) fn push(&mut self, bytes: &[u8], sum: Crc32c) -> Crc32c {
        match self.place(bytes.len()) {
            Some(place) => sum.and_copied(bytes, place),
            None => sum.and(bytes),
        }
    }

    /// Where the next `len` bytes of the packet under way go, if it fits.
    fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        let Coming { at, words, filled } = self.coming.as_mut()?;
        let from = std::mem::replace(filled, *filled + len);
        self.payloads.get_mut(*at, *words).get_mut(from..*filled)
    }

    /// Takes a packet whose whole payload is there, padded to whole words; `false` if there is no room for it.
    pub(super) fn put(&mut self, arrival: Arrival, payload: &[u8]) -> bool {
        self.begin(payload.len() / WORD_LEN);
        if let Some(place) = self.place(payload.len()) {
            copy(payload, place);
        }
        self.accept(arrival)
    }

    /// Forgets the packet under way.
    pub(super) fn abandon(&mut self) {
        self.coming = None;
    }

    /// Accepts the packet under way; `false` if there was no room for it.
    pub(super) fn accept(&mut self, mut arrival: Arrival) -> bool {
        let Some(Coming { at, words, .. }) = self.coming.take() else { return false };
        arrival.going_on(self.payloads.get(at, words));
        self.payloads.keep(at, words);
        self.packets.push_back((arrival, at));
        self.words += words;
        true
    }

    /// What whole packets leave free.
    pub(super) fn room(&self) -> Room {
        Room {
            words: (self.words_max - self.words) as u32,
            headers: (self.packets_max - self.packets.len()) as u32,
        }
    }

    /// The oldest packet.
    pub(super) fn front(&self) -> Option<&Arrival> {
        self.packets.front().map(|(arrival, _)| arrival)
    }

    /// The payload of the oldest packet, without padding.
    pub(super) fn payload(&self) -> &[u8] {
        let Some((Arrival { header, .. }, at)) = self.packets.front() else { return &[] };
        &self.payloads.get(*at, header.payload_words())[..header.size.into()]
    }

    /// Takes the oldest packet out.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let (arrival, _) = self.packets.pop_front()?;
        self.words -= arrival.header.payload_words();
        if self.packets.is_empty() {
            // The next one lies where the last ones did, in memory that has been touched.
            self.packets.clear();
        }
        Some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(size: u16) -> Arrival {
        let header = Header { size, ..Header::default() };
        Arrival { header, origin: Origin::default(), sum: Crc32c::default() }
    }

    fn push(fifo: &mut Fifo, word: u8) {
        _ = fifo.push(&[word; 16], Crc32c::default());
    }

    fn put(fifo: &mut Fifo, words: u8) -> bool {
        fifo.begin(words.into());
        (0..words).for_each(|word| push(fifo, word));
        fifo.accept(arrival(16 * u16::from(words)))
    }

    fn firsts(fifo: &Fifo) -> Vec<u8> {
        fifo.payload().iter().step_by(16).copied().collect()
    }

    #[test]
    fn counts_whole_packets_only() {
        let mut fifo = Fifo::new(8, 2, 8);
        assert!(put(&mut fifo, 5));
        fifo.begin(3);
        push(&mut fifo, 7);
        assert_eq!(fifo.room(), Room { words: 3, headers: 1 });
        assert_eq!(fifo.pop(), Some(arrival(80)));
        assert_eq!(fifo.room(), Room { words: 8, headers: 2 });
        push(&mut fifo, 8);
        push(&mut fifo, 9);
        assert!(fifo.accept(arrival(48)));
        assert_eq!(firsts(&fifo), [7, 8, 9]);
    }

    #[test]
    fn a_packet_without_room_is_thrown_away_and_the_others_stay() {
        let mut fifo = Fifo::new(8, 2, 8);
        assert!(put(&mut fifo, 5));
        assert!(!put(&mut fifo, 4));
        assert!(put(&mut fifo, 3));
        assert!(!put(&mut fifo, 0), "no room for a third header");
        assert_eq!(fifo.room(), Room::default());
        fifo.pop();
        assert_eq!(firsts(&fifo), [0, 1, 2]);
    }

    #[test]
    fn a_packet_goes_on_with_zeros_whatever_it_was_padded_with() {
        let mut fifo = Fifo::new(8, 2, 8);
        fifo.begin(2);
        let sum = fifo.push(&[3; 32], Crc32c::default());
        assert!(fifo.accept(Arrival { sum, ..arrival(17) }));
        assert_eq!(fifo.front().unwrap().sum, Crc32c::of_padded(&[3; 17]));
    }

    #[test]
    fn words_that_no_packet_has_are_added_and_thrown_away() {
        let mut fifo = Fifo::new(8, 2, 8);
        let before = Crc32c::of(b"before");
        assert_eq!(fifo.push(&[3; 32], before), before.and(&[3; 32]));
        assert!(!fifo.accept(arrival(32)));
        assert!(fifo.put(arrival(32), &[4; 32]) && fifo.put(arrival(16), &[5; 16]));
        assert_eq!(firsts(&fifo), [4, 4]);
    }
}
