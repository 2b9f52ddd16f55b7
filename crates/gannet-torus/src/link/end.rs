//! One end of a link: both halves, and what joins them to the other end.

use gannet_wire::apelink::{Credit, Header, NEXT_MODULUS, Used, Word, words_of};

use super::config::{Config, ConfigError};
use super::counters::Counters;
use super::fifo::Arrival;
use super::receiver::{Received, Receiver, Stage};
use super::transmitter::{Refused, Transmitter};
use super::window::Origin;

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
    /// A packet of a header only has arrived: see [`Link::take_header_only`].
    HeaderOnly,
    /// Packets flow from now on.
    Up,
    /// No good credit that answers this end came for [`Config::dead_after`], or the other end says
    /// that it hears nothing.
    Down,
    /// The other end has restarted, or the two have no common past: numbering begins anew.
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

/// One end of a link. See the [module](super).
#[derive(Clone, Debug)]
pub struct Link {
    config: Config,
    transmitter: Transmitter,
    receiver: Receiver,
    counters: Counters,
    /// Bits sent in every credit.
    diagnostics: u16,
    /// The last good credit, and when it came.
    heard: Option<(Credit, u64)>,
    /// Session of this end.
    session: u8,
    /// The other end answers this session, and both number packets from its beginning.
    joined: bool,
    /// Good credits come.
    alive: bool,
    /// The last good credit that answers this end, or when the line was first looked after.
    answered_at: Option<u64>,
    /// [`Event::Down`] was the last that was told of the line.
    is_down: bool,
}

impl Link {
    /// An end that has heard nothing yet.
    ///
    /// All memory is allocated here.
    ///
    /// # Errors
    ///
    /// A field of `config` is out of its range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            transmitter: Transmitter::new(&config),
            receiver: Receiver::new(&config),
            counters: Counters::default(),
            diagnostics: 0,
            heard: None,
            session: config.session,
            joined: false,
            alive: false,
            answered_at: None,
            is_down: false,
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

    /// What the receive FIFOs of virtual channel `vc` hold; nothing if the link has no such.
    pub fn used(&self, vc: u8) -> Used {
        self.receiver.fifo(vc).map(|fifo| fifo.used()).unwrap_or_default()
    }

    /// Sets the bits for the fault monitor that every credit carries from now on.
    pub fn set_diagnostics(&mut self, bits: u16) {
        self.diagnostics = bits;
    }

    /// The bits for the fault monitor in the last good credit.
    pub fn diagnostics(&self) -> Option<Diagnostics> {
        self.heard.map(|(credit, at)| Diagnostics { bits: credit.diagnostics, at })
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
        if self.state() == State::Up { Ok(()) } else { Err(Refused::NotUp) }
    }

    /// Takes a whole packet; the size in its header becomes the length of `payload`.
    ///
    /// # Errors
    ///
    /// As [`can_send`](Self::can_send); nothing has been taken then.
    pub fn send(&mut self, header: Header, origin: Origin, payload: &[u8]) -> Result<(), Refused> {
        let max = self.config.packet_words_max() * gannet_wire::apelink::WORD_LEN;
        if payload.len() > max {
            return Err(Refused::TooLong { got: payload.len(), max });
        }
        if header.is_header_only() && !payload.is_empty() {
            return Err(Refused::HeaderOnly);
        }
        self.begin(Header { size: payload.len() as u16, ..header }, origin)?;
        words_of(payload).for_each(|word| self.transmitter.push(word));
        Ok(())
    }

    /// Takes a packet whose payload, of the size that the header says, comes by
    /// [`push`](Self::push). What has come is sent without waiting for the rest.
    ///
    /// # Errors
    ///
    /// As [`can_send`](Self::can_send).
    pub fn begin(&mut self, header: Header, origin: Origin) -> Result<(), Refused> {
        self.can_send(&header)?;
        self.transmitter.begin(&header, origin);
        Ok(())
    }

    /// Adds a word of payload to the packet begun last; `false` if it has all its words.
    pub fn push(&mut self, word: Word) -> bool {
        let lacks = self.transmitter.missing() > 0;
        if lacks {
            self.transmitter.push(word);
        }
        lacks
    }

    /// Whether nothing but credits is sent until another packet is taken or has to be sent again,
    /// or the link comes up.
    /// A line that charges for every word may then be given only a credit now and then.
    pub fn is_idle(&self) -> bool {
        self.transmitter.is_idle(self.state() == State::Up)
    }

