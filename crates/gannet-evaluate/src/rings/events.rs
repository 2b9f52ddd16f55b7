//! Events to be searched, and what rings they truly have.

use std::fs;
use std::path::Path;

use gannet_emulate::rich::config::Content;
use gannet_emulate::rich::{Generator, Ring};
use gannet_wire::na62::m2egp::WORD_LEN;
use gannet_wire::na62::{PmMap, Time};

use super::Error;

/// Units of the fine time between generated events: 100 ns, that of 10 million a second.
const EVERY: u64 = 1026;
/// A hit of a recorded ring is so near it at most, mm.
const NEAR: f64 = 12.0;

/// Events in the format of the trigger, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub m2egp: Vec<u8>,
    /// Where each begins, and where the last ends.
    pub starts: Vec<usize>,
    /// A time for each hit; empty where they are not known.
    pub times: Vec<u8>,
    /// The rings of each.
    pub truth: Vec<Vec<Ring>>,
}

impl Events {
    /// Generates so many events.
    pub fn generate(content: &Content, map: &PmMap, seed: u64, count: usize) -> Self {
        let generator = Generator::new(content, map, seed);
        let mut events = Self { starts: vec![0], ..Self::default() };
        for number in 0..count as u64 {
            let event = generator.event(number);
            event.write_m2egp(Time::from_fine_units(number * EVERY), &mut events.m2egp);
            events.starts.push(events.m2egp.len());
            events.times.extend(event.hits.iter().map(|hit| hit.time));
            events.truth.push(event.rings);
        }
        events
    }

    /// Reads recorded events, and a table of their rings.
    pub fn read(m2egp: &Path, truth: &Path, map: &PmMap) -> Result<Self, Error> {
        let unread = |path: &Path| {
            let path = path.to_owned();
            move |cause| Error::Read { path, cause }
        };
        let bytes = fs::read(m2egp).map_err(unread(m2egp))?;
        let mut events = Self { starts: starts(&bytes, m2egp)?, m2egp: bytes, ..Self::default() };
        events.truth = vec![Vec::new(); events.len()];
        let table = fs::read_to_string(truth).map_err(unread(truth))?;
        for (number, line) in table.lines().enumerate() {
            let is_heading = number == 0 && line.starts_with(|c: char| c.is_ascii_alphabetic());
            if line.trim().is_empty() || line.starts_with('#') || is_heading {
                continue;
            }
            let refused = || Error::Truth { path: truth.to_owned(), line: number + 1 };
            let (event, ring) = ring(line).ok_or_else(refused)?;
            if event >= events.len() {
                return Err(refused());
            }
            let hits = ring.1.unwrap_or_else(|| events.hits_near(event, &ring.0, map));
            events.truth[event].push(Ring { hits, ..ring.0 });
        }
        Ok(events)
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of hits of all events.
    pub fn hits(&self) -> usize {
        self.starts[..self.len()].iter().map(|&start| usize::from(self.m2egp[start + 5])).sum()
    }

    fn hits_near(&self, event: usize, ring: &Ring, map: &PmMap) -> u16 {
        let (start, end) = (self.starts[event], self.starts[event + 1]);
        let count = usize::from(self.m2egp[start + 5]);
        let (hits, _) = self.m2egp[start + WORD_LEN..end].as_chunks::<2>();
        let positions =
            hits.iter().take(count).filter_map(|hit| map.position(u16::from_le_bytes(*hit)));
        let (cx, cy, radius) = (f64::from(ring.x), f64::from(ring.y), f64::from(ring.radius));
        positions.filter(|[x, y]| ((x - cx).hypot(y - cy) - radius).abs() < NEAR).count() as u16
    }
}

/// Where each event begins, and where the last ends.
fn starts(bytes: &[u8], path: &Path) -> Result<Vec<usize>, Error> {
    let mut starts = vec![0];
    let mut at = 0;
    while at < bytes.len() {
        let header = bytes[at..].first_chunk::<WORD_LEN>();
        let len = header.map(|header| (1 + usize::from(header[5]).div_ceil(8)) * WORD_LEN);
        let end = len.map(|len| at + len).filter(|end| *end <= bytes.len());
        let refused = || Error::Events { path: path.to_owned(), event: starts.len() - 1, at };
        let delimited = header.is_some_and(|header| header[6..8] == [0xFF; 2]);
        at = end.filter(|_| delimited).ok_or_else(refused)?;
        starts.push(at);
    }
    Ok(starts)
}

/// Reads `event,x,y,radius` or `event,x,y,radius,hits`.
fn ring(line: &str) -> Option<(usize, (Ring, Option<u16>))> {
    let mut fields = line.split(',').map(str::trim);
    let event = fields.next()?.parse().ok()?;
    let mut number = || fields.next()?.parse::<f32>().ok().filter(|number| number.is_finite());
    let ring = Ring { x: number()?, y: number()?, radius: number()?, hits: 0 };
    let hits = match fields.next() {
        Some(hits) => Some(hits.parse().ok()?),
        None => None,
    };
    fields.next().is_none().then_some((event, (ring, hits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_read_or_refused() {
        let (event, (ring_read, hits)) = ring("7, -12.5, 3, 190.5, 14").unwrap();
        assert_eq!((event, ring_read.x, ring_read.y, ring_read.radius), (7, -12.5, 3.0, 190.5));
        assert_eq!(hits, Some(14));
        assert_eq!(ring("7,1,2,3").unwrap().1.1, None);
        for line in ["7,1,2", "7,1,2,x", "7,1,2,inf", "-1,1,2,3", "7,1,2,3,4,5", "7,1,2,3,many"] {
            assert!(ring(line).is_none(), "{line}");
        }
    }

    #[test]
    fn recorded_events_are_those_generated() {
        let map = PmMap::numbered();
        let generated = Events::generate(&Content::default(), &map, 3, 200);
        let directory = std::env::temp_dir().join(format!("gannet-rings-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (file, table) = (directory.join("events.m2egp"), directory.join("events.csv"));
        fs::write(&file, &generated.m2egp).unwrap();
        let mut lines = "event,x,y,radius,hits\n".to_owned();
        for (event, rings) in generated.truth.iter().enumerate() {
            for Ring { x, y, radius, hits } in rings {
                lines += &format!("{event},{x},{y},{radius},{hits}\n");
            }
        }
        fs::write(&table, &lines).unwrap();
        let read = Events::read(&file, &table, &map).unwrap();
        assert_eq!((&read.starts, &read.truth), (&generated.starts, &generated.truth));
        // Without their number, the hits near a ring are counted.
        let first = generated.truth.iter().position(|rings| rings.len() == 1).unwrap();
        let [Ring { x, y, radius, hits }] = generated.truth[first][..] else { unreachable!() };
        fs::write(&table, format!("{first},{x},{y},{radius}\n")).unwrap();
        let read = Events::read(&file, &table, &map).unwrap();
        assert!(read.truth[first][0].hits >= hits);
        fs::write(&table, "200,0,0,100\n").unwrap();
        assert!(matches!(Events::read(&file, &table, &map), Err(Error::Truth { line: 1, .. })));
        fs::write(&file, &generated.m2egp[..generated.starts[7] + 16]).unwrap();
        assert!(matches!(Events::read(&file, &table, &map), Err(Error::Events { event: 7, .. })));
        fs::remove_dir_all(&directory).unwrap();
    }
}
