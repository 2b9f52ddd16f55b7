//! What every source of datagrams offers, whatever engine is behind it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gannet_measure::counter::Counter;
use gannet_measure::drop_reasons;
use gannet_measure::ledger::Account;
use gannet_memory::{Cell, Geometry, Pages, Producer, clop};
use serde::Serialize;

use crate::Error;

/// One datagram of exactly the frame length, landed in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Cell that holds it.
    pub cell: Cell,
    /// Bytes of it: the frame length.
    pub len: u32,
}

drop_reasons! {
    /// Why a source did not deliver a datagram.
    pub enum SourceDrop {
        /// The kernel had no room for it, or found its check sum wrong.
        KernelQueue => "kernel_queue",
        /// Its sender is not on the allow-list.
        ForeignAddress => "foreign_address",
        /// It was shorter or longer than a frame, but not empty.
        WrongLength => "wrong_length",
        /// It came after the socket had its port and before frames were taken.
        BeforeStart => "before_start",
        /// It was empty, as a sender's question whether anybody listens is.
        Empty => "empty",
        /// It was a fragment of a datagram, in a capture file.
        Fragment => "fragment",
        /// Its headers were damaged, in a capture file or from a network card.
        Malformed => "malformed",
        /// It came to the kernel's own network code beside an AF_XDP source: by another queue of the
        /// card, in fragments, with IP options or a VLAN tag, or from this machine.
        OtherPath => "other_path",
    }
}

impl SourceDrop {
    /// Why a datagram of `len` bytes, which is not the length of a frame, is not delivered.
    pub(crate) fn of_len(len: usize) -> Self {
        if len == 0 { Self::Empty } else { Self::WrongLength }
    }
}

/// How frames are to land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Bytes of a frame; datagrams of another length are counted and dropped.
    pub frame_len: usize,
    /// Frames to keep, the depth of the latency buffer. A source rounds up to what it needs.
    pub cells: u64,
}

impl Landing {
    /// Shortest frame that is sensible to land in a cell of its own.
    pub const FRAME_LEN_MIN: usize = 16;
    /// Longest UDP payload over IPv4, so the longest frame.
    pub const FRAME_LEN_MAX: usize = 65_507;

    /// Makes the ring of cells, of at least `cells_min`.
    pub(crate) fn ring(&self, cells_min: usize) -> Result<Producer, Error> {
        self.check()?;
        let cells = cells_min.max(self.cells as usize);
        let geometry = Geometry { cell_bytes: self.frame_len, cells };
        let (producer, _) = clop(geometry).map_err(Error::Memory)?;
        Ok(producer)
    }

    /// Refuses frame lengths that no datagram can have.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (min, max) = (Self::FRAME_LEN_MIN as u64, Self::FRAME_LEN_MAX as u64);
        in_range("frame length", self.frame_len as u64, min, max)
    }
}

/// Refuses a number that is not in `min..=max`.
pub(crate) fn in_range(field: &'static str, got: u64, min: u64, max: u64) -> Result<(), Error> {
    if (min..=max).contains(&got) {
        return Ok(());
    }
    Err(Error::Range { field, got, min, max })
}

