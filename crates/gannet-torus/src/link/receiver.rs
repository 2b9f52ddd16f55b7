//! The receiving half: words become packets and credits.

use gannet_checksum::Crc32c;
use gannet_wire::apelink::frame::Room;
use gannet_wire::apelink::secded::{self, Decoded};
use gannet_wire::apelink::{
    Credit, ESCAPED_START, Footer, Header, MAGIC, START, VIRTUAL_CHANNELS, WORD_LEN, Word,
};

use super::config::Config;
use super::counters::Counters;
use super::fifo::{Arrival, Fifo, sum_going_on};

/// What a receiver waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// START; other words of packets are passed over.
    Start,
    /// The header of a packet.
    Header,
    /// Words of payload.
    Payload,
    /// The footer of a packet.
    Footer,
}

/// What a word has completed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Received {
    Credit(Credit),
    /// A packet is in the FIFO of this virtual channel.
    Packet(u8),
    /// A packet was taken at once.
    Taken,
}

/// Is offered a packet with its payload, and says whether it has taken it.
pub(super) type Take<'a> = dyn FnMut(&Arrival, &[u8]) -> bool + 'a;

#[derive(Clone, Debug)]
pub(super) struct LinkReceiver {
    config: Config,
    fifos: Vec<Fifo>,
    stage: Stage,
    /// The last word was MAGIC: the next one is a control word.
    after_magic: bool,
    header: Header,
    /// The same as it was meant.
    header_word: Word,
    /// Words of payload that are still to come.
    left: usize,
    /// The sum of those that have come.
    sum: Crc32c,
    /// Sequence number of the next packet.
    expected: u32,
    /// What that becomes when the packet under way is accepted.
    next: u32,
    resend: bool,
    /// When the first and the last packet came, since the expected one, that is behind it.
    ahead: Option<(u64, u64)>,
    /// Both ends number packets alike.
    accepting: bool,
    /// When the last word of the packet under way came.
    progress_at: u64,
}

