//! From hits in order of time to events.

use core::ops::Range;

use gannet_wire::km3net::daq::trigger_bit;

use super::cluster::{Census, Cluster};
use super::columns::{Columns, LANES};
use super::directions;
use super::light::{Between, Point, Track};
use crate::coincidences::{Work, run};
use crate::isa::{Isa, IsaError, Kernel};

/// Most hits in the window after a hit that are asked about.
pub const HITS_MAX: usize = 1024;
/// Time after which an event is cut in two, ns.
pub const EVENT_MAX_NS: u64 = 100_000;
/// Hits that are dropped at a time.
const DROPPED_MIN: usize = 4096;
/// Largest detector, from corner to corner, m.
pub const DETECTOR_MAX_M: f64 = 10_000.0;

/// A hit of a module, in order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleHit {
    /// Time, ns.
    pub time: u64,
    /// Place of the module among the positions.
    pub module: u32,
    /// Photomultiplier.
    pub channel: u8,
    /// Time over threshold, ns.
    pub time_over_threshold: u8,
}

/// What a shower is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shower {
    /// Least hits.
    pub hits: usize,
    /// Least modules that have them.
    pub modules: usize,
    /// Most distance between two, m.
    pub distance_m: f64,
    /// Time by which light may be off, ns.
    pub extra_ns: f64,
}

impl Default for Shower {
    fn default() -> Self {
        Self { hits: 6, modules: 4, distance_m: 120.0, extra_ns: 20.0 }
    }
}

/// What a muon is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Muon {
    /// Least hits.
    pub hits: usize,
    /// Least modules that have them.
    pub modules: usize,
    /// Most distance between two across the track, m.
    pub road_m: f64,
    /// Time by which light may be off, ns.
    pub extra_ns: f64,
    /// Angle between directions that are asked for, radians.
    pub spacing: f64,
}

impl Default for Muon {
    fn default() -> Self {
        let spacing = 10_f64.to_radians();
        Self { hits: 5, modules: 5, road_m: 124.0, extra_ns: 20.0, spacing }
    }
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triggers {
    /// Muons, if they are.
    pub muon: Option<Muon>,
    /// Showers, if they are.
    pub shower: Option<Shower>,
}

impl Default for Triggers {
    fn default() -> Self {
        Self { muon: Some(Muon::default()), shower: Some(Shower::default()) }
    }
}

/// A hit of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggered {
    /// The hit.
    pub hit: ModuleHit,
    /// Triggers that have it in a cluster, see [`trigger_bit`].
    pub mask: u64,
}

/// Hits of clusters that overlap in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Triggers of all hits, see [`trigger_bit`].
    pub mask: u64,
    /// The hits, in order of time; at least one.
    pub hits: &'a [Triggered],
}

/// Finds events in hits that come in order of time.
///
/// Each hit is asked, with the hits after it in the window of a trigger, for a cluster: the hits that
/// match it, less those with too few partners. A hit that more than [`HITS_MAX`] follow in the window
/// is taken as it is, as if its cluster lasted for the window, and says that a limit is reached. An
/// event of [`EVENT_MAX_NS`] goes on as another one. What is found does not depend on how the hits are
/// handed over.
#[derive(Clone, Debug)]
pub struct EventFinder {
    kernel: Kernel,
    positions: Vec<[f32; 3]>,
    muon: Option<MuonFinder>,
    shower: Option<ShowerFinder>,
    buffer: Buffer,
    census: Census,
    /// All hits before this time are there, in ns.
    now: u64,
    open: Option<Open>,
    event: Vec<Triggered>,
}

/// An event that may still grow.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Place of its first hit in the buffer.
    place: usize,
    begin: u64,
    /// Time of its last hit.
    last: u64,
}

