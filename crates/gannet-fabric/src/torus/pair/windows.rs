//! Windows of both sides.

use gannet_memory::Access;
use gannet_wire::exchange::{self, Message};

use super::super::user::Reach;
use super::joining::{PAGE, address_for, at_free_address, refusal};
use super::{Pair, Viewed};
use crate::endpoint::{Failure, Key, Local, Opening, RegionId, Window};

impl Pair {
    /// Opens a window to the other side.
    pub fn open(&mut self, key: Key, opening: &Opening) -> Result<(), Failure> {
        let &Opening { start, bytes, access, label } = opening;
        let reach = if access == Access::Write { Reach::Write } else { Reach::Read };
        let region = self.regions[start.region.0 as usize];
        let viewed = at_free_address(|| {
            let address = address_for(bytes + PAGE)? + start.offset % PAGE;
            Ok((self.user.view(region, (start.offset, bytes), address, reach)?, address))
        });
        let (view, address) = viewed.map_err(|error| refusal(&error))?;
        self.views.push(Viewed { key, view, address, bytes });
        self.tell(&Message::Window(exchange::Window {
            key: key.0,
            bytes,
            offset: address,
            label,
            is_writable: access == Access::Write,
            ..exchange::Window::default()
        }))
    }

    /// Lets the other side reach a window no more.
    pub fn withdraw(&mut self, key: Key) {
        if let Some(at) = self.views.iter().position(|it| it.key == key) {
            let Viewed { view, .. } = self.views.swap_remove(at);
            if self.user.close_view(view).is_err() {
                self.ending.get_or_insert(Failure::Node);
            }
        }
    }

    /// The window that holds bytes at an address of this side, and where they begin in it.
    pub(super) fn viewed(&self, address: u64, bytes: u64) -> Option<(Key, u64)> {
        self.views.iter().find_map(|it| {
            let offset = address.checked_sub(it.address)?;
            (offset + bytes <= it.bytes).then_some((it.key, offset))
        })
    }

    /// Takes note of a window of the other side.
    pub fn window_opened(&mut self, told: &exchange::Window) -> Result<Window, Failure> {
        let access = if told.is_writable { Access::Write } else { Access::Read };
        let (key, start) = (Key(told.key), Local { region: RegionId(0), offset: told.offset });
        told.offset.checked_add(told.bytes).ok_or(Failure::Protocol)?;
        let entered = self.windows.enter(key, start, told.bytes, access);
        entered.map_err(|_| Failure::Protocol)?;
        Ok(Window { key, bytes: told.bytes, access, label: told.label })
    }

    /// Stops using a window of the other side, if it is one.
    pub fn window_closed(&mut self, key: Key) {
        if self.windows.remove(key) {
            self.closing.push(key);
        }
    }

    /// A window that no operation needs any more, of which the other side is told so.
    pub fn window_free(&mut self) -> Result<Option<Key>, Failure> {
        let is_needed = |key: &Key| self.operations.iter().any(|it| it.key == Some(*key));
        let Some(at) = self.closing.iter().position(|key| !is_needed(key)) else {
            return Ok(None);
        };
        let (key, events) = (self.closing.remove(at), self.credit.posted);
        self.tell(&Message::Closed { key: key.0, events })?;
        Ok(Some(key))
    }

    /// A window that the other side has returned, and of which all events were taken.
    pub fn window_returned(&mut self) -> Option<Key> {
        self.returned.settled(self.credit.taken)
    }
}
