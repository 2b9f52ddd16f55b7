//! The receive FIFO of one virtual channel.

use std::collections::VecDeque;

use gannet_checksum::{Crc32c, copy};
use gannet_wire::apelink::frame::Room;
use gannet_wire::apelink::{Footer, Header, WORD_LEN, Word};

use super::ring::{Ring, packet_len, parts};
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
    /// A packet with this header and footer, whose padded payload has this sum.
    #[inline]
    pub(super) fn new(header: Header, footer: Word, sum: Crc32c) -> Self {
        let Footer { source, time, .. } = Footer::from_word(footer);
        Self { header, origin: Origin { source, time }, sum }
    }
}

/// The sum of a payload of `size` bytes and zeros up to whole words, where `sum` is that of `padded`, which may have something else behind it.
#[inline]
pub(super) fn sum_going_on(size: u16, padded: &[u8], sum: Crc32c) -> Crc32c {
    let (own, padding) = padded.split_at(size.into());
    if padding.iter().all(|&byte| byte == 0) { sum } else { Crc32c::of_padded(own) }
}

/// A packet of which not all has come.
#[derive(Clone, Copy, Debug)]
struct Coming {
    /// Where it is put.
    at: usize,
    /// Words of payload.
    words: usize,
    /// Bytes of payload that are there.
    filled: usize,
}

/// A whole packet.
#[derive(Clone, Copy, Debug)]
struct Held {
    at: usize,
    /// The sum of its payload, padded with zeros to whole words.
    sum: Crc32c,
}

/// Packets of one virtual channel in the order of arrival, and the one that is under way.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    /// The packets as they came, with the right header.
    ring: Ring,
    words_max: usize,
    /// Words of payload of whole packets.
    words: usize,
    packets: VecDeque<Held>,
    packets_max: usize,
    /// The packet under way, if there is one and room for it.
    coming: Option<Coming>,
}

impl Fifo {
    pub(super) fn new(words_max: usize, packets_max: usize, payload_words: usize) -> Self {
        Self {
            ring: Ring::new(
                words_max * WORD_LEN + packets_max * packet_len(0),
                packet_len(payload_words),
            ),
            words_max,
            words: 0,
            packets: VecDeque::with_capacity(packets_max),
            packets_max,
            coming: None,
        }
    }

    /// Begins a packet with `words` of payload in the place of any other under way.
    #[inline]
    pub(super) fn begin(&mut self, words: usize) {
        let fits = self.words + words <= self.words_max && self.packets.len() < self.packets_max;
        let at = self.ring.place(packet_len(words), self.packets.is_empty());
        self.coming = fits.then_some(Coming { at, words, filled: 0 });
    }

    /// Adds whole words to the payload of the packet under way, and gives the sum of those before and of them, where `sum` is that of those
    /// before; they are thrown away if the packet does not fit.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8], sum: Crc32c) -> Crc32c {
        match self.place(bytes.len()) {
            Some(place) => sum.and_copied(bytes, place),
            None => sum.and(bytes),
        }
    }

    /// Where the next `len` bytes of the payload under way go, if the packet fits.
    #[inline]
    fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        let Coming { at, words, filled } = self.coming.as_mut()?;
        let from = std::mem::replace(filled, *filled + len);
        let (_, payload, _) = parts(self.ring.get_mut(*at, packet_len(*words)));
        payload.get_mut(from..*filled)
    }

    /// Takes a packet whose whole payload is there, padded to whole words with zeros or not; `false` if there is no room for it.
    pub(super) fn put(&mut self, header: Word, payload: &[u8], footer: Word, sum: Crc32c) -> bool {
        self.begin(payload.len() / WORD_LEN);
        if let Some(place) = self.place(payload.len()) {
            copy(payload, place);
        }
        self.accept(header, footer, sum)
    }

    /// Forgets the packet under way.
    pub(super) fn abandon(&mut self) {
        self.coming = None;
    }

    /// Accepts the packet under way, with this header, this footer and this sum of its payload; `false` if there was no room for it.
    #[inline]
    pub(super) fn accept(&mut self, header: Word, footer: Word, sum: Crc32c) -> bool {
        let Some(Coming { at, words, .. }) = self.coming.take() else { return false };
        let (head, payload, foot) = parts(self.ring.get_mut(at, packet_len(words)));
        (*head, *foot) = (header.to_le_bytes(), footer.to_le_bytes());
        let sum = sum_going_on(Header::from_word(header).size, payload, sum);
        self.ring.keep(at, packet_len(words));
        self.packets.push_back(Held { at, sum });
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

    /// Gives memory back that was not used since the last call, if no packet is there or under way.
    pub(super) fn trim(&mut self) {
        if self.packets.is_empty() && self.coming.is_none() {
            self.ring.trim();
        }
    }

    /// Whether no packet is there.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The oldest packet.
    pub(super) fn front(&self) -> Option<Arrival> {
        self.packets.front().map(|held| self.arrival(held))
    }

    fn arrival(&self, held: &Held) -> Arrival {
        let header = Header::from_word(self.ring.word(held.at));
        let footer = self.ring.word(held.at + (1 + header.payload_words()) * WORD_LEN);
        Arrival::new(header, footer, held.sum)
    }

    /// The payload of the oldest packet, without padding.
    pub(super) fn payload(&self) -> &[u8] {
        let Some(held) = self.packets.front() else { return &[] };
        let header = Header::from_word(self.ring.word(held.at));
        self.ring.get(held.at + WORD_LEN, header.size.into())
    }

    /// Takes the oldest packet out.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let held = self.packets.pop_front()?;
        let arrival = self.arrival(&held);
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

    const FOOTER: Word = 7 << 64;

    fn header(size: u16) -> Word {
        Header { size, ..Header::default() }.to_word()
    }

    fn arrival(size: u16) -> Arrival {
        Arrival::new(Header::from_word(header(size)), FOOTER, Crc32c::default())
    }

    fn accept(fifo: &mut Fifo, size: u16) -> bool {
        fifo.accept(header(size), FOOTER, Crc32c::default())
    }

    fn push(fifo: &mut Fifo, word: u8) {
        _ = fifo.push(&[word; 16], Crc32c::default());
    }

    fn put(fifo: &mut Fifo, words: u8) -> bool {
        fifo.begin(words.into());
        (0..words).for_each(|word| push(fifo, word));
        accept(fifo, 16 * u16::from(words))
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
        assert!(accept(&mut fifo, 48));
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
        assert!(fifo.accept(header(17), FOOTER, sum));
        assert_eq!(fifo.front().unwrap().sum, Crc32c::of_padded(&[3; 17]));
    }

    #[test]
    fn words_that_no_packet_has_are_added_and_thrown_away() {
        let mut fifo = Fifo::new(8, 2, 8);
        let before = Crc32c::of(b"before");
        assert_eq!(fifo.push(&[3; 32], before), before.and(&[3; 32]));
        assert!(!accept(&mut fifo, 32));
        let mut put = |payload: &[u8]| {
            fifo.put(header(payload.len() as u16), payload, FOOTER, Crc32c::of(payload))
        };
        assert!(put(&[4; 32]) && put(&[5; 16]));
        assert_eq!(firsts(&fifo), [4, 4]);
    }
}
