//! Packets taken for sending and not yet acknowledged: send queue and replay buffer in one, and the frames in which they go.

use std::collections::VecDeque;

use gannet_checksum::Crc32c;
use gannet_wire::apelink::{Footer, Header, WORD_LEN, Word};

use super::ring::{Ring, packet_len, parts};

/// Where and when a packet began its way through the torus; routers hand it on unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the node, 20 bits.
    pub source: u32,
    /// Time, ns modulo 2^44.
    pub time: u64,
}

/// What frames are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes in front of the first packet.
    pub(super) head: usize,
    /// Bytes behind the last packet.
    pub(super) tail: usize,
    /// Most bytes of head and packets, but for a packet that is alone.
    pub(super) bytes: usize,
}

/// A packet of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) virtual_channel: usize,
    /// Words of payload.
    pub(super) words: usize,
}

/// A frame of the window, without the packets of it that were released.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where its head is to be.
    at: usize,
    /// Bytes of head and packets.
    len: usize,
    packets: u16,
    /// When it was sent last.
    sent_at: u64,
}

/// Where a packet finds place.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Behind the others of the last frame.
    InLast,
    /// In another frame that begins there.
    InNext(usize),
}

/// How much goes to a line at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Most frames, at least 1.
    pub frames: usize,
    /// Most bytes of all of them, unless it is one.
    pub bytes: usize,
}

impl Most {
    /// One frame.
    pub const ONE: Self = Self { frames: 1, bytes: 0 };
}

/// Frames that were taken out to be sent together: one behind another, all of one length but the last, which may be shorter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    /// Where the first begins.
    pub(super) at: usize,
    /// Bytes of all, with head and tail of each.
    pub(super) len: usize,
    /// Bytes of each but the last.
    pub(super) frame: usize,
    pub(super) frames: usize,
    pub(super) packets: usize,
    /// Packets that had ever been sent before.
    sent: usize,
}

impl Batch {
    /// Words of payload of all its packets.
    pub(super) fn payload_words(&self, layout: &Layout) -> usize {
        let beside = self.frames * (layout.head + layout.tail) + self.packets * packet_len(0);
        (self.len - beside) / WORD_LEN
    }
}

/// The window. Frames before `cursor` have been sent, at least once since the last rewind.
///
/// A packet is put where it is sent from, in the last frame if that has not been sent since the last rewind; on a line of words each has a frame of its own.
#[derive(Clone, Debug)]
pub(super) struct Window {
    layout: Layout,
    frames: VecDeque<Frame>,
    packets: VecDeque<Entry>,
    packets_max: usize,
    ring: Ring,
    /// Bytes of all frames together, and words of the payloads in them.
    len: usize,
    words: usize,
    words_max: usize,
    /// Sequence number of the first packet.
    base: u32,
    cursor: usize,
    /// Packets before the cursor.
    before: usize,
    /// Packets from the first that have ever been sent under their number.
    sent: usize,
}

impl Window {
    pub(super) fn new(
        layout: Layout,
        packets_max: usize,
        words_max: usize,
        payload_words: usize,
    ) -> Self {
        let beside = layout.head + layout.tail + packet_len(0);
        let longest = layout.bytes.max(layout.head + packet_len(payload_words)) + layout.tail;
        Self {
            layout,
            frames: VecDeque::with_capacity(packets_max),
            packets: VecDeque::with_capacity(packets_max),
            packets_max,
            ring: Ring::new(words_max * WORD_LEN + packets_max * beside, longest),
            len: 0,
            words: 0,
            words_max,
            base: 0,
            cursor: 0,
            before: 0,
            sent: 0,
        }
    }

    /// Whether a packet with a payload of `words` finds place.
    pub(super) fn has_room(&self, words: usize) -> bool {
        let fits = self.packets.len() < self.packets_max && self.words + words <= self.words_max;
        fits && self.place(words).is_some()
    }

