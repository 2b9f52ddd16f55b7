use std::collections::HashMap;

use gannet_measure::random::Random;
use gannet_measure::ticks::TickRate;
use gannet_wire::{Rhythm, Step};
use proptest::prelude::*;

use super::PROVEN;
use crate::continuity::{Continuity, Judgement, Verdict};

const WINDOW: usize = 64;
const EPOCH: u64 = 1_700_000_000 * 1_000_000_000;
/// Frames of a slice.
const SLICE: u64 = 40;

/// A stream of each kind, which makes any of its frames.
#[derive(Clone, Copy, Debug)]
enum Stream {
    Fixed,
    Varying,
    Slices,
}

impl Stream {
    const ALL: [Self; 3] = [Self::Fixed, Self::Varying, Self::Slices];

    fn rhythm(self) -> Rhythm {
        let (step, sequence_modulus) = match self {
            Self::Fixed => (Step::Fixed(2048), 4096),
            Self::Varying => (Step::Varying { longest: 5000 }, 1 << 31),
            Self::Slices => (Step::Slices { length: 100_000_000 }, 1 << 31),
        };
        Rhythm { clock: TickRate::hz(1_000_000_000), step, sequence_modulus }
    }

    /// Time and sequence number of a frame; `anew` another one for each time that it began again.
    fn frame(self, index: u64, anew: u64) -> (u64, u32) {
        let epoch = EPOCH - anew * 1_000_000 * 100_000_000;
        match self {
            Self::Fixed => (epoch + 2048 * index, ((index + anew) % 4096) as u32),
            Self::Varying => {
                (epoch + 3000 * index + Random::new(index).below(2000), (7 * anew + index) as u32)
            }
            Self::Slices => (epoch + 100_000_000 * (index / SLICE), (index % SLICE) as u32),
        }
    }

    /// Whether the stream itself tells that this frame is lost.
    fn is_told(self, index: u64) -> bool {
        !matches!(self, Self::Slices) || index % SLICE < SLICE - 1
    }

    /// `frames` frames from a stranger, while the stream is at `index`: of any content, ahead of it or
    /// behind, each for itself or one after the other, but none within the window.
    fn strange(self, index: u64, frames: u64, random: &mut Random) -> Vec<(u64, u32)> {
        let bits = random.below(40);
        let far = 5000 + random.below(1 << bits);
        let from = if random.chance(0.7) { index + far } else { index.saturating_sub(far) };
        let kind = random.below(4);
        let any = |random: &mut Random| match self {
            Self::Slices => {
                (EPOCH + 100_000_000 * random.below(1 << 32), random.below(1 << 16) as u32)
            }
            _ => (random.below(u64::MAX), random.below(1 << 31) as u32),
        };
        let place = |number: u64, random: &mut Random| match kind {
            1 => from + number,
            2 => from + random.below(1 << 20),
            // Ever farther ahead.
            _ => index + 5000 + (number << 12) + random.below(1000),
        };
        let frame = |number| match kind {
            0 => any(random),
            _ => self.frame(place(number, random), 0),
        };
        let is_far = |frame: &(u64, u32)| {
            let near = self.frame(index - 400, 0).0..self.frame(index + 400, 0).0;
            !near.contains(&frame.0)
        };
        (0..frames).map(frame).filter(is_far).collect()
    }
}

/// Frames that came, by the time at which they begin and their number, with what was made of them at last.
#[derive(Default)]
struct Heard {
    verdicts: HashMap<(u64, u32), Verdict>,
    kept: Option<(u64, u32)>,
}

impl Heard {
    fn frame(&mut self, checker: &mut Continuity, frame: (u64, u32)) {
        let Judgement { kept, frame: verdict } = checker.frame(frame.0, frame.1, 0);
        if let Some(verdict) = kept {
            self.verdicts.insert(self.kept.take().unwrap(), verdict);
        }
        if matches!(verdict, Verdict::OutOfStep { .. }) {
            self.kept = Some(frame);
        }
        // A frame that was taken once was taken.
        let known = self.verdicts.entry(frame).or_insert(verdict);
        if matches!(known, Verdict::OutOfStep { .. }) {
            *known = verdict;
        }
        let counts = checker.counts();
        assert_eq!(counts.frames, counts.in_step + counts.duplicate + counts.out_of_step);
    }

    fn is_taken(&self, frame: (u64, u32)) -> bool {
        !matches!(self.verdicts[&frame], Verdict::OutOfStep { .. } | Verdict::Duplicate)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn strangers_add_no_lost_frame_and_cost_none(
        seed: u64, loss in 0.0..0.6f64, doubled in 0.0..0.2f64, disorder in 1..16u64,
        often in 0.0..1.0f64, frames_max in 1..PROVEN / 8,
    ) {
        for stream in Stream::ALL {
            let mut random = Random::new(seed);
            let mut order: Vec<(u64, u64)> = Vec::new();
            for index in 10_000..11_000 {
                let copies = 1 + u64::from(random.chance(doubled));
                if index > 10_000 && stream.is_told(index) && random.chance(loss) {
                    continue;
                }
                let late = |random: &mut Random| if index > 10_000 { random.below(disorder) } else { 0 };
                order.extend((0..copies).map(|_| (index + late(&mut random), index)));
            }
            order.sort_unstable();
            let mut checker = Continuity::new(&stream.rhythm(), WINDOW, 0);
            let (mut heard, mut strange) = (Heard::default(), 0);
            for (_, index) in &order {
                heard.frame(&mut checker, stream.frame(*index, 0));
                if random.chance(often) {
                    let frames = 1 + random.below(frames_max);
                    strange += frames;
                    for frame in stream.strange(*index, frames, &mut random) {
                        heard.frame(&mut checker, frame);
                    }
                }
            }
            let newest = order.iter().map(|(_, index)| *index).max().unwrap();
            heard.frame(&mut checker, stream.frame(newest + 1, 0));

            let mut own: Vec<u64> = order.iter().map(|(_, index)| *index).collect();
            own.sort_unstable();
            own.dedup();
            for index in &own {
                let frame = stream.frame(*index, 0);
                prop_assert!(heard.is_taken(frame), "{stream:?} {index} {:?}", heard.verdicts[&frame]);
            }
            let (counts, lost) = (*checker.counts(), newest - 10_000 + 1 - own.len() as u64);
            let bounds = counts.missing..=counts.missing + counts.unsure;
            prop_assert!(bounds.contains(&lost), "{stream:?} {lost} lost, {strange} strange, {counts:?}");
        }
    }
}

/// Strangers that lead a stream back, and then to where its next frame is a gap that one frame may leave.
#[test]
fn the_way_home_is_the_shorter_one() {
    let stream = Stream::Fixed;
    let mut checker = Continuity::new(&stream.rhythm(), WINDOW, 0);
    let mut verdict = |index| {
        let (timestamp, sequence) = stream.frame(index, 0);
        checker.frame(timestamp, sequence, 0).frame
    };
    for index in 10_000..=10_500 {
        verdict(index);
    }
    for index in [4_546, 4_547, 9_287, 698_880] {
        verdict(index);
    }
    assert_eq!(verdict(10_503), Verdict::Restart { ticks: (10_503 - 9_287) * 2048 });
    assert_eq!(verdict(10_504), Verdict::InOrder);
    let counts = checker.counts();
    assert_eq!((counts.missing, counts.unsure), (0, 2));
}
