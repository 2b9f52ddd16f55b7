//! The kernel's part of the account: its drops, and how full its queue is.

use std::io;
use std::thread;
use std::time::Duration;

use gannet_measure::ledger::Account;

use crate::source::{DropSizes, SourceDrop};
use crate::sys::arrival_counter::{ArrivalCounter, Tally};
use crate::sys::socket::{Queue, Socket};
use crate::udp::drops::{DropCount, dropped_datagrams, read_proc};

/// How often the counters of a running program are read again when messages keep coming.
const READ_ATTEMPTS: usize = 1000;

/// Time in which the kernel is done with a datagram that it had begun to look at.
const SETTLE: Duration = Duration::from_micros(200);

/// Where the kernel's counter of drops is read.
enum Gauge {
    /// From the socket.
    Socket,
    /// From `/proc/net/udp`, by the number of the socket. That is slow, so it is read only when
    /// there is time.
    Proc(u64),
}

/// What is known about the queue when the socket_account are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Messages may wait in it.
    Busy,
    /// It was just found empty.
    Empty,
    /// It is empty, and nothing can come any more.
    Last,
}

/// Keeps the kernel's part of the account.
pub(super) struct SocketAccount {
    gauge: Gauge,
    counter: Option<ArrivalCounter>,
    drops: DropCount,
    /// Datagrams put into the account as dropped by the kernel.
    accounted: u64,
}

impl SocketAccount {
    pub(super) fn new(socket: &Socket, counter: Option<ArrivalCounter>) -> io::Result<Self> {
        let gauge = match socket.queue() {
            Ok(_) => Gauge::Socket,
            Err(_) => Gauge::Proc(socket.inode()?),
        };
        let drops = DropCount::from(0);
        Ok(Self { gauge, counter, drops, accounted: 0 })
    }

    /// Whether the size of every drop is known.
    pub(super) fn is_sized(&self) -> bool {
        self.counter.is_some()
    }

    pub(super) fn drop_sizes(&self, coalesces: bool) -> DropSizes {
        match (coalesces, self.is_sized()) {
            (false, _) => DropSizes::One,
            (true, true) => DropSizes::Counted,
            (true, false) => DropSizes::Unknown,
        }
    }

    /// Lets datagrams pass to the queue, counted if possible and coalesced if asked for. Returns
    /// how many were refused until now.
    pub(super) fn begin(&mut self, socket: &Socket, coalesced: bool) -> io::Result<u64> {
        let before = self.queue(socket, Moment::Empty).unwrap_or_default();
        match &self.counter {
            Some(counter) => socket.attach(counter.program())?,
            None => socket.accept_all()?,
        }
        // Not before: the kernel counts a coalesced message that it refuses as one drop.
        if coalesced {
            socket.set_coalescing(true)?;
        }
        // Refused datagrams count as drops too, the last of them a moment after the change.
        thread::sleep(SETTLE);
        let after = self.queue(socket, Moment::Empty).unwrap_or_default();
        // Nobody has taken anything from the queue. If it is not full, it never was.
        let was_full = after.used > after.limit / 2;
        let refused = if was_full { before.drops } else { after.drops };
        self.drops = DropCount::from(refused);
        Ok(refused.into())
    }

    /// State of the queue, unless it takes too long to read at this moment.
    fn queue(&self, socket: &Socket, moment: Moment) -> Option<Queue> {
        match self.gauge {
            Gauge::Socket => socket.queue().ok(),
            Gauge::Proc(_) if moment == Moment::Busy => None,
            Gauge::Proc(inode) => read_proc(inode)
                .map(|drops| Queue { drops: socket.drops_of(drops), ..Queue::default() }),
        }
    }

    /// Reads the kernel's counters and puts new drops into the account. Returns the state of the
    /// queue and the number of new drops in messages.
    pub(super) fn keep(
        &mut self,
        socket: &Socket,
        taken: Tally,
        account: &Account<SourceDrop>,
        moment: Moment,
    ) -> (Queue, u64) {
        let Some(queue) = self.queue(socket, moment) else { return (Queue::default(), 0) };
        let new = self.drops.observe(queue.drops);
        let mut dropped = self.drops.total();
        if dropped > 0 && moment != Moment::Busy {
            dropped = dropped.max(self.sized(taken, moment).unwrap_or_default());
        }
        if dropped > self.accounted {
            account.offer(dropped - self.accounted);
            account.discard(SourceDrop::KernelQueue, dropped - self.accounted);
            self.accounted = dropped;
        }
        (queue, new)
    }

    /// Drops in datagrams, when every message that came was either taken or dropped.
    fn sized(&self, taken: Tally, moment: Moment) -> Option<u64> {
        let counter = self.counter.as_ref()?;
        let arrived = (0..READ_ATTEMPTS).find_map(|_| counter.read())?;
        let settled = arrived.messages == taken.messages + self.drops.total();
        (settled || moment == Moment::Last)
            .then(|| dropped_datagrams(arrived, taken, self.drops.total()))
    }
}
