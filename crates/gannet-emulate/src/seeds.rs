//! Independent families of random numbers from the one seed of a configuration.
//!
//! Every draw is keyed by what it is for and by the item it belongs to, never by what was drawn
//! before: so any frame can be made again alone, in any order.

use gannet_measure::random::Random;

/// What random numbers are drawn for.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Purpose {
    /// Pedestals and noise blocks of a plane pattern.
    Noise = 1,
    /// Which noise block a frame carries.
    Choice,
    /// Tracks of a time slot.
    Tracks,
    /// Deposits of a time slot.
    Deposits,
    /// Faults of a frame.
    Faults,
    /// Rings of an event.
    Rings,
    /// Muons and showers of a slice.
    Light,
}

/// Seed of the family for `purpose` and `member` (a stream, for example).
pub(crate) fn family(seed: u64, purpose: Purpose, member: usize) -> u64 {
    let purpose = Random::stream(seed, purpose as u64).bits();
    Random::stream(purpose, member as u64).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_differ_by_seed_purpose_and_member() {
        let seeds = [
            family(1, Purpose::Noise, 0),
            family(2, Purpose::Noise, 0),
            family(1, Purpose::Choice, 0),
            family(1, Purpose::Noise, 1),
        ];
        for (i, a) in seeds.iter().enumerate() {
            assert!(seeds[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(family(1, Purpose::Faults, 7), family(1, Purpose::Faults, 7));
    }
}
