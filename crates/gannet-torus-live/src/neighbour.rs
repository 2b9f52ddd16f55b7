//! What one end of a cable knows of the other: who it is, that it knows the key of the machine, and whether it is there.
//!
//! Both ends call until they hear each other. The one with the lesser host, or on one host the lesser port, opens a
//! handshake (Noise, NNpsk0: both have to know the key, and agree on new keys that nobody else learns), the other answers, and
//! what either says from then on is sealed. A handshake beside a session that lives takes over when its first
//! sealed message has come, so who only repeats old messages ends nothing. While both ends hear each other, only another life makes
//! another session.
//!
//! Every message may be lost, doubled or forged. This is a state machine without clock, input and output.

use std::collections::VecDeque;

use gannet_wire::Record;
use gannet_wire::neighbour::{Identity, Item, Message, PortState, SEALED_AT, emit_sealed_head};
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::identity::Key;
use crate::losses::Losses;
use crate::patience::{beat_ns, silence_ns};
use crate::protection::{Protection, Refusal, Taken};

/// Pattern and primitives of the handshake.
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// What both ends mean by it.
const PROLOGUE: &[u8] = b"gannet torus neighbour 1";
/// Bytes that a seal adds, and that the longest Noise message of a handshake adds to its payload.
const SEAL_LEN: usize = 16;
const HANDSHAKE_LEN: usize = 32 + SEAL_LEN;
/// Most bytes of a message, so that it fits any network that frames fit.
pub const MESSAGE_MAX: usize = 1232;
/// Calls become ever rarer while nobody answers, down to one in so long, ns.
const CALL_MAX_NS: u64 = 1_000_000_000;
/// Somebody who calls is met within so long, ns, and so many watchdogs, if nothing is in the way.
const MEETING_NS: u64 = 2_000_000_000;
const MEETING_WATCHDOGS: u64 = 8;

/// What has become known of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It has proved that it knows the key, for the first time or in another life.
    Met(Identity),
    /// It is heard again, or not any more.
    Heard(bool),
    /// It says that it hears this end, or does not.
    Hears(bool),
    /// Much of what it sends is lost, or no longer.
    Lossy,
    /// It says this.
    Said(Item),
    /// Somebody who says to be it does not know the key.
    WrongKey(Identity),
    /// Somebody calls, but no handshake comes through.
    NoHandshake(Identity),
    /// The cable leads back to this host.
    Itself(Identity),
    /// Another host has the number of this one.
    SameHost(Identity),
    /// Somebody else calls while the other end is heard.
    Third(Identity),
}

/// Datagrams that were no use, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// They could not be read.
    pub malformed: u64,
    /// They did not prove to know the key.
    pub forged: u64,
    /// They had been heard before, or belong to a handshake or session that is over.
    pub stale: u64,
}

impl Refused {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.malformed + self.forged + self.stale
    }
}

/// Keys that two ends have agreed on, and who the other is.
#[derive(Debug)]
struct Session {
    other: Identity,
    seal: StatelessTransportState,
    sent: u64,
    /// Greatest number of a sealed message that was taken.
    taken: Option<u64>,
    /// What numbers frames of the link, and proves them if either end wants that.
    protection: Protection,
}

/// A handshake under way.
#[derive(Debug)]
enum Handshake {
    None,
    /// This end has opened it, with whom, and with this message.
    Opened(Box<HandshakeState>, Identity, Vec<u8>),
    /// This end has answered with this message, and waits for the proof that the other end is there now.
    Answered(Box<Session>, Vec<u8>),
}

/// One end of a cable.
#[derive(Debug)]
pub struct Neighbour {
    own: Identity,
    key: Key,
    noise: NoiseParams,
    watchdog_ns: u64,
    session: Option<Session>,
    handshake: Handshake,
    /// The handshake's last message is to be sent.
    answers: bool,
    heard_at: u64,
    is_heard: bool,
    hears: bool,
    call_at: u64,
    call_ns: u64,
    alive_at: u64,
    /// The other end waits to be told that this one is there.
    is_asked: bool,
    /// When something was sealed for the last time, when a frame of the link went, and when one came since both ends met.
    sealed_at: u64,
    frame_sent_at: u64,
    framed_at: Option<u64>,
    /// When a handshake was opened last, by either end.
    opened_at: u64,
    /// Since when somebody calls who was not met.
    called_since: Option<u64>,
    items: VecDeque<Item>,
    losses: Losses,
    /// It has proved to know the key since that was asked for.
    has_proof: bool,
    refused: Refused,
    room: Box<[u8]>,
}

