//! The way of items that come from readouts to the trigger.

use std::sync::Arc;

use gannet_measure::ledger::Account;
use gannet_trigger::Item;
use gannet_wire::readout_link::Items;
use gannet_wire::record::Record;

use super::LinkError;
use super::far_stream::FarStream;
use crate::items::{ItemDrop, ItemSender};

/// Hands items over as a receiving thread would that had found them.
pub(super) struct ItemIntake<I> {
    /// None when the trigger takes no more.
    sender: Option<ItemSender<I>>,
    account: Arc<Account<ItemDrop>>,
    /// Most that are handed over at a time.
    frame_items_max: usize,
}

impl<I: Item + Record> ItemIntake<I> {
    pub fn new(sender: ItemSender<I>, frame_items_max: usize) -> Self {
        Self { account: sender.account(), sender: Some(sender), frame_items_max }
    }

    /// Takes no more: those that come are counted as dropped.
    pub fn stop(&mut self) {
        self.sender.take().into_iter().for_each(ItemSender::finish);
    }

    /// Hands over what has waited for long enough.
    pub fn flush_due(&mut self, now_ns: u64) {
        self.sender.iter_mut().for_each(|sender| sender.flush_due(now_ns));
    }

    /// Takes the items of a readout with this number.
    pub fn take(
        &mut self,
        now_ns: u64,
        owner: u64,
        items: &Items<'_>,
        streams: &mut [FarStream],
    ) -> Result<(), LinkError> {
        let wrong = LinkError::Message("items that are none");
        let mut found = items.items::<I>().map_err(|_| wrong)?;
        let is_its_own = |stream: u32| {
            streams.get(stream as usize).is_some_and(|stream| stream.owner == Some(owner))
        };
        if !items.segments().all(|segment| is_its_own(segment.stream)) {
            return Err(LinkError::Message("items of streams that it has not"));
        }
        let Some(sender) = &mut self.sender else {
            let count = found.len() as u64;
            self.account.offer(count);
            self.account.discard(ItemDrop::AfterStop, count);
            return Ok(());
        };
        for segment in items.segments() {
            let searched_to = &mut streams[segment.stream as usize].searched_to;
            let arrival_ns = now_ns.saturating_sub(segment.age_ns);
            let mut left = segment.items as usize;
            loop {
                let count = left.min(self.frame_items_max);
                left -= count;
                // Nothing is said to have been searched of which items are still to come.
                *searched_to = match left {
                    0 => segment.searched_to,
                    _ => segment.searched_to.min(*searched_to),
                };
                sender.append(segment.stream, arrival_ns, |out| {
                    out.extend(found.by_ref().take(count));
                    *searched_to
                });
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}
