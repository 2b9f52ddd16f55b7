//! How items of all streams wait until no earlier one can come.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use crate::item::Item;

/// Items that wait, of all streams, which are given out by time, and among equal times in an order that does
/// not depend on how streams interleave.
pub trait Waiting<I>: fmt::Debug + Send + 'static {
    /// Room for the items of `streams` streams.
    fn new(streams: usize) -> Self;

    /// Takes an item of `stream`.
    fn push(&mut self, stream: usize, item: I);

    /// Takes items of `stream`.
    fn extend(&mut self, stream: usize, items: &[I])
    where
        I: Copy,
    {
        items.iter().for_each(|item| self.push(stream, *item));
    }

    /// How many wait.
    fn len(&self) -> usize;

    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of the one that is given out next.
    fn first_time(&self) -> Option<u64>;

    /// Gives all that begin before `tick` to `give`, in order; before the last tick of all, simply
    /// all. Says how many there were.
    fn release(&mut self, tick: u64, give: &mut impl FnMut(&I)) -> usize;
}

/// Items that streams bring in any order. Of items of one time that of the lower place goes first.
#[derive(Debug)]
pub struct AnyOrder<I>(BinaryHeap<Last<I>>);

/// An item in the heap: the greatest is the one to be given out next.
#[derive(Debug)]
struct Last<I>(I);

impl<I: Item> Ord for Last<I> {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&other.0, &self.0)
    }
}

impl<I: Item> PartialOrd for Last<I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<I: Item> PartialEq for Last<I> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<I: Item> Eq for Last<I> {}

/// Where it is decides among equal times, so that the output is deterministic.
fn order<I: Item>(one: &I, other: &I) -> Ordering {
    one.time().cmp(&other.time()).then_with(|| one.place().cmp(&other.place()))
}

impl<I: Item> Waiting<I> for AnyOrder<I> {
    fn new(_: usize) -> Self {
        Self(BinaryHeap::new())
    }

    fn push(&mut self, _: usize, item: I) {
        self.0.push(Last(item));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn first_time(&self) -> Option<u64> {
        self.0.peek().map(|first| first.0.time())
    }

    fn release(&mut self, tick: u64, give: &mut impl FnMut(&I)) -> usize {
        let before = self.0.len();
        while let Some(next) = self.0.peek_mut() {
            // The last tick of all has no successor, so a drain takes it too.
            if next.0.time() >= tick && tick != u64::MAX {
                break;
            }
            give(&PeekMut::pop(next).0);
        }
        before - self.0.len()
    }
}

/// Items of a few streams, each of which brings its own in order, or nearly: to give one out costs a
/// look at the first of each stream. Of items of one time that of the lower stream goes first.
#[derive(Debug)]
pub struct InOrder<I> {
    queues: Vec<VecDeque<I>>,
    /// Time of the first item of each queue; [`NONE`] of an empty one.
    first: Vec<u64>,
    len: usize,
}

/// Later than any item: no item of a merger begins at the last tick of all.
const NONE: u64 = u64::MAX;

impl<I: Item> InOrder<I> {
    /// The queue whose first item is given out next.
    #[inline]
    fn next(&self) -> usize {
        let (mut next, mut best) = (0, NONE);
        for (queue, &first) in self.first.iter().enumerate() {
            (next, best) = if first < best { (queue, first) } else { (next, best) };
        }
        next
    }
}

impl<I: Item> Waiting<I> for InOrder<I> {
    fn new(streams: usize) -> Self {
        let queues = (0..streams).map(|_| VecDeque::new()).collect();
        Self { queues, first: vec![NONE; streams], len: 0 }
    }

    #[inline]
    fn push(&mut self, stream: usize, item: I) {
        let queue = &mut self.queues[stream];
        let mut place = queue.len();
        while place > 0 && order(&item, &queue[place - 1]).is_lt() {
            place -= 1;
        }
        if place == queue.len() {
            queue.push_back(item);
        } else {
            queue.insert(place, item);
        }
        if place == 0 {
            self.first[stream] = item.time();
        }
        self.len += 1;
    }

    fn extend(&mut self, stream: usize, items: &[I]) {
        let queue = &mut self.queues[stream];
        let Some(first) = items.first() else { return };
        let is_behind = queue.back().is_none_or(|last| order(last, first).is_le());
        if !is_behind || !items.is_sorted_by(|one, next| order(one, next).is_le()) {
            return items.iter().for_each(|item| self.push(stream, *item));
        }
        if queue.is_empty() {
            self.first[stream] = first.time();
        }
        queue.extend(items);
        self.len += items.len();
    }

    fn len(&self) -> usize {
        self.len
    }

    fn first_time(&self) -> Option<u64> {
        self.first.iter().copied().min().filter(|first| *first != NONE)
    }

