//! What signals mean while a run drains.

use crate::signals::Signals;

/// What whoever sent the signals wants now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// None came.
    Patient,
    /// The second signal: to know what is waited for.
    Asks,
    /// The third: the end.
    GivesUp,
}

/// Counts the signals that come during a drain.
pub struct Patience<'a> {
    signals: &'a Signals,
    /// Requests before the drain: none if the time of the run was over.
    before: u32,
    heard: u32,
}

impl<'a> Patience<'a> {
    /// Counts those that come from now on.
    pub fn new(signals: &'a Signals) -> Self {
        Self { signals, before: signals.requests(), heard: 0 }
    }

    /// What they want now.
    pub fn turn(&mut self) -> Turn {
        let requests = self.signals.requests() - self.before;
        if requests == self.heard {
            return Turn::Patient;
        }
        self.heard = requests;
        if self.is_over() { Turn::GivesUp } else { Turn::Asks }
    }

    fn is_over(&self) -> bool {
        self.heard > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGINT, SIGTERM};

    #[test]
    fn the_second_signal_of_a_drain_asks_and_the_third_gives_up() {
        for begun_by_signal in [true, false] {
            let signals = Signals::none();
            if begun_by_signal {
                signals.simulate(SIGINT);
            }
            let mut patience = Patience::new(&signals);
            assert_eq!(patience.turn(), Turn::Patient);
            for (signal, turn) in [(SIGINT, Turn::Asks), (SIGTERM, Turn::GivesUp)] {
                signals.simulate(signal);
                assert_eq!((patience.turn(), patience.turn()), (turn, Turn::Patient));
            }
            assert!(patience.is_over());
        }
    }
}
