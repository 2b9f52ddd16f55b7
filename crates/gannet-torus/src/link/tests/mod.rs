//! Two ends and two lines, driven word by word, or frame by frame.

/// Makes two tests of each function: one for each form.
macro_rules! in_both_forms {
    ($($(#[$attribute:meta])* fn $name:ident($form:ident: Form) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$attribute])*
            fn check($form: Form) $body

            #[test]
            fn words() {
                check(Form::Words);
            }

            #[test]
            fn frames() {
                check(FRAMES);
            }
        }
    )*};
}

mod any_frames;
mod any_words;
mod framing;
mod loss;
mod sessions;

use gannet_wire::apelink::{FRAMED_LEN_MAX, Header, WORD_LEN, Word};

use super::line::{Line, Noise};
use super::{Config, Event, Form, Link, Origin, State};

/// Frames of two of the longest packets.
const FRAMES: Form = Form::Frames { bytes: 8500 };

/// A packet taken: virtual channel, header, origin and payload.
type Packet = (u8, Header, Origin, Vec<u8>);

/// Two ends of one link, with all that arrived at them.
pub(super) struct Pair {
    pub ends: [Link; 2],
    /// From each end to the other.
    pub lines: [Line; 2],
    pub now: u64,
    pub events: [Vec<Event>; 2],
    /// Packets taken, by end.
    pub arrived: [Vec<Packet>; 2],
}

impl Pair {
    pub fn new(config: Config, length: usize, noise: Noise, seed: u64) -> Self {
        let end = |session| Link::new(Config { session, ..config }).unwrap();
        Self {
            ends: [end(11), end(12)],
            lines: [seed, !seed].map(|seed| Line::new(length, noise, seed)),
            now: 0,
            events: Default::default(),
            arrived: Default::default(),
        }
    }

    /// A word time: what has arrived is taken at once.
    pub fn step(&mut self) {
        self.step_without_taking();
        for at in 0..2 {
            self.take_all(at);
        }
    }

    pub fn step_without_taking(&mut self) {
        let now = self.now;
        match self.ends[0].config().form {
            Form::Words => self.carry_words(),
            Form::Frames { .. } => self.carry_frames(),
        }
        for at in 0..2 {
            let silence = self.ends[at].tick(now);
            self.events[at].extend(silence);
        }
        self.now += 1;
    }

    fn carry_words(&mut self) {
        let now = self.now;
        let [a, b] = [0, 1].map(|at| {
            let word = self.ends[at].transmit(now).word;
            self.lines[at].carry(word)
        });
        for (at, word) in [(0, b), (1, a)] {
            let event = word.and_then(|word| self.ends[at].receive(word, now));
            self.events[at].extend(event.filter(|&event| event != Event::Credit));
        }
    }

    fn carry_frames(&mut self) {
        let now = self.now;
        let [a, b] = [0, 1]
            .map(|at| self.lines[at].carry_frame(now, |frame| self.ends[at].emit(frame, now)));
        for (at, frame) in [(0, b), (1, a)] {
            let (end, events) = (&mut self.ends[at], &mut self.events[at]);
            let tell = |event| events.extend(Some(event).filter(|&event| event != Event::Credit));
            // A damaged head is counted.
            let _ = frame.map(|frame| end.accept(&frame, now, tell));
        }
    }

    pub fn take_all(&mut self, at: usize) {
        let mut buffer = [0; FRAMED_LEN_MAX];
        for vc in 0..4 {
            while let Some(packet) = self.ends[at].take(vc, &mut buffer) {
                let payload = buffer[..usize::from(packet.header.size)].to_vec();
                self.arrived[at].push((vc, packet.header, packet.origin, payload));
            }
        }
    }

    /// Steps until `done` or a bound that only a link that stands still reaches.
    pub fn run_until(&mut self, steps_max: u64, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + steps_max;
        while !done(self) {
            assert!(
                self.now < end,
                "the link stands still: {:?}",
                self.ends.each_ref().map(Link::counters)
            );
            self.step();
        }
    }

    pub fn bring_up(&mut self) {
        self.run_until(100_000, |pair| pair.ends.iter().all(|end| end.state() == State::Up));
    }

    /// Sends from the first end as soon as it takes the packet.
    pub fn send(&mut self, header: Header, payload: &[u8]) {
        let end = self.now + 10_000_000;
        while self.ends[0].send(header, Origin::default(), payload).is_err() {
            assert!(self.now < end, "not taken: {:?}", self.ends[0].counters());
            self.step();
        }
    }

    /// Payloads that have arrived at the second end.
    pub fn payloads(&self) -> Vec<&[u8]> {
        self.arrived[1].iter().map(|(.., payload)| &payload[..]).collect()
    }
}

/// The bytes of words.
pub(super) fn bytes_of(words: &[Word]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A payload that tells which one it is, of a length that depends on it.
pub(super) fn numbered(number: u32, words_max: u32) -> Vec<u8> {
    let words = number.wrapping_mul(0x9e37_79b9) % words_max;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..words * WORD_LEN as u32).map(|at| (at.wrapping_mul(31) ^ number) as u8));
    bytes
}
