//! One stream on its way from the network: continuity, index, primitives.

use std::sync::Arc;

use gannet_ingest::continuity::{Continuity, Judgement, Verdict};
use gannet_measure::ledger::Account;
use gannet_memory::{Cell, Reader};
use gannet_trigger::Finder;
use gannet_wire::{Heading, Rhythm, StreamKey};

use super::FrameDrop;
use super::progress::{Progress, SETTLE_NS};
use super::status::StreamStatus;
use super::stopwatch::Stopwatch;
use crate::items::ItemSender;
use crate::latency::{IndexWriter, IntakeWriter, Placement};

/// Newest frames of a stream that are told apart one by one. A frame that is late by more is
/// taken for one whose time is wrong, as the search for primitives takes it.
pub const WINDOW_FRAMES: usize = 64;

/// What a stream is made of.
#[derive(Debug)]
pub struct StreamSetup<F> {
    /// By which its frames are known.
    pub key: StreamKey,
    /// Number among all streams of the run, by which the trigger knows it.
    pub number: u32,
    /// How its frames follow one another.
    pub rhythm: Rhythm,
    /// Bytes of its longest frame.
    pub frame_len_max: usize,
    /// Makes the frames findable.
    pub index: IndexWriter,
    /// Remembers the order of the frames that are searched; present where they are recorded raw.
    pub intake: Option<IntakeWriter>,
    /// Finds the items in its frames.
    pub finder: F,
    /// Where the figures go.
    pub status: Arc<StreamStatus>,
}

/// A stream at work.
#[derive(Debug)]
pub struct Stream<F> {
    setup: StreamSetup<F>,
    continuity: Continuity,
    /// Where the frames lie.
    cells: Option<Reader>,
    /// A frame whose time does not fit, which waits in its cell for another that agrees with it.
    kept: Option<Kept>,
    /// Room for a frame that was kept.
    kept_frame: Box<[u8]>,
    progress: Progress,
    /// Until when, in nanoseconds, a first frame does not tell that the stream begins with it.
    begun_ns: u64,
    /// When it was looked at last, in nanoseconds.
    looked_ns: u64,
}

/// A frame in the cell in which it landed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub heading: Heading,
    pub cell: Cell,
    pub bytes: &'a [u8],
}

/// What a receiver lends its streams to take frames with.
pub(super) struct Taking<'a, I> {
    /// When the frames arrived, in nanoseconds.
    pub arrival_ns: u64,
    /// Where items go.
    pub items: &'a mut ItemSender<I>,
    /// Times the search.
    pub stopwatch: &'a mut Stopwatch,
    /// Counts the frames.
    pub account: &'a Account<FrameDrop>,
}

/// A frame that is kept where it landed.
#[derive(Clone, Copy, Debug)]
struct Kept {
    cell: Cell,
    heading: Heading,
    len: usize,
}

