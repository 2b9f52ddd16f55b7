//! Threads that search or read at the same time, each its own memory.

use std::hint::{black_box, spin_loop};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use gannet_kernels::tpg::{Ahead, Fetch};
use gannet_memory::{Pages, Region};

use super::content::Content;
use super::finder::{Finder, Setup, verify};
use super::format::Format;
use super::{Error, Step, Way};
use crate::cores::Cores;
use crate::sys;

/// Time from an order to the start, long enough for all threads to wake up.
const HEAD_START: Duration = Duration::from_micros(500);
/// Time between two looks at threads that prepare.
const LOOK: Duration = Duration::from_millis(100);
/// Samples of a stream after which its pedestals have settled: they start at most 8 counts off,
/// which takes 88 samples, and a fixed pedestal is frozen after 1000.
const SETTLING_SAMPLES: usize = 2048;
/// Frames of a thread that are searched by the scalar chain too, to compare.
const VERIFIED_FRAMES_MAX: usize = 1024;

/// What the threads of a measurement have before them.
#[derive(Debug)]
pub(super) struct Load {
    /// The searches that take turns over the same frames.
    pub searches: Vec<Setup>,
    /// Streams of a thread.
    pub streams: usize,
    /// Frames in the memory of a thread, a multiple of the streams.
    pub frames: usize,
    /// Frames of them that differ from each other, a multiple of the streams.
    pub distinct: usize,
    pub content: Content,
    /// Where the threads run.
    pub cores: Cores,
    /// Bytes of frames that all threads have laid out.
    pub laid_out: AtomicU64,
}

/// What a thread does with all its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Adds up the bytes.
    Read(Way),
    /// Searches primitives, by the search of this number.
    Find(usize),
    /// Fetches so far ahead from now on, in all searches.
    Fetch(Ahead),
}

/// What a thread has got ready.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    /// Kind of pages of its memory.
    pub pages: Pages,
    /// The processor that it stays on; none where that is not permitted.
    pub processor: Option<usize>,
    /// Frames whose primitives were compared with those of the scalar chain, for each search.
    pub verified: Vec<usize>,
}

/// What came of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pass {
    /// Sum of the rates of the threads, in Gbit/s of whole frames.
    pub gbit_per_s: f64,
    /// Time of the slowest thread.
    pub slowest: Duration,
    /// Primitives that all threads found.
    pub tps: u64,
    /// Part of their time for which the threads had a core.
    pub running: f64,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    work: Work,
    rounds: u32,
    begin: Instant,
}

/// What one thread did.
#[derive(Clone, Copy, Debug)]
struct Done {
    elapsed: Duration,
    /// Processor time of the thread.
    cpu: Duration,
    tps: u64,
}

struct Hand {
    orders: Sender<Order>,
    done: Receiver<Done>,
}

/// The threads. They end when this is dropped.
pub(super) struct Workers {
    hands: Vec<Hand>,
    /// Bits of the memory of a thread.
    bits: f64,
}

