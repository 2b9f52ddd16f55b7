//! 8b10b: bytes and control symbols as ten bits each, with as many ones as zeros over time.
//!
//! A byte is a block of five bits, EDCBA, and one of three, HGF; each is coded for itself as six and four
//! bits, abcdei and fghj, in one of two forms. The running disparity, which is -1 or +1 after each
//! block, chooses the form, so that ones and zeros balance. Control symbols (K) are told from all data
//! (D); the comma, 0011111 or 1100000, is in no sequence of other symbols. A symbol is a word of ten
//! bits here, a the least significant and first on the line.
//!
//! Source: A. X. Widmer and P. A. Franaszek, IBM Journal of Research and Development 27 (1983) 440.

/// Bits of a symbol.
pub const SYMBOL_BITS: u32 = 10;
/// The comma symbol: it opens a frame, and fills the line.
pub const K28_5: Symbol = Symbol::Control(0xbc);
/// The symbol that follows the comma at the begin of a frame.
pub const K28_1: Symbol = Symbol::Control(0x3c);

/// Codes of five bits for a running disparity of -1, `abcdei` written from left to right.
const SIX: [&[u8; 6]; 32] = [
    b"100111", b"011101", b"101101", b"110001", b"110101", b"101001", b"011001", b"111000",
    b"111001", b"100101", b"010101", b"110100", b"001101", b"101100", b"011100", b"010111",
    b"011011", b"100011", b"010011", b"110010", b"001011", b"101010", b"011010", b"111010",
    b"110011", b"100110", b"010110", b"110110", b"001110", b"101110", b"011110", b"101011",
];
/// Code of the five bits of K28 for a running disparity of -1.
const SIX_K28: &[u8; 6] = b"001111";
/// Codes of three bits for a running disparity of -1, `fghj` written from left to right.
const FOUR: [&[u8; 4]; 8] =
    [b"1011", b"1001", b"0101", b"1100", b"1101", b"1010", b"0110", b"1110"];
/// The other code of 7, which avoids five equal bits in a row.
const FOUR_7: &[u8; 4] = b"0111";
/// Codes of the three bits of K28 for a running disparity of -1, in front of which it is +1 on the line.
const FOUR_K28: [&[u8; 4]; 8] =
    [b"1011", b"0110", b"1010", b"1100", b"1101", b"0101", b"1001", b"0111"];

/// What ten bits stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A byte (D).
    Data(u8),
    /// A control symbol (K), by its byte.
    Control(u8),
}

/// The running disparity of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disparity {
    /// One more zero than ones: as a line begins.
    #[default]
    Minus,
    /// One more one than zeros.
    Plus,
}

/// A block of bits with its sum of ones less zeros.
const fn block<const N: usize>(text: &[u8; N]) -> (u16, i32) {
    let (mut bits, mut sum, mut at) = (0, 0, 0);
    while at < N {
        if text[at] == b'1' {
            bits |= 1 << at;
            sum += 1;
        } else {
            sum -= 1;
        }
        at += 1;
    }
    (bits, sum)
}

/// A block in the form for `disparity`, and the disparity behind it. Blocks of as many ones as zeros
/// have one form, but for those of `alternates`.
const fn form(
    (bits, sum): (u16, i32),
    width: u32,
    alternates: bool,
    disparity: Disparity,
) -> (u16, Disparity) {
    let inverted = !bits & ((1 << width) - 1);
    let next = match (disparity, sum) {
        (same, 0) => same,
        (Disparity::Minus, _) => Disparity::Plus,
        (Disparity::Plus, _) => Disparity::Minus,
    };
    match disparity {
        Disparity::Plus if sum != 0 || alternates => (inverted, next),
        _ => (bits, next),
    }
}

/// The ten bits of a symbol after `disparity`, and the disparity behind it.
///
/// # Panics
/// For a control symbol other than K28.0 to K28.7.
pub const fn encode(symbol: Symbol, disparity: Disparity) -> (u16, Disparity) {
    let (byte, is_control) = match symbol {
        Symbol::Data(byte) => (byte, false),
        Symbol::Control(byte) => (byte, true),
    };
    let (five, three) = (byte & 0x1f, byte >> 5);
    assert!(!is_control || five == 28, "control symbols are K28");
    let six = if is_control { block(SIX_K28) } else { block(SIX[five as usize]) };
    // D.7 has three ones and yet two forms.
    let (first, middle) = form(six, 6, !is_control && five == 7, disparity);
    let is_other_7 = three == 7
        && match middle {
            Disparity::Minus => matches!(five, 17 | 18 | 20),
            Disparity::Plus => matches!(five, 11 | 13 | 14),
        };
    let four = if is_control {
        block(FOUR_K28[three as usize])
    } else if is_other_7 {
        block(FOUR_7)
    } else {
        block(FOUR[three as usize])
    };
    // D.x.3 has two ones and yet two forms, and so have all of K28.
    let (second, last) = form(four, 4, is_control || three == 3, middle);
    (first | second << 6, last)
}

/// A symbol, and the disparity behind it.
type Entry = Option<(Symbol, Disparity)>;

