//! The threads: one reads, some search, one brings what is found in order and writes it.
//!
//! ```text
//! reading ──batch──▶ searching, one of the streams in so many ──found──▶ ordering, writing
//!    ▲                                                                          │
//!    └──────────────────────── memory of the batch ◀────────────────────────────┘
//! ```
//!
//! Every searching thread sees every batch and takes its own streams in it, so that the frames of
//! a stream keep their order. All queues are of bounded length, and a batch is read into the memory
//! of one that was searched.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use gannet_kernels::tpg::MAX_TPS_PER_FRAME;
use gannet_wire::TriggerPrimitive;

use super::chain::StreamChain;
use super::config::Progress;
use super::error::FindError;
use super::input::Recording;
use super::output::{Output, TimeOrder, key};
use super::streams::{FrameBatch, Streams};

/// Batches that wait for a searching thread.
const QUEUE: usize = 1;
/// Batches in memory at once: one is read, one waits, one is searched, one is put in order.
const BATCHES_MAX: usize = 4;

/// What the reading thread sends to a searching one.
struct Work {
    batch: Arc<FrameBatch>,
    /// Chains of streams that are met for the first time.
    fresh: Vec<StreamChain>,
}

/// What a searching thread found in its streams of a batch.
struct Found {
    batch: Arc<FrameBatch>,
    tps: Vec<TriggerPrimitive>,
    /// Earliest time of frames that were not searched yet, in ticks.
    waits_from: u64,
}

/// What the threads leave behind.
pub(super) struct Finished {
    /// The streams in the order in which they were met.
    pub chains: Vec<StreamChain>,
    /// Primitives that were written behind one that starts later.
    pub out_of_order: u64,
}

/// Searches all of `recording` on `threads` threads and writes what is found to `outputs`.
pub(super) fn search(
    recording: &mut Recording,
    streams: &mut Streams<'_>,
    threads: usize,
    outputs: Vec<Output>,
    progress: &mut Progress<'_>,
) -> Result<Finished, FindError> {
    scope(|scope| {
        let (spent, free) = channel();
        let is_written = !outputs.is_empty();
        let (mut works, mut finds, mut searchers) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..threads {
            let (work, batches) = sync_channel(QUEUE);
            let (find, found) = sync_channel(QUEUE);
            let searcher = move || search_streams(index, threads, is_written, &batches, &find);
            searchers.push(spawn(scope, "search", searcher)?);
            works.push(work);
            finds.push(found);
        }
        let writer = spawn(scope, "write", move || write(&finds, &spent, outputs))?;
        let read = read(recording, streams, &works, &free, progress);
        drop(works);
        let parts: Vec<_> = searchers.into_iter().map(join).collect();
        // A reader that found nobody to send to has stopped for the writer's error.
        let (mut order, mut outputs) = join(writer)?;
        read?;
        let chains = interleave(parts);
        // Where no stream was met there is nothing to be written, not even an empty file.
        if !chains.is_empty() {
            release(&mut order, u64::MAX, &mut outputs)?;
            outputs.into_iter().try_for_each(Output::finish)?;
        }
        Ok(Finished { chains, out_of_order: order.out_of_order })
    })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, FindError> {
    let builder = Builder::new().name(format!("gannet-{name}"));
    builder.spawn_scoped(scope, work).map_err(|cause: io::Error| FindError::Thread(cause))
}

/// What the thread gives; its panic is ours.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads batch after batch and hands each to every searching thread.
fn read(
    recording: &mut Recording,
    streams: &mut Streams<'_>,
    works: &[SyncSender<Work>],
    free: &Receiver<FrameBatch>,
    progress: &mut Progress<'_>,
) -> Result<(), FindError> {
    let (mut stream, mut batches) = (0, 0);
    loop {
        let mut batch = if batches < BATCHES_MAX {
            batches += 1;
            FrameBatch::default()
        } else {
            // Without a writer there is no more to be done.
            let Ok(batch) = free.recv() else { return Ok(()) };
            batch
        };
        batch.clear();
        let more = recording.fill(&mut batch, streams)?;
        let mut fresh: Vec<Vec<StreamChain>> = works.iter().map(|_| Vec::new()).collect();
        for chain in streams.take_fresh()? {
            fresh[stream % works.len()].push(chain);
            stream += 1;
        }
        // The batch is nobody's but the searchers', so that the last of them hands its memory on.
        let shares = std::iter::repeat_n(Arc::new(batch), works.len());
        for ((work, fresh), batch) in works.iter().zip(fresh).zip(shares) {
            if work.send(Work { batch, fresh }).is_err() {
                return Ok(());
            }
        }
        let (done, total) = recording.progress();
        if progress(done, total).is_break() {
            return Err(FindError::Interrupted);
        }
        if !more {
            return Ok(());
        }
    }
}

/// Searches the streams whose number is `index` modulo `threads`, until there are no batches.
fn search_streams(
    index: usize,
    threads: usize,
    is_written: bool,
    batches: &Receiver<Work>,
    find: &SyncSender<Found>,
) -> Vec<StreamChain> {
    let mut chains: Vec<StreamChain> = Vec::new();
    for Work { batch, fresh } in batches {
        chains.extend(fresh);
        let mut tps = Vec::with_capacity(MAX_TPS_PER_FRAME);
        for (number, chain) in chains.iter_mut().enumerate() {
            for frame in batch.frames(index + number * threads) {
                chain.frame(&frame, &mut tps);
                if !is_written {
                    tps.clear();
                }
            }
        }
        tps.sort_by_key(key);
        let waits_from = chains.iter().filter_map(StreamChain::waits_from).min();
        let found = Found { batch, tps, waits_from: waits_from.unwrap_or(u64::MAX) };
        if find.send(found).is_err() {
            return chains;
        }
    }
    let mut tps = Vec::new();
    for chain in &mut chains {
        chain.finish(&mut tps);
        if !is_written {
            tps.clear();
        }
    }
    // A writer that is gone has an error to tell.
    let _ = find.send(Found { batch: Arc::default(), tps, waits_from: u64::MAX });
    chains
}

/// Takes what all threads found in a batch, batch by batch, and writes it in the order of time, but
/// for what must wait to the end.
fn write(
    finds: &[Receiver<Found>],
    spent: &Sender<FrameBatch>,
    mut outputs: Vec<Output>,
) -> Result<(TimeOrder, Vec<Output>), FindError> {
    let mut order = TimeOrder::default();
    loop {
        let mut complete_to = u64::MAX;
        let mut searched = None;
        for find in finds {
            let Ok(Found { batch, tps, waits_from }) = find.recv() else {
                return Ok((order, outputs));
            };
            order.add(&tps);
            complete_to = complete_to.min(waits_from).min(batch.complete_to);
            searched = Some(batch);
        }
        // The reader waits for one batch for each that it sent, unless it is done.
        let _ = spent.send(searched.and_then(Arc::into_inner).unwrap_or_default());
        release(&mut order, complete_to, &mut outputs)?;
    }
}

fn release(
    order: &mut TimeOrder,
    complete_to: u64,
    outputs: &mut [Output],
) -> Result<(), FindError> {
    order.release(complete_to, |tp| outputs.iter_mut().try_for_each(|output| output.push(tp)))
}

/// Brings the streams of all threads back in the order of their numbers.
fn interleave(parts: Vec<Vec<StreamChain>>) -> Vec<StreamChain> {
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let mut chains = Vec::new();
    loop {
        let len = chains.len();
        chains.extend(parts.iter_mut().filter_map(Iterator::next));
        if chains.len() == len {
            return chains;
        }
    }
}
