//! Directions that lie nearly evenly on the sphere.

use core::f64::consts::{PI, TAU};

/// Directions of length 1: rings at equal angles from the vertical, on each of which they are at most
/// `spacing` radians apart. Any direction is nearer than 0.75 of that to one of them.
///
/// # Panics
/// If `spacing` is not from 0.01 to pi.
pub fn grid(spacing: f64) -> Vec<[f64; 3]> {
    assert!((0.01..=PI).contains(&spacing), "directions {spacing} radians apart");
    let rings = (PI / spacing).ceil() as usize;
    let on_ring = |ring: usize| {
        let (sin, cos) = (PI * ring as f64 / rings as f64).sin_cos();
        let count = ((TAU * sin / spacing).ceil() as usize).max(1);
        (0..count).map(move |place| {
            let (y, x) = (TAU * place as f64 / count as f64).sin_cos();
            [sin * x, sin * y, cos]
        })
    };
    (0..=rings).flat_map(on_ring).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::random::Random;

    #[test]
    fn every_direction_is_near_one_of_the_grid_which_has_no_more_than_it_needs() {
        let mut random = Random::new(1);
        for degrees in [5.0_f64, 10.0, 20.0] {
            let spacing = degrees.to_radians();
            let grid = grid(spacing);
            let even = 4.0 * PI / (spacing * spacing);
            assert!((grid.len() as f64) < 1.2 * even + 10.0, "{degrees}: {}", grid.len());
            for _ in 0..3000 {
                let z = 2.0 * random.unit() - 1.0;
                let (sin, cos) = (TAU * random.unit()).sin_cos();
                let across = (1.0 - z * z).sqrt();
                let any = [across * cos, across * sin, z];
                let cosine = |of: &[f64; 3]| of.iter().zip(&any).map(|(a, b)| a * b).sum::<f64>();
                let nearest = grid.iter().map(cosine).fold(-1.0, f64::max).acos();
                assert!(nearest < 0.75 * spacing, "{degrees}: {any:?} is {nearest} away");
            }
        }
    }
}
