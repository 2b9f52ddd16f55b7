//! Packets taken for sending and not yet acknowledged: send queue and replay buffer in one.

use std::collections::VecDeque;

use gannet_checksum::Crc32c;
use gannet_wire::apelink::{Footer, Header, WORD_LEN, Word};

use super::ring::{BESIDE, Ring, parts};

/// Where and when a packet began its way through the torus; routers hand it on unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the node, 20 bits.
    pub source: u32,
    /// Time, ns modulo 2^44.
    pub time: u64,
}

/// A packet of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) virtual_channel: usize,
    /// Words of payload.
    pub(super) words: usize,
    /// When it was sent last.
    sent_at: u64,
    /// Where it lies.
    at: usize,
}

impl Entry {
    /// Words of all of it.
    fn packet_words(&self) -> usize {
        self.words + BESIDE
    }
}

/// Packets that lie one behind another, to be sent together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) packets: u16,
}

/// The window. Packets before `cursor` have been sent, at least once since the last rewind.
#[derive(Clone, Debug)]
pub(super) struct Window {
    entries: VecDeque<Entry>,
    entries_max: usize,
    /// The packets as they are sent.
    ring: Ring,
    /// Words of all payloads together.
    words: usize,
    words_max: usize,
    /// Sequence number of the first packet.
    base: u32,
    cursor: usize,
    /// Packets from the first that have ever been sent under their number.
    sent: usize,
}

