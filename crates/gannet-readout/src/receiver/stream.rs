//! One stream on its way from the network: continuity, index, primitives.

use std::sync::Arc;

use gannet_ingest::continuity::{Continuity, Rules, Verdict};
use gannet_memory::{Cell, Reader};
use gannet_trigger::tpg::StreamTpg;
use gannet_wire::{GeoId, wibeth};

use super::FrameDrop;
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
}

impl Stream {
    pub(super) fn new(setup: StreamSetup) -> Self {
        let continuity = Continuity::new(Self::rules(&setup), 0);
        Self { setup, continuity }
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
    }

    pub(super) fn geo_id(&self) -> GeoId {
        self.setup.geo_id
    }

    pub(super) fn lie_in(&mut self, cells: Reader) {
        self.setup.intake.iter_mut().for_each(|intake| intake.lie_in(cells.clone()));
        self.setup.index.lie_in(cells);
    }

    /// Takes a frame that lies in `cell`, or says why not.
    #[inline]
    pub(super) fn take(
        &mut self,
        frame: &wibeth::Frame<&[u8]>,
        cell: Cell,
        arrival_ns: u64,
        primitives: &mut PrimitiveSender,
        stopwatch: &mut Stopwatch,
    ) -> Result<(), FrameDrop> {
        let (timestamp, sequence) = (frame.timestamp(), frame.daq().seq_id());
        let verdict = self.continuity.frame(timestamp, sequence, arrival_ns);
        match verdict {
            Verdict::Duplicate => return Err(FrameDrop::Duplicate),
            Verdict::OutOfStep { .. } => return Err(FrameDrop::BadTimestamp),
            _ => (),
        }
        let restart = matches!(verdict, Verdict::Restart { .. });
        let StreamSetup { index, intake, tpg, status, number, .. } = &mut self.setup;
        if index.insert(timestamp, cell, restart) == Placement::TooOld {
            return Err(FrameDrop::TooOld);
        }
        if restart {
            tpg.begin_run();
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
        }
        status.frames.add(1);
        status.primitives.add(found);
        Ok(())
    }

    /// Makes the figures known.
    pub(super) fn publish(&self) {
        let status = &self.setup.status;
        status.set_counts(self.continuity.counts());
        self.continuity.newest().into_iter().for_each(|newest| status.newest_timestamp.set(newest));
        if status.stalled.get() == 1 && !self.continuity.is_stalled() {
            status.stalled.set(0);
        }
    }

    /// Reports silence, once each time.
    pub(super) fn check_stalled(&mut self, now_ns: u64) {
        if self.continuity.check_stalled(now_ns) {
            self.setup.status.set_counts(self.continuity.counts());
            self.setup.status.stalled.set(1);
        }
    }
}
