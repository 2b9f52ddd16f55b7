//! The endpoints that one is joined to, by number.

use crate::endpoint::Peer;
use crate::exchange::JoinError;

/// What a backend has of each endpoint that it is joined to.
#[derive(Debug)]
pub(crate) struct Peers<J> {
    /// By number modulo the most there may be.
    slots: Vec<Option<(Peer, J)>>,
    /// Places of the list above that were ever used.
    used: usize,
    joined: u32,
}

impl<J> Peers<J> {
    pub fn new(peers_max: usize) -> Self {
        Self { slots: (0..peers_max).map(|_| None).collect(), used: 0, joined: 0 }
    }

    /// A slot for one more.
    pub fn free(&self) -> Result<usize, JoinError> {
        let free = self.slots.iter().position(Option::is_none);
        free.ok_or(JoinError::TooMany(self.slots.len()))
    }

    /// Adds one in a free slot, and gives its number.
    pub fn insert(&mut self, slot: usize, joint: J) -> Peer {
        // Numbers are not used again soon: each is its slot and how often one was given.
        let slots = self.slots.len() as u32;
        let peer = Peer(self.joined * slots + slot as u32);
        self.joined = (self.joined + 1) % (u32::MAX / slots);
        self.slots[slot] = Some((peer, joint));
        self.used = self.used.max(slot + 1);
        peer
    }

    #[inline]
    pub fn find(&mut self, peer: Peer) -> Option<&mut J> {
        let slot = peer.0 as usize % self.slots.len();
        match &mut self.slots[slot] {
            Some((number, joint)) if *number == peer => Some(joint),
            _ => None,
        }
    }

    /// The one in a slot, any number.
    #[inline]
    pub fn at(&mut self, slot: usize) -> Option<(Peer, &mut J)> {
        self.slots.get_mut(slot)?.as_mut().map(|(peer, joint)| (*peer, joint))
    }

    pub fn remove(&mut self, peer: Peer) -> Option<J> {
        let slot = peer.0 as usize % self.slots.len();
        self.slots[slot].take_if(|(number, _)| *number == peer).map(|(_, joint)| joint)
    }

    /// The slots in which there may be one.
    pub fn slots(&self) -> std::ops::Range<usize> {
        0..self.used
    }

    /// The numbers of all.
    pub fn numbers(&self) -> Vec<Peer> {
        self.slots.iter().flatten().map(|&(peer, _)| peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_found_after_its_end() {
        let mut peers = Peers::new(2);
        let slot = peers.free().unwrap();
        let first = peers.insert(slot, 'a');
        assert_eq!((peers.slots(), peers.find(first).copied()), (0..1, Some('a')));
        assert_eq!(peers.remove(first), Some('a'));
        let next = peers.insert(slot, 'b');
        assert!(next != first && peers.find(first).is_none() && peers.remove(first).is_none());
        assert_eq!(peers.numbers(), [next]);
        let last = peers.free().unwrap();
        peers.insert(last, 'c');
        assert!(matches!(peers.free(), Err(JoinError::TooMany(2))));
    }
}
