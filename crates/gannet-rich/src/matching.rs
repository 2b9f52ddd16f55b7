//! Matching in the level-0 trigger of NA62: which primitives of several sources belong together, and what
//! follows from them.
//!
//! Each source has a memory of 2^14 slots, whose address is the low bits of the time. A primitive overwrites what is
//! in its slot. For each primitive of the reference the slots N, N-1 and N+1 of every other source are read;
//! what is there belongs to it if the time stamps agree from bit 11 on, and the times are nearer than the cut of
//! the source. The identifiers go to masks with bits that do not matter; of what a mask passes one in so many
//! leads to a decision.
//!
//! Source: dariosol/na62l0tpfw, `ethlink/Trigger.vhd`. Which slot is taken of several that belong is our choice:
//! the first of N, N-1, N+1. A source without any has the identifier 0.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_wire::na62::mtp::CALIBRATION;
use gannet_wire::na62::{FINE_BITS, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most masks.
pub const MASKS_MAX: usize = 16;
/// Most sources.
pub const SOURCES_MAX: usize = 16;
/// Slots of each source.
const SLOTS: usize = 1 << 14;
/// Lowest bit of a time, in fine units, that is stored and compared: bit 11 of the time stamp.
const HIGH_SHIFT: u32 = 11 + FINE_BITS;
/// Bits of a time that are stored: the time stamp to bit 29, and the fine time.
const TIME_BITS: u32 = 30 + FINE_BITS;

/// Width of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SlotWidth {
    /// 25 ns: a whole tick.
    #[serde(rename = "25 ns")]
    Whole,
    /// 12.5 ns.
    #[serde(rename = "12.5 ns")]
    Half,
    /// 6.25 ns.
    #[default]
    #[serde(rename = "6.25 ns")]
    Quarter,
    /// 3.125 ns.
    #[serde(rename = "3.125 ns")]
    Eighth,
}

impl SlotWidth {
    /// Bits of the fine time below the address of a slot.
    const fn shift(self) -> u32 {
        FINE_BITS - self as u32
    }
}

/// A source of primitives and how near they must be to the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// The source.
    pub source: Source,
    /// Time from the reference at which a primitive does not belong to it any more, in fine units.
    pub cut_fine: u16,
}

/// What a mask asks of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Bits that matter.
    pub care: u16,
    /// What they have to be.
    pub value: u16,
}

/// A mask: conditions on sources, and how many of those that it passes lead to decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// A condition for each source; those beyond the list have none.
    pub conditions: Vec<Condition>,
    /// One of so many that pass.
    pub downscaling: u32,
}

/// What belongs together, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Width of the slots.
    pub slot: SlotWidth,
    /// Sources, that of the reference first.
    pub sources: Vec<Matched>,
    /// Masks, at most [`MASKS_MAX`].
    pub masks: Vec<Mask>,
}

/// A reference that masks pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its time in fine units.
    pub time: u64,
    /// A bit for each mask that leads to it, mask 0 the lowest; 0 for a calibration.
    pub masks: u16,
    /// It is of a calibration, which no mask concerns.
    pub is_calibration: bool,
}

/// What was matched so far, which any thread may read.
#[derive(Debug, Default)]
pub struct MatchCounters {
    /// Primitives by source.
    pub primitives: [Counter; SOURCES_MAX],
    /// References to which a primitive of each other source belonged.
    pub matched: [Counter; SOURCES_MAX],
    /// References that each mask passed, before downscaling.
    pub passed: [Counter; MASKS_MAX],
    /// Triggers of each mask.
    pub triggers: [Counter; MASKS_MAX],
}

/// A primitive in its slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// 0: nothing was stored.
    id: u16,
    time: u64,
}

/// Matches primitives. To be given those of all sources in one order of time.
#[derive(Debug)]
pub struct Matcher {
    rules: Rules,
    slots: Vec<Box<[Slot]>>,
    /// References that later primitives can still belong to.
    references: VecDeque<(u64, u16)>,
    /// References that each mask passed since one led to a trigger.
    skipped: [u32; MASKS_MAX],
    counters: Arc<MatchCounters>,
}