    /// The word to be sent in this word time.
    pub fn transmit(&mut self, now: u64) -> Word {
        let up = self.state() == State::Up;
        // An end that hears nothing answers nobody: the other one must know that it is not heard.
        let heard = self.heard.filter(|_| self.alive);
        let Self { session, transmitter, receiver, counters, diagnostics, .. } = self;
        transmitter.tick(now);
        let credit = || Credit {
            used: receiver.used(),
            diagnostics: *diagnostics,
            next: (receiver.expected() % NEXT_MODULUS) as u16,
            session: *session,
            echo: heard.map_or(0, |(credit, _)| credit.session),
            resend: receiver.resend(),
        };
        transmitter.next(now, up, credit, counters)
    }

    /// Takes a word that has arrived.
    pub fn receive(&mut self, word: Word, now: u64) -> Option<Event> {
        match self.receiver.receive(word, now, &mut self.counters)? {
            Received::Packet(vc) => Some(Event::Packet(vc)),
            Received::HeaderOnly => Some(Event::HeaderOnly),
            Received::Credit(credit) => self.hear(credit, now),
        }
    }

    /// Acts on a good credit.
    fn hear(&mut self, credit: Credit, now: u64) -> Option<Event> {
        let before = self.heard.replace((credit, now)).map(|(before, _)| before);
        let was_up = self.state() == State::Up;
        self.alive = true;
        let answers = credit.echo == self.session;
        let renewed = before.is_some_and(|before| before.session != credit.session);
        let answers_another = !answers && credit.echo != 0;
        if renewed || self.joined && answers_another {
            self.restart();
            return Some(Event::Restarted);
        }
        if !answers {
            return was_up.then(|| self.go_down());
        }
        if !self.joined {
            self.joined = true;
            self.receiver.accept_packets(true);
            // The other end must know that it is heard before the first packet comes.
            self.transmitter.hasten_credit();
        }
        if !self.transmitter.apply(&credit, now, &mut self.counters) {
            // The other end shares no past with this one, or the reverse: both begin anew.
            self.session = self.session.checked_add(1).unwrap_or(1);
            self.restart();
            return Some(Event::Restarted);
        }
        (self.answered_at, self.is_down) = (Some(now), false);
        (!was_up).then_some(Event::Up)
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
        self.joined = false;
        self.receiver.restart();
        self.transmitter.restart(&mut self.counters);
        self.transmitter.hasten_credit();
    }

    /// Looks whether the line is dead; called from time to time, also when no words come.
    pub fn tick(&mut self, now: u64) -> Option<Event> {
        self.receiver.tick(now, &mut self.counters);
        let is_over = |at| now.saturating_sub(at) > self.config.dead_after;
        self.alive &= !self.last_credit().is_some_and(is_over);
        let unanswered = is_over(*self.answered_at.get_or_insert(now));
        (unanswered && !self.is_down).then(|| self.go_down())
    }

    /// When [`tick`](Self::tick) will find the line dead if nothing comes before; `None` if it has.
    pub fn deadline(&self) -> Option<u64> {
        let heard = self.last_credit().filter(|_| self.alive);
        let answered = self.answered_at.filter(|_| !self.is_down);
        let last = heard.into_iter().chain(answered).min()?;
        Some(last.saturating_add(self.config.dead_after).saturating_add(1))
    }

    /// The oldest packet that has arrived on virtual channel `vc`.
    pub fn front(&self, vc: u8) -> Option<&Arrival> {
        self.receiver.fifo(vc)?.front()
    }

    /// The payload words of the oldest packet on virtual channel `vc`; the last one is padded.
    pub fn payload(&self, vc: u8) -> impl Iterator<Item = Word> {
        self.receiver.fifo(vc).into_iter().flat_map(|fifo| fifo.payload())
    }

    /// Takes the oldest packet of virtual channel `vc` out, without its payload.
    pub fn pop(&mut self, vc: u8) -> Option<Arrival> {
        self.receiver.fifo_mut(vc)?.pop()
    }

    /// Takes the oldest packet of virtual channel `vc` out; its payload goes to the front of
    /// `buffer`, or as much of it as finds place.
    pub fn take(&mut self, vc: u8, buffer: &mut [u8]) -> Option<Arrival> {
        let fifo = self.receiver.fifo(vc)?;
        let size = usize::from(fifo.front()?.header.size).min(buffer.len());
        for (place, word) in buffer[..size].chunks_mut(size_of::<Word>()).zip(fifo.payload()) {
            place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
        }
        self.pop(vc)
    }

    /// Takes the oldest packet of a header only out.
    pub fn take_header_only(&mut self) -> Option<Header> {
        self.receiver.take_header_only()
    }
}
