//! The rule that tells noisy and dead channels from good ones.

use gannet_wire::channel_map::PLANES;

use gannet_control::channels::{ChannelFigures, Condition, median};

/// How many times the rate of the median channel of its plane is too much.
pub const NOISY_FACTOR: f64 = 10.0;
/// Primitives below which nothing is said of a rate.
pub const NOISY_PRIMITIVES_MIN: u64 = 100;

/// Primitives of a channel in some stretch of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub tps: u64,
    pub rate_hz: f64,
}

/// Calls the channels noisy that are so by `found`, which tells of each channel what it has made
/// in the same stretch of time.
pub(super) fn mark_noisy(channels: &mut [ChannelFigures], found: &[Found]) {
    let medians: [f64; PLANES] = std::array::from_fn(|plane| {
        let in_use = channels.iter().zip(found).filter(|(channel, _)| {
            usize::from(channel.plane) == plane
                && channel.pedestal.is_some()
                && !matches!(channel.condition, Condition::Dead | Condition::Masked)
        });
        median(in_use.map(|(_, found)| found.rate_hz).collect()).unwrap_or(0.0)
    });
    for (channel, found) in channels.iter_mut().zip(found) {
        let median = medians.get(usize::from(channel.plane)).copied().unwrap_or(0.0);
        let noisy = found.tps >= NOISY_PRIMITIVES_MIN && found.rate_hz > NOISY_FACTOR * median;
        if noisy && channel.condition == Condition::Good {
            channel.condition = Condition::Noisy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten good channels of a plane at `rate_hz` in 10 s, and one with other figures.
    fn judge(plane: u8, rate_hz: f64, odd_hz: f64, condition: Condition) -> Vec<Condition> {
        let channel = |condition| ChannelFigures {
            plane,
            pedestal: Some(900),
            condition,
            ..ChannelFigures::default()
        };
        let mut channels = vec![channel(Condition::Good); 10];
        channels.push(channel(condition));
        let found = |rate_hz: f64| Found { tps: (10.0 * rate_hz) as u64, rate_hz };
        let mut all = vec![found(rate_hz); 10];
        all.push(found(odd_hz));
        mark_noisy(&mut channels, &all);
        channels.into_iter().map(|channel| channel.condition).collect()
    }

    #[test]
    fn far_above_the_median_is_noisy() {
        let odd = |rate_hz, odd_hz| judge(2, rate_hz, odd_hz, Condition::Good)[10];
        assert_eq!(odd(20.0, 200.0), Condition::Good);
        assert_eq!(odd(20.0, 200.1), Condition::Noisy);
        assert_eq!(odd(0.0, 9.9), Condition::Good, "too few to tell");
        assert_eq!(odd(0.0, 10.0), Condition::Noisy, "the others make none at all");
        assert_eq!(judge(0, 20.0, 5000.0, Condition::Good)[..10], [Condition::Good; 10]);
    }

    #[test]
    fn planes_are_judged_apart() {
        let channel = |plane| ChannelFigures { plane, pedestal: Some(900), ..Default::default() };
        let mut channels = [channel(0), channel(0), channel(0), channel(2), channel(2), channel(2)];
        let found = [1.0, 1.0, 50.0, 50.0, 50.0, 50.0].map(|rate_hz| Found { tps: 500, rate_hz });
        mark_noisy(&mut channels, &found);
        let noisy = channels.map(|channel| channel.condition == Condition::Noisy);
        assert_eq!(noisy, [false, false, true, false, false, false]);
    }

    #[test]
    fn what_is_masked_stays_so() {
        assert_eq!(judge(1, 1.0, 5000.0, Condition::Masked)[10], Condition::Masked);
    }
}
