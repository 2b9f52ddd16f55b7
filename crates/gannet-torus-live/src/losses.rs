//! How much of what the other end of a cable sends is lost on its way.
//!
//! Frames are numbered, so each gap in the numbers tells of a loss, however many were lost in it: a cable that was cut for a
//! moment leaves one. What the link sends again arrives all the same, but slowly, so packets had better go another way.

/// A gap adds so much to the score of a cable, from which each frame takes one: it grows where more than one frame in so many is lost.
const GAP: u32 = 50;
/// A cable is lossy from this score on, and from this part of the frames of a watchdog: three gaps with hardly a frame between them,
/// more where much is carried, so that frames dropped in one bunch do not suffice.
const LOSSY_MIN: u32 = 140;
const LOSSY_OF_FRAMES: (u32, u32) = (3, 10);
/// So many watchdogs a lossy cable is watched before it counts as good again, if no more than one in so many frames was lost; it
/// carries hardly more than beats then.
const PROBATION_WATCHDOGS: u64 = 40;
const GOOD_ONE_IN: u32 = 100;

/// What is lost on a cable in one direction.
#[derive(Debug)]
pub(crate) struct Losses {
    watchdog_ns: u64,
    score: u32,
    lossy_from: u32,
    /// What has come since then.
    begin: u64,
    frames: u32,
    gaps: u32,
    is_lossy: bool,
}

impl Losses {
    pub(crate) fn new(watchdog_ns: u64) -> Self {
        let (lossy_from, is_lossy) = (LOSSY_MIN, false);
        Self { watchdog_ns, score: 0, lossy_from, begin: 0, frames: 0, gaps: 0, is_lossy }
    }

    /// Whether too much is lost.
    pub(crate) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Frames come, but what was lost is lost again each time that it is sent; gives whether the cable counts as something else now.
    pub(crate) fn stuck(&mut self, now: u64) -> bool {
        (self.begin, self.frames, self.gaps) = (now, 0, 0);
        !std::mem::replace(&mut self.is_lossy, true)
    }

    /// A frame has come, before which others are missing or not; gives whether the cable counts as something else now.
    pub(crate) fn frame(&mut self, is_behind_gap: bool, now: u64) -> bool {
        self.frames = self.frames.saturating_add(1);
        self.gaps = self.gaps.saturating_add(is_behind_gap.into());
        let watchdogs = if self.is_lossy { PROBATION_WATCHDOGS } else { 1 };
        let is_over = now >= self.begin.saturating_add(watchdogs * self.watchdog_ns);
        let is_other = if self.is_lossy {
            is_over && self.gaps.saturating_mul(GOOD_ONE_IN) <= self.frames
        } else {
            self.score = (self.score + u32::from(is_behind_gap) * GAP).saturating_sub(1);
            self.score >= self.lossy_from
        };
        if is_other {
            self.is_lossy = !self.is_lossy;
            (self.score, self.lossy_from) = (0, LOSSY_MIN);
        } else if is_over && !self.is_lossy {
            let (part, of) = LOSSY_OF_FRAMES;
            self.lossy_from = LOSSY_MIN.max(self.frames / of * part);
        }
        if is_other || is_over {
            (self.begin, self.frames, self.gaps) = (now, 0, 0);
        }
        is_other
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::random::Random;

    use super::*;

    const WATCHDOG: u64 = 1000;

    /// The frames, of `each` ns from one to the next and lost with this probability, after which it counts as something else.
    fn until_other(losses: &mut Losses, now: &mut u64, each: u64, lost: f64) -> Option<usize> {
        let (mut random, mut is_behind_gap) = (Random::new(5), false);
        (0..10_000).find(|_| {
            *now += each;
            if random.chance(lost) {
                is_behind_gap = true;
                return false;
            }
            losses.frame(std::mem::take(&mut is_behind_gap), *now)
        })
    }

    #[test]
    fn a_cable_that_loses_a_twentieth_is_lossy_until_it_does_no_longer() {
        let (mut losses, mut now) = (Losses::new(WATCHDOG), 0);
        assert_eq!(until_other(&mut losses, &mut now, 5, 0.0), None);
        assert!(until_other(&mut losses, &mut now, 5, 0.05).is_some_and(|frames| frames < 200));
        assert!(losses.is_lossy());
        // Only beats go over it then.
        assert_eq!(until_other(&mut losses, &mut now, WATCHDOG / 4, 0.05), None);
        let good = until_other(&mut losses, &mut now, WATCHDOG / 4, 0.0);
        assert!(good.is_some_and(|frames| frames < 2 * 4 * 40) && !losses.is_lossy());
    }

    #[test]
    fn a_cable_that_carried_much_without_a_loss_is_lossy_as_soon() {
        let soon = |before: usize, each: u64| {
            let (mut losses, mut now) = (Losses::new(WATCHDOG), 0);
            for _ in 0..before {
                now += each;
                assert!(!losses.frame(false, now));
            }
            let begin = now;
            until_other(&mut losses, &mut now, each, 0.05).map(|_| now - begin)
        };
        let fresh = soon(0, 1).unwrap();
        // A third of the frames of a watchdog is far more than the losses need.
        assert!((fresh..fresh + WATCHDOG / 3).contains(&soon(5_500, 1).unwrap()));
    }

    #[test]
    fn a_cable_that_brings_nothing_new_is_lossy_for_forty_watchdogs_more() {
        let (mut losses, mut now) = (Losses::new(WATCHDOG), WATCHDOG);
        assert!(losses.stuck(now));
        assert_eq!(until_other(&mut losses, &mut now, WATCHDOG, 0.0), Some(39));
        for _ in 0..100 {
            now += WATCHDOG;
            losses.stuck(now);
            assert!(losses.is_lossy() && !losses.frame(false, now));
        }
    }

    #[test]
    fn what_a_full_socket_drops_at_once_is_not_lossy() {
        let (mut losses, mut now) = (Losses::new(WATCHDOG), 0);
        for frame in 0..20_000 {
            now += 1;
            // Five gaps close together, every third of a watchdog.
            assert!(!losses.frame(frame > 1500 && frame % 333 < 5, now), "frame {frame}");
        }
    }

    #[test]
    fn rare_losses_and_a_pause_are_none() {
        let (mut losses, mut now) = (Losses::new(WATCHDOG), 0);
        assert_eq!(until_other(&mut losses, &mut now, 5, 0.001), None);
        let mut frame = |is_behind_gap, after| {
            now += after;
            losses.frame(is_behind_gap, now)
        };
        // Two of few, as where a cable was cut twice, are too few to tell.
        assert!(!frame(true, 10 * WATCHDOG) && !frame(true, 1) && !frame(false, 1));
    }
}
