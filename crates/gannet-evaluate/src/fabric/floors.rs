//! What the machine allows, measured beside the fabric.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use gannet_memory::{Access, RegionError, SharedRegion};

use super::backend::Backend;
use super::datagrams::Datagrams;
use super::writes::Writes;
use super::{COPIED_FROM, Error, FabricPlan, LINE, Operation, memory};
use crate::cores::Cores;

/// Round trips and lines of a measurement.
const TRIPS: u64 = 50_000;
const LINES: u64 = 2_000_000;
/// Lines that may be under way.
const WINDOW: u64 = 1024;
/// Words of a line.
const WORDS: usize = 8;

/// What bounds the fabric on this machine, now.
pub(super) struct Floors {
    /// Half a round trip of a cache line, ns.
    pub line_ns: f64,
    /// Lines that pass from one processor to the other in a second.
    pub lines_per_s: f64,
    carrier: Carrier,
}

/// What carries bytes.
enum Carrier {
    /// Processors: copies a second by their bytes, to the memory of the other process and from it.
    Copies(Vec<(u64, [f64; 2])>),
    /// Sockets.
    Datagrams(Datagrams),
    /// A provider of libfabric.
    Writes(Writes),
}

impl Floors {
    /// Measures between the first two processors, and copies on the first.
    pub fn measure(plan: &FabricPlan<'_>, cores: &Cores) -> Result<Self, Error> {
        let (line_ns, lines_per_s) = lines(cores)?;
        let carrier = match plan.backend {
            Backend::Shm => {
                let copies = |&bytes: &u64| {
                    let to = copies_per_s(plan, bytes, Direction::To)?;
                    // Memory of a device is far slower to read.
                    let from = match plan.memory {
                        Some(_) => copies_per_s(plan, bytes, Direction::From)?,
                        None => to,
                    };
                    Ok((bytes, [to, from]))
                };
                let copies = plan.sizes.iter().map(copies);
                Carrier::Copies(copies.collect::<Result<_, Error>>()?)
            }
            Backend::Udp | Backend::Torus => {
                let measured = Datagrams::measure(&plan.sizes, plan.time, cores);
                Carrier::Datagrams(measured.map_err(Error::Sockets)?)
            }
            Backend::Ofi => Carrier::Writes(Writes::measure(plan, cores)?),
            Backend::Sim => return Err(Error::NoPath),
        };
        Ok(Self { line_ns, lines_per_s, carrier })
    }

    /// The limit of an operation, ns of half a round trip or operations a second, and what it is.
    pub fn limit(&self, operation: Operation, bytes: u64) -> (f64, &'static str) {
        let copies = match &self.carrier {
            Carrier::Copies(copies) => copies.iter().find(|&&(of, _)| of == bytes),
            Carrier::Datagrams(datagrams) => return datagrams.limit(operation, bytes),
            Carrier::Writes(writes) => return writes.limit(operation, bytes),
        };
        let [to, from] = copies.map_or([f64::NAN; 2], |&(_, rates)| rates);
        match operation {
            Operation::RoundTrip if bytes < COPIED_FROM => {
                (self.line_ns, "a cache line that passes between the processors")
            }
            Operation::RoundTrip => (self.line_ns + 1e9 / to, "such a cache line, and copying"),
            // Half a line of the event, and those of the bytes.
            Operation::OneWay | Operation::Flush if bytes < COPIED_FROM => {
                let lines = 0.5 + bytes.div_ceil(LINE) as f64;
                (self.lines_per_s / lines, "cache lines that pass between the processors")
            }
            Operation::OneWay | Operation::Flush => (to, "copying"),
            Operation::Get => (from, "copying"),
        }
    }
}

/// Half a round trip of a line, and how many pass in a second.
fn lines(cores: &Cores) -> Result<(f64, f64), RegionError> {
    let here = SharedRegion::new(LINE as usize * (WINDOW as usize + 2))?;
    let bytes = here.len() as u64;
    let file = here.descriptor(Access::Write).expect("a descriptor of own memory");
    let measured = thread::scope(|scope| {
        scope.spawn(move || {
            cores.pin(1);
            let there = SharedRegion::attach(file, bytes, Access::Write).expect("own memory");
            let words = there.words(0, WORDS * (WINDOW as usize + 2));
            for trip in 1..=TRIPS {
                while words[0].load(Ordering::Acquire) != trip {
                    spin_loop();
                }
                words[WORDS].store(trip, Ordering::Release);
            }
            for line in 0..LINES {
                let word = &words[WORDS * (2 + (line % WINDOW) as usize)];
                while word.load(Ordering::Acquire) != line + 1 {
                    spin_loop();
                }
                if (line + 1).is_multiple_of(WINDOW / 4) {
                    words[WORDS].store(line + 1, Ordering::Release);
                }
            }
        });
        let words = here.words(0, WORDS * (WINDOW as usize + 2));
        let mut begin = Instant::now();
        for trip in 1..=TRIPS {
            // Some trips for the other thread to come to its processor.
            if trip == TRIPS / 10 {
                begin = Instant::now();
            }
            words[0].store(trip, Ordering::Release);
            while words[WORDS].load(Ordering::Acquire) != trip {
                spin_loop();
            }
        }
        let trips = TRIPS - TRIPS / 10 + 1;
        let line_ns = begin.elapsed().as_nanos() as f64 / (2 * trips) as f64;
        words[WORDS].store(0, Ordering::Release);
        let (begin, mut taken) = (Instant::now(), 0);
        for line in 0..LINES {
            while line - taken >= WINDOW {
                taken = words[WORDS].load(Ordering::Acquire);
            }
            words[WORDS * (2 + (line % WINDOW) as usize)].store(line + 1, Ordering::Release);
        }
        (line_ns, LINES as f64 / begin.elapsed().as_secs_f64())
    });
    Ok(measured)
}

/// A way between own memory and that of the other process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    To,
    From,
}

/// Copies of `bytes` bytes that one processor makes in a second between own memory and that of the other process.
fn copies_per_s(plan: &FabricPlan<'_>, bytes: u64, way: Direction) -> Result<f64, Error> {
    let span = super::driver::span(bytes, plan.streaming);
    let (mut from, mut to) =
        (SharedRegion::new(span as usize)?, memory(plan.memory.as_deref(), span)?);
    if way == Direction::From {
        std::mem::swap(&mut from, &mut to);
    }
    let (span, bytes) = (span as usize, bytes as usize);
    let copy = |place: usize| {
        let offset = place * bytes % (span - bytes + 1);
        from.copy_to(offset, &to, offset, bytes);
        black_box(&to);
    };
    (0..10).for_each(copy);
    let mut count = 16;
    loop {
        let begin = Instant::now();
        (0..count).for_each(copy);
        let elapsed = begin.elapsed();
        if elapsed >= plan.time {
            return Ok(count as f64 / elapsed.as_secs_f64());
        }
        count *= 2;
    }
}
