//! How often the packets from one node to another were numbered anew.

/// A number of an epoch, 1 to 255; after 255 comes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u8);

impl Epoch {
    /// What a node reports that has received nothing.
    pub const NONE: Self = Self(0);
    const COUNT: i16 = 255;

    /// The epoch of a number that a host has chosen; it may not choose [`Epoch::NONE`].
    pub fn first(number: u8) -> Self {
        Self(number.max(1))
    }

    /// The epoch, or none, of a field of a packet.
    pub fn from_number(number: u8) -> Self {
        Self(number)
    }

    pub fn number(self) -> u8 {
        self.0
    }

    pub fn next(self) -> Self {
        Self(self.0 % 255 + 1)
    }

    /// Whether this epoch comes after `other`, on the shorter way round; every epoch comes after
    /// none.
    pub fn is_after(self, other: Self) -> bool {
        if other == Self::NONE || self == Self::NONE {
            return self != Self::NONE;
        }
        let ahead = (i16::from(self.0) - i16::from(other.0)).rem_euclid(Self::COUNT);
        (1..=Self::COUNT / 2).contains(&ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_epochs_one_comes_after_the_other() {
        for a in 1..=255 {
            for b in 1..=255 {
                let (a, b) = (Epoch(a), Epoch(b));
                assert_eq!(a.is_after(b), a != b && !b.is_after(a), "{a:?} {b:?}");
            }
            assert!(Epoch(a).next().is_after(Epoch(a)) && Epoch(a).next() != Epoch::NONE);
            assert!(Epoch(a).is_after(Epoch::NONE) && !Epoch::NONE.is_after(Epoch(a)));
        }
    }
}
