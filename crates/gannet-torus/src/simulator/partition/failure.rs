//! Links and nodes of a partition that fail.

use gannet_lattice::{Direction, Node};
use gannet_measure::random::Random;

use super::{Due, Partition};

impl<const V: usize> Partition<V> {
    /// Lost packets that wait to be sent again.
    pub fn waiting_again(&self) -> u64 {
        self.sources.iter().map(|source| source.again.len() as u64).sum()
    }

    /// Lets a link fail at the end of `node`, between two cycles.
    pub fn fail_link(&mut self, node: Node, direction: Direction, now: u32) {
        let Some(node) = self.local(node.0) else { return };
        let port = direction as u8;
        self.silence(node, port);
        let mut lost = Vec::new();
        self.routers[node].fail_output(port);
        self.routers[node].fail_input(port, &mut self.queues.of(node), |packet| lost.push(packet));
        lost.into_iter().for_each(|packet| self.lose(packet, now));
    }

    /// Takes what is on its way over a link away: flits that come in, and credits.
    fn silence(&mut self, node: usize, port: u8) {
        let channels = ((1u64 << V) - 1) << (usize::from(port) * V);
        for turn in &mut self.wheel {
            turn[node].flits &= !channels;
            turn[node].credits &= !channels;
        }
    }

    /// Takes a link back into service at the end of `node`, when its far end holds these flits.
    pub fn repair_link(&mut self, node: Node, direction: Direction, occupancy: [u16; V]) {
        let Some(node) = self.local(node.0) else { return };
        self.silence(node, direction as u8);
        self.routers[node].repair_output(direction as u8, occupancy, &self.rules);
    }

    /// Flits that `node` holds of the link in `direction`, if it is here.
    pub fn occupancy(&self, node: Node, direction: Direction) -> Option<[u16; V]> {
        Some(self.routers[self.local(node.0)?].occupancy(direction as u8))
    }

    /// Lets a node lose its power, after its links have failed at their far ends.
    pub fn fail_node(&mut self, node: Node, now: u32) {
        let Some(node) = self.local(node.0) else { return };
        for turn in &mut self.wheel {
            turn[node] = Due::default();
        }
        let mut lost = Vec::new();
        let queue = &mut self.queues.of(node);
        self.routers[node].fail(&self.rules, queue, |packet| lost.push(packet));
        self.sources[node].fail();
        lost.into_iter().for_each(|packet| self.lose(packet, now));
    }

    /// Lets the host of a node make no packets any more.
    pub fn hang_host(&mut self, node: Node) {
        if let Some(node) = self.local(node.0) {
            self.sources[node].hang();
        }
    }

    /// Lets a link damage this part of the packets that leave `node` over it.
    pub fn set_flaky(&mut self, node: Node, direction: Direction, loss: f64) {
        if let Some(node) = self.local(node.0) {
            self.flaky.insert((node, direction as usize), loss);
        }
    }

    /// Whether a packet that leaves over this link now is damaged on it.
    pub(super) fn is_damaged(&self, node: usize, port: usize, now: u32) -> bool {
        self.flaky.get(&(node, port)).is_some_and(|&loss| {
            let link = (u64::from(self.nodes.start) + node as u64) << 3 | port as u64;
            Random::stream(self.seed ^ link, u64::from(now)).chance(loss)
        })
    }
}
