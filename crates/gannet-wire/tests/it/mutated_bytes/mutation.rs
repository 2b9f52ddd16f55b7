//! Damage as it happens, or as someone would make it on purpose.

/// SplitMix64: small, and each seed gives another sequence.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.bits().checked_rem(bound as u64).unwrap_or(0) as usize
    }

    /// Bytes of any value.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.bits() as u8).take(len).collect()
    }
}

/// Inputs stay below the largest UDP datagram.
const LEN_MAX: usize = 65_507;
/// Bytes at the front where headers lie, and damage is most interesting.
const HEADERS: usize = 160;

/// Changes `bytes` in one to four ways; `other` is something valid to borrow from.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        match random.below(8) {
            0 => flip_bit(bytes, random),
            1 | 2 => set_number(bytes, random),
            3 => set_noise(bytes, random),
            4 => bytes.truncate(random.below(bytes.len() + 1)),
            5 => append(bytes, random),
            6 => repeat(bytes, random),
            _ => splice(bytes, other, random),
        }
        bytes.truncate(LEN_MAX);
    }
}

/// A place, half of the time among the headers.
fn place(bytes: &[u8], random: &mut Random) -> usize {
    let end = if random.below(2) == 0 { bytes.len().min(HEADERS) } else { bytes.len() };
    random.below(end)
}

fn flip_bit(bytes: &mut [u8], random: &mut Random) {
    let at = place(bytes, random);
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// Puts a number that lengths and counts stumble over: at a limit, or near the true length.
fn set_number(bytes: &mut [u8], random: &mut Random) {
    let len = bytes.len() as u64;
    let values =
        [0, 1, 2, 7, 0x7f, 0xff, 0x7fff_ffff, u64::MAX, u64::MAX / 2, len, len + 1, len / 8];
    let value = values[random.below(values.len())];
    let width = 1 << random.below(4);
    let at = place(bytes, random) / width * width;
    let number = if random.below(4) == 0 { value.to_be_bytes() } else { value.to_le_bytes() };
    let number = &number[if number[0] == 0 { 8 - width } else { 0 }..][..width];
    if let Some(field) = bytes.get_mut(at..at + width) {
        field.copy_from_slice(number);
    }
}

fn set_noise(bytes: &mut [u8], random: &mut Random) {
    let at = place(bytes, random);
    let noise = random.bytes(16);
    bytes[at..].iter_mut().zip(noise).for_each(|(byte, value)| *byte = value);
}

fn append(bytes: &mut Vec<u8>, random: &mut Random) {
    let len = random.below(64);
    bytes.extend(random.bytes(len));
}

/// Says a stretch twice, as a datagram that was put together wrongly.
fn repeat(bytes: &mut Vec<u8>, random: &mut Random) {
    let start = place(bytes, random);
    let end = start + random.below((bytes.len() - start).min(2000) + 1);
    let stretch = bytes[start..end].to_vec();
    bytes.splice(end..end, stretch);
}

/// Goes on as something else.
fn splice(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    bytes.truncate(place(bytes, random));
    bytes.extend(&other[random.below(other.len())..]);
}
