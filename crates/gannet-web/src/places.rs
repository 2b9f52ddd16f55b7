//! Who holds the connections that there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::NEWCOMERS_SHARE;

/// The places for connections, counted by the address of the client.
pub(crate) struct Places {
    max: usize,
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// A place that is held until this is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, held: Mutex::default() }
    }

    /// A place for a client at `address`. The last ones are for addresses that hold none, so that a
    /// greedy host keeps no other out.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut held = self.held();
        let (taken, own) = (held.values().sum::<usize>(), held.get(&address).unwrap_or(&0));
        let kept = if *own == 0 { 0 } else { self.max / NEWCOMERS_SHARE };
        if taken + kept >= self.max {
            return None;
        }
        *held.entry(address).or_default() += 1;
        Some(Place { places: Arc::clone(self), address })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        if let Some(own) = held.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> IpAddr {
        [10, 0, 0, host].into()
    }

    #[test]
    fn a_greedy_host_leaves_places_for_others() {
        let places = Arc::new(Places::new(64));
        let take = |host| places.take(address(host));
        let mut greedy: Vec<_> = std::iter::from_fn(|| take(1)).collect();
        assert_eq!(greedy.len(), 56);
        let others: Vec<_> = (2..=9).map(take).collect();
        assert!(others.iter().all(Option::is_some));
        assert!(take(10).is_none() && take(1).is_none(), "all are held");
        greedy.truncate(48);
        assert!(take(2).is_none(), "eight are left, and it has one already");
        greedy.pop();
        assert!(take(2).is_some() && take(10).is_some());
        drop((greedy, others));
        assert!(places.held().is_empty());
    }

    #[test]
    fn a_single_place_is_for_anybody() {
        let places = Arc::new(Places::new(1));
        let place = places.take(address(1));
        assert!(place.is_some() && places.take(address(2)).is_none());
    }
}