impl Window {
    pub(super) fn new(entries_max: usize, words_max: usize, payload_words: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(entries_max),
            entries_max,
            ring: Ring::of_packets(words_max, entries_max, payload_words),
            words: 0,
            words_max,
            base: 0,
            cursor: 0,
            sent: 0,
        }
    }

    /// Whether a packet with a payload of `words` finds place.
    pub(super) fn has_room(&self, words: usize) -> bool {
        let fits = self.entries.len() < self.entries_max && self.words + words <= self.words_max;
        fits && self.place(words).is_some()
    }

    /// Where a packet with a payload of `words` would lie, if there is a place for it now.
    fn place(&self, words: usize) -> Option<usize> {
        let held = self.words + BESIDE * self.entries.len();
        match self.entries.front() {
            Some(first) => self.ring.early_place(words + BESIDE, first.at, held),
            None => Some(self.ring.place(words + BESIDE, true)),
        }
    }

    /// Appends a packet, whose payload, padded to whole words, `write` writes, and gives its sum.
    ///
    /// # Panics
    /// When there is [no room](Self::has_room) for it.
    pub(super) fn push(
        &mut self,
        header: &Header,
        origin: Origin,
        write: impl FnOnce(&mut [u8]) -> Crc32c,
    ) {
        let (words, word) = (header.payload_words(), header.to_word());
        let at = self.place(words).expect("there is room for it");
        let Origin { source, time } = origin;
        let sequence = self.base.wrapping_add(self.entries.len() as u32);
        let (head, payload, foot) = parts(self.ring.get_mut(at, words + BESIDE));
        *head = word.to_le_bytes();
        let sum = write(payload);
        debug_assert_eq!(sum, Crc32c::of(payload), "the other end would refuse it for ever");
        let footer = Footer { crc: 0, sequence, source, time }.sealed(word, sum);
        *foot = footer.to_word().to_le_bytes();
        self.ring.keep(at, words + BESIDE);
        self.words += words;
        let virtual_channel = usize::from(header.virtual_channel);
        self.entries.push_back(Entry { virtual_channel, words, sent_at: 0, at });
    }

    /// Sequence number of the packet at the cursor.
    #[cfg(test)]
    fn sequence(&self) -> u32 {
        self.base.wrapping_add(self.cursor as u32)
    }

    /// Words of payload of the packet at the cursor, which is to be sent next, or under way.
    pub(super) fn payload_words(&self) -> Option<usize> {
        self.entries.get(self.cursor).map(|entry| entry.words)
    }

    /// Word `index` of the packet at the cursor.
    pub(super) fn word(&self, index: usize) -> Option<Word> {
        let entry = self.entries.get(self.cursor)?;
        (index < entry.packet_words()).then(|| self.ring.word(entry.at + index * WORD_LEN))
    }

    /// Notes that the packet at the cursor has been sent whole.
    pub(super) fn advance(&mut self, now: u64) {
        if let Some(entry) = self.entries.get_mut(self.cursor) {
            entry.sent_at = now;
            self.cursor += 1;
            self.sent = self.sent.max(self.cursor);
        }
    }

    /// The next packets to be sent that lie one behind another, at most so many and so many bytes of them, which are sent then; none if there is none.
    pub(super) fn advance_together(
        &mut self,
        packets_max: u16,
        bytes_max: usize,
        now: u64,
    ) -> Option<Run<'_>> {
        let (mut packets, mut words, from) = (0, 0, self.entries.get(self.cursor)?.at);
        for entry in self.entries.range_mut(self.cursor..).take(packets_max.into()) {
            let more = words + entry.packet_words();
            if entry.at != from + words * WORD_LEN || more * WORD_LEN > bytes_max {
                break;
            }
            entry.sent_at = now;
            (packets, words) = (packets + 1, more);
        }
        self.cursor += usize::from(packets);
        self.sent = self.sent.max(self.cursor);
        (packets > 0).then(|| Run { bytes: self.ring.get(from, words), packets })
    }

    /// Goes back to the first packet.
    pub(super) fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// When the first packet was sent, if it has been since the last rewind.
    pub(super) fn first_sent_at(&self) -> Option<u64> {
        if self.cursor > 0 { self.entries.front().map(|entry| entry.sent_at) } else { None }
    }

    /// How many packets are acknowledged where `next` is expected; nothing if that lies outside of what
    /// was sent.
    pub(super) fn acknowledged(&self, next: u32) -> Option<usize> {
        let count = next.wrapping_sub(self.base) as usize;
        (count <= self.sent).then_some(count)
    }

    /// Whether packets have been sent that are still here.
    pub(super) fn awaits(&self) -> bool {
        self.sent > 0
    }

    /// Sequence number of the first packet.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// Takes the first packet out if it has been sent and is not under way again.
    pub(super) fn release(&mut self) -> Option<Entry> {
        if self.cursor == 0 {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.words -= entry.words;
        self.base = self.base.wrapping_add(1);
        self.cursor -= 1;
        self.sent -= 1;
        if self.entries.is_empty() {
            // The next one lies where the last ones did, in memory that has been touched.
            self.entries.clear();
        }
        Some(entry)
    }

    /// Skips the first packets of a replay: those that `count` says are acknowledged need not be
    /// sent again. Only between packets.
    pub(super) fn skip_to(&mut self, count: usize) {
        self.cursor = self.cursor.max(count);
    }

    /// Numbers the packets from `base` and goes back to the first.
    pub(super) fn renumber(&mut self, base: u32) {
        (self.base, self.cursor, self.sent) = (base, 0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let (head, payload, foot) = parts(self.ring.get_mut(entry.at, entry.packet_words()));
            let (header, footer) = (Word::from_le_bytes(*head), Word::from_le_bytes(*foot));
            let sequence = base.wrapping_add(index as u32);
            let footer = Footer { sequence, ..Footer::from_word(footer) };
            *foot = footer.sealed(header, Crc32c::of(payload)).to_word().to_le_bytes();
        }
    }

    /// Whether there is nothing to be sent.
    pub(super) fn is_done(&self) -> bool {
        self.cursor == self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::random::Random;

    use super::*;

    fn window(packets: u16) -> Window {
        let mut window = Window::new(8, 64, 64);
        for size in 0..packets {
            let words = (0..size).flat_map(|word| Word::from(100 * size + word).to_le_bytes());
            let header = Header { size: 16 * size, ..Header::default() };
            let payload = words.collect::<Vec<_>>();
            let write = |place: &mut [u8]| Crc32c::default().and_copied(&payload, place);
            window.push(&header, Origin::default(), write);
        }
        window
    }

    #[test]
    fn words_belong_to_their_packet_after_release_and_rewind() {
        let mut window = window(4);
        (0..4).for_each(|now| window.advance(now));
        assert!(window.is_done());
        (0..2).for_each(|_| assert!(window.release().is_some()));
        window.rewind();
        assert_eq!((window.sequence(), window.word(2), window.word(6)), (2, Some(201), None));
        window.advance(9);
        assert_eq!((window.sequence(), window.word(3)), (3, Some(302)));
    }

    #[test]
    fn only_what_was_sent_can_be_acknowledged() {
        let mut window = window(4);
        window.advance(0);
        window.advance(0);
        assert_eq!(window.acknowledged(2), Some(2));
        assert_eq!(window.acknowledged(3), None);
        assert_eq!(window.acknowledged(u32::MAX), None);
        window.rewind();
        assert_eq!(window.acknowledged(2), Some(2), "a replay does not undo what was sent");
        assert!(window.release().is_none(), "the first packet is under way again");
    }

    #[test]
    fn numbers_wrap() {
        let mut window = window(3);
        window.base = u32::MAX - 1;
        (0..3).for_each(|_| window.advance(0));
        assert_eq!(window.acknowledged(1), Some(3));
        (0..3).for_each(|_| assert!(window.release().is_some()));
        assert_eq!(window.sequence(), 1);
    }

    #[test]
    fn packets_keep_their_bytes_and_few_of_them_stay_in_little_memory() {
        // First a sixteenth of the room is used, then all of it.
        let (words_max, packet_words) = (1 << 16, 1000);
        let (mut random, mut number, mut touched) = (Random::new(1), 0u8, 0);
        let mut window = Window::new(1 << 10, words_max, packet_words);
        let mut expected = VecDeque::new();
        for step in 0..60_000 {
            let words_held = if step < 20_000 { words_max / 16 } else { words_max };
            let words = 1 + random.below(packet_words as u64) as usize;
            if window.has_room(words) && window.words + words <= words_held && random.below(3) > 0 {
                number = number.wrapping_add(1);
                let header = Header { size: (words * WORD_LEN) as u16, ..Header::default() };
                window.push(&header, Origin::default(), |place| {
                    place.fill(number);
                    Crc32c::of(place)
                });
                window.advance(step);
                expected.push_back((number, words));
            } else if let Some((number, words)) = expected.pop_front() {
                let entry = *window.entries.front().unwrap();
                assert_eq!(entry.words, words);
                let (_, payload, _) = parts(window.ring.get_mut(entry.at, entry.packet_words()));
                assert!(payload.iter().all(|&byte| byte == number), "step {step}");
                window.release().unwrap();
            }
            if step == 20_000 {
                touched = window.ring.touched();
            }
        }
        assert!(touched <= 400 << 10, "{touched} bytes for 64 KiB");
        assert!(window.ring.touched() > 900 << 10, "all of it is used where it is needed");
    }

    #[test]
    fn a_window_has_room_for_so_many_packets_and_words() {
        let mut window = Window::new(2, 10, 10);
        let header = Header { size: 160, ..Header::default() };
        window.push(&header, Origin::default(), |place| {
            Crc32c::default().and_copied(&[7; 160], place)
        });
        assert!(!window.has_room(1) && window.has_room(0));
    }
}
