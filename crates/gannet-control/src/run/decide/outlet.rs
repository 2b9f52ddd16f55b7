//! How what the trigger records beside records comes to the recorder.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use gannet_log::{Offer, RecorderHandle};
use gannet_readout::trigger::{Product, ProductDrop};

/// Products that wait for room in the recorder's queue.
const WAITING_MAX: usize = 64;
/// Pause between two attempts at the end of a run.
const RETRY: Duration = Duration::from_millis(1);

/// Hands products to the recorder without ever waiting for it.
pub(in crate::run) struct Outlet {
    recorder: RecorderHandle,
    waiting: VecDeque<Product>,
}

impl Outlet {
    pub(in crate::run) fn new(recorder: RecorderHandle) -> Self {
        Self { recorder, waiting: VecDeque::with_capacity(WAITING_MAX) }
    }

    /// Takes a product, or drops it when too many wait.
    pub(super) fn push(&mut self, product: Product) {
        self.hand_over();
        if self.waiting.len() == WAITING_MAX {
            let items = u64::from(product.chunk.label.items);
            product.account.discard(ProductDrop::RecorderBusy, items);
        } else {
            self.waiting.push_back(product);
        }
    }

    /// Hands over all that is left, waiting for the recorder if need be.
    pub(super) fn finish(&mut self) {
        while !self.hand_over() {
            thread::sleep(RETRY);
        }
    }

    /// Hands over in order until the recorder has no room; true when nothing is left.
    pub(super) fn hand_over(&mut self) -> bool {
        while let Some(Product { chunk, account }) = self.waiting.pop_front() {
            let items = u64::from(chunk.label.items);
            if let Offer::Busy(chunk) = self.recorder.offer(chunk) {
                self.waiting.push_front(Product { chunk, account });
                return false;
            }
            // From here on the recorder's own account says what becomes of them.
            account.deliver(items);
        }
        true
    }
}
