//! How much of what the other end of a cable sends is lost on its way.
//!
//! Frames are numbered, so each gap in the numbers tells of a loss, however many were lost in it: a cable that was cut for a
//! moment leaves one. What the link sends again arrives all the same, but slowly, so packets had better go another way.

/// So many gaps within a watchdog make a cable lossy, if they are more than one in so many frames.
const GAPS: u32 = 3;
const ONE_IN: u32 = 50;
/// So many watchdogs a lossy cable is watched before it counts as good again, if no more than one in so many frames was lost; it
/// carries hardly more than beats then.
const PROBATION_WATCHDOGS: u64 = 40;
const GOOD_ONE_IN: u32 = 100;

/// What is lost on a cable in one direction.
#[derive(Debug)]
pub(crate) struct Losses {
    watchdog_ns: u64,
    begin: u64,
    frames: u32,
    gaps: u32,
    is_lossy: bool,
}

impl Losses {
    pub(crate) fn new(watchdog_ns: u64) -> Self {
        Self { watchdog_ns, begin: 0, frames: 0, gaps: 0, is_lossy: false }
    }

    /// Whether too much is lost.
    pub(crate) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// A frame has come, before which others are missing or not; gives whether the cable counts as something else now.
    pub(crate) fn frame(&mut self, is_behind_gap: bool, now: u64) -> bool {
        self.frames += 1;
        self.gaps += u32::from(is_behind_gap);
        let (watchdogs, one_in) =
            if self.is_lossy { (PROBATION_WATCHDOGS, GOOD_ONE_IN) } else { (1, ONE_IN) };
        let is_too_much = self.gaps.saturating_mul(one_in) > self.frames;
        let is_over = now >= self.begin.saturating_add(watchdogs * self.watchdog_ns);
        let is_other = match self.is_lossy {
            false => is_too_much && self.gaps >= GAPS,
            true => is_over && !is_too_much,
        };
        self.is_lossy ^= is_other;
        if is_other || is_over && self.is_lossy {
            (self.begin, self.frames, self.gaps) = (now, 0, 0);
        } else if is_over {
            // What was seen counts for half in what follows.
            (self.begin, self.frames, self.gaps) = (now, self.frames / 2, self.gaps / 2);
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
