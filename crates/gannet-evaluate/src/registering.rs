//! What it costs to make memory that far nodes may reach.
//!
//! Memory is mapped for the first time, attached by another mapping as another process does, locked as a driver
//! pins it, and entered in the table of registered buffers. What is registered is only looked at for each access.
//! Beside each stands what the same pages allow.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use gannet_memory::{
    Access, AttachError, PageSize, RegionError, RegisterError, RegisteredBuffers, Registration,
    SharedRegion,
};
use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::sys;

/// Page size of the table, as the endpoints of the fabric have it.
const PAGE: PageSize = PageSize::MiB2;
/// Bytes of a page of the system.
const PAGE_BYTES: usize = 4096;
/// Process that owns the buffers, and where they begin.
const PROCESS: u16 = 1;
const START: u64 = 1 << 40;
/// Passes of each step, in turn.
const PASSES: usize = 7;

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Memory cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Memory cannot be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The table does not take a buffer.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// No descriptor of memory can be had.
    #[error("cannot share memory: {0}")]
    Share(#[source] io::Error),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Shared memory is made, all pages of it, and given back.
    Map,
    /// It is mapped once more, by its descriptor, and unmapped.
    Attach,
    /// Its pages are locked and unlocked.
    Lock,
    /// A buffer is entered in the table of registered ones, and taken out.
    Register,
    /// An access is checked against a buffer that is registered.
    Check,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Map, Self::Attach, Self::Lock, Self::Register, Self::Check];
}

/// One step with memory of one size.
#[derive(Clone, Debug, Serialize)]
pub struct RegisterRow {
    /// What was done.
    pub step: Step,
    /// Bytes of the memory.
    pub bytes: u64,
    /// Time that it takes, in ns: the median of the passes. None if the system refuses it.
    pub ns: Option<f64>,
    /// The same for each page of 4 KiB.
    pub ns_per_page: Option<f64>,
    /// What the same pages allow, in ns.
    pub limit_ns: f64,
    /// What that is.
    pub limit_is: &'static str,
    /// The time by this limit.
    pub ratio: Option<f64>,
    /// Why the system refuses it.
    pub refusal: Option<String>,
}

/// Measures with memory of each of `sizes` bytes, each pass for `time` at least, on one core.
///
/// # Errors
/// When memory cannot be had, mapped again or registered.
///
/// # Panics
/// When a size is 0.
pub fn measure(sizes: &[u64], time: Duration) -> Result<Vec<RegisterRow>, Error> {
    Cores::usable().pin(0);
    let mut rows = Vec::new();
    for &bytes in sizes {
        let mut bench = Bench::new(bytes as usize)?;
        let mut figures = Step::ALL.map(|_| (Vec::new(), Vec::new(), None));
        for _ in 0..PASSES {
            for (step, (times, limits, refusal)) in Step::ALL.into_iter().zip(&mut figures) {
                limits.push(bench.limit_ns(step, time));
                match bench.step_ns(step, time)? {
                    Ok(ns) => times.push(ns),
                    Err(error) => *refusal = Some(error.to_string()),
                }
            }
        }
        for (step, (mut times, mut limits, refusal)) in Step::ALL.into_iter().zip(figures) {
            let (ns, limit_ns) =
                (refusal.is_none().then(|| median(&mut times)), median(&mut limits));
            rows.push(RegisterRow {
                step,
                bytes,
                ns,
                ns_per_page: ns.map(|ns| ns / (bench.region.len() / PAGE_BYTES) as f64),
                limit_ns,
                limit_is: limit_is(step),
                ratio: ns.map(|ns| ns / limit_ns),
                refusal,
            });
        }
    }
    Ok(rows)
}

fn limit_is(step: Step) -> &'static str {
    match step {
        Step::Map => "filling as many bytes with zeros",
        Step::Attach | Step::Lock => "reading a byte of each page",
        Step::Register => "copying the addresses of as many pages",
        Step::Check => "reading a word of the table",
    }
}

/// Memory of one size, and a table that takes it.
struct Bench {
    region: SharedRegion,
    table: RegisteredBuffers,
    /// Addresses of its pages in the table, and room for them.
    pages: Vec<u64>,
    copy: Vec<u64>,
    zeros: Vec<u8>,
}