    fn release(&mut self, tick: u64, give: &mut impl FnMut(&I)) -> usize {
        let before = self.len;
        while self.len > 0 {
            let next = self.next();
            if self.first[next] >= tick && tick != u64::MAX {
                break;
            }
            let queue = &mut self.queues[next];
            queue.front().into_iter().for_each(&mut *give);
            let _given = queue.pop_front();
            self.first[next] = queue.front().map_or(NONE, Item::time);
            self.len -= 1;
        }
        before - self.len
    }
}

/// Items that many streams bring, many at a time: put in order when they are given out. Of items of one
/// time that of the lower place goes first.
#[derive(Debug)]
pub struct Batched<I> {
    /// Runs that are in order, older ones first, each more than twice as long as the next: no item is put in
    /// order more often than their lengths can double.
    runs: Vec<VecDeque<I>>,
    /// Room for runs.
    empty: Vec<VecDeque<I>>,
    /// What came since.
    fresh: Vec<I>,
    /// Least time of `fresh`; [`NONE`] if there is none.
    fresh_first: u64,
    len: usize,
}

impl<I: Item> Batched<I> {
    /// Puts what came since in order, with the runs that are not much longer.
    fn put_in_order(&mut self) {
        let mut len = self.fresh.len();
        let mut runs = self.runs.len();
        while runs > 0 && self.runs[runs - 1].len() <= 2 * len {
            runs -= 1;
            len += self.runs[runs].len();
        }
        let mut merged = self.runs.drain(runs..);
        let mut run = merged.next().or_else(|| self.empty.pop()).unwrap_or_default();
        for mut shorter in merged {
            run.append(&mut shorter);
            self.empty.push(shorter);
        }
        run.extend(self.fresh.drain(..));
        self.fresh_first = NONE;
        // Stable, because that makes use of what is in order.
        run.make_contiguous().sort_by(order);
        self.runs.push(run);
    }

    /// The run whose first item is given out next.
    fn next(&self) -> Option<usize> {
        let first = |run: &usize| self.runs[*run].front();
        let runs = (0..self.runs.len()).filter(|run| first(run).is_some());
        runs.min_by(|one, other| match (first(one), first(other)) {
            (Some(one), Some(other)) => order(one, other),
            _ => Ordering::Equal,
        })
    }
}

impl<I: Item> Waiting<I> for Batched<I> {
    fn new(_: usize) -> Self {
        let (runs, empty, fresh) = (Vec::new(), Vec::new(), Vec::new());
        Self { runs, empty, fresh, fresh_first: NONE, len: 0 }
    }

    #[inline]
    fn push(&mut self, _: usize, item: I) {
        self.fresh_first = self.fresh_first.min(item.time());
        self.fresh.push(item);
        self.len += 1;
    }

    fn len(&self) -> usize {
        self.len
    }

    fn first_time(&self) -> Option<u64> {
        let firsts = self.runs.iter().filter_map(|run| run.front()).map(Item::time);
        firsts.chain([self.fresh_first]).min().filter(|_| self.len > 0)
    }

    fn release(&mut self, tick: u64, give: &mut impl FnMut(&I)) -> usize {
        let before = self.len;
        if self.fresh_first < tick {
            self.put_in_order();
        }
        while let Some(next) = self.next() {
            let run = &mut self.runs[next];
            let Some(item) = run.pop_front_if(|item| item.time() < tick || tick == u64::MAX) else {
                break;
            };
            give(&item);
            self.len -= 1;
        }
        let is_empty = |run: &mut VecDeque<I>| run.is_empty();
        self.empty.extend(self.runs.extract_if(.., is_empty));
        before - self.len
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gannet_measure::random::Random;

    use super::*;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// An item that counts how often its time is looked at.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Counted(u64, u64);

    impl Item for Counted {
        type Place = u64;

        fn time(&self) -> u64 {
            LOOKS.set(LOOKS.get() + 1);
            self.0
        }

        fn place(&self) -> u64 {
            self.1
        }
    }

    /// Gives out `items` items that come in batches of 16, each with some near the oldest that wait, while there
    /// is room for `room`; and how often each was looked at.
    fn crowded<W: Waiting<Counted>>(room: usize, items: u64) -> (Vec<Counted>, u64) {
        let (mut random, mut out, mut waiting) = (Random::new(5), Vec::new(), W::new(1));
        LOOKS.set(0);
        let mut from = 0;
        for item in 0..items {
            waiting.push(0, Counted(from + random.below(1 << 30), item));
            while item % 16 == 0 && waiting.len() > room {
                from = waiting.first_time().unwrap() + 1;
                waiting.release(from, &mut |item| out.push(*item));
            }
        }
        waiting.release(u64::MAX, &mut |item| out.push(*item));
        (out, LOOKS.get() / items)
    }

    #[test]
    fn a_full_room_costs_no_more_for_each_item_when_it_is_larger() {
        let (expected, _) = crowded::<AnyOrder<Counted>>(1 << 14, 1 << 16);
        let (given, large) = crowded::<Batched<Counted>>(1 << 14, 1 << 16);
        assert_eq!(given, expected);
        let (_, small) = crowded::<Batched<Counted>>(1 << 10, 1 << 16);
        assert!(
            large < 2 * small,
            "{small} looks at each item, {large} in a room of 16 times the size"
        );
    }
}
