//! The ring of each event by a plain loop, for comparison.

use gannet_wire::na62::PmMap;
use gannet_wire::na62::m2egp::WORD_LEN;
use gannet_wire::na62::pm_map::CHANNELS;

/// Linear least squares in two passes over the hits of an event: first their mean, then moments about it.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    positions: Vec<[f64; 2]>,
}

impl Plain {
    pub fn new(map: &PmMap) -> Self {
        let position = |channel| map.position(channel as u16).unwrap_or_default();
        Self { positions: (0..CHANNELS).map(position).collect() }
    }

    /// Appends centre and radius of the ring of each event, mm.
    pub fn find(&self, mut m2egp: &[u8], rings: &mut Vec<[f64; 3]>) {
        while let Some(header) = m2egp.first_chunk::<WORD_LEN>() {
            let bytes = 2 * usize::from(header[5]);
            let Some(hits) = m2egp[WORD_LEN..].get(..bytes) else { break };
            let (hits, _) = hits.as_chunks::<2>();
            rings.push(self.ring(hits));
            let len = WORD_LEN + bytes.next_multiple_of(WORD_LEN);
            m2egp = m2egp.get(len..).unwrap_or_default();
        }
    }

    fn ring(&self, hits: &[[u8; 2]]) -> [f64; 3] {
        let at = |hit: &[u8; 2]| self.positions[usize::from(u16::from_le_bytes(*hit)) % CHANNELS];
        let n = hits.len() as f64;
        let (mut mx, mut my) = (0.0, 0.0);
        for [x, y] in hits.iter().map(at) {
            mx += x;
            my += y;
        }
        let (mx, my) = (mx / n, my / n);
        let (mut uu, mut uv, mut vv, mut uw, mut vw) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for [x, y] in hits.iter().map(at) {
            let (u, v) = (x - mx, y - my);
            let w = u * u + v * v;
            uu += u * u;
            uv += u * v;
            vv += v * v;
            uw += u * w;
            vw += v * w;
        }
        let det = 2.0 * (uu * vv - uv * uv);
        let (a, b) = ((uw * vv - vw * uv) / det, (vw * uu - uw * uv) / det);
        [a + mx, b + my, (a * a + b * b + (uu + vv) / n).sqrt()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_emulate::rich::{Event, Hit};
    use gannet_wire::na62::{Pm, Time};

    #[test]
    fn hits_of_photomultipliers_on_a_circle_give_the_circle() {
        let (x, y, radius) = (-100.0, 20.0, 150.0);
        let near = |pm: &Pm| {
            let [px, py] = pm.position();
            ((px - x).hypot(py - y) - radius).abs() < 3.0
        };
        let map = PmMap::numbered();
        let channels = Pm::all().filter(near).filter_map(|pm| map.channel(pm));
        let mut hits: Vec<Hit> = channels.map(|channel| Hit { channel, time: 0 }).collect();
        hits.sort_unstable();
        let event = Event { hits, rings: Vec::new() };
        let mut bytes = Vec::new();
        event.write_m2egp(Time::default(), &mut bytes);
        event.write_m2egp(Time::default(), &mut bytes);
        let mut rings = Vec::new();
        Plain::new(&map).find(&bytes, &mut rings);
        assert_eq!(rings.len(), 2);
        for [rx, ry, r] in rings {
            assert!(
                [rx - x, ry - y, r - radius].iter().all(|off| off.abs() < 2.0),
                "{rx} {ry} {r}"
            );
        }
    }
}