impl EventFinder {
    /// The finder for modules at these positions, in m.
    ///
    /// # Errors
    /// When this machine lacks the instruction set.
    ///
    /// # Panics
    /// If the detector is larger than [`DETECTOR_MAX_M`], or the directions of muons are too
    /// [close](directions::grid).
    pub fn new(positions: &[[f64; 3]], triggers: &Triggers, isa: Isa) -> Result<Self, IsaError> {
        let corner = |pick: fn(f64, f64) -> f64| {
            [0, 1, 2].map(|axis| positions.iter().map(|at| at[axis]).reduce(pick).unwrap_or(0.0))
        };
        let (low, high) = (corner(f64::min), corner(f64::max));
        let sides = low.iter().zip(&high).map(|(low, high)| high - low);
        let diagonal = sides.map(|side| side * side).sum::<f64>().sqrt();
        assert!(diagonal <= DETECTOR_MAX_M, "a detector of {diagonal} m");
        let near = |at: &[f64; 3]| core::array::from_fn(|axis| (at[axis] - low[axis]) as f32);
        Ok(Self {
            kernel: Kernel::of(isa)?,
            positions: positions.iter().map(near).collect(),
            muon: triggers.muon.map(|rule| MuonFinder::new(rule, diagonal)),
            shower: triggers.shower.map(ShowerFinder::new),
            buffer: Buffer::default(),
            census: Census::new(positions.len()),
            now: 0,
            open: None,
            event: Vec::new(),
        })
    }

    /// Time after a hit in which its cluster lies, in ns: of muons and of showers, 0 where these are
    /// not looked for.
    pub fn windows_ns(&self) -> [u64; 2] {
        let muon = self.muon.as_ref().map_or(0, |muon| muon.window_ns);
        [muon, self.shower.as_ref().map_or(0, |shower| shower.window_ns)]
    }

    /// Takes the next hit.
    ///
    /// # Panics
    /// If its module has no position, or if it comes before another one or before the time that was
    /// [advanced](Self::advance) to.
    pub fn push(&mut self, hit: ModuleHit) {
        assert!(hit.time >= self.now, "a hit at {} ns after {} ns", hit.time, self.now);
        self.buffer.push(hit, self.positions[hit.module as usize]);
    }

