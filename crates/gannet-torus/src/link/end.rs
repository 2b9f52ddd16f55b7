//! One end of a link: both halves, and what joins them to the other end.

use gannet_checksum::Crc32c;
use gannet_wire::Record;
use gannet_wire::apelink::frame::{HEAD_LEN, Head, Room};
use gannet_wire::apelink::{Header, WORD_LEN, Word};
use thiserror::Error;

use super::config::{Config, ConfigError, Form, TAIL_MAX};
use super::counters::Counters;
use super::fifo::Arrival;
use super::receiver::{LinkReceiver, Received, Stage, Take};
use super::report::Report;
use super::transmitter::{Refused, Transmitter};
use super::window::{Batch, Most, Origin};

/// What an end knows of the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was heard yet, or the two ends have not heard each other for too long.
    Down,
    /// Good credits come; the other end has not answered this one yet.
    Waiting,
    /// Both ends hear each other: packets flow.
    Up,
}

/// What has happened, for the caller to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A packet has arrived on this virtual channel: see [`Link::take`].
    Packet(u8),
    /// A good credit has come, and has changed no state.
    Credit,
    /// A good credit has come: packets flow from now on.
    Up,
    /// No good credit that answers this end came for [`Config::dead_after`], or the other end says
    /// that it hears nothing.
    Down,
    /// A good credit has come: the other end has restarted, or the two have no common past: numbering begins anew.
    Restarted,
}

/// Diagnostics of the other end, from the last good credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The bits that the other end sends.
    pub bits: u16,
    /// When they came, ticks.
    pub at: u64,
}

/// A word to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The word.
    pub word: Word,
    /// Whether it is a credit word.
    pub is_credit: bool,
}

/// Frames that are to be sent: one behind another, all of one length but the last, which may be shorter.
#[derive(Debug)]
pub struct Frames<'a> {
    /// Their bytes; each frame has [`Config::tail`] bytes behind it.
    pub bytes: &'a mut [u8],
    /// Bytes of each but the last, with what is behind it; not 0.
    pub frame: usize,
}

impl Frames<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.frame)
    }
}

/// Why a frame is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is no frame, or of another version, or its head is damaged.
    #[error(transparent)]
    Format(#[from] gannet_wire::Error),
    /// The two ends are made for frames of different length.
    #[error(
        "the other end takes frames of {far} bytes and this one of {near}: give both interfaces the \
         same MTU, and both ends the same length of frames"
    )]
    FrameBytes {
        /// Bytes that this end takes.
        near: usize,
        /// Bytes that the other end takes.
        far: usize,
    },
    /// The two ends are made for different numbers of virtual channels.
    #[error(
        "the other end has {far} virtual channels and this one {near}: give both the same number"
    )]
    VirtualChannels {
        /// Virtual channels of this end.
        near: usize,
        /// Virtual channels of the other end.
        far: usize,
    },
    /// This end is made for words.
    #[error("this end of the link carries words, not frames")]
    Words,
}

/// How many times [`Config::dead_after`] pass until memory that was not used meanwhile is given back.
const TRIM_PERIODS: u64 = 16;

/// One end of a link. See the [module](super).
#[derive(Clone, Debug)]
pub struct Link {
    config: Config,
    transmitter: Transmitter,
    receiver: LinkReceiver,
    counters: Counters,
    /// Bits sent in every credit.
    diagnostics: u16,
    /// The last good credit, and when it came.
    heard: Option<(Report, u64)>,
    /// The last credit sent.
    told: Option<Report>,
    /// Something may have changed since then of what it told.
    may_have_news: bool,
    /// Words of packets that were accepted since then.
    taken_words: usize,
    /// Session of this end.
    session: u32,
    /// The other end answers this session, and both number packets from its beginning.
    joined: bool,
    /// Good credits come.
    alive: bool,
    /// When memory that was not used since then is given back.
    trimmed_at: u64,
    /// The last good credit that answers this end, or when the line was first looked after.
    answered_at: Option<u64>,
    /// [`Event::Down`] was the last that was told of the line.
    is_down: bool,
    /// The frames that were taken last, an empty batch for one without packets; nothing if something was heard since.
    taken: Option<Batch>,
    /// A frame without packets, and what is behind it.
    bare: [u8; HEAD_LEN + TAIL_MAX],
}

