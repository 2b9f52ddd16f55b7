//! What every source of datagrams offers, whatever engine is behind it.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use gannet_measure::counter::Counter;
use gannet_measure::drop_reasons;
use gannet_memory::{Cell, Pages};
use serde::Serialize;

use crate::Error;
use crate::landed::Landed;

/// One datagram, landed in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Cell that holds it.
    pub cell: Cell,
    /// Bytes of it.
    pub len: u32,
}

drop_reasons! {
    /// Why a source did not deliver a datagram.
    pub enum SourceDrop {
        /// The kernel had no room for it, or found its check sum wrong.
        KernelQueue => "kernel_queue",
        /// Its sender is not on the allow-list.
        ForeignAddress => "foreign_address",
        /// It was shorter or longer than what is taken, but not empty.
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
        /// A packet of RoCEv2 whose invariant CRC is wrong.
        BadCheckSum => "bad_check_sum",
        /// A packet for a queue pair that nobody has here.
        WrongQueuePair => "wrong_queue_pair",
        /// A write with the key to a queue pair that belongs to another sender.
        TakenQueuePair => "taken_queue_pair",
        /// A write to the queue pair of a source without its key.
        WrongKey => "wrong_key",
        /// A write that begins no cell of the window.
        OutsideWindow => "outside_window",
        /// A packet that came late or twice, or whose sender has begun no message.
        OutOfTurn => "out_of_turn",
        /// A packet that never came, as the numbers of others tell, and that the kernel did not drop.
        Missing => "missing",
        /// A packet of a message that lacks another.
        Unfinished => "unfinished",
        /// A frame that its sender dropped, since it had no leave to write it.
        NoLeave => "no_leave",
        /// A frame that lay in the ring and was given up for newer ones before it was looked at.
        GivenUp => "given_up",
    }
}

impl SourceDrop {
    /// Why a datagram of `len` bytes, a length that is not taken, is not delivered.
    pub fn of_len(len: usize) -> Self {
        if len == 0 { Self::Empty } else { Self::WrongLength }
    }
}

/// How datagrams are to land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Bytes of the datagrams that are taken; others are counted and dropped. A cell has room for
    /// the longest.
    pub lengths: RangeInclusive<usize>,
    /// Datagrams to keep, the depth of the latency buffer. A source rounds up to what it needs.
    pub cells: u64,
}

impl Landing {
    /// Longest UDP payload over IPv4, so the longest datagram.
    pub const LENGTH_MAX: usize = 65_507;

    /// Refuses lengths that no datagram can have.
    ///
    /// # Errors
    /// When the shortest is longer than the longest, or that than any datagram.
    pub fn check(&self) -> Result<(), Error> {
        let (shortest, longest) = (*self.lengths.start() as u64, *self.lengths.end() as u64);
        in_range("longest datagram", longest, 1, Self::LENGTH_MAX as u64)?;
        in_range("shortest datagram", shortest, 1, longest)
    }
}

/// Refuses a number that is not in `min..=max`.
pub(crate) fn in_range(field: &'static str, got: u64, min: u64, max: u64) -> Result<(), Error> {
    if (min..=max).contains(&got) {
        return Ok(());
    }
    Err(Error::Range { field, got, min, max })
}

/// A stream of datagrams that land in a clop. [`Landed::over`] is where one of another crate begins.
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
    /// When the source is not started or its input fails; no arrivals are left then.
    fn poll(&mut self, wait: Duration) -> Result<usize, Error>;

    /// What has landed, with its account and the facts of the source.
    fn landed(&self) -> &Landed;

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
    /// Bytes of the datagrams delivered.
    pub bytes: Counter,
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
    /// Not known while messages are coalesced. Where all datagrams have one length, coalescing is
    /// switched off when the queue fills. Drops that came nevertheless are in
    /// [`Counters::unsized_drops`], each counted as one datagram. While that counter is 0, the
    /// account is exact.
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
    /// Bytes of the datagrams that are taken.
    pub lengths: RangeInclusive<usize>,
    /// Cells of the ring, each as long as the longest.
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
        write!(f, "{} B on {}", self.lengths.end(), self.pages)?;
        if let Some(KernelBuffer { asked, obtained }) = self.kernel_buffer {
            write!(f, ", kernel buffer {obtained} B")?;
            if obtained < asked {
                write!(f, " of {asked} B asked for (raise net.core.rmem_max)")?;
            }
        }
        Ok(())
    }
}