impl LinkReceiver {
    pub(super) fn new(config: &Config) -> Self {
        // Each is made anew: memory that nothing was written to costs nothing, and a copy would write all of it.
        // Who does not keep to the margin is taken at its word, too.
        let packet_words = config.form.packet_words_max().min(config.fifo_words);
        let fifo = |_| Fifo::new(config.fifo_words, config.fifo_headers, packet_words);
        Self {
            config: *config,
            fifos: (0..config.virtual_channels).map(fifo).collect(),
            stage: Stage::Start,
            after_magic: false,
            header: Header::default(),
            header_word: 0,
            left: 0,
            sum: Crc32c::default(),
            expected: 0,
            next: 0,
            resend: false,
            ahead: None,
            accepting: false,
            progress_at: 0,
        }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// The FIFO of a virtual channel, if the link has it.
    pub(super) fn fifo(&self, vc: u8) -> Option<&Fifo> {
        self.fifos.get(usize::from(vc))
    }

    pub(super) fn fifo_mut(&mut self, vc: u8) -> Option<&mut Fifo> {
        self.fifos.get_mut(usize::from(vc))
    }

    /// What a report tells of the FIFOs: room without the margin, by virtual channel.
    #[inline]
    pub(super) fn room(&self) -> [Room; VIRTUAL_CHANNELS] {
        let margin = self.config.margin as u32;
        let mut told = [Room::default(); VIRTUAL_CHANNELS];
        for (told, fifo) in told.iter_mut().zip(&self.fifos) {
            let Room { words, headers } = fifo.room();
            *told = Room {
                words: words.saturating_sub(margin),
                headers: headers.saturating_sub(margin),
            };
        }
        told
    }

    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// Whether packets have to be sent again.
    pub(super) fn resend(&self) -> bool {
        self.resend && self.config.retransmit
    }

    /// For how long packets have come without the expected one among them.
    pub(super) fn lacks_for(&self) -> u64 {
        self.ahead.map_or(0, |(first, last)| last.saturating_sub(first))
    }

    pub(super) fn accept_packets(&mut self, accepting: bool) {
        self.accepting = accepting;
    }

    /// Expects packets from `sequence` on, before the first one.
    #[cfg(test)]
    pub(super) fn number_from(&mut self, sequence: u32) {
        self.expected = sequence;
    }

    /// Begins a new numbering; packets that have arrived stay.
    pub(super) fn restart(&mut self) {
        self.abandon();
        (self.expected, self.resend, self.ahead, self.accepting) = (0, false, None, false);
    }

    /// Takes the word of a word time.
    pub(super) fn receive(
        &mut self,
        word: Word,
        now: u64,
        counters: &mut Counters,
    ) -> Option<Received> {
        if std::mem::take(&mut self.after_magic) {
            match word {
                MAGIC => self.content(MAGIC, now, counters),
                ESCAPED_START => self.content(START, now, counters),
                START => self.start(now, counters),
                _ => Self::credit(word, counters),
            }
        } else {
            match word {
                MAGIC => {
                    self.after_magic = true;
                    counters.rx_magic += 1;
                    None
                }
                // The MAGIC in front of it was lost or damaged.
                START => self.start(now, counters),
                _ => self.content(word, now, counters),
            }
        }
    }

    fn credit(word: Word, counters: &mut Counters) -> Option<Received> {
        let credit = Credit::from_word(word);
        match credit {
            Some(_) => counters.rx_credits += 1,
            None => counters.rx_credit_errors += 1,
        }
        credit.map(Received::Credit)
    }

    fn start(&mut self, now: u64, counters: &mut Counters) -> Option<Received> {
        counters.rx_start += 1;
        if self.stage != Stage::Start {
            counters.cut_packets += 1;
            self.refuse();
        }
        self.stage = Stage::Header;
        self.progress_at = now;
        None
    }

    /// Takes a word of a packet.
    fn content(&mut self, word: Word, now: u64, counters: &mut Counters) -> Option<Received> {
        self.progress_at = now;
        match self.stage {
            Stage::Start => None,
            Stage::Header => {
                if let Some((header, word)) = self.read_header(word, counters) {
                    self.begin(header, word, counters);
                }
                None
            }
            Stage::Payload => {
                self.payload(&word.to_le_bytes());
                None
            }
            Stage::Footer => {
                if !self.is_next(word, self.header_word, self.sum, counters) {
                    return None;
                }
                let vc = self.header.virtual_channel;
                let fifo = &mut self.fifos[usize::from(vc)];
                let has_room = fifo.accept(self.header_word, word, self.sum);
                self.finish(has_room.then_some(Received::Packet(vc)), counters)
            }
        }
    }

    /// Takes the packet at the front of `bytes`. Gives what it has completed, and the bytes behind it
    /// unless it cannot be told where it ends. A packet that none of its channel waits before is offered to `take` first, if there is one.
    pub(super) fn packet<'a>(
        &mut self,
        bytes: &'a [u8],
        now: u64,
        counters: &mut Counters,
        take: Option<&mut Take<'_>>,
    ) -> (Option<Received>, Option<&'a [u8]>) {
        counters.rx_start += 1;
        self.progress_at = now;
        let Some((word, bytes)) = bytes.split_first_chunk() else {
            return self.cut(counters);
        };
        let Some((header, word)) = self.read_header(Word::from_le_bytes(*word), counters) else {
            return (None, None);
        };
        let is_wanted = self.takes(&header, counters);
        if header.is_header_only() {
            return (None, Some(bytes));
        }
        let Some((payload, bytes)) = bytes.split_at_checked(WORD_LEN * header.payload_words())
        else {
            return self.cut(counters);
        };
        let Some((footer, bytes)) = bytes.split_first_chunk() else {
            return self.cut(counters);
        };
        if !is_wanted {
            return (None, Some(bytes));
        }
        let (vc, footer) = (header.virtual_channel, Word::from_le_bytes(*footer));
        let fifo = &mut self.fifos[usize::from(vc)];
        let take = take.filter(|_| fifo.is_empty());
        let sum = if take.is_some() {
            Crc32c::of(payload)
        } else {
            fifo.begin(header.payload_words());
            fifo.push(payload, Crc32c::default())
        };
        if !self.is_next(footer, word, sum, counters) {
            return (None, Some(bytes));
        }
        let fifo = &mut self.fifos[usize::from(vc)];
        let packet = Received::Packet(vc);
        let received = match take {
            None => fifo.accept(word, footer, sum).then_some(packet),
            Some(take) => {
                let sum = sum_going_on(header.size, payload, sum);
                if take(&Arrival::new(header, footer, sum), &payload[..header.size.into()]) {
                    Some(Received::Taken)
                } else {
                    fifo.put(word, payload, footer, sum).then_some(packet)
                }
            }
        };
        (self.finish(received, counters), Some(bytes))
    }