    /// Where a packet with a payload of `words` would lie, if there is a place for it now.
    #[inline]
    fn place(&self, words: usize) -> Option<Place> {
        let Layout { head, tail, bytes } = self.layout;
        let Some((first, last)) = self.frames.front().zip(self.frames.back()) else {
            return Some(Place::InNext(self.ring.place(head + packet_len(words) + tail, true)));
        };
        let len = last.len + packet_len(words);
        let is_open = self.frames.len() > self.cursor && len <= bytes;
        if is_open && self.ring.may_reach(last.at + len + tail, first.at) {
            return Some(Place::InLast);
        }
        let len = head + packet_len(words) + tail;
        self.ring.early_place(len, first.at, self.len).map(Place::InNext)
    }

    /// Appends a packet, whose payload, padded to whole words, `write` writes, and gives its sum.
    ///
    /// # Panics
    /// When there is [no room](Self::has_room) for it.
    #[inline]
    pub(super) fn push(
        &mut self,
        header: &Header,
        origin: Origin,
        write: impl FnOnce(&mut [u8]) -> Crc32c,
    ) {
        let Layout { head, tail, .. } = self.layout;
        let (words, word) = (header.payload_words(), header.to_word());
        let len = packet_len(words);
        if let Place::InNext(at) = self.place(words).expect("there is room for it") {
            self.len += head + tail;
            self.frames.push_back(Frame { at, len: head, packets: 0, sent_at: 0 });
        }
        let frame = self.frames.back_mut().expect("it was there, or is new");
        let at = frame.at + frame.len;
        (frame.len, frame.packets) = (frame.len + len, frame.packets + 1);
        self.ring.keep(frame.at, frame.len + tail);
        let Origin { source, time } = origin;
        let sequence = self.base.wrapping_add(self.packets.len() as u32);
        let (head, payload, foot) = parts(self.ring.get_mut(at, len));
        *head = word.to_le_bytes();
        let sum = write(payload);
        debug_assert_eq!(sum, Crc32c::of(payload), "the other end would refuse it for ever");
        let footer = Footer { crc: 0, sequence, source, time }.sealed(word, sum);
        *foot = footer.to_word().to_le_bytes();
        (self.len, self.words) = (self.len + len, self.words + words);
        let virtual_channel = usize::from(header.virtual_channel);
        self.packets.push_back(Entry { virtual_channel, words });
    }

    /// Sequence number of the packet at the cursor.
    #[cfg(test)]
    fn sequence(&self) -> u32 {
        self.base.wrapping_add(self.before as u32)
    }

    /// Words of payload of the packet at the cursor, which is to be sent next, or under way.
    pub(super) fn payload_words(&self) -> Option<usize> {
        self.packets.get(self.before).map(|entry| entry.words)
    }

    /// Word `index` of the packet at the cursor.
    pub(super) fn word(&self, index: usize) -> Option<Word> {
        let frame = self.frames.get(self.cursor)?;
        let at = frame.at + self.layout.head + index * WORD_LEN;
        (at < frame.at + frame.len).then(|| self.ring.word(at))
    }

    /// Notes that the frame at the cursor has been sent whole.
    pub(super) fn advance(&mut self, now: u64) {
        self.take(Most::ONE, now);
    }

    /// The next frames to be sent that can go together, which count as sent from now on; none if there is none.
    pub(super) fn take(&mut self, most: Most, now: u64) -> Option<Batch> {
        let Layout { tail, .. } = self.layout;
        let first = self.frames.get(self.cursor)?;
        let frame = first.len + tail;
        let mut batch = Batch { at: first.at, frame, sent: self.sent, ..Batch::default() };
        for it in self.frames.range_mut(self.cursor..).take(most.frames.max(1)) {
            let len = it.len + tail;
            let follows = it.at == batch.at + batch.len && batch.len == batch.frames * frame;
            let fits = len <= frame && batch.len + len <= most.bytes || batch.frames == 0;
            if !(follows && fits) {
                break;
            }
            it.sent_at = now;
            (batch.len, batch.frames) = (batch.len + len, batch.frames + 1);
            batch.packets += usize::from(it.packets);
        }
        (self.cursor, self.before) = (self.cursor + batch.frames, self.before + batch.packets);
        self.sent = self.sent.max(self.before);
        Some(batch)
    }

