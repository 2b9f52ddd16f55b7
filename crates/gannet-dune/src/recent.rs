//! What the trigger gave out last, to cut windows of time out of.

use std::collections::VecDeque;

use gannet_wire::TriggerPrimitive;

use crate::activity::Activity;

/// What a [`Recent`] holds by default, in primitives: 24 MiB of them.
pub const RECENT_PRIMITIVES: usize = 1 << 20;

/// What has a place in data time.
pub trait Timed {
    /// When it starts, in ticks.
    fn time_start(&self) -> u64;

    /// Memory that it takes, in primitives.
    fn room(&self) -> usize;
}

impl Timed for TriggerPrimitive {
    fn time_start(&self) -> u64 {
        self.time_start()
    }

    fn room(&self) -> usize {
        1
    }
}

impl Timed for Activity {
    fn time_start(&self) -> u64 {
        self.data.time_start
    }

    fn room(&self) -> usize {
        size_of::<Self>() / TriggerPrimitive::LEN + self.inputs.len()
    }
}

/// The last things of one kind, in the order of their starts.
///
/// It takes memory as it needs it, and holds as much as there is room for. What starts first goes
/// first, and it is remembered up to where something is gone.
#[derive(Debug)]
pub struct Recent<T> {
    things: VecDeque<T>,
    room: usize,
    used: usize,
    /// The latest start of what is gone.
    gone_to: Option<u64>,
}

impl<T: Timed> Recent<T> {
    /// Holds as much as takes the memory of `room` primitives.
    pub fn new(room: usize) -> Self {
        Self { things: VecDeque::new(), room, used: 0, gone_to: None }
    }

    /// Adds something; the later it starts among the others, the quicker.
    pub fn push(&mut self, thing: T) {
        let start = thing.time_start();
        self.make_room(thing.room());
        if self.things.back().is_none_or(|last| last.time_start() <= start) {
            self.things.push_back(thing);
        } else {
            let place = self.things.partition_point(|other| other.time_start() <= start);
            self.things.insert(place, thing);
        }
    }

    /// Lets the first go until there is room for so much more.
    fn make_room(&mut self, room: usize) {
        let mut gone = 0;
        while self.used + room > self.room && gone < self.things.len() {
            self.used -= self.things[gone].room();
            gone += 1;
        }
        self.forget(gone);
        self.used += room;
    }

    /// Forgets what starts before `tick`.
    pub fn forget_before(&mut self, tick: u64) {
        let gone = self.things.partition_point(|thing| thing.time_start() < tick);
        self.used -= self.things.range(..gone).map(Timed::room).sum::<usize>();
        self.forget(gone);
    }

    /// Takes the first so many out, whose room is free already.
    fn forget(&mut self, gone: usize) {
        if let Some(last) = gone.checked_sub(1) {
            self.gone_to = self.gone_to.max(Some(self.things[last].time_start()));
            self.things.drain(..gone);
        }
    }

    /// What starts at `begin` or later and before `end`, in the order of starts.
    pub fn between(&self, begin: u64, end: u64) -> impl ExactSizeIterator<Item = &T> {
        let before = |tick: u64| self.things.partition_point(|thing| thing.time_start() < tick);
        let first = before(begin);
        self.things.range(first..before(end).max(first))
    }

    /// Whether nothing is gone that starts at `tick` or later.
    pub fn reaches_back_to(&self, tick: u64) -> bool {
        self.gone_to.is_none_or(|gone_to| gone_to < tick)
    }

    /// Forgets everything: time goes on from elsewhere.
    pub fn clear(&mut self) {
        self.things.clear();
        (self.used, self.gone_to) = (0, None);
    }
}

impl Recent<TriggerPrimitive> {
    /// Adds primitives in the order of their starts, none of which starts before the last that is
    /// there.
    pub fn extend(&mut self, tps: &[TriggerPrimitive]) {
        for tps in tps.chunks(self.room.max(1)) {
            self.make_room(tps.len());
            self.things.extend(tps.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::activity::{ActivityConfig, ActivityStage, Bundle};
    use crate::fixture::{START, tp};
    use crate::sampling::Sampling;

    /// What was pushed, in the order of starts; equal ones as they came.
    fn in_order(pushed: &[TriggerPrimitive]) -> Vec<TriggerPrimitive> {
        let mut all = pushed.to_vec();
        all.sort_by_key(TriggerPrimitive::time_start);
        all
    }

    proptest! {
        #[test]
        fn windows_are_those_of_all_that_was_pushed_or_known_to_be_cut_short(
            starts in prop::collection::vec(0..200u64, 0..120),
            is_in_order in any::<bool>(),
            room in 1..150usize,
            (begin, end) in (0..220u64, 0..220u64),
        ) {
            let mut starts = starts;
            if is_in_order {
                starts.sort_unstable();
            }
            let pushed: Vec<_> = starts.iter().zip(0..).map(|(start, i)| tp(*start, i)).collect();
            let mut recent = Recent::new(room);
            if is_in_order {
                pushed.chunks(7).for_each(|tps| recent.extend(tps));
            } else {
                pushed.iter().for_each(|tp| recent.push(*tp));
            }
            let (begin, end) = (START + begin, START + end);
            let inside = |tp: &&TriggerPrimitive| (begin..end).contains(&tp.time_start());
            let expected: Vec<_> = in_order(&pushed).iter().filter(inside).copied().collect();
            let cut: Vec<_> = recent.between(begin, end).copied().collect();
            if recent.reaches_back_to(begin) {
                prop_assert_eq!(&cut, &expected);
            }
            prop_assert!(cut.iter().all(|tp| expected.contains(tp)));
            // As much is there as there is room for.
            let all = recent.between(0, u64::MAX);
            prop_assert_eq!(all.len(), pushed.len().min(room));
            prop_assert_eq!(recent.reaches_back_to(0), pushed.len() <= room);
        }
    }

    #[test]
    fn activities_take_room_for_what_they_were_made_of() {
        let activity = |start: u64, bundle_size: u32| {
            let config = ActivityConfig::Bundle(Bundle { bundle_size, ..Bundle::default() });
            let mut stage = ActivityStage::new(&config, Sampling::default()).unwrap();
            let mut made = Vec::new();
            (0..bundle_size).for_each(|channel| stage.push(&tp(start, channel), &mut made));
            made.remove(0)
        };
        let mut recent = Recent::new(100);
        recent.push(activity(10, 60));
        recent.push(activity(20, 20));
        assert!(recent.reaches_back_to(START));
        recent.push(activity(15, 20));
        let starts: Vec<_> =
            recent.between(0, u64::MAX).map(|a| a.data.time_start - START).collect();
        assert_eq!(starts, [15, 20]);
        assert!(!recent.reaches_back_to(START + 10) && recent.reaches_back_to(START + 11));
        recent.forget_before(START + 20);
        assert!(!recent.reaches_back_to(START + 15) && recent.reaches_back_to(START + 16));
        recent.push(activity(30, 40));
        assert_eq!(recent.between(0, u64::MAX).len(), 2, "what is forgotten takes no room");
        recent.clear();
        assert!(recent.reaches_back_to(0) && recent.between(0, u64::MAX).len() == 0);
    }
}