impl Neighbour {
    /// The end of a cable at `own`, of a machine with `key`. The other end is not heard any more when it has been silent for
    /// nine sixteenths of the watchdog.
    pub fn new(own: Identity, key: Key, watchdog_ns: u64) -> Self {
        Self {
            own,
            key,
            noise: NOISE.parse().expect("a name that Noise knows"),
            watchdog_ns,
            session: None,
            handshake: Handshake::None,
            answers: false,
            heard_at: 0,
            is_heard: false,
            hears: false,
            call_at: 0,
            call_ns: watchdog_ns / 4,
            alive_at: 0,
            is_asked: false,
            sealed_at: 0,
            frame_sent_at: 0,
            framed_at: None,
            opened_at: 0,
            called_since: None,
            items: VecDeque::new(),
            losses: Losses::new(watchdog_ns),
            has_proof: false,
            refused: Refused::default(),
            room: vec![0; MESSAGE_MAX].into(),
        }
    }

    /// Who is at this end.
    pub fn own(&self) -> &Identity {
        &self.own
    }

    /// Who was last met at the other end.
    pub fn other(&self) -> Option<&Identity> {
        self.session.as_ref().map(|session| &session.other)
    }

    /// Whether the other end is heard.
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// Whether each end hears the other.
    pub fn is_up(&self) -> bool {
        self.is_heard && self.hears
    }

    /// Whether the other end has proved to know the key since the last call.
    pub fn has_proof(&mut self) -> bool {
        std::mem::take(&mut self.has_proof)
    }

    /// Whether much of what the other end sends is lost.
    pub fn is_lossy(&self) -> bool {
        self.losses.is_lossy()
    }

    /// How far the cable is, as this end knows it.
    pub fn state(&self) -> PortState {
        match (self.is_heard, self.hears, self.is_lossy()) {
            (true, true, true) => PortState::Lossy,
            (true, true, false) => PortState::Up,
            (true, false, _) => PortState::OneWay,
            (false, ..) => PortState::Silent,
        }
    }

    /// Datagrams that were no use.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Lets `item` be said in the next sealed message; forgotten where there is no session.
    pub fn say(&mut self, item: Item) {
        if self.session.is_some() {
            self.items.push_back(item);
        }
    }

    /// Whether there is something to be said beside what says itself.
    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Writes number and proof behind frames of the link, of `frame` bytes each but the last, which have room for them at their ends; `false`
    /// where nobody has been met who could check them.
    pub fn prove(&mut self, frames: &mut [u8], frame: usize) -> bool {
        let Some(session) = &mut self.session else { return false };
        frames.chunks_mut(frame).for_each(|frame| session.protection.prove(frame));
        true
    }

    /// Reclaims the numbers of the last `count` frames, none of which has left this host.
    pub fn reclaim_numbers(&mut self, count: usize) {
        if let Some(session) = &mut self.session {
            session.protection.reclaim_numbers(count);
        }
    }