    /// Puts the last batch back to be sent, of which nothing has left; nothing may have been released since.
    pub(super) fn put_back(&mut self, batch: &Batch) {
        (self.cursor, self.before) = (self.cursor - batch.frames, self.before - batch.packets);
        self.sent = batch.sent;
    }

    /// The bytes of a batch.
    pub(super) fn bytes_mut(&mut self, batch: &Batch) -> &mut [u8] {
        self.ring.get_mut(batch.at, batch.len)
    }

    /// Head and number of packets of each of the last `frames` frames that were taken.
    pub(super) fn heads(&mut self, frames: usize, mut write: impl FnMut(&mut [u8], u16)) {
        for frame in self.frames.range(self.cursor - frames..self.cursor) {
            write(self.ring.get_mut(frame.at, self.layout.head), frame.packets);
        }
    }

    /// Goes back to the first packet.
    pub(super) fn rewind(&mut self) {
        (self.cursor, self.before) = (0, 0);
    }

    /// Packets that were sent since the last rewind and are still here.
    pub(super) fn under_way(&self) -> usize {
        self.before
    }

    /// When the first packet was sent, if it has been since the last rewind.
    pub(super) fn first_sent_at(&self) -> Option<u64> {
        if self.cursor > 0 { self.frames.front().map(|frame| frame.sent_at) } else { None }
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

    /// Takes out the first packet, which is not sent again then. On a line of words it must not be under way.
    #[inline]
    pub(super) fn release(&mut self) -> Option<Entry> {
        let entry = self.packets.pop_front()?;
        let len = packet_len(entry.words);
        (self.len, self.words) = (self.len - len, self.words - entry.words);
        self.base = self.base.wrapping_add(1);
        self.before = self.before.saturating_sub(1);
        self.sent = self.sent.saturating_sub(1);
        let Layout { head, tail, .. } = self.layout;
        let first = self.frames.front_mut()?;
        // The head is written where the packet was, in front of those that stay.
        (first.at, first.len, first.packets) = (first.at + len, first.len - len, first.packets - 1);
        if first.packets == 0 {
            self.frames.pop_front();
            self.len -= head + tail;
            self.cursor = self.cursor.saturating_sub(1);
        }
        if self.packets.is_empty() {
            // The next one lies where the last ones did, in memory that has been touched.
            self.packets.clear();
            self.frames.clear();
        }
        Some(entry)
    }

    /// Gives memory back that was not used since the last call, if the window is empty.
    pub(super) fn trim(&mut self) {
        if self.packets.is_empty() {
            self.ring.trim();
        }
    }

    /// Numbers the packets from `base` and goes back to the first.
    pub(super) fn renumber(&mut self, base: u32) {
        (self.base, self.sent) = (base, 0);
        self.rewind();
        let mut packets = self.packets.iter().zip(0u32..);
        for frame in &self.frames {
            let mut at = frame.at + self.layout.head;
            for (entry, index) in packets.by_ref().take(frame.packets.into()) {
                let len = packet_len(entry.words);
                let (head, payload, foot) = parts(self.ring.get_mut(at, len));
                let (header, footer) = (Word::from_le_bytes(*head), Word::from_le_bytes(*foot));
                let sequence = base.wrapping_add(index);
                let footer = Footer { sequence, ..Footer::from_word(footer) };
                *foot = footer.sealed(header, Crc32c::of(payload)).to_word().to_le_bytes();
                at += len;
            }
        }
    }

    /// Whether there is nothing to be sent.
    pub(super) fn is_done(&self) -> bool {
        self.cursor == self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::random::Random;

    use super::*;

    fn window(packets: u16) -> Window {
        let mut window = Window::new(Layout::default(), 8, 64, 64);
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
        assert_eq!(window.under_way(), 0, "the first packet may be under way again");
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
        packets_keep_their_bytes(Layout::default());
        packets_keep_their_bytes(Layout { head: 64, tail: 24, bytes: 40_000 });
    }

    fn packets_keep_their_bytes(layout: Layout) {
        // First a sixteenth of the room is used, then all of it.
        let (words_max, packet_words) = (1 << 16, 1000);
        let (mut random, mut number, mut touched) = (Random::new(1), 0u8, 0);
        let mut window = Window::new(layout, 1 << 10, words_max, packet_words);
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
                if random.below(4) > 0 {
                    while let Some(batch) = window.take(Most { frames: 3, bytes: 65_507 }, step) {
                        window.heads(batch.frames, |head, _| head.fill(0xff));
                        window.bytes_mut(&batch)[batch.len - layout.tail..].fill(0xff);
                    }
                }
                expected.push_back((number, words));
            } else if let Some((number, words)) = expected.pop_front() {
                assert_eq!(window.packets.front().unwrap().words, words);
                let at = window.frames.front().unwrap().at + layout.head;
                let (_, payload, _) = parts(window.ring.get_mut(at, packet_len(words)));
                assert!(payload.iter().all(|&byte| byte == number), "step {step}");
                window.release().unwrap();
            }
            if step == 20_000 {
                touched = window.ring.used();
            }
        }
        assert!(touched <= 400 << 10, "{touched} bytes for 64 KiB");
        assert!(window.ring.used() > 900 << 10, "all of it is used where it is needed");
    }