    /// Passes on the events that hits from `to` on, in ns, cannot change: no earlier one will come.
    pub fn advance(&mut self, to: u64, mut event: impl FnMut(&Event<'_>)) {
        self.now = self.now.max(to);
        run(self.kernel, AskAll(self, &mut event));
        let kept = self.open.map_or(self.buffer.asked, |open| open.place);
        if kept >= DROPPED_MIN.max(self.buffer.hits.len() / 2) {
            self.buffer.drop_first(kept);
            self.muon.iter_mut().for_each(|muon| muon.end = muon.end.saturating_sub(kept));
            self.shower.iter_mut().for_each(|shower| shower.end = shower.end.saturating_sub(kept));
            self.open = self.open.map(|open| Open { place: open.place - kept, ..open });
        }
    }

    /// Passes on all that is left. The next hit may have any time.
    pub fn finish(&mut self, event: impl FnMut(&Event<'_>)) {
        self.advance(u64::MAX, event);
        self.buffer.drop_first(self.buffer.hits.len());
        self.muon.iter_mut().for_each(|muon| muon.end = 0);
        self.shower.iter_mut().for_each(|shower| shower.end = 0);
        self.now = 0;
    }

    #[inline(always)]
    fn ask_all(&mut self, event: &mut impl FnMut(&Event<'_>)) {
        let [muon_ns, shower_ns] = self.windows_ns();
        let window_ns = muon_ns.max(shower_ns);
        while let Some(&ModuleHit { time, .. }) = self.buffer.hits.get(self.buffer.asked)
            && time.saturating_add(window_ns) < self.now
        {
            self.close(time, event);
            self.cut(time, event);
            let (buffer, census) = (&mut self.buffer, &mut self.census);
            let shower = self.shower.as_mut().and_then(|shower| shower.ask(buffer, census));
            let muon = self.muon.as_mut().and_then(|muon| muon.ask(buffer, census));
            if let Some(last) = shower.max(muon) {
                let new = Open { place: buffer.asked, begin: time, last };
                let open = self.open.get_or_insert(new);
                open.last = open.last.max(last);
            }
            self.buffer.asked += 1;
        }
        let next = self.buffer.hits.get(self.buffer.asked).map_or(self.now, |hit| hit.time);
        self.close(next, event);
    }

    /// Passes the open event on if it ends before `time`.
    #[inline(always)]
    fn close(&mut self, time: u64, event: &mut impl FnMut(&Event<'_>)) {
        if let Some(open) = self.open.take_if(|open| open.last < time) {
            self.pass_on(open, event);
        }
    }

    /// Passes the open event on as far as it goes if it has been open for long at `time`, that of the
    /// hit that is asked.
    #[inline(always)]
    fn cut(&mut self, time: u64, event: &mut impl FnMut(&Event<'_>)) {
        if let Some(open) = self.open
            && time - open.begin >= EVENT_MAX_NS
        {
            self.pass_on(open, event);
            self.open = Some(Open { place: self.buffer.asked, begin: time, ..open });
        }
    }

    /// Passes on the marked hits of an event before the one that is asked.
    fn pass_on(&mut self, open: Open, event: &mut impl FnMut(&Event<'_>)) {
        let Buffer { hits, masks, asked, .. } = &self.buffer;
        let all = hits[open.place..*asked].iter().zip(&masks[open.place..]);
        let marked = all.filter(|(_, mask)| **mask != 0);
        self.event.clear();
        self.event.extend(marked.map(|(&hit, &mask)| Triggered { hit, mask }));
        if !self.event.is_empty() {
            let mask = self.event.iter().fold(0, |all, it| all | it.mask);
            event(&Event { mask, hits: &self.event });
        }
    }
}

/// Asks all hits that can be.
struct AskAll<'a, E>(&'a mut EventFinder, &'a mut E);

impl<E: FnMut(&Event<'_>)> Work<()> for AskAll<'_, E> {
    #[inline(always)]
    fn run(self) {
        self.0.ask_all(self.1);
    }
}

/// The hits that are asked, and those that they are asked with.
#[derive(Clone, Debug, Default)]
struct Buffer {
    hits: Vec<ModuleHit>,
    columns: Columns,
    masks: Vec<u64>,
    /// Hits that have been asked; the next one is asked now.
    asked: usize,
}

impl Buffer {
    fn push(&mut self, hit: ModuleHit, at: [f32; 3]) {
        assert!(self.hits.last().is_none_or(|last| *last <= hit), "hits are not in order");
        self.columns.push(at, hit.time as u32);
        self.hits.push(hit);
        self.masks.push(0);
    }

    fn drop_first(&mut self, count: usize) {
        self.hits.drain(..count);
        self.masks.drain(..count);
        self.columns.drop_first(count);
        self.asked -= count;
    }

    /// The hits within `window_ns` after the one that is asked. If they are too many it is marked, and
    /// the time is given until which they last. `end` is that of the hit before, and of this one then.
    #[inline(always)]
    fn after(&mut self, window_ns: u64, end: &mut usize) -> Result<Range<usize>, u64> {
        let until = self.hits[self.asked].time.saturating_add(window_ns);
        let first = self.asked + 1;
        *end = (*end).max(first);
        while self.hits.get(*end).is_some_and(|hit| hit.time <= until) {
            *end += 1;
        }
        if *end - first > HITS_MAX {
            self.masks[self.asked] |= 1 << trigger_bit::LIMIT_REACHED;
            return Err(until);
        }
        Ok(first..*end)
    }

    /// Takes the hits after the one that is asked that are `such` into a cluster.
    #[inline(always)]
    fn gather(&self, cluster: &mut Cluster, range: Range<usize>, such: impl Fn(Between) -> bool) {
        let of = |hit: usize| (hit, self.hits[hit].module);
        cluster.gather(&self.columns, self.asked, range, of, such);
    }

    /// Marks what is left of a cluster, and gives the time of its last hit.
    #[inline(always)]
    fn mark(&mut self, cluster: &Cluster, bit: u32) -> Option<u64> {
        let mut last = None;
        for hit in cluster.left() {
            self.masks[hit] |= 1 << bit;
            last = Some(self.hits[hit].time);
        }
        last
    }
}

#[derive(Clone, Debug)]
struct ShowerFinder {
    rule: Shower,
    point: Point,
    window_ns: u64,
    end: usize,
    cluster: Cluster,
}

impl ShowerFinder {
    fn new(rule: Shower) -> Self {
        let point = Point::new(rule.distance_m, rule.extra_ns);
        let window_ns = point.time_max().ceil() as u64;
        Self { rule, point, window_ns, end: 0, cluster: Cluster::default() }
    }

    /// Time of the last hit of the shower that begins with the hit that is asked.
    #[inline(always)]
    fn ask(&mut self, buffer: &mut Buffer, census: &mut Census) -> Option<u64> {
        let Shower { hits, modules, .. } = self.rule;
        let range = match buffer.after(self.window_ns, &mut self.end) {
            Ok(range) if range.len() + 1 < hits => return None,
            Ok(range) => range,
            Err(until) => return Some(until),
        };
        let (cluster, such) = (&mut self.cluster, |between| self.point.matches(between));
        buffer.gather(cluster, range, such);
        if cluster.len() < hits || !census.of_all(cluster, modules) {
            return None;
        }
        cluster.prune(hits.saturating_sub(1), such);
        match census.of_left(cluster, modules) {
            true => buffer.mark(cluster, trigger_bit::SHOWER),
            false => None,
        }
    }
}

#[derive(Clone, Debug)]
struct MuonFinder {
    rule: Muon,
    track: Track,
    window_ns: u64,
    end: usize,
    directions: Vec<[f32; 3]>,
    /// The same by component, in blocks; the last is filled up with zeros.
    blocks: Vec<[[f32; LANES]; 3]>,
    /// Hits that may match in some direction, and that do in one.
    wide: Cluster,
    narrow: Cluster,
}

impl MuonFinder {
    fn new(rule: Muon, detector_m: f64) -> Self {
        let track = Track::new(rule.road_m, rule.extra_ns);
        let grid = directions::grid(rule.spacing);
        let directions: Vec<[f32; 3]> =
            grid.iter().map(|direction| direction.map(|it| it as f32)).collect();
        let component = |block: &[[f32; 3]], axis: usize| {
            core::array::from_fn(|lane| block.get(lane).map_or(0.0, |direction| direction[axis]))
        };
        let blocks = directions.chunks(LANES);
        let blocks = blocks.map(|block| [0, 1, 2].map(|axis| component(block, axis)));
        Self {
            rule,
            track,
            window_ns: track.time_max(detector_m).ceil() as u64,
            end: 0,
            blocks: blocks.collect(),
            directions,
            wide: Cluster::default(),
            narrow: Cluster::default(),
        }
    }

    /// Time of the last hit of the muons, by direction, that begin with the hit that is asked.
    ///
    /// A direction whose hits are all marked makes no difference: the hit that is asked is one of them,
    /// and the event that they are in lasts as long.
    #[inline(always)]
    fn ask(&mut self, buffer: &mut Buffer, census: &mut Census) -> Option<u64> {
        let Muon { hits, modules, .. } = self.rule;
        let range = match buffer.after(self.window_ns, &mut self.end) {
            Ok(range) if range.len() + 1 < hits => return None,
            Ok(range) => range,
            Err(until) => return Some(until),
        };
        let (wide, narrow, track) = (&mut self.wide, &mut self.narrow, self.track);
        buffer.gather(wide, range, |between| track.may_match(between));
        let is_marked = |buffer: &Buffer, cluster: &Cluster| {
            let bit = 1 << trigger_bit::MUON;
            cluster.members.iter().all(|&hit| buffer.masks[hit] & bit != 0)
        };
        if wide.len() < hits || !census.of_all(wide, modules) || is_marked(buffer, wide) {
            return None;
        }
        wide.prune(hits.saturating_sub(1), |between| track.may_match(between));
        if !census.of_left(wide, modules) {
            return None;
        }
        let mut last = None;
        for (block, directions) in self.blocks.iter().zip(self.directions.chunks(LANES)) {
            let counts = count(&wide.columns, block, track);
            for (&direction, &count) in directions.iter().zip(&counts) {
                if (count as usize) + 1 < hits {
                    continue;
                }
                let such = |between| track.matches(direction, between);
                narrow.gather(&wide.columns, 0, 1..wide.len(), |hit| wide.of(hit), such);
                if is_marked(buffer, narrow) || !census.of_all(narrow, modules) {
                    continue;
                }
                narrow.prune(hits.saturating_sub(1), such);
                if census.of_left(narrow, modules) {
                    last = last.max(buffer.mark(narrow, trigger_bit::MUON));
                }
            }
        }
        last
    }
}

/// By direction, how many hits match the first one.
#[inline(always)]
fn count(columns: &Columns, block: &[[f32; LANES]; 3], track: Track) -> [u32; LANES] {
    let mut counts = [0; LANES];
    let [ux, uy, uz] = block;
    for hit in 1..columns.len() {
        let between = columns.between(0, hit);
        for (lane, count) in counts.iter_mut().enumerate() {
            *count += u32::from(track.matches([ux[lane], uy[lane], uz[lane]], between));
        }
    }
    counts
}
