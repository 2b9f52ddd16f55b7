//! The sending half: packets and credits become words.

use gannet_checksum::Crc32c;
use gannet_wire::apelink::frame::Room;
use gannet_wire::apelink::{ESCAPED_START, Header, MAGIC, START, VIRTUAL_CHANNELS, Word};
use thiserror::Error;

use super::config::{Config, Form};
use super::counters::Counters;
use super::report::Report;
use super::window::{Batch, Entry, Most, Origin, Window};

/// Why a packet is not taken now, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The two ends do not hear each other.
    #[error("the link is not up: try again after Event::Up")]
    NotUp,
    /// The receive FIFO has no room for the packet.
    #[error("no credit on virtual channel {0}: try again later")]
    NoCredit(u8),
    /// The replay buffer is full.
    #[error("too much waits for acknowledgement: try again later")]
    WindowFull,
    /// The link has no such virtual channel.
    #[error("virtual channel {0} does not exist on this link")]
    VirtualChannel(u8),
    /// The payload is longer than the format or the FIFOs of the link allow.
    #[error("a payload of {got} bytes is too long for this link: at most {max}")]
    TooLong {
        /// Bytes of the payload.
        got: usize,
        /// Most bytes of a payload.
        max: usize,
    },
    /// The type of the header says that nothing follows it.
    #[error(
        "a packet of a header only has no number to be acknowledged by: send one with a footer"
    )]
    HeaderOnly,
}

/// What is sent next of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Between,
    Word(usize),
}

/// The second word of a pair of which the first has been sent.
#[derive(Clone, Copy, Debug)]
enum Second {
    Word(Word),
    Credit,
}

/// Room of a far FIFO that packets of the window have been promised.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    data: usize,
    headers: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Transmitter {
    config: Config,
    window: Window,
    place: Place,
    second: Option<Second>,
    /// Words sent since the last credit.
    since_credit: u32,
    credit_due: bool,
    /// When the last credit was begun.
    credit_at: u64,
    /// What is free of the far FIFOs, by the last credit.
    far: [Room; VIRTUAL_CHANNELS],
    promised: [Promised; VIRTUAL_CHANNELS],
    rewind_due: bool,
    /// The packet for which a demand to send again has been met; further ones are old.
    answered: Option<u32>,
}

