//! The receiving end of a line: finds symbols, frames, and what is wrong with them.
//!
//! Source: NaNet3, arXiv:1406.3568, for the same latency after every reset; the rules are ours.

use super::code::{Decoded, Decoder, Disparity, K28_1, K28_5, SYMBOL_BITS, Symbol};
use super::{FRAME_LEN, FRAME_SYMBOLS, Frame, START, check_sum};
use crate::layout::array;

/// Good frames in a row that make a lock.
const LOCK_FRAMES: u8 = 3;
/// Bad frames in a row that lose it.
const LOSS_FRAMES: u8 = 2;
/// Bits of a word.
const MASK: u16 = (1 << SYMBOL_BITS) - 1;
/// The comma, its first bit lowest, after a disparity of -1 and of +1.
const COMMAS: [(u32, Disparity); 2] =
    [(0b111_1100, Disparity::Minus), (0b000_0011, Disparity::Plus)];

/// How symbols are brought to lie in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// The deserialiser skips bits until a word is a symbol. How long bits take is the same then,
    /// wherever the words began after a reset.
    Slip,
    /// Symbols are cut out of two words. Words stay as they began, and so bits wait for more or less of
    /// the second.
    Shift,
}

/// How far a receiver has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It looks for a comma.
    Hunting,
    /// It knows where symbols begin, and tests frames.
    Testing,
    /// Three frames in a row were good: frames are given out.
    Locked,
}

/// What happened on a line so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames given out.
    pub frames: u64,
    /// Words that were no symbol.
    pub code_errors: u64,
    /// Symbols that do not occur after the disparity that there was.
    pub disparity_errors: u64,
    /// Frames of the right symbols with a wrong check sum.
    pub crc_errors: u64,
    /// Frames that were not given out for one of these, or with control symbols in wrong places.
    pub bad_frames: u64,
    /// Times that the frame counter was not the next.
    pub counter_gaps: u64,
    /// Times that a lock was made.
    pub locks: u64,
    /// Times that it was lost.
    pub losses: u64,
}

/// What comes of a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step<'a> {
    /// Bits that the deserialiser is to skip before the next word.
    pub slip: u32,
    /// The frame that ended with it.
    pub frame: Option<Frame<&'a [u8]>>,
}

/// The receiving end of a line. It takes the words of a deserialiser, ten bits each, the first on the
/// line lowest, that begin anywhere.
#[derive(Clone, Debug)]
pub struct Receiver {
    alignment: Alignment,
    decoder: Decoder,
    disparity: Disparity,
    lock: Lock,
    /// The word before.
    last: Option<u16>,
    /// Where in that word symbols begin.
    shift: u32,
    /// Place of the next symbol in its frame, once a start was seen.
    at: Option<usize>,
    /// Whether the symbol before was a comma.
    after_comma: bool,
    /// Symbols without a start.
    waited: usize,
    /// Whether something was wrong with the frame so far.
    is_bad: bool,
    good: u8,
    bad: u8,
    /// Counter of the next frame.
    expected: Option<u32>,
    bytes: Box<[u8; FRAME_LEN]>,
    counts: Counts,
}

impl Receiver {
    /// A receiver that hunts.
    pub fn new(alignment: Alignment) -> Self {
        Self {
            alignment,
            decoder: Decoder::default(),
            disparity: Disparity::default(),
            lock: Lock::Hunting,
            last: None,
            shift: 0,
            at: None,
            after_comma: false,
            waited: 0,
            is_bad: false,
            good: 0,
            bad: 0,
            expected: None,
            bytes: Box::new([0; FRAME_LEN]),
            counts: Counts::default(),
        }
    }

    /// How far it has come.
    pub const fn lock(&self) -> Lock {
        self.lock
    }

    /// What happened so far.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Begins to hunt, as after a reset of the line; the counts stay.
    pub fn reset(&mut self) {
        self.lock = Lock::Hunting;
        (self.last, self.at, self.expected) = (None, None, None);
    }

