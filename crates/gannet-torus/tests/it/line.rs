//! A line with a length and, if asked for, faults: what lies between two ends in tests and
//! simulations.

use std::collections::VecDeque;

use gannet_measure::random::Random;
use gannet_wire::apelink::frame::{Frame, HEAD_LEN};
use gannet_wire::apelink::{MAGIC, START, WORD_LEN, Word};

/// Longest frame, bytes.
const FRAME_BYTES_MAX: usize = 16 << 10;
/// Bits of a word.
const WORD_BITS: u64 = 8 * WORD_LEN as u64;

/// What a line does to words, drawn at random for each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Probability that a bit is wrong.
    pub bit_error_rate: f64,
    /// Probability that a word is lost.
    pub word_loss: f64,
    /// Probability that a credit word is lost, beside that.
    pub credit_loss: f64,
    /// Probability that a packet is lost whole, from its START on; credits within it pass.
    pub packet_loss: f64,
}

/// One direction of a line: a word in and a word out each word time, or frames that take so many word
/// times as they have words.
///
/// The words of packets are recognised by their control words, as a receiver does. A frame is lost whole,
/// where any of its words is, or its packet, or its credit if it has nothing else.
#[derive(Clone, Debug)]
pub struct Line {
    noise: Noise,
    random: Random,
    in_flight: VecDeque<Option<Word>>,
    /// Frames and when they arrive.
    frames: VecDeque<(u64, Vec<u8>)>,
    /// Where a frame is written.
    buffer: Box<[u8]>,
    /// When the next frame may begin.
    free_at: u64,
    length: usize,
    /// Bits until the next wrong one.
    good_bits: u64,
    after_magic: bool,
    after_start: bool,
    /// The packet under way is being lost.
    losing: bool,
    single: u32,
    fatal: u32,
    is_cut: bool,
}

impl Line {
    /// A line on which a word needs `length` word times, with `noise` that depends on `seed` only.
    pub fn new(length: usize, noise: Noise, seed: u64) -> Self {
        let mut line = Self {
            noise,
            random: Random::new(seed),
            in_flight: VecDeque::with_capacity(length + 1),
            frames: VecDeque::new(),
            buffer: vec![0; FRAME_BYTES_MAX].into_boxed_slice(),
            free_at: 0,
            length,
            good_bits: 0,
            after_magic: false,
            after_start: false,
            losing: false,
            single: 0,
            fatal: 0,
            is_cut: false,
        };
        line.good_bits = line.draw_good_bits();
        line
    }

    /// Makes one bit wrong in each of the next `headers` headers.
    pub fn inject_header_errors(&mut self, headers: u32) {
        self.single += headers;
    }

    /// Makes two bits wrong in each of the next `headers` headers that have none yet.
    pub fn inject_fatal_header_errors(&mut self, headers: u32) {
        self.fatal += headers;
    }

