//! How long buffers of events take to arrive at the pace of a link and to be searched, by their size.

mod link;
mod pass;
mod plot;

use std::hint::black_box;
use std::time::{Duration, Instant};

use gannet_dune::tpg::IsaChoice;
use gannet_emulate::rich::config::Content;
use gannet_kernels::IsaError;
use gannet_wire::na62::PmMap;
use serde::{Deserialize, Serialize};

pub use self::link::Link;
use self::pass::{Order, Passed};
pub use self::plot::svg;
use crate::cores::Cores;
use crate::rings::events::Events;
use crate::rings::{Finder, Fit, Ready};
use crate::sys::read::Way;

/// Sizes of buffers, in events.
pub const SIZES: [usize; 10] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Time within which the RICH is to be answered.
pub const BUDGET_US: f64 = 1000.0;
/// Events a second that the RICH has.
pub const EVENTS_PER_S: f64 = 10e6;
/// Events that the buffers are filled with, in turn.
const POOL_EVENTS: usize = 1 << 16;
/// Seed of the events.
const SEED: u64 = 1;
/// Bytes that are copied or read at a time for the limits: they stay in the first cache.
const CHUNK: usize = 16 << 10;
/// Passes over the pool of which the fastest is a limit.
const LIMIT_PASSES: usize = 10;

/// Whose events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detector {
    /// Those of the RICH of NA62.
    Rich,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// Whose events.
    pub detector: Detector,
    /// What finds rings in them.
    pub finder: Finder,
    /// The instruction set.
    pub isa: IsaChoice,
    /// Length of the measurement of each link, size and order.
    pub time: Duration,
}

/// A time and what it can be at least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The median of the buffers, us.
    pub us: f64,
    /// What 1 % of the buffers surpass, us.
    pub p99_us: f64,
    /// What the link and reading or copying of memory alone would take, us.
    pub limit_us: f64,
}

/// What was measured with buffers of a size.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Events of a buffer.
    pub events: usize,
    /// From the first byte on the link until the buffer is full, one buffer at a time.
    pub transfer: Span,
    /// From then until the rings of all its events are found, one buffer at a time.
    pub processing: Span,
    /// Both: a buffer is filled when the one before was searched.
    pub serialised: Span,
    /// From the end of a buffer to that of the next, where one is filled while another is searched; the limit
    /// is the larger of transfer and processing.
    pub overlapped: Span,
    /// `overlapped` as a multiple of that limit.
    pub times_larger: f64,
    /// From the first byte on the link to the rings of all events of the buffer, overlapped; the limit is that
    /// of transfer and processing.
    pub overlapped_latency: Span,
    /// Events a second, overlapped.
    pub events_per_s: f64,
    /// Events a second that the link carries or memory copies.
    pub limit_per_s: f64,
}

/// What was measured at the pace of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// The link.
    pub link: Link,
    /// Its rate, if it has one.
    pub bits_per_s: Option<f64>,
    /// By size.
    pub points: Vec<Point>,
    /// Events of the largest buffer within the budget, one at a time.
    pub largest_serialised: Option<usize>,
    /// The same where one is filled while another is searched.
    pub largest_overlapped: Option<usize>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyReport {
    /// Whose events.
    pub detector: Detector,
    /// What found rings in them.
    pub finder: Finder,
    /// Instruction set.
    pub isa: &'static str,
    /// Bytes of an event, on average.
    pub bytes_per_event: f64,
    /// The budget, us.
    pub budget_us: f64,
    /// Events a second that are asked for.
    pub required_per_s: f64,
    /// Whether link and search had a processor each.
    pub has_cores: bool,
    /// By link.
    pub links: Vec<LinkReport>,
}

/// Measures each link with each of `sizes`.
///
/// # Errors
/// When the machine lacks the instruction set.
///
/// # Panics
/// When a size is none of [`SIZES`].
pub fn measure(plan: &LatencyPlan, sizes: &[usize]) -> Result<LatencyReport, IsaError> {
    assert!(sizes.iter().all(|size| SIZES.contains(size)), "a buffer has whole datagrams");
    let Detector::Rich = plan.detector;
    let map = PmMap::numbered();
    let mut finder = Ready::new(plan.finder, Fit::Taubin, plan.isa, &map)?;
    let events = Events::generate(&Content::default(), &map, SEED, POOL_EVENTS);
    let bytes_per_event = events.m2egp.len() as f64 / POOL_EVENTS as f64;
    let memory = Memory::measure(&events);
    let cores = Cores::usable();
    let mut measure_link = |link: Link| {
        let bits_per_s = link.bits_per_s();
        let transfer_us = bits_per_s.map_or(memory.copying_us, |rate| {
            (bytes_per_event * 8e6 / rate).max(memory.copying_us)
        });
        let points = sizes.iter().map(|&size| {
            let pass =
                |order| pass::run(&cores, &events, &mut finder, (link, size, order), plan.time);
            let [one_by_one, overlapped] = [Order::Serialised, Order::Overlapped].map(pass);
            point(size, one_by_one, overlapped, [transfer_us, memory.reading_us])
        });
        let points: Vec<Point> = points.collect();
        let largest = |time: fn(&Point) -> f64| {
            points.iter().filter(|point| time(point) <= BUDGET_US).map(|point| point.events).max()
        };
        LinkReport {
            link,
            bits_per_s,
            largest_serialised: largest(|point| point.serialised.us),
            largest_overlapped: largest(|point| point.overlapped_latency.us),
            points,
        }
    };
    Ok(LatencyReport {
        detector: plan.detector,
        finder: plan.finder,
        isa: plan.isa.isa().name(),
        bytes_per_event,
        budget_us: BUDGET_US,
        required_per_s: EVENTS_PER_S,
        has_cores: cores.has(2),
        links: Link::ALL.into_iter().map(&mut measure_link).collect(),
    })
}

