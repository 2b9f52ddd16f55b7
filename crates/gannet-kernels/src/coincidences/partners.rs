//! Which photomultipliers of a module coincide.

use core::f64::consts::PI;

use gannet_wire::km3net::CHANNELS;

/// For each photomultiplier, those with which it coincides: never itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partners([u32; CHANNELS + 1]);

impl Partners {
    /// Each with every other.
    pub fn all() -> Self {
        Self::of(|_, _| true)
    }

    /// Those whose axes, given as unit vectors by channel, are at most `angle` radians apart.
    /// Channels without an axis have no partner.
    pub fn within(axes: &[[f64; 3]], angle: f64) -> Self {
        let least = if angle < PI { angle.cos() } else { f64::NEG_INFINITY };
        Self::of(|a, b| match (axes.get(a), axes.get(b)) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() >= least,
            _ => false,
        })
    }

    fn of(coincide: impl Fn(usize, usize) -> bool) -> Self {
        let mut partners = [0; CHANNELS + 1];
        for (a, mask) in partners.iter_mut().enumerate().take(CHANNELS) {
            let of_a = (0..CHANNELS).filter(|&b| a != b && coincide(a, b));
            *mask = of_a.fold(0, |mask, b| mask | 1 << b);
        }
        Self(partners)
    }

    /// A bit for each partner of a channel.
    #[inline(always)]
    pub(super) fn mask(&self, channel: u8) -> u32 {
        self.0[usize::from(channel) % self.0.len()]
    }

    /// Whether hits of these channels coincide, if they do in time.
    pub fn are(&self, a: u8, b: u8) -> bool {
        usize::from(b) < CHANNELS && self.mask(a) >> b & 1 == 1
    }
}