    /// Lets nothing through from now on, and loses what is on its way.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.in_flight.iter_mut().for_each(|word| *word = None);
        self.frames.clear();
    }

    /// Lets words through again.
    pub fn repair(&mut self) {
        self.is_cut = false;
    }

    /// Changes the noise.
    pub fn set_noise(&mut self, noise: Noise) {
        self.noise = noise;
        self.good_bits = self.draw_good_bits();
    }

    /// Takes the word that is sent in this word time and gives the one that arrives, if one does.
    pub fn carry(&mut self, word: Word) -> Option<Word> {
        let word = if self.is_cut { None } else { self.pass(word) };
        self.in_flight.push_back(word);
        if self.in_flight.len() > self.length { self.in_flight.pop_front()? } else { None }
    }

    /// Takes the frame that `emit` writes, if the line is free, and gives the one that arrives, if one
    /// does.
    pub fn carry_frame(
        &mut self,
        now: u64,
        emit: impl FnOnce(&mut [u8]) -> usize,
    ) -> Option<Vec<u8>> {
        if now >= self.free_at {
            let len = emit(&mut self.buffer);
            let mut frame = self.buffer[..len].to_vec();
            self.free_at = now + (len / WORD_LEN) as u64;
            if len > 0 && !self.is_cut && !self.loses(&frame) {
                self.damage(&mut frame);
                self.frames.push_back((self.free_at + self.length as u64, frame));
            }
        }
        let arrives = self.frames.front().is_some_and(|(at, _)| *at <= now);
        if arrives { self.frames.pop_front().map(|(_, frame)| frame) } else { None }
    }

    fn loses(&mut self, frame: &[u8]) -> bool {
        let packets = Frame::new_checked(frame).map_or(0, |frame| frame.head().packets);
        let words = (0..frame.len() / WORD_LEN).any(|_| self.random.chance(self.noise.word_loss));
        let packet = (0..packets).any(|_| self.random.chance(self.noise.packet_loss));
        words || packet || packets == 0 && self.random.chance(self.noise.credit_loss)
    }

    fn damage(&mut self, frame: &mut [u8]) {
        let view = Frame::new_checked(&*frame).expect("a sender makes whole frames");
        let headers: Vec<usize> = view
            .packets()
            .flatten()
            .scan(HEAD_LEN, |at, packet| {
                let header = *at;
                *at += packet.packet_len();
                Some(header)
            })
            .collect();
        for (at, word) in frame.chunks_exact_mut(WORD_LEN).enumerate() {
            let is_header = headers.contains(&(at * WORD_LEN));
            let wrong = self.wrong_bits() ^ if is_header { self.header_error() } else { 0 };
            word.iter_mut().zip(wrong.to_le_bytes()).for_each(|(byte, wrong)| *byte ^= wrong);
        }
    }

    fn pass(&mut self, word: Word) -> Option<Word> {
        let after_magic = self.after_magic;
        self.after_magic = word == MAGIC && !after_magic;
        // A credit may come between START and the header.
        let is_header = self.after_start && !after_magic && word != MAGIC;
        if is_header || word == START {
            self.after_start = word == START;
        }
        if word == START {
            self.losing = self.random.chance(self.noise.packet_loss);
        }
        let is_credit = after_magic && is_credit(word);
        let lost = self.random.chance(self.noise.word_loss)
            || is_credit && self.random.chance(self.noise.credit_loss)
            || self.losing && !is_credit && word != MAGIC;
        let wrong = self.wrong_bits() ^ if is_header { self.header_error() } else { 0 };
        (!lost).then_some(word ^ wrong)
    }

    /// The bits of the next word that become wrong.
    fn wrong_bits(&mut self) -> Word {
        let mut wrong = 0;
        while self.good_bits < WORD_BITS {
            wrong |= 1 << self.good_bits;
            self.good_bits += 1 + self.draw_good_bits();
        }
        self.good_bits -= WORD_BITS;
        wrong
    }

    /// Number of good bits before the next wrong one: geometric.
    fn draw_good_bits(&mut self) -> u64 {
        if self.noise.bit_error_rate <= 0.0 {
            return u64::MAX / 2;
        }
        let log = (1.0 - self.random.unit()).ln();
        (log / (-self.noise.bit_error_rate).ln_1p()) as u64
    }

    fn header_error(&mut self) -> Word {
        if self.single > 0 {
            self.single -= 1;
            return 1 << self.random.below(WORD_BITS);
        }
        if self.fatal > 0 {
            self.fatal -= 1;
            let first = self.random.below(WORD_BITS);
            let second = (first + 1 + self.random.below(WORD_BITS - 1)) % WORD_BITS;
            return 1 << first | 1 << second;
        }
        0
    }
}

/// Whether the word behind a MAGIC is a credit.
fn is_credit(word: Word) -> bool {
    gannet_wire::apelink::Credit::from_word(word).is_some()
}
