//! PCI Express: lanes, codes, and what headers leave.

use std::fmt;

use serde::Serialize;

/// A generation of PCI Express, 1 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Generation(u8);

/// Transfers of a lane in GT/s, and the share of them that the line code leaves; by generation.
///
/// Source: PCI Express Base Specification 6.0, section 1.2 and chapter 4: 8b/10b, then 128b/130b, then flits
/// of 256 bytes of which 236 are for packets.
const LANES: [(f64, f64); 6] = [
    (2.5, 0.8),
    (5.0, 0.8),
    (8.0, 128.0 / 130.0),
    (16.0, 128.0 / 130.0),
    (32.0, 128.0 / 130.0),
    (64.0, 236.0 / 256.0),
];

/// The first generation whose packets travel in flits.
const FLITS: u8 = 6;
/// Bytes around the header of a packet: framing and sequence number 4, LCRC 4. Flits have them for all.
const FRAMING_BYTES: u32 = 8;
/// Header of a write to a 64-bit address, in bytes.
const WRITE_HEADER_BYTES: u32 = 16;
/// Header of a completion, in bytes.
const COMPLETION_HEADER_BYTES: u32 = 12;

impl Generation {
    /// Generation `number`, if there is one.
    pub fn new(number: u8) -> Option<Self> {
        (1..=LANES.len() as u8).contains(&number).then_some(Self(number))
    }

    /// The generation whose lanes make `gt_per_s` transfers.
    pub fn of_speed(gt_per_s: f64) -> Option<Self> {
        let found = LANES.iter().position(|(speed, _)| *speed == gt_per_s)?;
        Self::new(found as u8 + 1)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    fn lane(self) -> (f64, f64) {
        LANES[usize::from(self.0) - 1]
    }

    /// What `lanes` carry before anything is taken off, GB/s: 16 for 16 lanes of the third.
    pub fn raw_gbyte_per_s(self, lanes: u8) -> f64 {
        self.lane().0 * f64::from(lanes) / 8.0
    }

    /// What the line code leaves of that, GB/s.
    pub fn link_gbyte_per_s(self, lanes: u8) -> f64 {
        self.raw_gbyte_per_s(lanes) * self.lane().1
    }
}

/// Prints `Gen3`.
impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gen{}", self.0)
    }
}

/// A link, and the packets on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieLink {
    /// Generation at which it runs.
    pub generation: Generation,
    /// Lanes that it has.
    pub lanes: u8,
    /// Most bytes of a packet's payload (MPS).
    pub payload_bytes: u32,
    /// Bytes of a completion; no more than `payload_bytes` counts. Some memories answer in pieces of 64.
    pub completion_bytes: u32,
}

impl PcieLink {
    /// A link whose completions are as long as its payloads may be.
    pub fn new(generation: Generation, lanes: u8, payload_bytes: u32) -> Self {
        Self { generation, lanes, payload_bytes, completion_bytes: payload_bytes }
    }

    /// What writes carry, GB/s.
    pub fn write_gbyte_per_s(&self) -> f64 {
        self.payload_rate(self.payload_bytes, WRITE_HEADER_BYTES)
    }

    /// What completions of reads carry, GB/s, if enough reads are under way.
    pub fn read_gbyte_per_s(&self) -> f64 {
        self.payload_rate(self.completion_bytes.min(self.payload_bytes), COMPLETION_HEADER_BYTES)
    }

    fn payload_rate(&self, payload: u32, header: u32) -> f64 {
        let framing = if self.generation.0 < FLITS { FRAMING_BYTES } else { 0 };
        let (payload, overhead) = (f64::from(payload), f64::from(header + framing));
        self.generation.link_gbyte_per_s(self.lanes) * payload / (payload + overhead)
    }
}

/// Prints `Gen3 x16, MPS 256 B`.
impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x{}, MPS {} B", self.generation, self.lanes, self.payload_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(number: u8) -> Generation {
        Generation::new(number).unwrap()
    }

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 0.005, "{found} is not {wanted}");
    }

    #[test]
    fn links_carry_what_their_code_leaves() {
        close(generation(3).raw_gbyte_per_s(16), 16.0);
        let links = [(3, 16, 15.754), (3, 8, 7.877), (2, 8, 4.0), (1, 1, 0.25), (4, 1, 1.969)];
        for (number, lanes, rate) in links {
            close(generation(number).link_gbyte_per_s(lanes), rate);
        }
        close(generation(5).link_gbyte_per_s(1), 3.938);
        close(generation(6).link_gbyte_per_s(1), 7.375);
    }

    #[test]
    fn headers_leave_what_the_table_says_of_16_lanes_of_the_third_generation() {
        let table = [(128, 13.27, 13.62), (256, 14.40, 14.61), (512, 15.05, 15.16)];
        for (payload, write, read) in table {
            let link = PcieLink::new(generation(3), 16, payload);
            close(link.write_gbyte_per_s(), write);
            close(link.read_gbyte_per_s(), read);
            let pieces = PcieLink { completion_bytes: 64, ..link };
            close(pieces.read_gbyte_per_s(), 12.00);
            let longer = PcieLink { completion_bytes: 4096, ..link };
            close(longer.read_gbyte_per_s(), read);
        }
    }

    #[test]
    fn generations_are_known_by_their_speed() {
        let numbers = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0].map(Generation::of_speed);
        assert_eq!(numbers.map(|found| found.unwrap().number()), [1, 2, 3, 4, 5, 6]);
        assert_eq!(Generation::of_speed(7.0).or(Generation::of_speed(f64::NAN)), None);
        assert_eq!(Generation::new(0).or(Generation::new(7)), None);
    }
}
