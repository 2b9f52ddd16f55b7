//! Keeping one of N.

/// Keeps every `factor`-th item that passes: the `factor`-th, the next after as many again, ...
///
/// Source: DUNE-DAQ/triggeralgs `TriggerActivityMaker.hpp`, `TriggerCandidateMaker.hpp`.
#[derive(Clone, Debug)]
pub struct Prescaler {
    factor: u64,
    passed: u64,
}

impl Prescaler {
    /// Keeps one of `factor`; a factor of 0 or 1 keeps all.
    pub const fn new(factor: u64) -> Self {
        Self { factor: if factor == 0 { 1 } else { factor }, passed: 0 }
    }

    /// Whether the item that passes now is kept.
    #[inline]
    pub fn keeps_next(&mut self) -> bool {
        self.passed += 1;
        if self.passed == self.factor {
            self.passed = 0;
        }
        self.passed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_nth_of_every_n() {
        let mut prescaler = Prescaler::new(3);
        let kept: Vec<_> = (1..=9).filter(|_| prescaler.keeps_next()).collect();
        assert_eq!(kept, [3, 6, 9]);
    }

    #[test]
    fn a_factor_of_one_keeps_all() {
        let mut prescaler = Prescaler::new(1);
        assert!((0..10).all(|_| prescaler.keeps_next()));
    }
}