impl Matcher {
    /// A matcher by these rules.
    ///
    /// # Panics
    /// When there are no sources, or more sources or masks than there may be.
    pub fn new(rules: Rules) -> Self {
        assert!((1..=SOURCES_MAX).contains(&rules.sources.len()), "there are 1 to 16 sources");
        assert!(rules.masks.len() <= MASKS_MAX, "there are at most 16 masks");
        let memory = || vec![Slot::default(); SLOTS].into_boxed_slice();
        Self {
            slots: rules.sources.iter().map(|_| memory()).collect(),
            rules,
            references: VecDeque::new(),
            skipped: [0; MASKS_MAX],
            counters: Arc::default(),
        }
    }

    /// What was matched.
    pub fn counters(&self) -> Arc<MatchCounters> {
        Arc::clone(&self.counters)
    }

    /// Place of a source in the rules.
    pub fn place(&self, source: Source) -> Option<usize> {
        self.rules.sources.iter().position(|matched| matched.source == source)
    }

    /// Takes a primitive of the source at `place`, no earlier than those before, and gives out the triggers that
    /// are certain now.
    pub fn push(&mut self, place: usize, time: u64, id: u16, out: &mut Vec<Trigger>) {
        self.advance(time, out);
        self.counters.primitives[place].add(1);
        if place == 0 {
            self.references.push_back((time, id));
        }
        let address = self.address(time);
        self.slots[place][address] = Slot { id, time: stored(time) };
    }

    /// Gives out the triggers of references that nothing from `complete_to` on can belong to.
    pub fn advance(&mut self, complete_to: u64, out: &mut Vec<Trigger>) {
        let shift = self.rules.slot.shift();
        while let Some(&(time, id)) = self.references.front()
            && (complete_to >> shift) > (time >> shift) + 1
        {
            self.references.pop_front();
            out.extend(self.decide(time, id));
        }
    }

    /// Gives out all triggers, at the end.
    pub fn finish(&mut self, out: &mut Vec<Trigger>) {
        self.advance(u64::MAX, out);
        self.slots.iter_mut().for_each(|slots| slots.fill(Slot::default()));
    }

    fn address(&self, time: u64) -> usize {
        (time >> self.rules.slot.shift()) as usize % SLOTS
    }

    fn decide(&mut self, time: u64, id: u16) -> Option<Trigger> {
        let mut ids = [0; SOURCES_MAX];
        ids[0] = id;
        let others = ids.iter_mut().enumerate().take(self.slots.len()).skip(1);
        for (place, id) in others {
            *id = self.belonging(place, time);
            self.counters.matched[place].add(u64::from(*id != 0));
        }
        if id & CALIBRATION != 0 {
            return Some(Trigger { time, masks: 0, is_calibration: true });
        }
        let mut masks = 0;
        for (number, mask) in self.rules.masks.iter().enumerate() {
            let conditions = mask.conditions.iter().zip(ids);
            if !conditions.into_iter().all(|(condition, id)| id & condition.care == condition.value)
            {
                continue;
            }
            self.counters.passed[number].add(1);
            self.skipped[number] += 1;
            if self.skipped[number] >= mask.downscaling {
                self.skipped[number] = 0;
                self.counters.triggers[number].add(1);
                masks |= 1 << number;
            }
        }
        (masks != 0).then_some(Trigger { time, masks, is_calibration: false })
    }

    /// Identifier of the primitive of a source that belongs to a reference, or 0.
    fn belonging(&self, place: usize, time: u64) -> u16 {
        let address = self.address(time);
        let cut = self.rules.sources[place].cut_fine;
        let neighbours = [address, address.wrapping_sub(1) % SLOTS, (address + 1) % SLOTS];
        let slots = neighbours.into_iter().map(|address| self.slots[place][address]);
        let belongs = |slot: &Slot| {
            // Sixteen bits of the difference are compared.
            let apart = (slot.time as u16).wrapping_sub(time as u16) as i16;
            slot.id != 0
                && slot.time >> HIGH_SHIFT == stored(time) >> HIGH_SHIFT
                && apart.unsigned_abs() < cut
        };
        slots.into_iter().find(belongs).map_or(0, |slot| slot.id & !CALIBRATION)
    }
}

