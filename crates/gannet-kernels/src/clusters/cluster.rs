//! Hits that match one of them, and what is left when those with few partners are taken away.

use core::ops::Range;

use super::columns::{Columns, places};
use super::light::Between;

/// A hit and others that match it.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub columns: Columns,
    /// Where each is in the buffer of all hits.
    pub members: Vec<usize>,
    modules: Vec<u32>,
    set: Vec<u64>,
    /// Partners of each, as rows of bits.
    rows: Vec<u64>,
    left: Vec<u64>,
}

impl Cluster {
    /// Takes hit `root` and those in `range` that are `such` seen from it. `of` tells place in the
    /// buffer and module of each.
    #[inline(always)]
    pub fn gather(
        &mut self,
        from: &Columns,
        root: usize,
        range: Range<usize>,
        of: impl Fn(usize) -> (usize, u32),
        such: impl Fn(Between) -> bool,
    ) {
        self.columns.clear();
        self.members.clear();
        self.modules.clear();
        self.take(from, root, of(root));
        let mut set = core::mem::take(&mut self.set);
        set.resize(range.len().div_ceil(64), 0);
        from.ask(root, range.clone(), &mut set, such);
        for place in places(&set) {
            self.take(from, range.start + place, of(range.start + place));
        }
        self.set = set;
    }

    #[inline(always)]
    fn take(&mut self, from: &Columns, hit: usize, (member, module): (usize, u32)) {
        let (at, time) = from.get(hit);
        self.columns.push(at, time);
        self.members.push(member);
        self.modules.push(module);
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Place in the buffer and module of a hit.
    #[inline(always)]
    pub fn of(&self, hit: usize) -> (usize, u32) {
        (self.members[hit], self.modules[hit])
    }

    /// Takes hits away that have fewer than `least` partners among those left, until there are none
    /// such. In which order they go makes no difference.
    #[inline(always)]
    pub fn prune(&mut self, least: usize, such: impl Fn(Between) -> bool) {
        let words = self.len().div_ceil(64);
        self.rows.resize(self.len() * words, 0);
        self.left.clear();
        self.left.resize(words, 0);
        for (hit, row) in self.rows.chunks_exact_mut(words).enumerate() {
            self.columns.ask(hit, 0..self.members.len(), row, &such);
            row[hit / 64] &= !(1 << (hit % 64));
            self.left[hit / 64] |= 1 << (hit % 64);
        }
        let mut before = self.len();
        loop {
            let mut count = 0;
            for (hit, row) in self.rows.chunks_exact(words).enumerate() {
                let (word, bit) = (hit / 64, 1 << (hit % 64));
                if self.left[word] & bit != 0 {
                    let both = row.iter().zip(&self.left).map(|(a, b)| (a & b).count_ones());
                    match (both.sum::<u32>() as usize) < least {
                        true => self.left[word] &= !bit,
                        false => count += 1,
                    }
                }
            }
            if count == before {
                return;
            }
            before = count;
        }
    }

    /// Places in the buffer of the hits that are left.
    #[inline(always)]
    pub fn left(&self) -> impl Iterator<Item = usize> {
        places(&self.left).map(|hit| self.members[hit])
    }
}

/// Counts modules.
#[derive(Clone, Debug)]
pub(super) struct Census {
    /// By module, the last count that had it.
    seen: Vec<u64>,
    number: u64,
}

impl Census {
    pub fn new(modules: usize) -> Self {
        Self { seen: vec![0; modules], number: 0 }
    }

    /// Whether a cluster has hits on `least` modules.
    #[inline(always)]
    pub fn of_all(&mut self, cluster: &Cluster, least: usize) -> bool {
        self.number += 1;
        cluster.modules.iter().map(|&module| self.is_new(module)).sum::<usize>() >= least
    }

    /// Whether what is left of a cluster does.
    #[inline(always)]
    pub fn of_left(&mut self, cluster: &Cluster, least: usize) -> bool {
        self.number += 1;
        let left = places(&cluster.left);
        left.map(|hit| self.is_new(cluster.modules[hit])).sum::<usize>() >= least
    }

    #[inline(always)]
    fn is_new(&mut self, module: u32) -> usize {
        let seen = &mut self.seen[module as usize];
        let is_new = *seen != self.number;
        *seen = self.number;
        usize::from(is_new)
    }
}