impl Bench {
    fn new(bytes: usize) -> Result<Self, Error> {
        let region = SharedRegion::new(bytes)?;
        let pages: Vec<u64> =
            (0..region.len() as u64).step_by(PAGE.bytes() as usize).map(|at| START + at).collect();
        let table = RegisteredBuffers::new(PAGE, 1, pages.len());
        let copy = pages.clone();
        let zeros = vec![1; region.len()];
        Ok(Self { region, table, pages, copy, zeros })
    }

    /// Time of a step, or why the system refuses it.
    fn step_ns(&mut self, step: Step, time: Duration) -> Result<io::Result<f64>, Error> {
        let len = self.region.len();
        Ok(match step {
            Step::Map => Ok(each_ns(time, || SharedRegion::new(len).map(drop))?),
            Step::Attach => Ok(each_ns(time, || {
                let file = self.region.descriptor(Access::Write).map_err(Error::Share)?;
                SharedRegion::attach(file, len as u64, Access::Write).map_err(Error::from).map(drop)
            })?),
            Step::Lock => each_ns(time, || sys::lock_and_unlock(&self.region)),
            Step::Register => Ok(each_ns(time, || self.enter().map(|()| self.leave()))?),
            Step::Check => {
                self.enter()?;
                let (table, end) = (&self.table, len as u64);
                let ns = many_ns(time, |number| {
                    let offset = number * 64 % end;
                    table.check(PROCESS, START + offset, 1, true).is_ok()
                });
                self.leave();
                Ok(ns)
            }
        })
    }

    fn limit_ns(&mut self, step: Step, time: Duration) -> f64 {
        let Self { region, pages, copy, zeros, .. } = self;
        let once = |work: &mut dyn FnMut()| {
            let timed = each_ns(time, || {
                work();
                Ok::<_, io::Error>(())
            });
            timed.unwrap_or(f64::NAN)
        };
        match step {
            Step::Map => once(&mut || black_box(&mut *zeros).fill(0)),
            Step::Attach | Step::Lock => once(&mut || {
                let mut byte = [0];
                for at in (0..region.len()).step_by(PAGE_BYTES) {
                    region.read(at, &mut byte);
                    black_box(byte);
                }
            }),
            Step::Register => once(&mut || black_box(&mut *copy).copy_from_slice(pages)),
            Step::Check => {
                many_ns(time, |number| black_box(pages[number as usize % pages.len()]) != 0)
            }
        }
    }

    fn enter(&mut self) -> Result<(), RegisterError> {
        self.table.register(&Registration {
            process: PROCESS,
            start: START,
            length: self.region.len() as u64,
            writable: true,
            pages: &self.pages,
        })
    }

    fn leave(&mut self) {
        black_box(self.table.deregister(PROCESS, START));
    }
}

/// Time of something that is done again and again, in ns.
fn each_ns<E>(time: Duration, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let (begin, mut count) = (Instant::now(), 0u64);
    loop {
        work()?;
        count += 1;
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return Ok(elapsed.as_nanos() as f64 / count as f64);
        }
    }
}

/// The same of what takes a few nanoseconds, and is told how often it was done.
fn many_ns(time: Duration, mut work: impl FnMut(u64) -> bool) -> f64 {
    const TIMES: u64 = 4096;
    let mut number = 0;
    let batch = || {
        for _ in 0..TIMES {
            black_box(work(number));
            number += 1;
        }
        Ok::<_, io::Error>(())
    };
    each_ns(time, batch).unwrap_or(f64::NAN) / TIMES as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_each_size_has_its_time_and_its_limit() {
        let rows = measure(&[1, 100_000], Duration::ZERO).unwrap();
        assert_eq!(rows.len(), 2 * Step::ALL.len());
        for (row, step) in rows.iter().zip(Step::ALL.iter().cycle()) {
            assert_eq!(row.step, *step);
            assert!(row.limit_ns > 0.0, "{row:?}");
            // The limit of locked memory may be too low for it.
            assert_eq!(row.ns.is_none(), row.refusal.is_some());
            assert!(row.ns.is_some() || row.step == Step::Lock, "{row:?}");
            let ratio = row.ns.map(|ns| ns / row.limit_ns);
            assert_eq!(row.ratio, ratio);
        }
        let pages = |row: &RegisterRow| row.ns.unwrap() / row.ns_per_page.unwrap();
        assert_eq!((pages(&rows[0]).round(), pages(&rows[5]).round()), (1.0, 25.0));
    }
}