impl Workers {
    /// Starts `threads` threads, and waits until each has its memory filled and its frames
    /// verified.
    ///
    /// # Errors
    /// When a thread lacks memory, or finds other primitives than the scalar chain.
    pub fn start<'scope, F: Format>(
        scope: &'scope Scope<'scope, '_>,
        threads: usize,
        load: &'scope Load,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<(Self, Vec<Ready>), Error> {
        let (mut hands, mut preparing) = (Vec::new(), Vec::new());
        for thread in 0..threads {
            let (orders, ordered) = channel();
            let (finished, done) = channel();
            let (ready, is_ready) = channel();
            scope.spawn(move || match Bench::<F>::new(load, thread) {
                Ok((bench, facts)) => {
                    _ = ready.send(Ok(facts));
                    bench.serve(&ordered, &finished);
                }
                Err(error) => _ = ready.send(Err(error)),
            });
            hands.push(Hand { orders, done });
            preparing.push(is_ready);
        }
        let total = (threads * load.frames * F::FRAME_LEN) as u64;
        let mut tell = || {
            let done = load.laid_out.load(Ordering::Relaxed);
            progress(Step::Preparing { done, total });
        };
        tell();
        let mut wait = |ready: &Receiver<Result<Ready, Error>>| loop {
            match ready.recv_timeout(LOOK) {
                Ok(ready) => return ready,
                Err(RecvTimeoutError::Timeout) => tell(),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Defect),
            }
        };
        let ready = preparing.iter().map(&mut wait).collect::<Result<_, Error>>()?;
        tell();
        let bits = (8 * load.frames * F::FRAME_LEN) as f64;
        Ok((Self { hands, bits }, ready))
    }

    /// Range of all threads.
    pub fn all(&self) -> Range<usize> {
        0..self.hands.len()
    }

    /// Lets some threads go over their frames `rounds` times, starting at the same instant.
    ///
    /// # Errors
    /// When a thread has stopped on an internal error.
    pub fn pass(&self, threads: Range<usize>, work: Work, rounds: u32) -> Result<Pass, Error> {
        let hands = &self.hands[threads];
        let order = Order { work, rounds, begin: Instant::now() + HEAD_START };
        for hand in hands {
            hand.orders.send(order).map_err(|_| Error::Defect)?;
        }
        let bits = self.bits * f64::from(rounds);
        let (mut pass, mut all, mut cpu) = (Pass::default(), Duration::ZERO, Duration::ZERO);
        for hand in hands {
            let done = hand.done.recv().map_err(|_| Error::Defect)?;
            pass.gbit_per_s += bits / done.elapsed.as_nanos().max(1) as f64;
            pass.slowest = pass.slowest.max(done.elapsed);
            pass.tps += done.tps;
            all += done.elapsed;
            cpu += done.cpu;
        }
        pass.running = (cpu.as_secs_f64() / all.as_secs_f64().max(1e-9)).min(1.0);
        Ok(pass)
    }
}

/// The memory and the chains of one thread.
struct Bench<F: Format> {
    memory: Region,
    /// Bytes of the memory that hold frames.
    frame_bytes: usize,
    /// The chains of each search.
    finders: Vec<Finder<F>>,
}