fn point(
    size: usize,
    one_by_one: Passed,
    overlapped: Passed,
    [transfer_limit, processing_limit]: [f64; 2],
) -> Point {
    let [transfer_limit, processing_limit] =
        [transfer_limit, processing_limit].map(|of_event| of_event * size as f64);
    let both_limits = transfer_limit + processing_limit;
    let transfer = span(one_by_one.transfer, transfer_limit);
    let processing = span(one_by_one.processing, processing_limit);
    let period = span(overlapped.period, transfer.us.max(processing.us));
    Point {
        events: size,
        transfer,
        processing,
        serialised: span(one_by_one.latency, both_limits),
        overlapped: period,
        times_larger: period.us / period.limit_us,
        overlapped_latency: span(overlapped.latency, both_limits),
        events_per_s: size as f64 * 1e6 / period.us,
        limit_per_s: size as f64 * 1e6 / transfer_limit,
    }
}

/// The median and the tail of times in ns.
fn span(mut ns: Vec<u64>, limit_us: f64) -> Span {
    ns.sort_unstable();
    let at = |part: f64| ns[((ns.len() - 1) as f64 * part).round() as usize] as f64 * 1e-3;
    Span { us: at(0.5), p99_us: at(0.99), limit_us }
}

/// What memory allows.
struct Memory {
    /// Time in which an event is copied.
    copying_us: f64,
    /// Time in which an event is read.
    reading_us: f64,
}

impl Memory {
    fn measure(events: &Events) -> Self {
        let mut room = vec![0; CHUNK];
        let copying = fastest(events, |chunk| {
            room.copy_from_slice(chunk);
            black_box(&mut room);
        });
        let reading = fastest(events, |chunk| _ = black_box(Way::Plain.sum(black_box(chunk))));
        Self { copying_us: copying, reading_us: reading }
    }
}

/// Least time for an event of some work with all of them, us.
fn fastest(events: &Events, mut work: impl FnMut(&[u8])) -> f64 {
    let chunks = events.m2egp.as_slice().chunks_exact(CHUNK);
    let pass = |_| {
        let begin = Instant::now();
        chunks.clone().for_each(&mut work);
        begin.elapsed().as_secs_f64()
    };
    let seconds = (0..LIMIT_PASSES).map(pass).fold(f64::INFINITY, f64::min);
    seconds * 1e6 / events.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_arrive_at_the_pace_of_their_link() {
        let plan = LatencyPlan {
            detector: Detector::Rich,
            finder: Finder::Single,
            isa: IsaChoice::Auto,
            time: Duration::ZERO,
        };
        let report = measure(&plan, &[16, 256]).unwrap();
        assert_eq!(report.links.len(), Link::ALL.len());
        for link in &report.links {
            for point in &link.points {
                // No buffer comes sooner than its link allows, or is searched before it is there.
                let least = link.bits_per_s.map_or(0.0, |_| 0.95 * point.transfer.limit_us);
                assert!(point.transfer.us >= least, "{point:?}");
                assert!(point.serialised.us >= point.transfer.us, "{point:?}");
                // From one buffer to the next it may be less than that: what was held up is caught up.
                assert!(point.overlapped_latency.us >= least, "{point:?}");
                assert!(point.transfer.p99_us >= point.transfer.us, "{point:?}");
            }
        }
        let gbe = &report.links[0].points[1];
        let expected_us = 256.0 * report.bytes_per_event * 8.0 * 1e-3;
        assert!((gbe.transfer.limit_us - expected_us).abs() < 1e-6 * expected_us);
        let page = svg(&report).unwrap();
        assert!(page.contains("size of a buffer, events") && page.contains("APElink"), "{page}");
    }

    #[test]
    fn the_tail_of_times_is_what_one_in_a_hundred_surpasses() {
        let Span { us, p99_us, limit_us } = span((0..=1000).rev().map(|n| n * 1000).collect(), 7.0);
        assert_eq!((us, p99_us, limit_us), (500.0, 990.0, 7.0));
    }
}