    /// Takes the next word.
    pub fn word(&mut self, word: u16) -> Step<'_> {
        let word = word & MASK;
        let Some(last) = self.last.replace(word) else { return Step::default() };
        let bits = u32::from(last) | u32::from(word) << SYMBOL_BITS;
        if self.lock == Lock::Hunting {
            let Some((offset, disparity)) = find_comma(bits) else { return Step::default() };
            if self.alignment == Alignment::Slip && offset > 0 {
                self.last = None;
                return Step { slip: offset, frame: None };
            }
            (self.lock, self.shift, self.disparity) = (Lock::Testing, offset, disparity);
            (self.at, self.after_comma, self.waited) = (None, false, 0);
            (self.good, self.bad) = (0, 0);
        }
        let symbol = self.decode((bits >> self.shift) as u16);
        let is_given_out = self.place(symbol);
        let frame = is_given_out.then(|| Frame { buffer: &self.bytes[..] });
        Step { slip: 0, frame }
    }

    fn decode(&mut self, bits: u16) -> Option<Symbol> {
        match self.decoder.decode(bits, &mut self.disparity) {
            Decoded::Symbol(symbol) => Some(symbol),
            Decoded::WrongDisparity(symbol) => {
                self.counts.disparity_errors += 1;
                self.is_bad = true;
                Some(symbol)
            }
            Decoded::Invalid => {
                self.counts.code_errors += 1;
                self.is_bad = true;
                None
            }
        }
    }

    /// Puts a symbol in its place in the frame; whether a frame ended that is to be given out.
    fn place(&mut self, symbol: Option<Symbol>) -> bool {
        let is_start = self.after_comma && symbol == Some(K28_1);
        self.after_comma = symbol == Some(K28_5);
        let Some(at) = self.at else {
            self.waited += 1;
            if is_start {
                self.bytes[..START.len()].copy_from_slice(&START);
                (self.at, self.is_bad) = (Some(START.len()), false);
            } else if self.waited > 2 * FRAME_SYMBOLS {
                self.lock = Lock::Hunting;
            }
            return false;
        };
        let next = at + 1;
        self.at = Some(next % FRAME_SYMBOLS);
        let Some(place) = self.bytes.get_mut(at) else {
            self.is_bad &= next < FRAME_SYMBOLS;
            return false;
        };
        *place = match symbol {
            Some(Symbol::Data(byte)) if at >= START.len() => byte,
            Some(Symbol::Control(byte)) if START.get(at) == Some(&byte) => byte,
            _ => {
                self.is_bad = true;
                0
            }
        };
        next == FRAME_LEN && self.judge()
    }

    /// Judges a whole frame; whether it is to be given out.
    fn judge(&mut self) -> bool {
        let expected = self.expected.map(|expected| expected.wrapping_add(1));
        let is_good = !self.is_bad && Frame::new_checked(&self.bytes[..]).is_ok();
        if !is_good {
            let sum = u32::from_be_bytes(array(&self.bytes[..], FRAME_LEN - 4));
            let is_sum_wrong = !self.is_bad && check_sum(&self.bytes[..]) != sum;
            self.counts.crc_errors += u64::from(is_sum_wrong);
            self.counts.bad_frames += 1;
            (self.good, self.bad, self.expected) = (0, self.bad + 1, expected);
            if self.bad == LOSS_FRAMES {
                self.counts.losses += u64::from(self.lock == Lock::Locked);
                self.reset();
            }
            return false;
        }
        let counter = Frame { buffer: &self.bytes[..] }.counter();
        self.counts.counter_gaps += u64::from(expected.is_some_and(|expected| expected != counter));
        self.expected = Some(counter);
        (self.good, self.bad) = (self.good.saturating_add(1), 0);
        if self.lock == Lock::Testing && self.good >= LOCK_FRAMES {
            self.lock = Lock::Locked;
            self.counts.locks += 1;
        }
        let is_given_out = self.lock == Lock::Locked;
        self.counts.frames += u64::from(is_given_out);
        is_given_out
    }
}