impl<F: Format> Bench<F> {
    /// Takes its processor, lays out the frames, compares the primitives of some with the scalar
    /// chain, and lets the pedestals settle.
    fn new(load: &Load, thread: usize) -> Result<(Self, Ready), Error> {
        // Memory comes from near the processor that first writes to it.
        let processor = load.cores.pin(thread);
        // The frames lie back to back, on the pages that frames land on.
        let frame_bytes = load.frames * F::FRAME_LEN;
        let mut memory = Region::map(frame_bytes)?;
        let seed = (thread * load.streams) as u64;
        let (distinct, repeated) =
            memory.bytes_mut()[..frame_bytes].split_at_mut(load.distinct * F::FRAME_LEN);
        F::fill(distinct, load.streams, &load.content, seed);
        load.laid_out.fetch_add(distinct.len() as u64, Ordering::Relaxed);
        for part in repeated.chunks_mut(distinct.len()) {
            part.copy_from_slice(&distinct[..part.len()]);
            load.laid_out.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        let mut bench = Self { memory, frame_bytes, finders: Vec::new() };
        let settling_frames = SETTLING_SAMPLES.div_ceil(F::SAMPLES) * load.streams;
        let rounds = settling_frames.div_ceil(load.frames) as u32;
        let mut verified = Vec::new();
        for setup in &load.searches {
            let frames = bench.frames();
            verified.push(verify::<F>(setup, load.streams, frames, VERIFIED_FRAMES_MAX)?);
            let mut finder = Finder::new(setup, load.streams)?;
            finder.pass(frames, rounds);
            finder.settle();
            bench.finders.push(finder);
        }
        let pages = bench.memory.pages();
        Ok((bench, Ready { pages, processor, verified }))
    }

    fn frames(&self) -> &[u8] {
        &self.memory.bytes()[..self.frame_bytes]
    }

    /// Works until nobody can order any more.
    fn serve(mut self, orders: &Receiver<Order>, done: &Sender<Done>) {
        for order in orders {
            while Instant::now() < order.begin {
                spin_loop();
            }
            let (begin, cpu) = (Instant::now(), sys::thread_time());
            let tps = match order.work {
                Work::Read(way) => {
                    (0..order.rounds).for_each(|_| _ = black_box(way.sum(self.frames())));
                    0
                }
                Work::Fetch(ahead) => {
                    self.finders.iter_mut().for_each(|one| one.set_fetch(Fetch::At(ahead)));
                    0
                }
                Work::Find(search) => {
                    let frames = &self.memory.bytes()[..self.frame_bytes];
                    self.finders[search].pass(frames, order.rounds)
                }
            };
            let (elapsed, cpu) = (begin.elapsed(), sys::thread_time() - cpu);
            if let Work::Find(search) = order.work {
                self.finders[search].rewind();
            }
            if done.send(Done { elapsed, cpu, tps }).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::TpgSearch;
    use crate::tpg::wibeth::WibEth;
    use gannet_dune::tpg::{Chain, IsaChoice};
    use gannet_kernels::Isa;

    fn load() -> Load {
        let search = |chain, isa| TpgSearch { chain, isa, ..TpgSearch::default() };
        let searches = [
            search(Chain::SimpleThreshold, IsaChoice::Auto),
            search(Chain::AbsRs, IsaChoice::Scalar),
        ];
        let content = Content::new(20e3, 2e6);
        Load {
            searches: searches.iter().map(|one| Setup::new::<WibEth>(one, 60)).collect(),
            streams: 2,
            frames: 10,
            distinct: 4,
            content,
            cores: Cores::usable(),
            laid_out: AtomicU64::new(0),
        }
    }

    #[test]
    fn frames_repeat_after_the_distinct_ones_and_threads_have_others() {
        let load = load();
        let frames = |bench: &Bench<WibEth>| -> Vec<Vec<u8>> {
            bench.frames().chunks(WibEth::FRAME_LEN).map(<[u8]>::to_vec).collect()
        };
        let (first, ready) = Bench::<WibEth>::new(&load, 0).unwrap();
        let (second, _) = Bench::<WibEth>::new(&load, 1).unwrap();
        let (first, second) = (frames(&first), frames(&second));
        let of_vectors = if IsaChoice::Auto.isa() == Isa::Scalar { 0 } else { 10 };
        assert_eq!((first.len(), ready.verified), (10, vec![of_vectors, 0]));
        assert!((4..10).all(|i| first[i] == first[i % 4]));
        assert!((0..10).all(|i| (0..4).all(|j| first[i][32..] != second[j][32..])));
    }

    #[test]
    fn passes_find_the_same_again_and_more_in_more_rounds_and_threads() {
        let load = load();
        std::thread::scope(|scope| {
            let (workers, ready) = Workers::start::<WibEth>(scope, 2, &load, &mut |_| ()).unwrap();
            assert_eq!(ready.len(), 2);
            let search = |number, threads, rounds| {
                workers.pass(threads, Work::Find(number), rounds).unwrap().tps
            };
            let find = |threads, rounds| search(0, threads, rounds);
            let (one, all) = (find(0..1, 3), find(workers.all(), 3));
            assert!(0 < one && one < all && find(0..1, 1) < one);
            let other = search(1, workers.all(), 3);
            assert!(0 < other && other != all, "running sums join hits");
            let read = workers.pass(workers.all(), Work::Read(Way::Plain), 2).unwrap();
            assert_eq!(read.tps, 0);
            assert!(read.gbit_per_s > 0.0);
            assert_eq!((find(0..1, 3), find(workers.all(), 3)), (one, all));
            assert_eq!(search(1, workers.all(), 3), other);
        });
    }
}
