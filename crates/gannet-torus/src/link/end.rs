//! One end of a link: both halves, and what joins them to the other end.

use gannet_wire::apelink::{Credit, Header, NEXT_MODULUS, Used, Word, words_of};

use super::config::{Config, ConfigError};
use super::counters::Counters;
use super::fifo::Arrival;
use super::receiver::{LinkReceiver, Received, Stage};
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
    heard: Option<(Credit, u64)>,
    /// The last credit sent.
    told: Option<Credit>,
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
            receiver: LinkReceiver::new(&config),
            counters: Counters::default(),
            diagnostics: 0,
            heard: None,
            told: None,
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
        let header = Header { size: payload.len() as u16, ..header };
        self.can_send(&header)?;
        self.transmitter.send(&header, origin, words_of(payload));
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
        let credit = self.credit();
        self.told = Some(credit);
        self.counters.tx_credits += 1;
        Sent { word: credit.to_word(), is_credit: true }
    }

    /// The next word to be sent on a line that charges for every word: words of packets, and a
    /// credit when it has something new to tell or [`Config::credit_period`] is over. Diagnostics
    /// are not new; they ride along.
    pub fn transmit_due(&mut self, now: u64) -> Option<Sent> {
        let is_due = !self.is_idle() || self.transmitter.is_credit_due(now) || self.has_news();
        is_due.then(|| self.transmit(now))
    }

    /// Whether a credit would tell more than the last one.
    fn has_news(&self) -> bool {
        let Some(told) = self.told else { return true };
        Credit { diagnostics: told.diagnostics, ..self.credit() } != told
    }

    fn credit(&self) -> Credit {
        // An end that hears nothing answers nobody: the other one must know that it is not heard.
        let heard = self.heard.filter(|_| self.alive);
        Credit {
            used: self.receiver.used(),
            diagnostics: self.diagnostics,
            next: (self.receiver.expected() % NEXT_MODULUS) as u16,
            session: self.session,
            echo: heard.map_or(0, |(credit, _)| credit.session),
            resend: self.receiver.resend(),
        }
    }

    /// Takes a word that has arrived.
    pub fn receive(&mut self, word: Word, now: u64) -> Option<Event> {
        match self.receiver.receive(word, now, &mut self.counters)? {
            Received::Packet(vc) => Some(Event::Packet(vc)),
            Received::Credit(credit) => Some(self.hear(credit, now)),
        }
    }

    /// Acts on a good credit.
    fn hear(&mut self, credit: Credit, now: u64) -> Event {
        let before = self.heard.replace((credit, now)).map(|(before, _)| before);
        let was_up = self.state() == State::Up;
        self.alive = true;
        let answers = credit.echo == self.session;
        let renewed = before.is_some_and(|before| before.session != credit.session);
        let answers_another = !answers && credit.echo != 0;
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
        if !self.transmitter.apply(&credit, now, &mut self.counters) {
            // The other end shares no past with this one, or the reverse: both begin anew.
            self.session = self.session.checked_add(1).unwrap_or(1);
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
        self.joined = false;
        self.receiver.restart();
        self.transmitter.restart(&mut self.counters);
        self.transmitter.hasten_credit();
    }

    /// Looks whether the line is dead, and whether a packet has to be sent again; called from time
    /// to time, also when no words come.
    pub fn tick(&mut self, now: u64) -> Option<Event> {
        self.receiver.tick(now, &mut self.counters);
        self.transmitter.tick(now);
        let is_over = |at| now.saturating_sub(at) > self.config.dead_after;
        self.alive &= !self.last_credit().is_some_and(is_over);
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
        silence.chain(packets).fold(self.transmitter.credit_deadline(), u64::min)
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
}