/// Where in two words the first comma begins, and the disparity before it.
fn find_comma(bits: u32) -> Option<(u32, Disparity)> {
    (0..SYMBOL_BITS).find_map(|offset| {
        let seven = bits >> offset & 0x7f;
        COMMAS.iter().find(|(comma, _)| *comma == seven).map(|(_, disparity)| (offset, *disparity))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::km3net::tdm::{Repr, Slot, encode_frame};
    use crate::noise;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The bits of a line on which frames follow each other.
    struct Line {
        symbols: Vec<u16>,
    }

    impl Line {
        fn new(frames: u32) -> Self {
            let (mut symbols, mut disparity) = (Vec::new(), Disparity::default());
            let mut bytes = vec![0; FRAME_LEN];
            for counter in 0..frames {
                let slots = Slot::ALL.map(|slot| noise::bytes(counter.into(), slot.capacity()));
                Repr { counter, floor: 3, flags: 0, slots }.emit(&mut bytes);
                encode_frame(&bytes, &mut disparity, |symbol| symbols.push(symbol));
            }
            Self { symbols }
        }

        /// Ten bits from bit `at` on.
        fn word(&self, at: usize) -> Option<u16> {
            let symbols = self.symbols.get(at / 10..at / 10 + 2)?;
            let bits = u32::from(symbols[0]) | u32::from(symbols[1]) << 10;
            Some((bits >> (at % 10)) as u16 & MASK)
        }
    }

    /// Feeds a receiver from bit `at` on. Returns the counter of each frame given out, and the bits
    /// from its last one on the line until then.
    fn feed(receiver: &mut Receiver, line: &Line, mut at: usize) -> Vec<(u32, usize)> {
        let mut frames = Vec::new();
        while let Some(word) = line.word(at) {
            at += 10;
            let step = receiver.word(word);
            if let Some(frame) = step.frame {
                let last = (frame.counter() as usize * FRAME_SYMBOLS + FRAME_LEN) * 10;
                frames.push((frame.counter(), at - last));
            }
            at += step.slip as usize;
        }
        frames
    }

    #[test]
    fn the_third_good_frame_locks() {
        let line = Line::new(6);
        let mut receiver = Receiver::new(Alignment::Slip);
        let frames = feed(&mut receiver, &line, 9 * 10_000 + 3);
        let counters: Vec<_> = frames.iter().map(|(counter, _)| *counter).collect();
        assert_eq!(counters, [3, 4, 5]);
        assert_eq!(receiver.lock(), Lock::Locked);
        assert_eq!(*receiver.counts(), Counts { frames: 3, locks: 1, ..Counts::default() });
    }

    /// Bits from the last one of a frame until it is given out, after resets from random bits on.
    fn latencies(alignment: Alignment, resets: u64) -> BTreeSet<usize> {
        let line = Line::new(5);
        let mut receiver = Receiver::new(alignment);
        let mut latencies = BTreeSet::new();
        for reset in 0..resets {
            receiver.reset();
            let random = u64::from_le_bytes(noise::bytes(reset, 8).try_into().unwrap());
            let frames = feed(&mut receiver, &line, random as usize % (10 * FRAME_SYMBOLS));
            assert!(!frames.is_empty(), "reset {reset}");
            latencies.extend(frames.into_iter().map(|(_, latency)| latency));
        }
        latencies
    }

    /// Twelve hours with a reset every ten seconds, or a minute of them.
    fn resets() -> u64 {
        if std::env::var_os("GANNET_LONG").is_some_and(|long| long == "1") { 4320 } else { 60 }
    }

    #[test]
    fn the_latency_is_the_same_to_the_bit_after_every_reset() {
        assert_eq!(latencies(Alignment::Slip, resets()), BTreeSet::from([10]));
    }

    #[test]
    fn without_the_aligner_it_depends_on_the_reset() {
        assert_eq!(latencies(Alignment::Shift, resets()), (1..=10).collect());
    }

    #[test]
    fn two_bad_frames_lose_the_lock_and_three_good_ones_make_it_again() {
        let mut line = Line::new(12);
        for bad in [4, 6, 7] {
            line.symbols[bad * FRAME_SYMBOLS + 700] = 0;
        }
        let mut receiver = Receiver::new(Alignment::Slip);
        let frames = feed(&mut receiver, &line, 0);
        let counters: Vec<_> = frames.iter().map(|(counter, _)| *counter).collect();
        assert_eq!(counters, [2, 3, 5, 10, 11]);
        let counts = receiver.counts();
        assert_eq!((counts.code_errors, counts.bad_frames), (3, 3));
        assert_eq!((counts.locks, counts.losses, counts.counter_gaps), (2, 1, 0));
    }

    #[test]
    fn a_wrong_check_sum_and_a_counter_that_leaps_are_told_apart() {
        let (mut symbols, mut disparity) = (Vec::new(), Disparity::default());
        let mut bytes = vec![0; FRAME_LEN];
        for counter in [0, 1, 2, 3, 9, 10] {
            Repr { counter, ..Repr::default() }.emit(&mut bytes);
            bytes[700] = u8::from(counter == 3);
            encode_frame(&bytes, &mut disparity, |symbol| symbols.push(symbol));
        }
        let mut receiver = Receiver::new(Alignment::Slip);
        symbols.push(0);
        let frames =
            symbols.iter().filter_map(|&word| receiver.word(word).frame.map(|f| f.counter()));
        assert_eq!(frames.collect::<Vec<_>>(), [2, 9, 10]);
        let counts = receiver.counts();
        assert_eq!((counts.crc_errors, counts.bad_frames, counts.counter_gaps), (1, 1, 1));
        assert_eq!((counts.losses, counts.disparity_errors), (0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn no_words_make_it_panic_and_it_locks_behind_any(
            words in prop::collection::vec(any::<u16>(), 0..2000), at in 0..100_000_usize,
        ) {
            let mut receiver = Receiver::new(Alignment::Slip);
            words.iter().for_each(|&word| _ = receiver.word(word));
            let line = Line::new(9);
            prop_assert!(feed(&mut receiver, &line, at).last().is_some_and(|(counter, _)| *counter == 8));
        }
    }
}