/// A stream of datagrams that land in a clop.
///
/// Life of a source: made, [`bind`](Source::bind), [`start`](Source::start), any number of
/// [`poll`](Source::poll)s, [`stop`](Source::stop), further polls until
/// [`is_exhausted`](Source::is_exhausted). What reached the socket before the stop is either
/// delivered or counted. All calls come from one thread, which need not be
/// the one that made the source.
pub trait Source: Send {
    /// Takes the port of a source that has one; what is sent to it from now on is counted. A start
    /// does this too where it was not done.
    ///
    /// # Errors
    /// When the address is taken or is none of this machine.
    fn bind(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Begins to take datagrams in; earlier ones are counted as [`SourceDrop::BeforeStart`].
    ///
    /// # Errors
    /// When the operating system refuses.
    fn start(&mut self) -> Result<(), Error>;

    /// Lands what is there, waits at most `wait` for the first of it, and returns the number of
    /// arrivals. It may return early with none.
    ///
    /// # Errors
    /// When the source is not started or its input fails; the arrivals are empty then.
    fn poll(&mut self, wait: Duration) -> Result<usize, Error>;

    /// The arrivals of the last poll in the order in which they came, a bounded number. Their
    /// cells are intact until the next poll.
    fn arrivals(&self) -> &[Arrival];

    /// Reading of the clock at the last poll, in ns; one for all its arrivals.
    fn arrival_ns(&self) -> u64;

    /// The clop in which the frames lie.
    fn producer(&self) -> &Producer;

    /// The account of all datagrams: offered = delivered + dropped, exact once exhausted.
    fn account(&self) -> Arc<Account<SourceDrop>>;

    /// Counts of what the engine does, for metrics and diagnosis.
    fn counters(&self) -> Arc<Counters>;

    /// What the source is and what it was given, for reports.
    fn facts(&self) -> Facts;

    /// Tells that datagrams were coalesced that belong to several sources: those that share the
    /// address of this one are to take datagrams one by one from now on, where they can.
    fn part(&mut self) {}

    /// Stops taking datagrams in. Polls then deliver what was already queued.
    ///
    /// # Errors
    /// When the operating system refuses.
    fn stop(&mut self) -> Result<(), Error>;

    /// Whether no arrival will come any more: the input has ended, or the source was stopped and
    /// has delivered all that was queued. The account is final then.
    fn is_exhausted(&self) -> bool;
}

/// Counts of what the engine of a source does.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages taken from the kernel; one may hold several datagrams.
    pub messages: Counter,
    /// Kernel drops that may each stand for several datagrams, see [`DropSizes`].
    pub unsized_drops: Counter,
    /// Times that coalescing was switched on or off.
    pub coalescing_switches: Counter,
}

/// How many datagrams one kernel drop stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropSizes {
    /// The source has no kernel queue.
    None,
    /// Always one: messages are never coalesced.
    One,
    /// Datagrams are counted before the queue, so every drop has its size.
    Counted,
    /// Not known while messages are coalesced. Coalescing is switched off when the queue fills;
    /// drops that came nevertheless are in [`Counters::unsized_drops`], each counted as one
    /// datagram. While that counter is 0, the account is exact.
    Unknown,
}

/// Kernel memory for datagrams that wait, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelBuffer {
    /// What was asked for.
    pub asked: u64,
    /// What was obtained; less than asked when `net.core.rmem_max` caps it.
    pub obtained: u64,
}

/// What a source is and what it was given.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Kind of source and where it reads, for example `udp 127.0.0.1:17477`.
    pub name: String,
    /// Engine that moves the bytes, for example `recvmsg`.
    pub engine: &'static str,
    /// Engines and aids that were tried and refused, each with its reason.
    pub refusals: Vec<String>,
    /// Address of the socket.
    pub address: Option<SocketAddr>,
    /// Bytes of a frame.
    pub frame_len: usize,
    /// Cells of the ring.
    pub cells: u64,
    /// Pages behind the ring.
    #[serde(serialize_with = "as_text")]
    pub pages: Pages,
    /// Kernel memory of the socket.
    pub kernel_buffer: Option<KernelBuffer>,
    /// How exactly kernel drops are counted.
    pub drop_sizes: DropSizes,
}

fn as_text<S: serde::Serializer>(pages: &Pages, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(pages)
}

/// One line.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}: {} cells of ", self.name, self.engine, self.cells)?;
        write!(f, "{} B on {}", self.frame_len, self.pages)?;
        if let Some(KernelBuffer { asked, obtained }) = self.kernel_buffer {
            write!(f, ", kernel buffer {obtained} B")?;
            if obtained < asked {
                write!(f, " of {asked} B asked for (raise net.core.rmem_max)")?;
            }
        }
        Ok(())
    }
}
