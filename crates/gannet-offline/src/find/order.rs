//! Primitives of all streams in one order of time.

use gannet_wire::TriggerPrimitive;

/// Longest hit: its samples are counted to 32767 at most, and its start is told from its end. With
/// 32 ticks a sample and a frame behind it.
const HIT_TICKS_MAX: u64 = 32_768 * 32 + 2048;
/// Primitives that wait at most, 400 MB; beyond it the older half goes on, and what then comes
/// before it is out of order.
const WAITING_MAX: usize = 1 << 24;

/// Holds primitives back until none that starts earlier can come.
#[derive(Debug, Default)]
pub(super) struct TimeOrder {
    waiting: Vec<TriggerPrimitive>,
    /// Start of the last primitive that was given out.
    last: u64,
    /// Primitives that were given out behind one that starts later.
    pub out_of_order: u64,
}

/// All of a primitive, so that the order is total.
pub(super) fn key(tp: &TriggerPrimitive) -> (u64, u32, u64, u64) {
    (tp.time_start(), tp.channel(), tp.words[0], tp.words[2])
}

impl TimeOrder {
    /// Takes primitives; those of one call are best sorted.
    pub fn add(&mut self, found: &[TriggerPrimitive]) {
        self.waiting.extend_from_slice(found);
    }

    /// Gives out what starts before all that can still be found in frames from tick `complete_to`
    /// on.
    pub fn release<E>(
        &mut self,
        complete_to: u64,
        give: impl FnMut(TriggerPrimitive) -> Result<(), E>,
    ) -> Result<(), E> {
        // Runs that are sorted already are merged, not sorted again.
        self.waiting.sort_by_key(key);
        let limit = match complete_to {
            u64::MAX => u64::MAX,
            ticks => ticks.saturating_sub(HIT_TICKS_MAX),
        };
        let mut ready = self.waiting.partition_point(|tp| tp.time_start() < limit);
        if limit == u64::MAX {
            ready = self.waiting.len();
        } else if self.waiting.len() - ready > WAITING_MAX {
            ready += (self.waiting.len() - ready) / 2;
        }
        let last = &mut self.last;
        for tp in &self.waiting[..ready] {
            self.out_of_order += u64::from(tp.time_start() < *last);
            *last = tp.time_start().max(*last);
        }
        self.waiting.drain(..ready).try_for_each(give)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const START: u64 = 1 << 40;

    fn tp(start: u64, channel: u64) -> TriggerPrimitive {
        TriggerPrimitive { words: [2 | channel << 24, start, 0] }
    }

    fn released(order: &mut TimeOrder, complete_to: u64) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        let give = |tp: TriggerPrimitive| {
            out.push((tp.time_start() - START, tp.channel()));
            Ok::<(), Infallible>(())
        };
        order.release(complete_to, give).unwrap();
        out
    }

    #[test]
    fn nothing_goes_before_the_longest_hit_is_over() {
        let mut order = TimeOrder::default();
        order.add(&[tp(START + 5, 1), tp(START, 2), tp(START + 5, 0)]);
        assert_eq!(released(&mut order, START + HIT_TICKS_MAX), []);
        assert_eq!(released(&mut order, START + HIT_TICKS_MAX + 1), [(0, 2)]);
        order.add(&[tp(START + 4, 3)]);
        assert_eq!(released(&mut order, u64::MAX), [(4, 3), (5, 0), (5, 1)]);
        assert_eq!(order.out_of_order, 0);
    }

    #[test]
    fn what_comes_too_late_is_counted_and_given_out() {
        let mut order = TimeOrder::default();
        order.add(&[tp(START + 9, 1)]);
        assert_eq!(released(&mut order, START + 10 + HIT_TICKS_MAX).len(), 1);
        order.add(&[tp(START + 3, 1), tp(START + 9, 1)]);
        assert_eq!(released(&mut order, u64::MAX), [(3, 1), (9, 1)]);
        assert_eq!(order.out_of_order, 1);
    }
}
