//! What can be reached from a node.

use gannet_lattice::{Direction, Node};

/// A breadth-first search over nodes whose memory is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// Number of the last search that saw a node.
    seen: Vec<u32>,
    number: u32,
    found: Vec<Node>,
}

impl Search {
    pub fn new(nodes: usize) -> Self {
        Self { seen: vec![0; nodes], found: Vec::with_capacity(nodes), ..Self::default() }
    }

    /// Forgets what was seen.
    pub fn begin(&mut self) {
        if self.number == u32::MAX {
            self.number = 0;
            self.seen.fill(0);
        }
        self.number += 1;
    }

    /// Whether a node was seen since [`begin`](Self::begin).
    pub fn has_seen(&self, node: Node) -> bool {
        self.seen[node.index()] == self.number
    }

    /// Goes from `start` wherever `step` leads and was not seen, to a node that `is_goal`; whether
    /// there is one.
    pub fn run(
        &mut self,
        start: Node,
        is_goal: impl Fn(Node) -> bool,
        step: impl Fn(Node, Direction) -> Option<Node>,
    ) -> bool {
        self.found.clear();
        self.visit(start);
        let mut next = 0;
        while next < self.found.len() {
            let node = self.found[next];
            next += 1;
            if is_goal(node) {
                return true;
            }
            for other in Direction::ALL.into_iter().filter_map(|direction| step(node, direction)) {
                self.visit(other);
            }
        }
        false
    }

    /// What the last [`run`](Self::run) came to; all that can be reached if it found no goal.
    pub fn found(&self) -> &[Node] {
        &self.found
    }

    fn visit(&mut self, node: Node) {
        let seen = &mut self.seen[node.index()];
        if *seen != self.number {
            *seen = self.number;
            self.found.push(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of three, joined along x.
    fn step(node: Node, direction: Direction) -> Option<Node> {
        match (direction, node.0 % 3) {
            (Direction::XPlus, 0 | 1) => Some(Node(node.0 + 1)),
            (Direction::XMinus, 1 | 2) => Some(Node(node.0 - 1)),
            _ => None,
        }
    }

    #[test]
    fn a_search_ends_at_the_goal_or_with_all_that_can_be_reached() {
        let mut search = Search::new(6);
        search.begin();
        assert!(search.run(Node(0), |node| node == Node(1), step));
        search.begin();
        assert!(!search.run(Node(1), |node| node.0 > 2, step));
        assert_eq!(search.found(), [Node(1), Node(2), Node(0)]);
        assert!(search.has_seen(Node(2)) && !search.has_seen(Node(3)));
        assert!(!search.run(Node(4), |_| false, step), "on, with the same memory");
        assert_eq!(search.found(), [Node(4), Node(5), Node(3)]);
        assert!(search.has_seen(Node(2)));
    }

    #[test]
    fn numbers_of_searches_may_run_out() {
        let mut search = Search::new(6);
        search.begin();
        search.run(Node(3), |_| false, step);
        search.number = u32::MAX;
        search.begin();
        assert!(search.number == 1 && !search.has_seen(Node(3)));
    }
}
