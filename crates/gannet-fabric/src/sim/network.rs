//! The network: one time, and the cables between endpoints.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gannet_measure::clock::Clock;
use gannet_measure::random::Random;

use super::path::{Path, Way};
use super::port::{Cable, Port, Sim};
use crate::exchange::Side;
use crate::own::Limits;
use crate::windows::Keys;

/// Paths between endpoints, and the time of all of them.
#[derive(Clone, Debug)]
pub struct Network(Arc<Mutex<State>>);

#[derive(Debug)]
pub(super) struct State {
    pub now: u64,
    seed: u64,
    /// Sequences of random numbers that were begun.
    sequences: u64,
    cables_made: u64,
    cables: BTreeMap<u64, Ways>,
}

/// Both ways of a cable, each seen from who sends.
#[derive(Debug)]
pub(super) struct Ways {
    connecting: Way,
    accepting: Way,
    /// Ends of the cable that are left.
    ends: u8,
}

impl Ways {
    /// The way of what is sent from a side, and that of what comes to it.
    pub fn from(&mut self, side: Side) -> (&mut Way, &mut Way) {
        match side {
            Side::Connecting => (&mut self.connecting, &mut self.accepting),
            Side::Accepting => (&mut self.accepting, &mut self.connecting),
        }
    }
}

impl State {
    fn random(&mut self) -> Random {
        self.sequences += 1;
        Random::stream(self.seed, self.sequences)
    }

    pub fn ways(&mut self, cable: u64) -> &mut Ways {
        self.cables.get_mut(&cable).expect("a cable is there as long as one of its ends")
    }

    /// Lets go of an end of a cable.
    pub fn end(&mut self, cable: u64, side: Side) {
        let now = self.now;
        let ways = self.ways(cable);
        ways.from(side).0.end(now);
        ways.ends -= 1;
        if ways.ends == 0 {
            self.cables.remove(&cable);
        }
    }

    /// When something happens next, after now.
    pub fn due(&self) -> u64 {
        let due = |ways: &Ways| ways.connecting.due(self.now).min(ways.accepting.due(self.now));
        self.cables.values().map(due).min().unwrap_or(u64::MAX)
    }
}

impl Network {
    /// A network without endpoints, at time 0. All that happens by chance follows from the seed.
    pub fn new(seed: u64) -> Self {
        let cables = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { now: 0, seed, sequences: 0, cables_made: 0, cables })))
    }

    /// An endpoint that is joined to nobody.
    ///
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub fn endpoint(&self, limits: Limits) -> Sim {
        let keys = Keys::Seed(self.lock().random());
        Sim::over(Port(self.clone()), limits, keys)
    }

    /// Both ends of a new cable, for two endpoints to join by `Sim::join`: what is sent at the first one goes `there`, and
    /// what is sent at the second one comes `back`.
    ///
    /// # Panics
    /// When a path has no hops, a hop has no rate, a share is not from 0 to 1, or packets have no bytes of data or more
    /// than there may be.
    pub fn cable(&self, there: Path, back: Path) -> [Cable; 2] {
        there.check();
        back.check();
        let mut state = self.lock();
        state.cables_made += 1;
        let number = state.cables_made;
        let (connecting, accepting) =
            (Way::new(there, state.random()), Way::new(back, state.random()));
        state.cables.insert(number, Ways { connecting, accepting, ends: 2 });
        [Side::Connecting, Side::Accepting].map(|side| Cable::new(self.clone(), number, side))
    }

    /// When something happens next; nothing ever, if nobody posts anything. To be asked after all endpoints have been
    /// polled, which sends what they have.
    pub fn due_ns(&self) -> Option<u64> {
        let due = self.lock().due();
        (due < u64::MAX).then_some(due)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The latest time that an endpoint was given.
impl Clock for Network {
    fn now_ns(&self) -> u64 {
        self.lock().now
    }
}