impl Transmitter {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            config: *config,
            window: Window::new(
                config.layout(),
                config.window_packets,
                config.window_words,
                config.packet_words_max(),
            ),
            place: Place::Between,
            second: None,
            since_credit: 0,
            credit_due: true,
            credit_at: 0,
            far: [Room::default(); VIRTUAL_CHANNELS],
            promised: [Promised::default(); VIRTUAL_CHANNELS],
            rewind_due: false,
            answered: None,
        }
    }

    /// Sequence number of the first packet that is not acknowledged.
    pub(super) fn base(&self) -> u32 {
        self.window.base()
    }

    /// Why a packet with `header` is never taken.
    pub(super) fn refuses(&self, header: &Header) -> Result<(), Refused> {
        let vc = header.virtual_channel;
        if usize::from(vc) >= self.config.virtual_channels {
            return Err(Refused::VirtualChannel(vc));
        }
        if header.is_header_only() {
            return Err(Refused::HeaderOnly);
        }
        let words = header.payload_words();
        let max = self.config.packet_words_max();
        if words > max {
            return Err(Refused::TooLong { got: header.size.into(), max: max * 16 });
        }
        Ok(())
    }

    /// Whether there is room for a packet with `header`: in the far FIFO, beside all that was promised, and
    /// in the window.
    pub(super) fn has_room(&self, header: &Header) -> Result<(), Refused> {
        let (vc, words) = (header.virtual_channel, header.payload_words());
        let (far, promised) = (self.far[usize::from(vc)], self.promised[usize::from(vc)]);
        if promised.data + words > far.words as usize || promised.headers >= far.headers as usize {
            return Err(Refused::NoCredit(vc));
        }
        if self.window.has_room(words) { Ok(()) } else { Err(Refused::WindowFull) }
    }

    /// Takes a packet that is not [refused](Self::refuses) and has [room](Self::has_room).
    pub(super) fn send(
        &mut self,
        header: &Header,
        origin: Origin,
        write: impl FnOnce(&mut [u8]) -> Crc32c,
    ) {
        let promised = &mut self.promised[usize::from(header.virtual_channel)];
        promised.data += header.payload_words();
        promised.headers += 1;
        self.window.push(header, origin, write);
    }

    /// Whether there is nothing but credits to be sent.
    pub(super) fn is_idle(&self, up: bool) -> bool {
        let nothing_waits = self.window.is_done() && !self.rewind_due;
        self.place == Place::Between && (!up || nothing_waits) && self.second.is_none()
    }

    /// Sends a credit before anything else.
    pub(super) fn hasten_credit(&mut self) {
        self.credit_due = true;
    }

    /// Whether a credit goes before anything else.
    pub(super) fn is_credit_due(&self, now: u64) -> bool {
        self.credit_due
            || self.since_credit >= self.config.credit_interval
            || now >= self.credit_deadline()
    }

    /// When the last credit was begun.
    pub(super) fn credit_sent_at(&self) -> u64 {
        self.credit_at
    }

    /// When the next credit is due by time. Frames are due at multiples of the period, so that all links of a node, which
    /// have one clock, speak at once, and a driver wakes once for all of them.
    pub(super) fn credit_deadline(&self) -> u64 {
        let period = self.config.credit_period;
        match self.config.form {
            Form::Words => self.credit_at.saturating_add(period),
            Form::Frames { .. } => {
                (self.credit_at / period).saturating_add(1).saturating_mul(period)
            }
        }
    }

    /// When the first packet has to be sent again if it is not acknowledged before.
    pub(super) fn replay_deadline(&self) -> Option<u64> {
        let sent_at = self.window.first_sent_at()?;
        let may_replay = self.config.retransmit && !self.rewind_due;
        may_replay.then_some(sent_at.saturating_add(self.config.timeout))
    }

    /// The word of this word time; nothing where a credit word has its place.
    pub(super) fn next(&mut self, now: u64, up: bool, counters: &mut Counters) -> Option<Word> {
        match self.second.take() {
            Some(Second::Word(word)) => return Some(word),
            Some(Second::Credit) => return None,
            None => {}
        }
        if !self.is_credit_due(now)
            && let Some(word) = self.packet_word(now, up, counters)
        {
            self.since_credit += if self.second.is_some() { 2 } else { 1 };
            return Some(word);
        }
        self.credit_sent(now);
        counters.tx_magic += 1;
        self.second = Some(Second::Credit);
        Some(MAGIC)
    }

    /// The next word of a packet; nothing if there is none.
    fn packet_word(&mut self, now: u64, up: bool, counters: &mut Counters) -> Option<Word> {
        match self.place {
            Place::Between => self.start(up, counters),
            Place::Word(index) => {
                let (payload_words, word) =
                    (self.window.payload_words()?, self.window.word(index)?);
                self.place = Place::Word(index + 1);
                match index {
                    0 => counters.tx_headers += 1,
                    _ if index <= payload_words => counters.tx_payload_words += 1,
                    _ => {
                        self.window.advance(now);
                        self.place = Place::Between;
                        counters.tx_footers += 1;
                    }
                }
                Some(self.content(word, counters))
            }
        }
    }

    /// Takes out the next frames that are to be sent; none if there are no packets.
    pub(super) fn take(&mut self, most: Most, now: u64, counters: &mut Counters) -> Option<Batch> {
        self.go_back_if_due(counters);
        let batch = self.window.take(most, now)?;
        let (packets, words) = self.of_batch(&batch);
        counters.tx_headers += packets;
        counters.tx_footers += packets;
        counters.tx_payload_words += words;
        Some(batch)
    }

    /// Puts a batch back to be sent, of which nothing has left.
    pub(super) fn put_back(&mut self, batch: &Batch, counters: &mut Counters) {
        self.window.put_back(batch);
        let (packets, words) = self.of_batch(batch);
        counters.tx_headers -= packets;
        counters.tx_footers -= packets;
        counters.tx_payload_words -= words;
    }

    /// Packets of a batch, and words of payload.
    fn of_batch(&self, batch: &Batch) -> (u64, u64) {
        (batch.packets as u64, batch.payload_words(&self.config.layout()) as u64)
    }

    /// The packets and their frames.
    pub(super) fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Notes that a credit is sent.
    pub(super) fn credit_sent(&mut self, now: u64) {
        (self.credit_due, self.since_credit, self.credit_at) = (false, 0, now);
    }

    fn go_back_if_due(&mut self, counters: &mut Counters) {
        if std::mem::take(&mut self.rewind_due) {
            self.window.rewind();
            counters.tx_rewinds += 1;
        }
    }

    fn start(&mut self, up: bool, counters: &mut Counters) -> Option<Word> {
        self.go_back_if_due(counters);
        if !up {
            return None;
        }
        self.window.payload_words()?;
        self.place = Place::Word(0);
        counters.tx_magic += 1;
        counters.tx_start += 1;
        self.second = Some(Second::Word(START));
        Some(MAGIC)
    }

    /// A word of a packet, or the first of the two that stand for it.
    fn content(&mut self, word: Word, counters: &mut Counters) -> Word {
        let second = match word {
            MAGIC => MAGIC,
            START => ESCAPED_START,
            _ => return word,
        };
        counters.tx_magic += 1;
        counters.tx_escapes += 1;
        self.second = Some(Second::Word(second));
        MAGIC
    }

    /// Takes note of a good credit of the session that this end is in; `false` if the other end
    /// acknowledges what cannot be, because one of them has restarted without a new session.
    pub(super) fn apply(&mut self, report: &Report, now: u64, counters: &mut Counters) -> bool {
        self.far = report.room;
        let acknowledged = self.window.acknowledged(report.next);
        self.release(acknowledged.unwrap_or(0), counters);
        if self.config.retransmit {
            self.answer(report);
            return acknowledged.is_some();
        }
        // What was given up has moved the window past what the other end expects.
        self.give_up(now, counters);
        true
    }

    /// Frees the first `count` packets, but for one that is under way again.
    fn release(&mut self, count: usize, counters: &mut Counters) {
        let is_between = self.place == Place::Between;
        for _ in 0..count {
            if !is_between && self.window.under_way() == 0 {
                break;
            }
            let Some(entry) = self.window.release() else { break };
            self.free(&entry);
            counters.tx_acknowledged += 1;
        }
    }

    /// Goes back if the other end demands it, once for each packet that it may have lost.
    fn answer(&mut self, report: &Report) {
        let base = self.window.base();
        let demanded = report.resend && report.next == base;
        if demanded && self.window.awaits() && self.answered != Some(base) {
            self.answered = Some(base);
            self.rewind_due = true;
        }
    }

    /// Frees what packets have reserved that must have been lost: a credit that was made long
    /// after they were sent does not count them.
    fn give_up(&mut self, now: u64, counters: &mut Counters) {
        while self.is_overdue(now) {
            let Some(entry) = self.window.release() else { break };
            self.free(&entry);
            counters.tx_given_up += 1;
        }
    }

    fn is_overdue(&self, now: u64) -> bool {
        let sent_at = self.window.first_sent_at();
        sent_at.is_some_and(|at| now.saturating_sub(at) >= self.config.timeout)
    }

    fn free(&mut self, entry: &Entry) {
        let promised = &mut self.promised[entry.virtual_channel];
        promised.data -= entry.words;
        promised.headers -= 1;
    }

    /// Gives memory back that was not used since the last call.
    pub(super) fn trim(&mut self) {
        self.window.trim();
    }

    /// Goes back if an acknowledgement is overdue.
    pub(super) fn tick(&mut self, now: u64) {
        self.rewind_due |= self.config.retransmit && self.is_overdue(now);
    }

    /// Numbers packets from `sequence` on, before the first one.
    #[cfg(test)]
    pub(super) fn number_from(&mut self, sequence: u32) {
        self.window.renumber(sequence);
    }

    /// Begins a new numbering. What was sent and not acknowledged is sent again, or given up.
    pub(super) fn restart(&mut self, counters: &mut Counters) {
        if !self.config.retransmit {
            while self.window.under_way() > 0
                && let Some(entry) = self.window.release()
            {
                self.free(&entry);
                counters.tx_given_up += 1;
            }
        }
        self.window.renumber(0);
        self.place = Place::Between;
        self.rewind_due = false;
        self.answered = None;
    }
}
