//! What the level-0 trigger is told of an event: 16 bits.

use gannet_kernels::rings::Ring;

/// Radii that tell one class of rings from the next, in mm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RadiusClasses {
    /// Rings of at least this radius may be of a muon.
    pub muon_mm: f32,
    /// Rings of at least this radius may be of an electron.
    pub electron_mm: f32,
}

/// Identifier of a primitive of the RICH, as we lay it out; the experiment's own is configuration of its
/// boards and not published.
///
/// ```text
/// 15  14  13..11  10        9     8     7        6              5..0
/// 0   1   rings   electron  muon  pion  missing  late (answer)  0
/// ```
///
/// Bit 14 keeps the upper byte from being zero, by which a primitive is told from a time word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimitiveId(pub u16);

impl PrimitiveId {
    const IS_RICH: u16 = 1 << 14;
    const RINGS_SHIFT: u32 = 11;
    const ELECTRON: u16 = 1 << 10;
    const MUON: u16 = 1 << 9;
    const PION: u16 = 1 << 8;
    const MISSING: u16 = 1 << 7;
    const LATE: u16 = 1 << 6;

    /// What is told of an event with these rings, of which data of the boards in `missing` are missing.
    #[inline]
    pub fn of(rings: &[Ring], missing: u8, classes: &RadiusClasses) -> Self {
        let mut id = Self::IS_RICH | (rings.len().min(7) as u16) << Self::RINGS_SHIFT;
        for ring in rings {
            id |= match ring.radius {
                radius if radius >= classes.electron_mm => Self::ELECTRON,
                radius if radius >= classes.muon_mm => Self::MUON,
                _ => Self::PION,
            };
        }
        id |= if missing != 0 { Self::MISSING } else { 0 };
        Self(id)
    }

    /// The same, in an answer that is late.
    pub fn late(self) -> Self {
        Self(self.0 | Self::LATE)
    }

    /// Rings of the event.
    pub fn rings(self) -> u8 {
        (self.0 >> Self::RINGS_SHIFT & 7) as u8
    }

    /// Whether data of a board were missing.
    pub fn is_incomplete(self) -> bool {
        self.0 & Self::MISSING != 0
    }

    /// Whether the answer was late.
    pub fn is_late(self) -> bool {
        self.0 & Self::LATE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_tell_rings_classes_and_what_is_wrong() {
        let classes = RadiusClasses { muon_mm: 160.0, electron_mm: 186.0 };
        let of = |radii: &[f32], missing: u8| {
            let ring = |radius: &f32| Ring { radius: *radius, ..Ring::default() };
            let rings: Vec<_> = radii.iter().map(ring).collect();
            PrimitiveId::of(&rings, missing, &classes)
        };
        assert_eq!(of(&[], 0).0, 0x4000);
        assert_eq!(of(&[189.0], 0).0, 0x4c00);
        assert_eq!(of(&[159.0, 170.0], 4).0, 0x4000 | 2 << 11 | 0x200 | 0x100 | 0x80);
        let late = of(&[120.0; 5], 0).late();
        assert_eq!((late.rings(), late.is_late(), late.is_incomplete()), (5, true, false));
        assert_ne!(late.0 >> 8, 0);
    }
}