impl Link {
    /// An end that has heard nothing yet.
    ///
    /// All memory is allocated here; what nothing has lain in for a while [goes back](Self::tick) to the system until it is used.
    ///
    /// # Errors
    ///
    /// A field of `config` is out of its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            transmitter: Transmitter::new(&config),
            receiver: LinkReceiver::new(&config),
            counters: Counters::default(),
            diagnostics: 0,
            heard: None,
            told: None,
            may_have_news: true,
            taken_words: 0,
            session: config.session,
            joined: false,
            alive: false,
            trimmed_at: 0,
            answered_at: None,
            is_down: false,
            taken: None,
            bare: [0; HEAD_LEN + TAIL_MAX],
        })
    }

    /// What the link was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What this end knows of the other one.
    pub fn state(&self) -> State {
        match (self.alive && !self.is_down, self.joined) {
            (false, _) => State::Down,
            (true, false) => State::Waiting,
            (true, true) => State::Up,
        }
    }

    /// What this end has seen and done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the receiver waits for.
    pub fn stage(&self) -> Stage {
        self.receiver.stage()
    }

    /// What the receive FIFOs of virtual channel `vc` leave free; nothing if the link has no such.
    pub fn room(&self, vc: u8) -> Room {
        self.receiver.fifo(vc).map(|fifo| fifo.room()).unwrap_or_default()
    }

    /// Sets the bits for the fault monitor that every credit carries from now on.
    pub fn set_diagnostics(&mut self, bits: u16) {
        self.diagnostics = bits;
    }

    /// The bits for the fault monitor in the last good credit.
    pub fn diagnostics(&self) -> Option<Diagnostics> {
        self.heard.map(|(report, at)| Diagnostics { bits: report.diagnostics, at })
    }

    /// When the last good credit came, ticks.
    pub fn last_credit(&self) -> Option<u64> {
        self.heard.map(|(_, at)| at)
    }

    /// Whether a packet with this header would be taken now.
    ///
    /// # Errors
    ///
    /// Why not. [`Refused::NotUp`], [`Refused::NoCredit`] and [`Refused::WindowFull`] pass.
    pub fn can_send(&self, header: &Header) -> Result<(), Refused> {
        self.transmitter.refuses(header)?;
        if self.state() != State::Up {
            return Err(Refused::NotUp);
        }
        self.transmitter.has_room(header)
    }

    /// Takes a whole packet; the size in its header becomes the length of `payload`.
    ///
    /// # Errors
    ///
    /// As [`can_send`](Self::can_send); nothing has been taken then.
    pub fn send(&mut self, header: Header, origin: Origin, payload: &[u8]) -> Result<(), Refused> {
        let write = |place: &mut [u8]| Crc32c::default().and_copied(payload, place);
        self.send_written(header, origin, payload.len(), write)
    }

    /// The same of a payload of `size` bytes, which `write` writes to where the link keeps it, with zeros behind it up to a whole word, and gives the sum
    /// of all of that.
    ///
    /// # Errors
    /// As [`send`](Self::send); `write` was not called then.
    pub fn send_written(
        &mut self,
        mut header: Header,
        origin: Origin,
        size: usize,
        write: impl FnOnce(&mut [u8]) -> Crc32c,
    ) -> Result<(), Refused> {
        let max = self.config.packet_words_max() * WORD_LEN;
        if size > max {
            return Err(Refused::TooLong { got: size, max });
        }
        header.size = size as u16;
        self.can_send(&header)?;
        self.transmitter.send(&header, origin, write);
        Ok(())
    }

    /// Whether nothing but credits is sent until another packet is given, one has to be sent again,
    /// or the link comes up.
    pub fn is_idle(&self) -> bool {
        self.transmitter.is_idle(self.state() == State::Up)
    }

    /// The word to be sent in this word time, on a line on which idle words cost nothing.
    pub fn transmit(&mut self, now: u64) -> Sent {
        let up = self.state() == State::Up;
        if let Some(word) = self.transmitter.next(now, up, &mut self.counters) {
            return Sent { word, is_credit: false };
        }
        let report = self.report();
        self.tell(report);
        self.counters.tx_credits += 1;
        Sent { word: report.to_credit(&self.config).to_word(), is_credit: true }
    }

    /// The next word to be sent on a line that charges for every word: words of packets, and a
    /// credit when it has something new to tell or [`Config::credit_period`] is over. Diagnostics
    /// are not new; they ride along.
    pub fn transmit_due(&mut self, now: u64) -> Option<Sent> {
        self.is_due(now).then(|| self.transmit(now))
    }

    /// The frames that are due and go at once; none if none is. More may be due behind them.
    ///
    /// A frame has a credit and as many packets as fit. One without packets is due where a credit is on a line
    /// that charges for every word ([`transmit_due`](Self::transmit_due)), and more often while the other end, which should have spoken
    /// by now, is asked for an answer. It counts as sent unless it is [returned](Self::return_frames).
    pub fn take_frames(&mut self, most: Most, now: u64) -> Option<Frames<'_>> {
        if !self.is_frame_due(now) {
            return None;
        }
        let asks = self.asks_from().is_some_and(|from| now >= from);
        let report = self.report();
        self.tell(report);
        let mut batch = None;
        if self.state() == State::Up {
            batch = self.transmitter.take(most, now, &mut self.counters);
        }
        self.transmitter.credit_sent(now);
        self.taken = Some(batch.unwrap_or_default());
        let Self { config, transmitter, counters, bare, .. } = self;
        let Some(batch) = batch else {
            counters.tx_credits += 1;
            report.to_head(config, 0, asks).emit(bare);
            let bytes = &mut bare[..HEAD_LEN + config.tail];
            return Some(Frames { frame: bytes.len(), bytes });
        };
        counters.tx_credits += batch.frames as u64;
        let window = transmitter.window_mut();
        window.heads(batch.frames, |head, packets| {
            report.to_head(config, packets, asks).emit(head);
        });
        Some(Frames { bytes: window.bytes_mut(&batch), frame: batch.frame })
    }

    /// Whether a frame is due.
    pub fn is_frame_due(&self, now: u64) -> bool {
        self.config.form != Form::Words && self.is_due(now)
    }

    /// Returns the frames that were taken last and could not be sent: they are due again. Does nothing if something was heard since.
    pub fn return_frames(&mut self) {
        let Some(batch) = self.taken.take() else { return };
        self.counters.tx_credits -= batch.frames.max(1) as u64;
        self.transmitter.put_back(&batch, &mut self.counters);
        self.transmitter.hasten_credit();
    }

    /// Copies the frame that is due to the front of `frame`, and gives its length; 0 if none is. More may be
    /// due behind it.
    ///
    /// # Panics
    ///
    /// When `frame` is shorter than the frame.
    pub fn emit(&mut self, frame: &mut [u8], now: u64) -> usize {
        let tail = self.config.tail;
        let Some(Frames { bytes, .. }) = self.take_frames(Most::ONE, now) else { return 0 };
        let length = bytes.len() - tail;
        frame[..length].copy_from_slice(&bytes[..length]);
        length
    }

    /// Takes a frame that has arrived; `out` is told what it has brought, in order.
    ///
    /// # Errors
    ///
    /// Why nothing of it was taken. What is damaged behind the head is counted and comes again.
    pub fn accept(
        &mut self,
        frame: &[u8],
        now: u64,
        out: impl FnMut(Event),
    ) -> Result<(), FrameError> {
        self.accept_frame(frame, now, None, out)
    }

    /// The same, but that a packet before which none of its channel waits is offered to `take`, with its payload as it lies in the frame.
    /// `take` says whether it has taken it; if so it goes to no FIFO and `out` is not told of it.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub fn accept_offering(
        &mut self,
        frame: &[u8],
        now: u64,
        mut take: impl FnMut(&Arrival, &[u8]) -> bool,
        out: impl FnMut(Event),
    ) -> Result<(), FrameError> {
        self.accept_frame(frame, now, Some(&mut take), out)
    }

    fn accept_frame(
        &mut self,
        frame: &[u8],
        now: u64,
        mut take: Option<&mut Take<'_>>,
        mut out: impl FnMut(Event),
    ) -> Result<(), FrameError> {
        let head = self.check_head(frame)?;
        self.counters.rx_credits += 1;
        self.may_have_news = true;
        out(self.hear(Report::of_head(&head), now));
        if head.asks {
            self.transmitter.hasten_credit();
        }
        let (mut rest, duplicates) = (Some(&frame[HEAD_LEN..]), self.counters.duplicates);
        for _ in 0..head.packets {
            let Some(bytes) = rest else { break };
            let (received, behind) =
                self.receiver.packet(bytes, now, &mut self.counters, take.as_deref_mut());
            rest = behind;
            if let Some(received) = received {
                self.taken_words += (bytes.len() - behind.map_or(0, <[u8]>::len)) / WORD_LEN;
                if let Received::Packet(vc) = received {
                    out(Event::Packet(vc));
                }
            }
        }
        if self.counters.duplicates > duplicates {
            // What acknowledged it was lost.
            self.transmitter.hasten_credit();
        }
        Ok(())
    }

    /// The head of a frame that fits this end.
    #[inline]
    fn check_head(&mut self, frame: &[u8]) -> Result<Head, FrameError> {
        let Form::Frames { bytes: near } = self.config.form else { return Err(FrameError::Words) };
        let head = Head::parse(frame).inspect_err(|_| self.counters.rx_credit_errors += 1)?;
        let far = head.frame_bytes as usize;
        if far != near {
            return Err(FrameError::FrameBytes { near, far });
        }
        let (near, far) = (self.config.virtual_channels, usize::from(head.virtual_channels));
        if far != near {
            return Err(FrameError::VirtualChannels { near, far });
        }
        Ok(head)
    }

    /// Whether there are packets to be sent, or a credit has something new to tell or its time has come.
    fn is_due(&self, now: u64) -> bool {
        !self.is_idle()
            || self.transmitter.is_credit_due(now)
            || self.ask_deadline().is_some_and(|at| now >= at)
            || self.may_have_news && self.has_due_news(now)
    }

    /// The time from which the other end, which should have spoken by then, is asked for an answer if it stays silent.
    ///
    /// A lost frame is soon made up for so, and frames may be rare.
    fn asks_from(&self) -> Option<u64> {
        let Form::Frames { .. } = self.config.form else { return None };
        let period = self.config.credit_period;
        Some(self.last_credit().filter(|_| self.alive)?.saturating_add(period + period / 4))
    }

    /// When the other end is asked next if it stays silent.
    fn ask_deadline(&self) -> Option<u64> {
        let pause = (self.config.credit_period / 4).max(1);
        let again = self.transmitter.credit_sent_at().saturating_add(pause);
        Some(self.asks_from()?.max(again))
    }

    fn news_deadline(&self) -> u64 {
        self.transmitter.credit_sent_at().saturating_add(self.config.news_delay)
    }

    /// Whether a credit would tell more than the last one.
    fn has_news(&self) -> bool {
        self.may_have_news && self.told.is_none_or(|told| is_news(&told, &self.report()))
    }

    /// The same, and news have waited long enough for packets to go with, or do not wait.
    fn has_due_news(&self, now: u64) -> bool {
        let Some(told) = &self.told else { return true };
        let report = self.report();
        is_news(told, &report) && (now >= self.news_deadline() || self.is_urgent(told, &report))
    }

    /// Whether the other end may wait for what `now` tells and `told` did not.
    fn is_urgent(&self, told: &Report, now: &Report) -> bool {
        let state = |report: &Report| (report.session, report.echo, report.resend);
        let is_short = |room: &Room| {
            room.words as usize <= self.config.fifo_words / 2
                || room.headers as usize <= self.config.fifo_headers / 2
        };
        let taken = now.next.wrapping_sub(told.next) as usize;
        state(now) != state(told)
            || taken >= self.config.window_packets / 4
            || self.taken_words >= self.config.window_words / 4
            || told.room.iter().zip(&now.room).take(self.config.virtual_channels).any(
                |(told, now)| {
                    is_short(told) && (now.words > told.words || now.headers > told.headers)
                },
            )
    }

    /// Notes what a credit that is sent tells.
    fn tell(&mut self, report: Report) {
        (self.told, self.may_have_news, self.taken_words) = (Some(report), false, 0);
    }

    #[inline]
    fn report(&self) -> Report {
        // An end that hears nothing answers nobody: the other one must know that it is not heard.
        let heard = self.heard.filter(|_| self.alive);
        Report {
            room: self.receiver.room(),
            diagnostics: self.diagnostics,
            next: self.receiver.expected(),
            session: self.session,
            echo: heard.map_or(0, |(report, _)| report.session),
            resend: self.receiver.resend(),
        }
    }

    /// Takes a word that has arrived.
    pub fn receive(&mut self, word: Word, now: u64) -> Option<Event> {
        self.may_have_news = true;
        match self.receiver.receive(word, now, &mut self.counters)? {
            Received::Packet(vc) => Some(Event::Packet(vc)),
            Received::Taken => None,
            Received::Credit(credit) => {
                let report = Report::of_credit(&credit, &self.config, self.transmitter.base());
                Some(self.hear(report, now))
            }
        }
    }

    /// Acts on a good credit.
    fn hear(&mut self, report: Report, now: u64) -> Event {
        self.taken = None;
        let before = self.heard.replace((report, now)).map(|(before, _)| before);
        let was_up = self.state() == State::Up;
        self.alive = true;
        let answers = report.echo == self.session;
        let renewed = before.is_some_and(|before| before.session != report.session);
        let answers_another = !answers && report.echo != 0;
        if renewed || self.joined && answers_another {
            self.restart();
            return Event::Restarted;
        }
        if !answers {
            return if was_up { self.go_down() } else { Event::Credit };
        }
        if !self.joined {
            self.joined = true;
            self.receiver.accept_packets(true);
            // The other end must know that it is heard before the first packet comes.
            self.transmitter.hasten_credit();
        }
        if !self.transmitter.apply(&report, now, &mut self.counters) {
            // The other end shares no past with this one, or the reverse: both begin anew.
            self.session = self.config.session_after(self.session);
            self.restart();
            return Event::Restarted;
        }
        (self.answered_at, self.is_down) = (Some(now), false);
        if was_up { Event::Credit } else { Event::Up }
    }

    /// No packets flow until the other end answers again; the numbering goes on then.
    fn go_down(&mut self) -> Event {
        self.is_down = true;
        self.counters.downs += 1;
        Event::Down
    }

    /// Numbers both directions from `sequence` on, before the first packet.
    #[cfg(test)]
    pub(super) fn number_from(&mut self, sequence: u32) {
        self.transmitter.number_from(sequence);
        self.receiver.number_from(sequence);
    }

    /// Begins a new numbering, which the other end has to answer first.
    fn restart(&mut self) {
        self.counters.restarts += 1;
        (self.joined, self.may_have_news) = (false, true);
        self.receiver.restart();
        self.transmitter.restart(&mut self.counters);
        self.transmitter.hasten_credit();
    }

    /// Looks whether the line is dead, whether a packet has to be sent again, and now and then whether memory is not used;
    /// called from time to time, also when no words come.
    pub fn tick(&mut self, now: u64) -> Option<Event> {
        let before = (self.alive, self.receiver.resend());
        self.receiver.tick(now, &mut self.counters);
        self.transmitter.tick(now);
        if now.saturating_sub(self.trimmed_at) > self.config.dead_after.saturating_mul(TRIM_PERIODS)
        {
            self.trimmed_at = now;
            self.receiver.trim();
            self.transmitter.trim();
        }
        let is_over = |at| now.saturating_sub(at) > self.config.dead_after;
        self.alive &= !self.last_credit().is_some_and(is_over);
        self.may_have_news |= before != (self.alive, self.receiver.resend());
        let unanswered = is_over(*self.answered_at.get_or_insert(now));
        (unanswered && !self.is_down).then(|| self.go_down())
    }

    /// When [`tick`](Self::tick) and then [`transmit_due`](Self::transmit_due) have something to do
    /// if nothing comes or is given before.
    pub fn deadline(&self) -> u64 {
        let heard = self.last_credit().filter(|_| self.alive);
        let answered = self.answered_at.filter(|_| !self.is_down);
        let dead = |at: u64| at.saturating_add(self.config.dead_after).saturating_add(1);
        let replay = self.transmitter.replay_deadline().filter(|_| self.state() == State::Up);
        let silence = heard.into_iter().chain(answered).map(dead);
        let packets = self.receiver.deadline().into_iter().chain(replay);
        let waits = self.config.news_delay > 0 && self.has_news();
        let news = waits.then(|| self.news_deadline());
        let asked = self.ask_deadline();
        silence
            .chain(packets)
            .chain(news)
            .chain(asked)
            .fold(self.transmitter.credit_deadline(), u64::min)
    }

    /// For how long packets have come, ns, without the one among them that is expected next: a line that carries most of what is sent,
    /// but loses the same again and again, brings nothing.
    pub fn lacks_for(&self) -> u64 {
        self.receiver.lacks_for()
    }

    /// The oldest packet that has arrived on virtual channel `vc`.
    pub fn front(&self, vc: u8) -> Option<Arrival> {
        self.receiver.fifo(vc)?.front()
    }

    /// The payload of the oldest packet on virtual channel `vc`.
    pub fn payload(&self, vc: u8) -> &[u8] {
        self.receiver.fifo(vc).map_or(&[], |fifo| fifo.payload())
    }

    /// Takes the oldest packet of virtual channel `vc` out, without its payload.
    pub fn pop(&mut self, vc: u8) -> Option<Arrival> {
        self.may_have_news = true;
        self.receiver.fifo_mut(vc)?.pop()
    }

    /// Takes the oldest packet of virtual channel `vc` out; its payload goes to the front of
    /// `buffer`, or as much of it as finds place.
    pub fn take(&mut self, vc: u8, buffer: &mut [u8]) -> Option<Arrival> {
        let payload = self.payload(vc);
        let size = payload.len().min(buffer.len());
        buffer[..size].copy_from_slice(&payload[..size]);
        self.pop(vc)
    }
}

/// Whether `now` tells more than `told` did; diagnostics are not new.
fn is_news(told: &Report, now: &Report) -> bool {
    Report { diagnostics: told.diagnostics, ..*now } != *told
}
