//! A level-0 processor that takes answers, and counts those that are missing, late or doubled.

use std::ops::RangeInclusive;

use gannet_control::emulation::Role;
use gannet_ingest::continuity::Continuity;
use gannet_wire::na62::{FINE_CLOCK, FRAME_FINE_BITS, mtp};
use gannet_wire::{Rhythm, Step};

use crate::primitive::PrimitiveId;

/// Newest packets that are told apart one by one.
const WINDOW: usize = 64;
/// Bits of the number of 6.4 us that a packet tells.
const FRAME_BITS: u32 = 24;

/// Takes the answers of one detector.
#[derive(Debug)]
pub struct Level0 {
    continuity: Continuity,
    /// Number of the newest packet's 6.4 us, with the bits that a packet does not tell.
    newest: u64,
    packets: u64,
    damaged: u64,
    primitives: u64,
    late: u64,
    incomplete: u64,
    rings: [u64; 8],
}

impl Default for Level0 {
    fn default() -> Self {
        let sequence_modulus = 1 << FRAME_BITS;
        let rhythm =
            Rhythm { clock: FINE_CLOCK, step: Step::Fixed(1 << FRAME_FINE_BITS), sequence_modulus };
        Self {
            continuity: Continuity::new(&rhythm, WINDOW, 0),
            newest: 0,
            packets: 0,
            damaged: 0,
            primitives: 0,
            late: 0,
            incomplete: 0,
            rings: [0; 8],
        }
    }
}

impl Role for Level0 {
    fn lengths(&self) -> RangeInclusive<usize> {
        mtp::HEADER_LEN..=mtp::LEN_MAX
    }

    fn take(&mut self, datagram: &[u8], arrival_ns: u64) {
        let Ok(packet) = mtp::Packet::new_checked(datagram) else {
            self.damaged += 1;
            return;
        };
        self.packets += 1;
        let frame = packet.header().timestamp_high;
        let behind = (self.newest as u32).wrapping_sub(frame) << (32 - FRAME_BITS);
        let ahead = i64::from(behind as i32 >> (32 - FRAME_BITS));
        let number = self.newest.wrapping_sub(ahead as u64);
        self.newest = self.newest.max(number);
        let _ = self.continuity.frame(number << FRAME_FINE_BITS, frame, arrival_ns);
        for primitive in packet.primitives() {
            let id = PrimitiveId(primitive.id);
            self.primitives += 1;
            self.late += u64::from(id.is_late());
            self.incomplete += u64::from(id.is_incomplete());
            self.rings[usize::from(id.rings())] += 1;
        }
    }

    fn figures(&self) -> (Vec<(String, u64)>, bool) {
        let counts = self.continuity.counts();
        let mut figures = [
            ("packets", self.packets),
            ("missing", counts.missing),
            ("doubled", counts.duplicate),
            ("out of order", counts.late),
            ("out of step", counts.out_of_step),
            ("restarts", counts.restarts),
            ("damaged", self.damaged),
            ("primitives", self.primitives),
            ("late", self.late),
            ("with a missing board", self.incomplete),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec();
        let rings = (0..).zip(self.rings).filter(|(_, events)| *events > 0);
        figures.extend(rings.map(|(rings, events): (u8, u64)| {
            (format!("with {rings} ring{}", if rings == 1 { "" } else { "s" }), events)
        }));
        let wrong =
            counts.missing + counts.duplicate + counts.out_of_step + self.damaged + self.late;
        (figures, wrong == 0)
    }
}