/// What of a time is stored.
const fn stored(time: u64) -> u64 {
    time & ((1 << TIME_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(slot: SlotWidth, cuts: &[u16], masks: Vec<Mask>) -> Rules {
        let sources = [Source::Chod, Source::Rich, Source::Muv3];
        let sources = sources.into_iter().zip(cuts);
        let sources = sources.map(|(source, &cut_fine)| Matched { source, cut_fine }).collect();
        Rules { slot, sources, masks }
    }

    fn mask(conditions: &[(u16, u16)], downscaling: u32) -> Mask {
        let conditions = conditions.iter().map(|&(care, value)| Condition { care, value });
        Mask { conditions: conditions.collect(), downscaling }
    }

    fn matched(rules: &Rules, primitives: &[(usize, u64, u16)]) -> Vec<Trigger> {
        let mut matcher = Matcher::new(rules.clone());
        let mut out = Vec::new();
        for &(place, time, id) in primitives {
            matcher.push(place, time, id, &mut out);
        }
        matcher.finish(&mut out);
        out
    }

    /// The plain definition: of all primitives, without slots.
    fn defined(rules: &Rules, primitives: &[(usize, u64, u16)]) -> Vec<Trigger> {
        let shift = rules.slot.shift();
        let mut passed = vec![0; rules.masks.len()];
        let mut triggers = Vec::new();
        for &(_, time, id) in primitives.iter().filter(|primitive| primitive.0 == 0) {
            if id >> 15 == 1 {
                triggers.push(Trigger { time, masks: 0, is_calibration: true });
                continue;
            }
            let of_source = |place: usize| {
                if place == 0 {
                    return id;
                }
                let slot = time >> shift;
                let last_of = |slot: u64| {
                    let here = primitives.iter().rev();
                    here.filter(|it| it.0 == place).find(|it| it.1 >> shift == slot)
                };
                let near = [Some(slot), slot.checked_sub(1), Some(slot + 1)];
                let belongs = |it: &&&(usize, u64, u16)| {
                    let apart = it.1.abs_diff(time);
                    apart < rules.sources[place].cut_fine.into() && it.1 >> 19 == time >> 19
                };
                let near: Vec<_> = near.into_iter().flatten().filter_map(last_of).collect();
                near.iter().find(belongs).map_or(0, |it| it.2 & 0x7fff)
            };
            let ids: Vec<u16> = (0..rules.sources.len()).map(of_source).collect();
            let mut word = 0;
            for (number, mask) in rules.masks.iter().enumerate() {
                let holds =
                    mask.conditions.iter().zip(&ids).all(|(it, id)| id & it.care == it.value);
                passed[number] += u32::from(holds);
                if holds && passed[number].is_multiple_of(mask.downscaling) {
                    word |= 1 << number;
                }
            }
            if word != 0 {
                triggers.push(Trigger { time, masks: word, is_calibration: false });
            }
        }
        triggers
    }

    const ANY: u16 = 1 << 14;

    fn both() -> Vec<Mask> {
        vec![mask(&[(ANY, ANY), (ANY, ANY)], 1)]
    }

    #[test]
    fn primitives_in_neighbouring_slots_belong_together_within_the_cut() {
        for slot in [SlotWidth::Whole, SlotWidth::Half, SlotWidth::Quarter, SlotWidth::Eighth] {
            let width = 1 << slot.shift();
            let rules = rules(slot, &[0, 100], both());
            let time: u64 = 700 * width;
            let found = |apart: i64| {
                let other = time.checked_add_signed(apart).unwrap();
                let mut primitives = [(0, time, ANY), (1, other, ANY | 3)];
                primitives.sort_by_key(|primitive| primitive.1);
                matched(&rules, &primitives).len()
            };
            // Slots N-1 to N+1 reach from one width before the slot to two behind its begin.
            let (before, behind) = (width.min(99) as i64, (2 * width - 1).min(99) as i64);
            assert_eq!([found(-before), found(behind)], [1, 1], "{slot:?}");
            assert_eq!([found(-before - 1), found(behind + 1)], [0, 0], "{slot:?}");
        }
    }

    #[test]
    fn a_later_primitive_takes_the_slot_of_an_earlier_one() {
        let condition = [(ANY, ANY), (0x7fff, ANY | 1)];
        let rules = rules(SlotWidth::Whole, &[0, 200], vec![mask(&condition, 1)]);
        let first = (1, 5 * 256, ANY | 1);
        let reference = (0, 5 * 256 + 9, ANY);
        assert_eq!(matched(&rules, &[first, reference]).len(), 1);
        // Even one that comes behind the reference, as the slot behind it is waited for.
        assert_eq!(matched(&rules, &[first, reference, (1, 5 * 256 + 20, ANY | 2)]).len(), 0);
        assert_eq!(matched(&rules, &[first, reference, (1, 6 * 256, ANY | 2)]).len(), 1);
    }

    #[test]
    fn time_stamps_must_agree_from_bit_11_on() {
        let rules = rules(SlotWidth::Eighth, &[0, 100], both());
        // What is in the slot from 51 us before, and what is near but beyond the boundary.
        let page = 1 << HIGH_SHIFT;
        assert_eq!(matched(&rules, &[(1, 320, ANY), (0, page + 320, ANY)]), []);
        assert_eq!(matched(&rules, &[(1, page - 1, ANY), (0, page, ANY)]), []);
        assert_eq!(matched(&rules, &[(1, page, ANY), (0, page + 1, ANY)]).len(), 1);
    }

    #[test]
    fn masks_are_scaled_down_each_by_itself_and_calibrations_pass_all() {
        let masks = vec![mask(&[(0, 0)], 3), mask(&[(1, 1), (ANY, 0)], 1)];
        let rules = rules(SlotWidth::Quarter, &[0, 50], masks);
        let times = (0..6).map(|n| 10_000 * (n + 1));
        let ids = [ANY, ANY | 1, ANY, ANY | 1, ANY, ANY | 1];
        let mut primitives: Vec<_> = times.zip(ids).map(|(time, id)| (0, time, id)).collect();
        primitives.insert(4, (1, 40_010, ANY));
        primitives.push((0, 70_000, ANY | CALIBRATION));
        let triggers = matched(&rules, &primitives);
        let told: Vec<_> = triggers.iter().map(|it| (it.time, it.masks)).collect();
        // The one at 40 000 has a primitive of the other source, which mask 1 forbids.
        assert_eq!(told, [(20_000, 2), (30_000, 1), (60_000, 3), (70_000, 0)]);
        assert!(triggers[3].is_calibration);
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_the_plain_definition_says(
            slot in prop::sample::select(vec![
                SlotWidth::Whole, SlotWidth::Half, SlotWidth::Quarter, SlotWidth::Eighth,
            ]),
            cuts in prop::collection::vec(0..400_u16, 3),
            steps in prop::collection::vec((0..3_usize, 0..300_u64, 0x100..=u16::MAX, 0..40_u32), 1..300),
            masks in prop::collection::vec(
                (prop::collection::vec((0..8_u16, 0..8_u16), 0..=3), 1..4_u32), 0..=MASKS_MAX,
            ),
        ) {
            let masks = masks.iter().map(|(conditions, downscaling)| {
                let conditions: Vec<_> =
                    conditions.iter().map(|(care, value)| (care << 8, (value & care) << 8)).collect();
                mask(&conditions, *downscaling)
            });
            let rules = rules(slot, &cuts, masks.collect());
            let mut time = 1 << 18;
            let primitives: Vec<_> = steps.iter().map(|&(place, step, id, far)| {
                // Now and then a long pause, over the boundaries of all slots.
                time += if far == 0 { step << 12 } else { step };
                (place, time, id)
            }).collect();
            prop_assert_eq!(matched(&rules, &primitives), defined(&rules, &primitives));
        }

        #[test]
        fn when_time_is_told_changes_nothing(
            steps in prop::collection::vec((0..2_usize, 0..300_u64, any::<bool>()), 1..200),
        ) {
            let rules = rules(SlotWidth::Half, &[0, 90], both());
            let (mut time, mut told) = (0, Vec::new());
            let mut matcher = Matcher::new(rules.clone());
            let primitives: Vec<_> = steps.iter().map(|&(place, step, is_told)| {
                time += step;
                if is_told {
                    matcher.advance(time, &mut told);
                }
                matcher.push(place, time, ANY, &mut told);
                (place, time, ANY)
            }).collect();
            matcher.finish(&mut told);
            prop_assert_eq!(told, matched(&rules, &primitives));
        }
    }
}
