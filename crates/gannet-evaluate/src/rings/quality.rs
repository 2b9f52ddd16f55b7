//! What of the true rings was found, and what of the rings found is true.

use gannet_emulate::rich::Ring as Truth;
use gannet_kernels::rings::{Found, Ring};
use serde::Serialize;

/// A ring found is a true one whose centre is within this, mm,
pub const CENTRE_MAX: f32 = 20.0;
/// and whose radius is within this, mm.
pub const RADIUS_MAX: f32 = 12.0;
/// True rings of fewer hits need not be found.
pub const HITS_MIN: u16 = 6;
/// Rings of an event that are told apart in the figures.
const RINGS: usize = 4;

/// How good a finder is, by the rule above, one ring found for one true one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Quality {
    /// Part of the true rings of six hits or more that is found.
    pub efficiency: f64,
    /// Part of the rings found that is true.
    pub purity: f64,
    /// Part of the events with as many rings found as there are true ones of six hits or more.
    pub exact: f64,
    /// Efficiency in events of 1, 2, 3 and 4 true rings; null where there are none.
    pub efficiency_by_rings: [Option<f64>; RINGS],
    /// Half of the width in which 68 % of the differences of radius lie, mm.
    pub radius_sigma_mm: f64,
    /// Median distance of the centres, mm.
    pub centre_median_mm: f64,
}

impl Quality {
    /// Judges what was found in events of this truth.
    pub fn of(truth: &[Vec<Truth>], found: &Found) -> Self {
        let (mut sought, mut hit) = ([0_usize; RINGS + 1], [0_usize; RINGS + 1]);
        let (mut matched, mut exact) = (0, 0);
        let (mut radii, mut centres) = (Vec::new(), Vec::new());
        for (truth, event) in truth.iter().zip(&found.events) {
            let rings = found.rings_of(event);
            let of = pairs(truth, rings);
            let class = truth.len().min(RINGS);
            for (ring, of) in truth.iter().zip(&of) {
                if let Some(of) = of {
                    matched += 1;
                    radii.push(f64::from(of.radius - ring.radius));
                    centres.push(distance(ring, of).into());
                }
                if ring.hits >= HITS_MIN {
                    sought[class] += 1;
                    hit[class] += usize::from(of.is_some());
                }
            }
            let visible = truth.iter().filter(|ring| ring.hits >= HITS_MIN).count();
            exact += usize::from(visible == rings.len());
        }
        let part = |part: usize, of: usize| if of > 0 { part as f64 / of as f64 } else { 0.0 };
        let by_rings = |rings: usize| (sought[rings] > 0).then(|| part(hit[rings], sought[rings]));
        Self {
            efficiency: part(hit.iter().sum(), sought.iter().sum()),
            purity: part(matched, found.rings.len()),
            exact: part(exact, truth.len()),
            efficiency_by_rings: std::array::from_fn(|index| by_rings(index + 1)),
            radius_sigma_mm: (quantile(&mut radii, 0.84) - quantile(&mut radii, 0.16)) / 2.0,
            centre_median_mm: quantile(&mut centres, 0.5),
        }
    }
}

/// The ring found for each true one: the nearest that no ring before it has.
fn pairs<'a>(truth: &[Truth], found: &'a [Ring]) -> Vec<Option<&'a Ring>> {
    let mut left: Vec<&Ring> = found.iter().collect();
    let mut nearest = |ring: &Truth| {
        let near = |found: &Ring| {
            distance(ring, found) < CENTRE_MAX && (found.radius - ring.radius).abs() < RADIUS_MAX
        };
        let candidates = left.iter().enumerate().filter(|(_, found)| near(found));
        let by_distance = |a: &&Ring, b: &&Ring| distance(ring, a).total_cmp(&distance(ring, b));
        let index = candidates.min_by(|(_, a), (_, b)| by_distance(a, b)).map(|(index, _)| index);
        index.map(|index| left.swap_remove(index))
    };
    truth.iter().map(&mut nearest).collect()
}

fn distance(truth: &Truth, found: &Ring) -> f32 {
    (found.x - truth.x).hypot(found.y - truth.y)
}

/// Value that this part of the values is below; 0 of none.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = (values.len() as f64 * part) as usize;
    values.get(index).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_kernels::rings::Event;

    fn truth(x: f32, radius: f32, hits: u16) -> Truth {
        Truth { x, y: 0.0, radius, hits }
    }

    fn found(events: &[&[(f32, f32)]]) -> Found {
        let mut found = Found::default();
        for rings in events {
            let (first, rings_of) = (found.rings.len() as u32, rings.len() as u8);
            found.events.push(Event { first, rings: rings_of, ..Event::default() });
            let ring = |&(x, radius): &(f32, f32)| Ring { x, y: 0.0, radius, hits: 9 };
            found.rings.extend(rings.iter().map(ring));
        }
        found
    }

    #[test]
    fn a_ring_is_found_once_and_by_the_rule() {
        let events = [
            vec![truth(0.0, 150.0, 12), truth(5.0, 155.0, 10)],
            vec![truth(0.0, 100.0, 20)],
            vec![truth(0.0, 190.0, 5)],
        ];
        // The first event has one ring for two true ones; in the second the radius is too large; in
        // the third the ring need not be found, and is.
        let found = found(&[&[(1.0, 151.0)], &[(0.0, 112.5)], &[(19.0, 181.0)]]);
        let quality = Quality::of(&events, &found);
        assert!((quality.efficiency - 1.0 / 3.0).abs() < 1e-9);
        assert!((quality.purity - 2.0 / 3.0).abs() < 1e-9);
        assert!((quality.exact - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(quality.efficiency_by_rings, [Some(0.0), Some(0.5), None, None]);
    }

    #[test]
    fn of_two_near_ones_the_nearest_is_taken_and_the_other_stays() {
        let events = [vec![truth(0.0, 150.0, 12), truth(10.0, 150.0, 12)]];
        let quality = Quality::of(&events, &found(&[&[(9.0, 150.0), (1.0, 150.0)]]));
        assert_eq!((quality.efficiency, quality.purity), (1.0, 1.0));
        assert_eq!(quality.centre_median_mm, 1.0);
    }

    #[test]
    fn nothing_found_in_nothing_is_no_division_by_0() {
        assert_eq!(Quality::of(&[], &Found::default()), Quality::default());
    }
}
