//! Which two hits can be of the same light.
//!
//! Source: KM3NeT/KM3io.jl `constants.jl`; the geometry of light that leaves a point, or a track under
//! the Cherenkov angle.

/// Refractive index of sea water for groups of light.
pub const INDEX: f64 = 1.380_085_128_2;
/// Speed of light, m/ns.
pub const LIGHT: f64 = 0.299_792_458;
/// What rounding can change of a time, with a margin, ns.
const ROUNDING_NS: f32 = 4.0;

/// Tangent of the Cherenkov angle.
fn tangent() -> f64 {
    (INDEX * INDEX - 1.0).sqrt()
}

/// What is between two hits.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// From one module to the other, m.
    pub way: [f32; 3],
    /// From one hit to the other, ns.
    pub time: f32,
}

impl Between {
    #[inline(always)]
    fn distance_squared(self) -> f32 {
        let [x, y, z] = self.way;
        x * x + y * y + z * z
    }
}

/// Light that leaves a point (3D match).
#[derive(Clone, Copy, Debug)]
pub struct Point {
    distance_squared: f32,
    extra_ns: f32,
    slowness_squared: f32,
}

impl Point {
    /// Light that is not asked for beyond `distance_m`, and may be off by `extra_ns`.
    pub fn new(distance_m: f64, extra_ns: f64) -> Self {
        let slowness = INDEX / LIGHT;
        Self {
            distance_squared: (distance_m * distance_m) as f32,
            extra_ns: extra_ns as f32,
            slowness_squared: (slowness * slowness) as f32,
        }
    }

    /// Whether one point can have made both: they are not further apart in time than light takes.
    #[inline(always)]
    pub fn matches(self, between: Between) -> bool {
        let squared = between.distance_squared();
        let late = between.time.abs() - self.extra_ns;
        let soon = (late <= 0.0) | (late * late <= squared * self.slowness_squared);
        soon & (squared <= self.distance_squared)
    }

    /// Most time between hits that match, ns.
    pub(super) fn time_max(self) -> f32 {
        (self.distance_squared * self.slowness_squared).sqrt() + self.extra_ns + ROUNDING_NS
    }
}

/// Light that leaves a track of known direction (1D match), within a road around it.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    road_m: f32,
    extra_ns: f32,
    ns_per_m: f32,
    tangent: f32,
    /// Distance up to which the longest way of light is the slowest, m.
    point_like: f32,
}

impl Track {
    /// Light of tracks no two of whose modules are further apart across them than `road_m`; it may be
    /// off by `extra_ns`.
    pub fn new(road_m: f64, extra_ns: f64) -> Self {
        let sine = tangent() / INDEX;
        Self {
            road_m: road_m as f32,
            extra_ns: extra_ns as f32,
            ns_per_m: (1.0 / LIGHT) as f32,
            tangent: tangent() as f32,
            point_like: (0.5 * road_m / sine) as f32,
        }
    }

    /// Whether a track that goes to `direction`, of length 1, can have made both.
    ///
    /// The track goes along from one to the other in `along / c`. The light of either takes at most
    /// the way across it, and both lie within the road.
    #[inline(always)]
    pub fn matches(self, direction: [f32; 3], between: Between) -> bool {
        let ([ux, uy, uz], [x, y, z]) = (direction, between.way);
        let along = ux * x + uy * y + uz * z;
        let squared = between.distance_squared() - along * along;
        let across = if squared > 0.0 { squared } else { 0.0 }.sqrt();
        let rest = self.road_m - across;
        let light = if across < rest { across } else { rest } * self.tangent;
        let late = (between.time - along * self.ns_per_m).abs();
        (rest >= 0.0) & (late <= light * self.ns_per_m + self.extra_ns)
    }

    /// Whether a track of any direction may have made both. It says so of all that match in one.
    ///
    /// Across the track, half the road gives most time to light, and most of it takes away; a way
    /// that is shorter than that goes with the light.
    #[inline(always)]
    pub(super) fn may_match(self, between: Between) -> bool {
        let squared = between.distance_squared();
        let half = 0.5 * self.road_m;
        let root = |squared: f32| if squared > 0.0 { squared } else { 0.0 }.sqrt();
        let distance = squared.sqrt();
        let beside_half = root(squared - half * half);
        let beside_all = root(squared - self.road_m * self.road_m);
        let most = match distance <= self.point_like {
            true => distance * (INDEX as f32),
            false => beside_half + half * self.tangent,
        };
        let aside = beside_half - half * self.tangent;
        let least = if aside < beside_all { aside } else { beside_all };
        let least = if distance <= self.road_m { 0.0 } else { least };
        let extra = self.extra_ns + ROUNDING_NS;
        let time = between.time.abs();
        (time <= most * self.ns_per_m + extra) & (time >= least * self.ns_per_m - extra)
    }

