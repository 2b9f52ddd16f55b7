//! A stream of a builder, whichever readout has it.

use std::sync::Arc;

use gannet_wire::Step;

use crate::receiver::StreamStatus;

/// A stream, and what was told of it.
pub(super) struct FarStream {
    pub status: Arc<StreamStatus>,
    step: Step,
    /// Number of the readout that has it.
    pub owner: Option<u64>,
    /// Number that the readout had drawn which had it last, and the figures that others had come to before.
    epoch: Option<u64>,
    earlier: Option<StreamStatus>,
    /// How far it was searched.
    pub searched_to: u64,
    /// Whether it is worth waiting for.
    pub awaited: bool,
    /// Whether its readout has said that no more items come.
    pub ended: bool,
}

impl FarStream {
    /// A stream that no readout has.
    pub fn new(status: Arc<StreamStatus>, step: Step) -> Self {
        Self {
            status,
            step,
            owner: None,
            epoch: None,
            earlier: None,
            searched_to: 0,
            awaited: true,
            ended: false,
        }
    }

    /// Gives it to a readout, which counts its frames anew if it has drawn another number than the last one.
    pub fn give_to(&mut self, owner: u64, epoch: u64) {
        (self.owner, self.ended) = (Some(owner), false);
        if self.epoch.replace(epoch).is_some_and(|earlier| earlier != epoch) {
            self.earlier = Some(StreamStatus::of_words(self.status.words().into_iter()));
        }
    }

    /// Takes it away from the readout that had it: it is silent until the next one comes.
    pub fn take_away(&mut self) {
        self.owner = None;
        if !self.ended {
            self.status.stalled.set(1);
        }
    }

    /// Takes over what its readout has counted.
    pub fn set_figures(&self, words: impl ExactSizeIterator<Item = u64>) {
        match &self.earlier {
            None => self.status.set_words(words),
            Some(earlier) => {
                self.status.set_sum(earlier, &StreamStatus::of_words(words), self.step);
            }
        }
    }
}
