//! An event of the RICH: its hits, and the truth about its rings.

use gannet_wire::na62::pm_map::{BOARD_CHANNELS, BOARDS};
use gannet_wire::na62::{Time, m2egp};
use serde::{Deserialize, Serialize};

/// A photomultiplier that saw light.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Channel, 0 to 2047.
    pub channel: u16,
    /// Time after the first hit of the event, in units of the fine time (97.5 ps).
    pub time: u8,
}

/// A ring as it was made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    /// Centre in the common plane, in mm.
    pub x: f32,
    /// Centre in the common plane, in mm.
    pub y: f32,
    /// Radius, in mm.
    pub radius: f32,
    /// Photomultipliers that saw it.
    pub hits: u16,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Its hits, board by board, and of each board in order of time.
    pub hits: Vec<Hit>,
    /// Its rings.
    pub rings: Vec<Ring>,
}

/// Fewest hits by which a ring can be told from noise.
const RING_HITS_MIN: u16 = 6;

impl Event {
    /// Hits of each board.
    pub fn boards(&self) -> [u8; BOARDS] {
        let mut boards = [0; BOARDS];
        for hit in &self.hits {
            boards[usize::from(hit.channel) / BOARD_CHANNELS] += 1;
        }
        boards
    }

    /// What stands in the two last bytes of the header of a merged event: the number of rings, and
    /// how many of them have 6 hits or more, at most 3.
    pub fn labels(&self) -> [u8; 2] {
        let found = self.rings.iter().filter(|ring| ring.hits >= RING_HITS_MIN).count();
        [self.rings.len() as u8, found.min(3) as u8]
    }

    /// Appends the event to `out` as a merged event (M2EGP) at `time`, with the
    /// [`labels`](Self::labels) in its header.
    pub fn write_m2egp(&self, time: Time, out: &mut Vec<u8>) {
        let [label_0, label_1] = self.labels();
        let header =
            m2egp::HeaderRepr { label_0, label_1, ..m2egp::HeaderRepr::new(time, self.boards()) };
        let begin = out.len();
        out.resize(begin + header.event_len(), 0);
        m2egp::emit(&header, self.hits.iter().map(|hit| hit.channel), &mut out[begin..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_event_is_written_as_the_example_of_the_format() {
        let hit = |channel| Hit { channel, time: 0 };
        let ring = |hits| Ring { x: 0.0, y: 0.0, radius: 180.0, hits };
        let event = Event {
            hits: vec![hit(5), hit(510), hit(1030), hit(2047)],
            rings: vec![ring(5), ring(6)],
        };
        let mut bytes = Vec::new();
        event.write_m2egp(Time::new(0x0102_0304, 0x80), &mut bytes);
        let expected = [
            0x80, 4, 3, 2, 1, 4, 0xff, 0xff, 2, 0, 1, 1, 0, 0, 2, 1, //
            5, 0, 0xfe, 1, 6, 4, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
        event.write_m2egp(Time::default(), &mut bytes);
        assert_eq!(bytes.len(), 64);
    }
}