/// What ten bits stand for, by all that `encode` makes.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// For each ten bits: the symbol after a disparity of -1 and after one of +1.
    table: Box<[[Entry; 2]; 1 << SYMBOL_BITS]>,
}

/// What a receiver makes of ten bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A symbol.
    Symbol(Symbol),
    /// A symbol that does not occur after this disparity.
    WrongDisparity(Symbol),
    /// No symbol.
    Invalid,
}

impl Default for Decoder {
    fn default() -> Self {
        let mut table = Box::new([[None; 2]; 1 << SYMBOL_BITS]);
        let symbols =
            (0..=255).map(Symbol::Data).chain((0..8).map(|x| Symbol::Control(x << 5 | 28)));
        for symbol in symbols {
            for disparity in [Disparity::Minus, Disparity::Plus] {
                let (bits, next) = encode(symbol, disparity);
                table[usize::from(bits)][disparity as usize] = Some((symbol, next));
            }
        }
        Self { table }
    }
}

impl Decoder {
    /// Reads the low ten bits of `bits`, and goes on with the disparity.
    pub fn decode(&self, bits: u16, disparity: &mut Disparity) -> Decoded {
        let entries = self.table[usize::from(bits & ((1 << SYMBOL_BITS) - 1))];
        if let Some((symbol, next)) = entries[*disparity as usize] {
            *disparity = next;
            return Decoded::Symbol(symbol);
        }
        // The other disparity is the one to go on with: it is what the sender has.
        match entries.into_iter().flatten().next() {
            Some((symbol, next)) => {
                *disparity = next;
                Decoded::WrongDisparity(symbol)
            }
            None => Decoded::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn text(symbol: Symbol, disparity: Disparity) -> String {
        let (bits, _) = encode(symbol, disparity);
        (0..10).map(|bit| if bits >> bit & 1 == 1 { '1' } else { '0' }).collect()
    }

    fn symbols() -> impl Iterator<Item = Symbol> {
        (0..=255).map(Symbol::Data).chain((0..8).map(|x| Symbol::Control(x << 5 | 28)))
    }

    #[test]
    fn symbols_are_the_published_ones() {
        let (minus, plus) = (Disparity::Minus, Disparity::Plus);
        assert_eq!(text(K28_5, minus), "0011111010");
        assert_eq!(text(K28_5, plus), "1100000101");
        assert_eq!(text(K28_1, minus), "0011111001");
        assert_eq!(text(K28_1, plus), "1100000110");
        assert_eq!(text(Symbol::Data(0x00), minus), "1001110100");
        assert_eq!(text(Symbol::Data(0x00), plus), "0110001011");
        // D21.5 has one form, D7.3 two in each block, D11.7 and D17.7 the other code of 7.
        assert_eq!(text(Symbol::Data(0xb5), minus), "1010101010");
        assert_eq!(text(Symbol::Data(0xb5), plus), "1010101010");
        assert_eq!(text(Symbol::Data(0x67), minus), "1110001100");
        assert_eq!(text(Symbol::Data(0x67), plus), "0001110011");
        assert_eq!(text(Symbol::Data(0xeb), plus), "1101001000");
        assert_eq!(text(Symbol::Data(0xf1), minus), "1000110111");
    }

    #[test]
    fn every_symbol_is_read_back_and_no_two_are_alike() {
        let decoder = Decoder::default();
        for disparity in [Disparity::Minus, Disparity::Plus] {
            let mut seen = HashSet::new();
            for symbol in symbols() {
                let (bits, next) = encode(symbol, disparity);
                assert!(seen.insert(bits), "{symbol:?}");
                let mut running = disparity;
                assert_eq!(decoder.decode(bits, &mut running), Decoded::Symbol(symbol));
                assert_eq!(running, next);
                // Four to six ones, and the disparity says which.
                let sum = 2 * bits.count_ones() as i32 - 10;
                let change = next as i32 - disparity as i32;
                assert_eq!(sum, 2 * change, "{symbol:?} after {disparity:?}");
            }
        }
    }

    #[test]
    fn no_more_than_five_equal_bits_follow_each_other_and_no_comma_is_in_data() {
        for (first, second) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
            for disparity in [Disparity::Minus, Disparity::Plus] {
                let (low, middle) = encode(Symbol::Data(first), disparity);
                let (high, _) = encode(Symbol::Data(second), middle);
                let bits = u32::from(low) | u32::from(high) << 10;
                for at in 0..=13 {
                    let seven = bits >> at & 0x7f;
                    assert!(seven != 0b111_1100 && seven != 0b000_0011, "{first:x} {second:x}");
                }
                assert!((0..=14).all(|at| !matches!(bits >> at & 0x3f, 0 | 0x3f)));
            }
        }
    }

    #[test]
    fn wrong_bits_are_told_from_a_wrong_disparity() {
        let decoder = Decoder::default();
        let mut disparity = Disparity::Plus;
        let (bits, _) = encode(K28_5, Disparity::Minus);
        assert_eq!(decoder.decode(bits, &mut disparity), Decoded::WrongDisparity(K28_5));
        assert_eq!(disparity, Disparity::Plus);
        assert_eq!(decoder.decode(0, &mut disparity), Decoded::Invalid);
    }
}