    /// Drops the packet that the end of a frame cuts short.
    fn cut<'a>(&mut self, counters: &mut Counters) -> (Option<Received>, Option<&'a [u8]>) {
        counters.cut_packets += 1;
        self.refuse();
        (None, None)
    }

    /// Takes words of payload, no more than are to come.
    fn payload(&mut self, words: &[u8]) {
        let fifo = &mut self.fifos[usize::from(self.header.virtual_channel)];
        self.sum = fifo.push(words, self.sum);
        self.left -= words.len() / WORD_LEN;
        if self.left == 0 {
            self.stage = Stage::Footer;
        }
    }

    /// The header in `word`, and that word put right; refuses a packet whose end cannot be known.
    #[inline]
    fn read_header(&mut self, word: Word, counters: &mut Counters) -> Option<(Header, Word)> {
        let word = match secded::decode(word) {
            Decoded::Clean(word) => word,
            Decoded::Corrected(word) => {
                counters.header_errors += 1;
                word
            }
            Decoded::Uncorrectable => {
                counters.fatal_header_errors += 1;
                self.refuse();
                return None;
            }
        };
        let header = Header::from_word(word);
        let exists = usize::from(header.virtual_channel) < self.fifos.len();
        if header.payload_words() > self.config.form.packet_words_max() || !exists {
            counters.header_refused += 1;
            self.refuse();
            return None;
        }
        counters.rx_headers += 1;
        Some((header, word))
    }

    /// Whether a packet with this header is one that this end takes.
    #[inline]
    fn takes(&self, header: &Header, counters: &mut Counters) -> bool {
        if !self.accepting {
            counters.strangers += 1;
        } else if header.is_header_only() {
            counters.header_refused += 1;
        }
        self.accepting && !header.is_header_only()
    }

    /// Begins a packet, unless it is none that this end takes.
    fn begin(&mut self, header: Header, word: Word, counters: &mut Counters) {
        self.stage = Stage::Start;
        if !self.takes(&header, counters) {
            return;
        }
        (self.header, self.header_word) = (header, word);
        self.sum = Crc32c::default();
        self.left = header.payload_words();
        self.fifos[usize::from(header.virtual_channel)].begin(self.left);
        self.stage = if self.left == 0 { Stage::Footer } else { Stage::Payload };
    }

    /// Whether the packet with this footer is the next one and as it was sent; drops it if not.
    #[inline]
    fn is_next(
        &mut self,
        footer: Word,
        header: Word,
        payload: Crc32c,
        counters: &mut Counters,
    ) -> bool {
        counters.rx_footers += 1;
        let footer = Footer::from_word(footer);
        if !footer.seals(header, payload) {
            counters.crc_errors += 1;
            self.refuse();
            return false;
        }
        let ahead = footer.sequence.wrapping_sub(self.expected);
        if ahead > u32::MAX / 2 {
            counters.duplicates += 1;
            self.abandon();
            return false;
        }
        if ahead > 0 {
            counters.sequence_gaps += 1;
            if self.config.retransmit {
                let now = self.progress_at;
                self.ahead = Some((self.ahead.map_or(now, |(first, _)| first), now));
                self.refuse();
                return false;
            }
            counters.lost_packets += u64::from(ahead);
        }
        self.next = footer.sequence.wrapping_add(1);
        true
    }

    /// Ends the packet under way, which was received, or found no room.
    #[inline]
    fn finish(&mut self, received: Option<Received>, counters: &mut Counters) -> Option<Received> {
        if received.is_none() {
            counters.overflows += 1;
            if self.config.retransmit {
                self.refuse();
                return None;
            }
        }
        self.stage = Stage::Start;
        (self.resend, self.ahead) = (false, None);
        self.expected = self.next;
        counters.rx_packets += u64::from(received.is_some());
        received
    }

    /// Drops the packet under way, and demands it again.
    fn refuse(&mut self) {
        self.resend = true;
        self.abandon();
    }

    /// Drops the packet under way, if any.
    fn abandon(&mut self) {
        if matches!(self.stage, Stage::Payload | Stage::Footer) {
            self.fifos[usize::from(self.header.virtual_channel)].abandon();
        }
        self.stage = Stage::Start;
    }

    /// When the packet under way, if there is one, will have stood still for too long.
    pub(super) fn deadline(&self) -> Option<u64> {
        let at = self.progress_at.saturating_add(self.config.dead_after).saturating_add(1);
        (self.stage != Stage::Start).then_some(at)
    }

    /// Gives memory back that was not used since the last call.
    pub(super) fn trim(&mut self) {
        self.fifos.iter_mut().for_each(Fifo::trim);
    }

    /// Drops a packet that does not go on.
    pub(super) fn tick(&mut self, now: u64, counters: &mut Counters) {
        if now.saturating_sub(self.progress_at) <= self.config.dead_after {
            return;
        }
        match self.stage {
            Stage::Start => return,
            Stage::Header => counters.header_timeouts += 1,
            Stage::Payload | Stage::Footer => counters.data_timeouts += 1,
        }
        self.refuse();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use gannet_measure::random::Random;

    use super::super::config::Form;
    use super::*;

    /// A packet of this number with `words` of payload, all bytes of which are its number.
    fn packet(sequence: u32, words: usize) -> Vec<u8> {
        let payload = vec![sequence as u8; words * WORD_LEN];
        let header = Header { size: payload.len() as u16, ..Header::default() }.to_word();
        let footer = Footer { crc: 0, sequence, source: 0, time: 0 };
        let footer = footer.sealed(header, Crc32c::of(&payload)).to_word();
        [&header.to_le_bytes()[..], &payload, &footer.to_le_bytes()].concat()
    }

    #[test]
    fn it_is_known_for_how_long_the_next_packet_lacks() {
        let config = Config { form: Form::Frames { bytes: 8500 }, ..Config::default() };
        let (mut receiver, mut counters) = (LinkReceiver::new(&config), Counters::default());
        receiver.accept_packets(true);
        let mut damaged = packet(1, 2);
        damaged[20] ^= 1;
        let all = [
            (packet(0, 1), 10, 0),
            // Nothing is known to lack where one is damaged that may have come before.
            (damaged, 20, 0),
            (packet(2, 2), 30, 0),
            (packet(0, 1), 90, 0),
            (packet(3, 3), 130, 100),
            (packet(1, 2), 140, 0),
            (packet(3, 3), 150, 0),
            (packet(4, 3), 170, 20),
        ];
        for (bytes, now, lacks_for) in all {
            let _ = receiver.packet(&bytes, now, &mut counters, None);
            assert_eq!(receiver.lacks_for(), lacks_for, "at {now}");
        }
        receiver.restart();
        assert_eq!(receiver.lacks_for(), 0);
    }

    #[test]
    fn who_sends_without_regard_to_the_margin_overruns_no_packet() {
        let form = Form::Frames { bytes: 8500 };
        let (fifo_words, fifo_headers, margin) = (64, 40, 39);
        let config = Config { form, fifo_words, fifo_headers, margin, ..Config::default() };
        let mut receiver = LinkReceiver::new(&config);
        receiver.accept_packets(true);
        let (mut random, mut counters, mut held) =
            (Random::new(1), Counters::default(), VecDeque::new());
        for sequence in 0..20_000 {
            // Many short ones fill the FIFO of headers, and then a long one that of words.
            let is_long = random.below(16) == 0;
            let words = if is_long { random.below(fifo_words as u64 + 1) as usize } else { 0 };
            let bytes = packet(sequence, words);
            // It comes again until it finds room.
            while receiver.packet(&bytes, 0, &mut counters, None).0.is_none() {
                let fifo = receiver.fifo_mut(0).unwrap();
                let (number, words): (u32, usize) =
                    held.pop_front().expect("an empty one takes any");
                assert_eq!(fifo.payload().len(), words * WORD_LEN);
                assert!(fifo.payload().iter().all(|&byte| byte == number as u8), "{number}");
                fifo.pop();
            }
            held.push_back((sequence, words));
        }
        assert!(counters.overflows > 1000, "{counters:?}");
    }
}