impl<F: Finder> Stream<F> {
    pub(super) fn new(setup: StreamSetup<F>) -> Self {
        Self {
            continuity: Continuity::new(&setup.rhythm, WINDOW_FRAMES, 0),
            cells: None,
            kept: None,
            kept_frame: vec![0; setup.frame_len_max].into(),
            progress: Progress::default(),
            begun_ns: 0,
            looked_ns: 0,
            setup,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.continuity = Continuity::new(&self.setup.rhythm, WINDOW_FRAMES, now_ns);
        self.begun_ns = now_ns + SETTLE_NS;
    }

    pub(super) fn key(&self) -> StreamKey {
        self.setup.key
    }

    pub(super) fn attach(&mut self, cells: Reader) {
        self.setup.intake.iter_mut().for_each(|intake| intake.attach(cells.clone()));
        self.setup.index.attach(cells.clone());
        self.cells = Some(cells);
    }

    /// Takes a frame and counts it, or keeps it until it is known what it is.
    #[inline]
    pub(super) fn take(&mut self, frame: Frame<'_>, taking: &mut Taking<'_, F::Item>) {
        let Heading { begin, sequence, .. } = frame.heading;
        let Judgement { kept, frame: verdict } =
            self.continuity.frame(begin, sequence, taking.arrival_ns);
        if let Some(verdict) = kept {
            self.take_kept(verdict, taking);
        }
        let taken = match verdict {
            Verdict::OutOfStep { .. } => {
                self.give_up_kept(taking.account);
                let Frame { heading, cell, bytes } = frame;
                self.kept = Some(Kept { cell, heading, len: bytes.len() });
                return;
            }
            Verdict::Duplicate => Err(FrameDrop::Duplicate),
            _ => self.search(frame, verdict, taking),
        };
        count(taking.account, taken);
    }

    /// Takes the frame kept, on which there is a verdict now.
    #[cold]
    fn take_kept(&mut self, verdict: Verdict, taking: &mut Taking<'_, F::Item>) {
        let Some(Kept { cell, heading, len }) = self.kept.take() else { return };
        let mut room = std::mem::take(&mut self.kept_frame);
        let bytes = &mut room[..len];
        // Other streams of the source may have gone once round the buffer since.
        let is_there = self.cells.as_ref().is_some_and(|cells| cells.copy(cell, bytes).is_ok());
        let taken = match is_there {
            true => self.search(Frame { heading, cell, bytes }, verdict, taking),
            false => Err(FrameDrop::TooOld),
        };
        self.kept_frame = room;
        count(taking.account, taken);
    }

    /// Counts the frame kept as one with a bad time stamp: nothing has confirmed it.
    pub(super) fn give_up_kept(&mut self, account: &Account<FrameDrop>) {
        if self.kept.take().is_some() {
            count(account, Err(FrameDrop::BadTimestamp));
        }
    }

    /// Gives up the frame kept when the frames since belie it.
    pub(super) fn check_kept(&mut self, account: &Account<FrameDrop>) {
        if !self.continuity.keeps_frame() {
            self.give_up_kept(account);
        }
    }

    /// Searches and indexes a frame, or says why not.
    #[inline]
    fn search(
        &mut self,
        frame: Frame<'_>,
        verdict: Verdict,
        taking: &mut Taking<'_, F::Item>,
    ) -> Result<(), FrameDrop> {
        let Frame { heading, cell, bytes } = frame;
        let timestamp = heading.begin;
        let restart = matches!(verdict, Verdict::Restart { .. });
        if self.setup.index.insert(timestamp, cell, bytes.len(), restart) == Placement::TooOld {
            return Err(FrameDrop::TooOld);
        }
        if restart {
            self.finish_search(taking);
            self.setup.finder.begin_anew();
        }
        let Taking { arrival_ns, items, stopwatch, .. } = taking;
        let StreamSetup { intake, finder, status, number, .. } = &mut self.setup;
        let mut searched = false;
        let found = items.append(*number, *arrival_ns, |out| {
            searched = stopwatch.run(|| finder.frame(&heading, bytes, out));
            finder.searched_to()
        });
        if searched && let Some(intake) = intake {
            intake.push(cell, bytes.len());
        }
        if status.frames.get() == 0 {
            status.first_timestamp.set(timestamp);
            if *arrival_ns < self.begun_ns {
                status.early_timestamp.set(timestamp);
            }
        }
        status.frames.add(1);
        status.items.add(found);
        Ok(())
    }

    /// Times of the newest frame and of the one kept, in ticks.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.continuity.newest().into_iter().chain(self.kept.map(|kept| kept.heading.begin))
    }

    /// Settles the frame kept at the end: it is taken when other streams have frames of its time,
    /// as after a gap that all of them had. Then finds what is left.
    pub(super) fn finish(
        &mut self,
        mut others: impl Iterator<Item = u64>,
        taking: &mut Taking<'_, F::Item>,
    ) {
        if let Some(Kept { heading, .. }) = self.kept {
            let near = WINDOW_FRAMES as u64 * self.setup.rhythm.step.longest();
            if others.any(|other| other.abs_diff(heading.begin) <= near)
                && let Some(verdict) = self.continuity.confirm_kept()
            {
                self.take_kept(verdict, taking);
            }
            self.give_up_kept(taking.account);
        }
        self.finish_search(taking);
    }

    /// Finds what waited for frames that will not come.
    #[cold]
    fn finish_search(&mut self, taking: &mut Taking<'_, F::Item>) {
        let StreamSetup { finder, number, status, .. } = &mut self.setup;
        if status.frames.get() > 0 {
            let found = taking.items.append(*number, taking.arrival_ns, |out| {
                finder.finish(out);
                finder.searched_to()
            });
            status.items.add(found);
        }
    }

    /// Makes the figures known.
    pub(super) fn publish(&self) {
        let status = &self.setup.status;
        status.set_counts(self.continuity.counts());
        if let Some(first) = self.continuity.first_timestamp() {
            status.first_timestamp.set(first);
        }
        if let Some(newest) = self.continuity.newest() {
            status.newest_timestamp.set(newest);
        }
        if status.stalled.get() == 1 && !self.continuity.is_stalled() {
            status.stalled.set(0);
        }
    }

    /// Notes how far the stream has come.
    pub(super) fn look(&mut self, now_ns: u64) {
        let (status, newest) = (&self.setup.status, self.continuity.newest());
        if let Some(settled) = self.progress.look(newest) {
            status.settled_timestamp.set(settled);
        }
        // It goes on to the first look after the time to settle.
        let is_early = status.early_timestamp.get() > 0 && self.looked_ns < self.begun_ns;
        if let (true, Some(newest)) = (is_early, newest) {
            status.early_timestamp.set(newest);
        }
        self.looked_ns = now_ns;
    }

    /// Reports silence, once each time.
    pub(super) fn check_stalled(&mut self, now_ns: u64) {
        if self.continuity.check_stalled(now_ns) {
            self.setup.status.set_counts(self.continuity.counts());
            self.setup.status.stalled.set(1);
        }
    }
}

/// Counts a frame as taken, or dropped for a reason.
#[inline]
pub(super) fn count(account: &Account<FrameDrop>, taken: Result<(), FrameDrop>) {
    account.offer(1);
    match taken {
        Ok(()) => account.deliver(1),
        Err(reason) => account.discard(reason, 1),
    }
}
