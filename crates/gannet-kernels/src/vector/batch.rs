//! Hits of the dense path, which wait for their primitives to be put together.

use crate::block::{CHANNELS, SAMPLES};
use crate::job::Completed;
use crate::parameters::Parameters;
use crate::state::Hits;
use crate::tpg::Path;

/// Rows that are taken before the primitives of those in which hits end are put together.
pub(super) const BATCH: usize = 16;

/// Places for the endings of a batch: at most one for each channel and two rows, and those that
/// are written at once.
const ENDINGS: usize = BATCH / 2 * CHANNELS + CHANNELS;

/// Hits that end in some rows. What it holds lives for one call; the room is kept.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    path: Path,
    /// Whether the dense path is expected to suit the next samples.
    dense: bool,
    /// The hits of rows in which some end, and the times of these rows.
    hits: Box<[Hits; BATCH]>,
    times: [u64; BATCH],
    rows: usize,
    /// Those that end: their places among the rows, and their channels.
    places: Box<[u8; ENDINGS]>,
    channels: Box<[u8; ENDINGS]>,
    endings: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            path: Path::default(),
            dense: false,
            hits: Box::new([Hits::NONE; BATCH]),
            times: [0; BATCH],
            rows: 0,
            places: Box::new([0; ENDINGS]),
            channels: Box::new([0; ENDINGS]),
            endings: 0,
        }
    }

    /// Chooses the path.
    pub(crate) fn set_path(&mut self, path: Path) {
        self.path = path;
    }

    /// Whether to take the dense path.
    pub(super) fn is_dense(&self) -> bool {
        match self.path {
            Path::Adaptive => self.dense,
            Path::Sparse => false,
            Path::Dense => true,
        }
    }

    /// Expects of the next samples what so many have brought: that the dense path suits them if
    /// there were at least `dense_from` primitives for [`SAMPLES`] samples.
    pub(super) fn expect(&mut self, completed: &Completed, samples: usize, dense_from: usize) {
        self.dense = completed.count() * SAMPLES >= dense_from * samples;
    }

    /// The place for the hits of the row that [`Batch::wait`] will tell of.
    #[inline(always)]
    pub(super) fn place(&mut self) -> &mut Hits {
        &mut self.hits[self.rows % BATCH]
    }

    /// Keeps the hits in the present place, if some of them end. Those of the channels in `ended`
    /// do, at `time`. At most [`BATCH`] times before the next [`Batch::complete`].
    ///
    /// `list` writes the channels of a row one after the other; what is behind them may be
    /// anything.
    #[inline(always)]
    pub(super) fn wait(
        &mut self,
        time: u64,
        ended: u64,
        list: impl FnOnce(u64, &mut [u8; CHANNELS]),
    ) {
        let place = self.rows % BATCH;
        self.times[place] = time;
        let free = self.endings..self.endings + CHANNELS;
        if let Some(places) = self.places.get_mut(free.clone()) {
            places.fill(place as u8);
        }
        if let Some(free) = self.channels.get_mut(free).and_then(|free| free.first_chunk_mut()) {
            list(ended, free);
        }
        self.endings += ended.count_ones() as usize;
        self.rows += usize::from(ended != 0);
    }

    /// Puts the primitives of all hits that end together.
    #[inline(always)]
    pub(super) fn complete(&mut self, parameters: &Parameters, completed: &mut Completed) {
        let endings = self.places.iter().zip(&*self.channels).take(self.endings);
        let ended = endings.map(|(&place, &channel)| {
            let place = usize::from(place) % BATCH;
            (usize::from(channel) % CHANNELS, &self.hits[place], self.times[place])
        });
        completed.extend(parameters, ended);
        self.endings = 0;
        self.rows = 0;
    }
}