    const ALL: Most = Most { frames: 9, bytes: usize::MAX };

    /// How many frames go next, and the bytes of one and of all.
    fn frames(window: &mut Window, most: Most) -> (usize, usize, usize) {
        let batch = window.take(most, 0).unwrap_or_default();
        (batch.frames, batch.frame, batch.len)
    }

    #[test]
    fn packets_share_frames_and_equal_frames_go_together() {
        let layout = Layout { head: 64, tail: 24, bytes: 64 + 2 * packet_len(8) };
        let mut window = Window::new(layout, 100, 1000, 8);
        let push = |window: &mut Window, words: u16| {
            let header = Header { size: 16 * words, ..Header::default() };
            window.push(&header, Origin::default(), |place| Crc32c::of(place));
        };
        let (two, one) = (88 + 2 * packet_len(8), 88 + packet_len(8));
        (0..7).for_each(|_| push(&mut window, 8));
        assert_eq!(
            frames(&mut window, Most { frames: 2, ..ALL }),
            (2, two, 2 * two),
            "not more than two"
        );
        assert_eq!(frames(&mut window, ALL), (2, two, two + one), "the last is shorter");
        assert_eq!(frames(&mut window, ALL), (0, 0, 0));
        push(&mut window, 1);
        window.rewind();
        assert_eq!(frames(&mut window, Most { bytes: 2 * two + 1, ..ALL }), (2, two, 2 * two));
        let batch = window.take(ALL, 0).unwrap();
        let mut packets = Vec::new();
        window.heads(batch.frames, |head, count| packets.push((head.len(), count)));
        assert_eq!(packets, [(64, 2), (64, 1)], "nothing was added to a frame that had been sent");
        window.put_back(&batch);
        assert_eq!(frames(&mut window, ALL), (2, two, two + one));
        // Half of the first frame is acknowledged, and not sent again.
        assert!(window.release().is_some());
        window.rewind();
        assert_eq!(frames(&mut window, ALL), (1, one, one), "the next one is longer");
        assert_eq!(window.take(ALL, 0).unwrap().packets, 5);
    }

    #[test]
    fn a_window_has_room_for_so_many_packets_and_words() {
        let mut window = Window::new(Layout::default(), 2, 10, 10);
        let header = Header { size: 160, ..Header::default() };
        window.push(&header, Origin::default(), |place| {
            Crc32c::default().and_copied(&[7; 160], place)
        });
        assert!(!window.has_room(1) && window.has_room(0));
    }
}