    /// Most time between hits of modules at most so far apart that match, ns.
    pub(super) fn time_max(self, distance_m: f64) -> f32 {
        let most = distance_m as f32 + self.road_m * self.tangent;
        most * self.ns_per_m + self.extra_ns + ROUNDING_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::random::Random;

    const CASES: usize = 200_000;

    fn random_between(random: &mut Random) -> Between {
        let far = 10_f64.powf(3.0 * random.unit());
        let way = [(); 3].map(|()| ((2.0 * random.unit() - 1.0) * far) as f32);
        Between { way, time: ((2.0 * random.unit() - 1.0) * far * 6.0).round() as f32 }
    }

    fn random_direction(random: &mut Random) -> [f64; 3] {
        let z = 2.0 * random.unit() - 1.0;
        let (sin, cos) = (std::f64::consts::TAU * random.unit()).sin_cos();
        let across = (1.0 - z * z).sqrt();
        [across * cos, across * sin, z]
    }

    /// The published rule of a track, case by case; `slack` moves all its limits.
    fn is_on_track(direction: [f64; 3], between: Between, road: f64, extra: f64) -> bool {
        let way = between.way.map(f64::from);
        let along: f64 = way.iter().zip(direction).map(|(a, b)| a * b).sum();
        let across = (way.iter().map(|it| it * it).sum::<f64>() - along * along).max(0.0).sqrt();
        let late = (f64::from(between.time) - along / LIGHT).abs();
        if late > 0.5 * road * tangent() / LIGHT + extra {
            false
        } else if across <= 0.5 * road {
            late <= across * tangent() / LIGHT + extra
        } else if across <= road {
            late <= (road - across) * tangent() / LIGHT + extra
        } else {
            false
        }
    }

    #[test]
    fn matches_are_those_of_the_published_rules() {
        let mut random = Random::new(5);
        let (point, track) = (Point::new(120.0, 20.0), Track::new(124.0, 20.0));
        let mut some = [0; 4];
        for _ in 0..CASES {
            let between = random_between(&mut random);
            let distance = between.way.map(f64::from).map(|it| it * it).iter().sum::<f64>().sqrt();
            let late = f64::from(between.time.abs()) - distance * INDEX / LIGHT - 20.0;
            if late.abs() > 0.01 && (distance - 120.0).abs() > 0.01 {
                assert_eq!(point.matches(between), late < 0.0 && distance < 120.0, "{between:?}");
            }
            some[usize::from(point.matches(between))] += 1;
            let direction = random_direction(&mut random);
            // A match may fall on either side of its limits where rounding decides.
            let [inner, outer] = [-1.0, 1.0]
                .map(|slack| is_on_track(direction, between, 124.0 + 0.2 * slack, 20.0 + slack));
            let matches = track.matches(direction.map(|it| it as f32), between);
            assert!(matches == inner || matches == outer, "{direction:?} {between:?}");
            some[2 + usize::from(matches)] += 1;
        }
        assert!(some.iter().all(|&cases| cases > 2000), "{some:?}");
    }

    #[test]
    fn what_matches_in_a_direction_may_match_in_any_and_little_else_does() {
        let mut random = Random::new(6);
        let track = Track::new(124.0, 20.0);
        let (mut matching, mut far, mut far_may) = (0, 0, 0);
        for _ in 0..CASES {
            let between = random_between(&mut random);
            let direction = random_direction(&mut random).map(|it| it as f32);
            let may = track.may_match(between);
            if track.matches(direction, between) {
                matching += 1;
                assert!(may, "{direction:?} {between:?}");
                assert!(between.time <= track.time_max(1800.0));
            }
            let is_far = between.distance_squared() > 400.0 * 400.0;
            far += usize::from(is_far);
            far_may += usize::from(is_far & may);
        }
        assert!(matching > 2000 && far > 2000 && far_may < far / 4, "{matching} {far} {far_may}");
    }
}
