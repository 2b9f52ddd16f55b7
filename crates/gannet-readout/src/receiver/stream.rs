//! One stream on its way from the network: continuity, index, primitives.

use std::sync::Arc;

use gannet_ingest::continuity::{Continuity, Judgement, Rules, Verdict};
use gannet_measure::ledger::Account;
use gannet_memory::{Cell, Reader};
use gannet_trigger::tpg::StreamTpg;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{GeoId, wibeth};

use super::FrameDrop;
use super::progress::{Progress, SETTLE_NS};
use super::status::StreamStatus;
use super::stopwatch::Stopwatch;
use crate::latency::{IndexWriter, IntakeWriter, Placement};
use crate::primitives::PrimitiveSender;

/// Newest frames of a stream that are told apart one by one. A frame that is late by more is
/// taken for one whose time is wrong, as the search for primitives takes it.
pub const WINDOW_FRAMES: usize = 64;

/// What a stream is made of.
#[derive(Debug)]
pub struct StreamSetup {
    /// Place on the detector, by which its frames are known.
    pub geo_id: GeoId,
    /// Number among all streams of the run, by which the trigger knows it.
    pub number: u32,
    /// Time from one frame to the next, in ticks.
    pub ticks_per_frame: u64,
    /// The same in nanoseconds.
    pub frame_period_ns: u64,
    /// Makes the frames findable.
    pub index: IndexWriter,
    /// Remembers the order of the frames that are searched; present where they are recorded raw.
    pub intake: Option<IntakeWriter>,
    /// Finds the primitives.
    pub tpg: StreamTpg,
    /// Where the figures go.
    pub status: Arc<StreamStatus>,
}

/// A stream at work.
#[derive(Debug)]
pub struct Stream {
    setup: StreamSetup,
    continuity: Continuity,
    /// Where the frames lie.
    cells: Option<Reader>,
    /// A frame whose time does not fit, which waits in its cell for another that agrees with it;
    /// with its time stamp.
    kept: Option<(Cell, u64)>,
    progress: Progress,
    /// Until when, in nanoseconds, a first frame does not tell that the stream begins with it.
    begun_ns: u64,
    /// When it was looked at last, in nanoseconds.
    looked_ns: u64,
}

impl Stream {
    pub(super) fn new(setup: StreamSetup) -> Self {
        let continuity = Continuity::new(Self::rules(&setup), 0);
        let progress = Progress::default();
        Self { setup, continuity, cells: None, kept: None, progress, begun_ns: 0, looked_ns: 0 }
    }

    fn rules(setup: &StreamSetup) -> Rules {
        Rules {
            ticks_per_frame: setup.ticks_per_frame,
            frame_period_ns: setup.frame_period_ns,
            window_frames: WINDOW_FRAMES,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.continuity = Continuity::new(Self::rules(&self.setup), now_ns);
        self.begun_ns = now_ns + SETTLE_NS;
    }

    pub(super) fn geo_id(&self) -> GeoId {
        self.setup.geo_id
    }

    pub(super) fn lie_in(&mut self, cells: Reader) {
        self.setup.intake.iter_mut().for_each(|intake| intake.lie_in(cells.clone()));
        self.setup.index.lie_in(cells.clone());
        self.cells = Some(cells);
    }

    /// Takes a frame that lies in `cell` and counts it, or keeps it until it is known what it is.
    #[inline]
    pub(super) fn take(
        &mut self,
        frame: &wibeth::Frame<&[u8]>,
        cell: Cell,
        arrival_ns: u64,
        primitives: &mut PrimitiveSender,
        stopwatch: &mut Stopwatch,
        account: &Account<FrameDrop>,
    ) {
        let (timestamp, sequence) = (frame.timestamp(), frame.daq().seq_id());
        let Judgement { kept, frame: verdict } =
            self.continuity.frame(timestamp, sequence, arrival_ns);
        if let Some(verdict) = kept {
            self.take_kept(verdict, arrival_ns, primitives, stopwatch, account);
        }
        let taken = match verdict {
            Verdict::OutOfStep { .. } => {
                self.give_up_kept(account);
                self.kept = Some((cell, timestamp));
                return;
            }
            Verdict::Duplicate => Err(FrameDrop::Duplicate),
            _ => self.search(frame, cell, verdict, arrival_ns, primitives, stopwatch),
        };
        count(account, taken);
    }

    /// Takes the frame kept, on which there is a verdict now.
    #[cold]
    fn take_kept(
        &mut self,
        verdict: Verdict,
        arrival_ns: u64,
        primitives: &mut PrimitiveSender,
        stopwatch: &mut Stopwatch,
        account: &Account<FrameDrop>,
    ) {
        let Some((cell, _)) = self.kept.take() else { return };
        let mut bytes = [0; FRAME_LEN];
        // Other streams of the source may have gone once round the buffer since.
        let is_there =
            self.cells.as_ref().is_some_and(|cells| cells.copy(cell, &mut bytes).is_ok());
        let taken = match is_there {
            true => {
                let frame = wibeth::Frame::new_unchecked(&bytes[..]);
                self.search(&frame, cell, verdict, arrival_ns, primitives, stopwatch)
            }
            false => Err(FrameDrop::TooOld),
        };
        count(account, taken);
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

    /// Searches and indexes a frame that lies in `cell`, or says why not.
    #[inline]
    fn search(
        &mut self,
        frame: &wibeth::Frame<&[u8]>,
        cell: Cell,
        verdict: Verdict,
        arrival_ns: u64,
        primitives: &mut PrimitiveSender,
        stopwatch: &mut Stopwatch,
    ) -> Result<(), FrameDrop> {
        let timestamp = frame.timestamp();
        let restart = matches!(verdict, Verdict::Restart { .. });
        let StreamSetup { index, intake, tpg, status, number, .. } = &mut self.setup;
        if index.insert(timestamp, cell, restart) == Placement::TooOld {
            return Err(FrameDrop::TooOld);
        }
        if restart {
            tpg.begin_series();
        }
        let mut searched = false;
        let found = primitives.append(*number, arrival_ns, |out| {
            searched = stopwatch.run(|| tpg.process(frame.adc_block(), timestamp, out));
            tpg.processed_to()
        });
        if searched && let Some(intake) = intake {
            intake.push(cell);
        }
        if status.frames.get() == 0 {
            status.first_timestamp.set(timestamp);
            if arrival_ns < self.begun_ns {
                status.early_timestamp.set(timestamp);
            }
        }
        status.frames.add(1);
        status.primitives.add(found);
        Ok(())
    }

    /// Times of the newest frame and of the one kept, in ticks.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.continuity.newest().into_iter().chain(self.kept.map(|(_, timestamp)| timestamp))
    }

    /// Settles the frame kept at the end: it is taken when other streams have frames of its time,
    /// as after a gap that all of them had.
    pub(super) fn finish(
        &mut self,
        mut others: impl Iterator<Item = u64>,
        arrival_ns: u64,
        primitives: &mut PrimitiveSender,
        stopwatch: &mut Stopwatch,
        account: &Account<FrameDrop>,
    ) {
        let Some((_, timestamp)) = self.kept else { return };
        let near = WINDOW_FRAMES as u64 * self.setup.ticks_per_frame;
        if others.any(|other| other.abs_diff(timestamp) <= near)
            && let Some(verdict) = self.continuity.confirm_kept()
        {
            self.take_kept(verdict, arrival_ns, primitives, stopwatch, account);
        }
        self.give_up_kept(account);
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
