//! Hits that another photomultiplier of the module confirms: L1, and with a limit of the angle, L2.

use gannet_wire::km3net::CHANNELS;

use super::near::near_next;
use super::{CalibratedHit, Partners, WINDOW_NS, run};
use crate::isa::{Isa, IsaError, Kernel};

/// When a hit is confirmed.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Most time between the two, ns.
    pub window_ns: u32,
    /// Photomultipliers that coincide.
    pub partners: Partners,
}

impl Default for Rule {
    /// L1: 10 ns, any other photomultiplier.
    fn default() -> Self {
        Self { window_ns: WINDOW_NS, partners: Partners::all() }
    }
}

/// Finds the hits with at least one other hit on a partner of their photomultiplier in the window.
#[derive(Clone, Debug)]
pub struct Confirmed {
    kernel: Kernel,
    rule: Rule,
}

impl Confirmed {
    /// The finder of a rule.
    ///
    /// # Errors
    /// When this machine lacks the instruction set.
    pub fn new(rule: Rule, isa: Isa) -> Result<Self, IsaError> {
        Ok(Self { kernel: Kernel::of(isa)?, rule })
    }

    /// Appends the confirmed of `hits`, which are in order of time, in their order.
    pub fn find(&self, hits: &[CalibratedHit], found: &mut Vec<CalibratedHit>) {
        match self.kernel {
            Kernel::Scalar => self.find_in(hits, found),
            kernel => run(kernel, || self.find_in_runs(hits, found)),
        }
    }

    /// Hits that are further from their neighbours than the window are passed over.
    #[inline(always)]
    fn find_in_runs(&self, hits: &[CalibratedHit], found: &mut Vec<CalibratedHit>) {
        let mut start = 0;
        while start + 1 < hits.len() {
            start = near_next(hits, start, self.rule.window_ns);
            let pairs = hits[start..].windows(2);
            let near =
                |pair: &&[CalibratedHit]| pair[1].time() - pair[0].time() <= self.rule.window_ns;
            let end = start + 1 + pairs.take_while(near).count();
            if end - start > 1 {
                self.find_in(&hits[start..end], found);
            }
            start = end;
        }
    }

    /// The window goes along the hits; it knows how many hits it has on each photomultiplier.
    #[inline(always)]
    fn find_in(&self, hits: &[CalibratedHit], found: &mut Vec<CalibratedHit>) {
        let Rule { window_ns, partners } = &self.rule;
        let (mut counts, mut lit) = ([0_u32; CHANNELS + 1], 0_u32);
        let (mut first, mut end) = (0, 0);
        for &hit in hits {
            while end < hits.len() && hits[end].time().saturating_sub(hit.time()) <= *window_ns {
                let place = usize::from(hits[end].channel()) % counts.len();
                counts[place] += 1;
                lit |= 1 << place;
                end += 1;
            }
            while hit.time() - hits[first].time() > *window_ns {
                let place = usize::from(hits[first].channel()) % counts.len();
                counts[place] -= 1;
                lit &= !(u32::from(counts[place] == 0) << place);
                first += 1;
            }
            if lit & partners.mask(hit.channel()) != 0 {
                found.push(hit);
            }
        }
    }
}