    /// The frame of the link that has come, if it is one of the other end.
    pub fn proved<'a>(
        &mut self,
        bytes: &'a [u8],
        now: u64,
        news: &mut dyn FnMut(News),
    ) -> Option<&'a [u8]> {
        let Some(Session { protection, .. }) = &mut self.session else {
            self.refused.stale += 1;
            return None;
        };
        match protection.check(bytes) {
            Ok(Taken { frame, is_behind_gap }) => {
                self.has_proof |= protection.proves();
                if self.losses.frame(is_behind_gap, now) {
                    news(News::Lossy);
                }
                return Some(frame);
            }
            Err(Refusal::Forged) => self.refused.forged += 1,
            Err(Refusal::Stale) => self.refused.stale += 1,
        }
        None
    }

    /// For a whole watchdog frames of the link have come, and one that has to come before them has not.
    pub fn lacks_frames(&mut self, now: u64, news: &mut dyn FnMut(News)) {
        if self.losses.stuck(now) {
            news(News::Lossy);
        }
    }

    /// A frame of the link has come from the other end, which is there then.
    pub fn hear_frame(&mut self, now: u64, news: &mut dyn FnMut(News)) {
        // Where frames prove nothing they only keep up what sealed messages have begun.
        if self.is_heard {
            self.framed_at = Some(now);
            self.heard(now, news);
        }
    }

    /// A frame of the link goes to the other end.
    pub fn frame_sent(&mut self, now: u64) {
        self.frame_sent_at = now;
    }

    /// When the other end, which should have spoken by then, is asked whether it is there, if it stays silent: a lost message is soon made
    /// up for so, and messages may be rare.
    fn asks_from(&self) -> u64 {
        let beat = beat_ns(self.watchdog_ns);
        if self.is_heard { self.heard_at.saturating_add(beat + beat / 4) } else { u64::MAX }
    }

    /// When it is asked next.
    fn asks_at(&self) -> u64 {
        self.asks_from().max(self.sealed_at.saturating_add(beat_ns(self.watchdog_ns) / 4))
    }

    /// When something is to be sealed that says itself.
    fn seals_at(&self) -> u64 {
        if self.is_asked { 0 } else { self.alive_due().min(self.asks_at()) }
    }

    /// When a sealed message says that this end is there. While frames go both ways they say so, and sealed messages only once
    /// in a watchdog, should the last that has told something new be lost.
    fn alive_due(&self) -> u64 {
        let beat = beat_ns(self.watchdog_ns);
        let framed_at = self.framed_at.filter(|_| self.is_up());
        let said_until = framed_at.map_or(0, |at| at.min(self.frame_sent_at) + beat + beat / 2);
        // Frames are due at multiples of the beat: this end wakes once for both.
        let again = (self.sealed_at + self.watchdog_ns) / beat.max(1) * beat;
        self.alive_at.max(said_until.min(again))
    }

    /// Takes a datagram.
    pub fn hear(&mut self, datagram: &[u8], now: u64, news: &mut dyn FnMut(News)) {
        match Message::parse(datagram) {
            Ok(Message::Call(who)) => self.called(who, now, news),
            Ok(Message::Open(who, noise)) => self.opened(who, noise, now, news),
            Ok(Message::Answer(noise)) => self.answered(noise, now, news),
            Ok(Message::Sealed(counter, noise)) => self.sealed(counter, noise, now, news),
            Err(_) => self.refused.malformed += 1,
        }
    }

    /// Whether this end opens handshakes with `other`.
    fn opens_with(&self, other: &Identity) -> bool {
        (self.own.host, self.own.port) < (other.host, other.port)
    }

    fn is_met(&self, who: &Identity) -> bool {
        let is_it =
            |session: &Session| (session.other.host, session.other.life) == (who.host, who.life);
        self.is_heard && self.session.as_ref().is_some_and(is_it)
    }

    /// Whether this is no time for another handshake: who only says to be somebody is not to take the time of those who are.
    fn is_early(&self, now: u64) -> bool {
        let parts = if self.is_heard { 8 } else { 64 };
        self.opened_at > 0 && now < self.opened_at + self.watchdog_ns / parts
    }

    fn called(&mut self, who: Identity, now: u64, news: &mut dyn FnMut(News)) {
        if who.host == self.own.host {
            // Anybody may call, and the one who is heard has proved to be the other end.
            if self.is_heard {
                return self.refused.forged += 1;
            }
            let is_own = who.life == self.own.life;
            return news(if is_own { News::Itself(who) } else { News::SameHost(who) });
        }
        if self.is_heard && self.other().is_some_and(|other| other.host != who.host) {
            // Whoever was met stays the other end until it is silent.
            self.refused.stale += 1;
            return news(News::Third(who));
        }
        if !self.is_heard {
            let since = *self.called_since.get_or_insert(now);
            if now >= since + MEETING_NS.max(MEETING_WATCHDOGS * self.watchdog_ns) {
                news(News::NoHandshake(who));
            }
        }
        self.call_ns = self.watchdog_ns / 4;
        if !self.opens_with(&who) {
            // It opens when it hears this end.
            self.call_at = self.call_at.min(now + self.call_ns);
            return;
        }
        if self.is_met(&who) {
            return;
        }
        if self.is_early(now) {
            return self.refused.stale += u64::from(self.is_heard);
        }
        self.opened_at = now;
        let Some(mut state) = self.begin(true) else { return };
        let mut own = [0; Identity::LEN];
        self.own.emit(&mut own);
        let mut noise = [0; Identity::LEN + HANDSHAKE_LEN];
        let Ok(len) = state.write_message(&own, &mut noise) else { return };
        self.handshake = Handshake::Opened(Box::new(state), who, noise[..len].to_vec());
        self.answers = true;
    }

    fn begin(&self, opens: bool) -> Option<HandshakeState> {
        let builder = Builder::new(self.noise.clone()).psk(0, &self.key.0).ok()?;
        let builder = builder.prologue(PROLOGUE).ok()?;
        if opens { builder.build_initiator().ok() } else { builder.build_responder().ok() }
    }

    fn opened(&mut self, who: Identity, noise: &[u8], now: u64, news: &mut dyn FnMut(News)) {
        // What is older than the session is said again by somebody who has kept it.
        let is_old = self.is_heard
            && self.other().is_some_and(|it| it.host == who.host && it.life >= who.life);
        if self.opens_with(&who) || who.host == self.own.host || is_old || self.is_early(now) {
            return self.refused.stale += 1;
        }
        self.opened_at = now;
        let Some(mut state) = self.begin(false) else { return };
        let Ok(len) = state.read_message(noise, &mut self.room) else {
            self.refused.forged += 1;
            // Who is there knows the key: a stranger has spoken in its name.
            if !self.is_heard {
                news(News::WrongKey(who));
            }
            return;
        };
        // What is sealed is what counts.
        if self.room.get(..len).map(Identity::parse) != Some(Ok(who)) {
            return self.refused.forged += 1;
        }
        let mut own = [0; Identity::LEN];
        self.own.emit(&mut own);
        let mut noise = [0; Identity::LEN + HANDSHAKE_LEN];
        let Ok(len) = state.write_message(&own, &mut noise) else { return };
        let Some(session) = self.agreed(state, who, false) else { return };
        self.handshake = Handshake::Answered(Box::new(session), noise[..len].to_vec());
        self.answers = true;
    }

    fn answered(&mut self, noise: &[u8], now: u64, news: &mut dyn FnMut(News)) {
        let Handshake::Opened(mut state, claimed, _) =
            std::mem::replace(&mut self.handshake, Handshake::None)
        else {
            return self.refused.stale += 1;
        };
        let read = state.read_message(noise, &mut self.room);
        let other = read.ok().and_then(|len| Identity::parse(self.room.get(..len)?).ok());
        let Some(other) = other else {
            // The state cannot be used again: the other end's next call opens another handshake.
            self.refused.forged += 1;
            if !self.is_heard {
                news(News::WrongKey(claimed));
            }
            return;
        };
        self.answers = false;
        if self.is_met(&other) {
            // Somebody else has called in its name: what both have agreed on holds.
            return self.refused.stale += 1;
        }
        let Some(session) = self.agreed(*state, other, true) else { return };
        self.meet(session, now, news);
    }

    /// The session that follows from a handshake that is over.
    fn agreed(&self, state: HandshakeState, other: Identity, opens: bool) -> Option<Session> {
        let wanted = self.own.protects || other.protects;
        let protection = match wanted {
            true => Protection::new(&self.key, state.get_handshake_hash(), opens),
            false => Protection::none(),
        };
        let seal = state.into_stateless_transport_mode().ok()?;
        Some(Session { other, seal, sent: 0, taken: None, protection })
    }

    fn meet(&mut self, session: Session, now: u64, news: &mut dyn FnMut(News)) {
        let other = session.other;
        let is_known = self.is_heard && self.other() == Some(&other);
        self.called_since = None;
        self.session = Some(session);
        self.has_proof = true;
        // The other end waits for a sealed message before it takes the keys for its own.
        (self.alive_at, self.framed_at) = (now, None);
        if is_known {
            // Only the keys are new.
            return self.heard_at = now;
        }
        self.items.clear();
        self.losses = Losses::new(self.watchdog_ns);
        self.hears = false;
        let was_heard = std::mem::replace(&mut self.is_heard, true);
        self.heard_at = now;
        news(News::Met(other));
        if !was_heard {
            news(News::Heard(true));
        }
    }

    fn sealed(&mut self, counter: u64, noise: &[u8], now: u64, news: &mut dyn FnMut(News)) {
        if let Handshake::Answered(session, _) = &self.handshake
            && session.seal.read_message(counter, noise, &mut self.room).is_ok()
            && let Handshake::Answered(session, _) =
                std::mem::replace(&mut self.handshake, Handshake::None)
        {
            self.answers = false;
            self.meet(*session, now, news);
        }
        let Some(session) = &mut self.session else { return self.refused.stale += 1 };
        if session.taken.is_some_and(|taken| counter <= taken) {
            return self.refused.stale += 1;
        }
        let Ok(len) = session.seal.read_message(counter, noise, &mut self.room) else {
            return self.refused.forged += 1;
        };
        session.taken = Some(counter);
        self.has_proof = true;
        self.heard(now, news);
        let room = std::mem::take(&mut self.room);
        let mut rest = &room[..len];
        while !rest.is_empty() {
            let Ok((item, behind)) = Item::parse(rest) else {
                self.refused.malformed += 1;
                break;
            };
            rest = behind;
            match item {
                Item::Alive(hears) => {
                    if hears != std::mem::replace(&mut self.hears, hears) {
                        news(News::Hears(hears));
                    }
                }
                Item::Ask => self.is_asked = true,
                item => news(News::Said(item)),
            }
        }
        self.room = room;
    }

    fn heard(&mut self, now: u64, news: &mut dyn FnMut(News)) {
        self.heard_at = now;
        if !std::mem::replace(&mut self.is_heard, true) {
            (self.alive_at, self.called_since) = (now, None);
            news(News::Heard(true));
        }
    }

    /// Looks whether the other end has been silent for too long.
    pub fn advance(&mut self, now: u64, news: &mut dyn FnMut(News)) {
        if now >= self.silent_at() {
            self.is_heard = false;
            // It is told at once, and called: it may have begun anew.
            (self.alive_at, self.call_at, self.call_ns) = (now, now, self.watchdog_ns / 4);
            news(News::Heard(false));
        }
    }

    /// When the other end counts as silent if nothing comes from it before.
    pub(crate) fn silent_at(&self) -> u64 {
        let silent_at = self.heard_at.saturating_add(silence_ns(self.watchdog_ns));
        if self.is_heard { silent_at } else { u64::MAX }
    }

    /// When there is something to say if no datagram comes before.
    pub(crate) fn says_at(&self) -> u64 {
        if self.answers || self.has_items() && self.session.is_some() {
            return 0;
        }
        let call = if self.is_heard { u64::MAX } else { self.call_at };
        let sealed = if self.session.is_some() { self.seals_at() } else { u64::MAX };
        call.min(sealed)
    }

    /// Writes the datagram that is due to the front of `room`, and gives its length; 0 if none is. More may be due.
    pub fn due(&mut self, room: &mut [u8], now: u64) -> usize {
        if std::mem::take(&mut self.answers) {
            let message = match &self.handshake {
                Handshake::None => None,
                Handshake::Opened(_, who, noise) => Some((Message::Open(self.own, noise), who)),
                Handshake::Answered(session, noise) => {
                    Some((Message::Answer(noise), &session.other))
                }
            };
            // As long as frames will be, so that nobody is met over a way that they do not fit.
            if let Some((message, other)) = message
                && let Some(len) = message.emit(room)
            {
                let frame = self.own.frame_bytes.min(other.frame_bytes) as usize;
                let end = frame.min(room.len()).max(len);
                room[len..end].fill(0);
                return end;
            }
        }
        if self.session.is_some() && (self.has_items() || now >= self.seals_at()) {
            return self.seal(room, now);
        }
        if !self.is_heard && now >= self.call_at {
            self.call_at = now + self.call_ns;
            self.call_ns = (2 * self.call_ns).min(CALL_MAX_NS.max(self.watchdog_ns / 4));
            return Message::Call(self.own).emit(room).unwrap_or(0);
        }
        0
    }

    /// Seals as many items as fit.
    fn seal(&mut self, room: &mut [u8], now: u64) -> usize {
        // Who is not heard is told so as rarely as it is called.
        let again = if self.is_heard { beat_ns(self.watchdog_ns) } else { self.call_ns };
        // At multiples of the time, as frames of links are, so that all ports speak at once.
        self.alive_at = (now / again.max(1) + 1) * again;
        let asks = now >= self.asks_from();
        (self.sealed_at, self.is_asked) = (now, false);
        let Some(session) = &mut self.session else { return 0 };
        let most = MESSAGE_MAX.min(room.len()).saturating_sub(SEALED_AT + SEAL_LEN);
        let mut len = 0;
        let own = [Some(Item::Alive(self.is_heard)), asks.then_some(Item::Ask)];
        for item in own.into_iter().flatten() {
            let end = len + item.buffer_len();
            if end <= most {
                item.emit(&mut self.room[len..end]);
                len = end;
            }
        }
        let first = len;
        while let Some(item) = self.items.pop_front() {
            let end = len + item.buffer_len();
            if end <= most {
                item.emit(&mut self.room[len..end]);
                len = end;
            } else if len > first {
                self.items.push_front(item);
                break;
            }
            // What is longer than any message of this cable cannot be said over it.
        }
        let place = &mut room[SEALED_AT..];
        session.sent += 1;
        match session.seal.write_message(session.sent, &self.room[..len], place) {
            Ok(len) => emit_sealed_head(session.sent, len as u16, room),
            Err(_) => 0,
        }
    }
}
