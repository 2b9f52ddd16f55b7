//! Shape of the pulse that charge makes on a channel.
//!
//! Drifting charge gives a unipolar pulse on a collection wire and a bipolar one on an induction
//! wire; both are as wide as the shaping of the cold electronics (2 us) makes them.

use gannet_wire::channel_map::COLLECTION;

use super::block::add;
use gannet_wire::adc14::{Block, SAMPLES};

/// Width (standard deviation) of the unipolar pulse, in samples.
const UNIPOLAR_SIGMA: f64 = 2.2;
/// Width of the Gaussian of which the bipolar pulse is the derivative, in samples.
const BIPOLAR_SIGMA: f64 = 2.5;
/// Fixed point of the shapes: the peak is `1 << FRACTION_BITS`.
const FRACTION_BITS: u32 = 12;

/// Samples of any shape before its peak, and after it.
pub(crate) const LEAD: u64 = 8;
pub(crate) const TAIL: u64 = 14;
/// Samples of a shape.
const LEN: usize = (LEAD + TAIL) as usize + 1;

/// A pulse of peak 1, in fixed point, by sample from `LEAD` before the peak to `TAIL` after it.
type Shape = [i32; LEN];

/// The shapes of all planes.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    unipolar: Shape,
    bipolar: Shape,
}

impl Default for Shapes {
    fn default() -> Self {
        let fixed = |value: f64| (value * f64::from(1 << FRACTION_BITS)).round() as i32;
        let offset = |place: usize| place as f64 - LEAD as f64;
        let gauss = |t: f64| (-0.5 * t * t).exp();
        Self {
            unipolar: std::array::from_fn(|i| fixed(gauss(offset(i) / UNIPOLAR_SIGMA))),
            // The positive lobe of the derivative peaks one sigma before its middle.
            bipolar: std::array::from_fn(|i| {
                let t = offset(i) / BIPOLAR_SIGMA - 1.0;
                fixed(-t * gauss(t) / gauss(1.0))
            }),
        }
    }
}

impl Shapes {
    fn of(&self, plane: u8) -> &Shape {
        if plane == COLLECTION { &self.unipolar } else { &self.bipolar }
    }

    /// Sum over the samples of a collection pulse with this peak, in ADC counts.
    pub(crate) fn collection_integral(&self, peak: u16) -> u64 {
        self.unipolar.iter().map(|&value| scaled(value, peak)).sum::<i32>() as u64
    }

    /// Adds the part of a pulse that lies in `block`; its peak is at sample `at` of the block,
    /// which may lie before or after the block.
    pub(crate) fn apply(&self, block: &mut Block, channel: usize, plane: u8, at: i32, peak: u16) {
        let first = at - LEAD as i32;
        for (place, &value) in self.of(plane).iter().enumerate() {
            let sample = first + place as i32;
            let delta = scaled(value, peak);
            if (0..SAMPLES as i32).contains(&sample) && delta != 0 {
                add(block, channel, sample as usize, delta);
            }
        }
    }
}

/// A value of a shape for a pulse of this peak, rounded.
fn scaled(value: i32, peak: u16) -> i32 {
    (value * i32::from(peak) + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::adc14::{BLOCK_LEN, CHANNELS, get, pack};

    fn flat() -> Block {
        let mut block = [0; BLOCK_LEN];
        pack(&[[5000; CHANNELS]; SAMPLES], &mut block);
        block
    }

    fn waveform(block: &Block, channel: usize) -> Vec<i32> {
        (0..SAMPLES).map(|sample| i32::from(get(block, channel, sample)) - 5000).collect()
    }

    #[test]
    fn a_collection_pulse_is_unipolar_with_the_peak_and_integral_asked_for() {
        let (mut block, shapes) = (flat(), Shapes::default());
        shapes.apply(&mut block, 3, COLLECTION, 20, 400);
        let wave = waveform(&block, 3);
        assert_eq!(wave[20], 400);
        assert!(wave.iter().all(|&adc| (0..=400).contains(&adc)));
        assert_eq!(wave.iter().sum::<i32>() as u64, shapes.collection_integral(400));
        // The area of a Gaussian of width 2.2 and height 400.
        assert!((wave.iter().sum::<i32>() - 2206).abs() < 10);
        assert_eq!(waveform(&block, 2), [0; SAMPLES]);
    }

    #[test]
    fn an_induction_pulse_goes_up_then_down_by_the_same_amount() {
        let (mut block, shapes) = (flat(), Shapes::default());
        shapes.apply(&mut block, 0, 1, 20, 400);
        let wave = waveform(&block, 0);
        assert_eq!((wave[20], wave[25]), (400, -400));
        assert!(wave.iter().sum::<i32>().abs() < 20, "no net charge");
    }

    #[test]
    fn a_pulse_across_a_frame_border_is_completed_in_the_next_frame() {
        let shapes = Shapes::default();
        let (mut first, mut second, mut whole) = (flat(), flat(), flat());
        shapes.apply(&mut whole, 9, 0, 30, 777);
        shapes.apply(&mut first, 9, 0, 62, 777);
        shapes.apply(&mut second, 9, 0, 62 - SAMPLES as i32, 777);
        let parts: Vec<i32> = [waveform(&first, 9), waveform(&second, 9)].concat();
        assert_eq!(parts[32..96], waveform(&whole, 9));
    }
}
