//! What every backend offers.

use std::fmt;

use gannet_memory::{Access, Refusal, SharedRegion};
use thiserror::Error;

/// Another endpoint that this one is joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

/// Memory of this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

/// What an access to the memory of another endpoint has to name; drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

/// Prints nothing of the key: who reads a log may not use it.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// An operation that was posted; each has its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u64);

/// Bytes of this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Region that holds them.
    pub region: RegionId,
    /// Where they begin in it, bytes.
    pub offset: u64,
}

/// Bytes of another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Who has them.
    pub peer: Peer,
    /// Window that lets them be reached.
    pub key: Key,
    /// Where they begin in it, bytes.
    pub offset: u64,
}

/// Bytes to be copied into the memory of another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Where they are. They may not be changed before the operation is done.
    pub source: Local,
    /// Where they go.
    pub target: Remote,
    /// How many.
    pub bytes: u64,
}

/// Bytes to be copied from the memory of another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Where they are.
    pub source: Remote,
    /// Where they go. They mean nothing before the operation is done.
    pub target: Local,
    /// How many.
    pub bytes: u64,
}

/// How far an operation has come when it is told to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The source may be changed (TX_DONE).
    Sent,
    /// The bytes are in the memory of the other endpoint, for its processor to see.
    Placed,
    /// The other endpoint has taken the event that tells of them (RX_DONE).
    Notified,
    /// The bytes are in the memory of a device, for the device to see.
    DeviceVisible,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sent => "sent",
            Self::Placed => "placed",
            Self::Notified => "notified",
            Self::DeviceVisible => "visible to the device",
        })
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completion {
    /// An operation of this endpoint is done, to the level of [`Facts::done_is`], or has failed.
    Done {
        /// Which one.
        request: Request,
        /// Whether it succeeded.
        outcome: Result<(), Failure>,
    },
    /// Another endpoint has placed bytes in the memory of this one and says so (RX_DONE).
    Notified {
        /// Who.
        peer: Peer,
        /// Window of this endpoint in which they are.
        key: Key,
        /// Where they begin in it, bytes.
        offset: u64,
        /// How many.
        bytes: u64,
        /// What the other endpoint says of them.
        immediate: u32,
    },
    /// Another endpoint lets this one reach memory.
    WindowOpened {
        /// Whose memory.
        peer: Peer,
        /// How to reach it.
        window: Window,
    },
    /// Another endpoint took a window back; it is used no more.
    WindowClosed {
        /// Whose memory.
        peer: Peer,
        /// The window.
        key: Key,
    },
    /// No other endpoint uses a window any more that this one has closed.
    WindowReturned {
        /// The window.
        key: Key,
    },
    /// Another endpoint is gone; nothing more comes from it.
    Left {
        /// Who.
        peer: Peer,
        /// Why.
        failure: Failure,
    },
}

/// Memory of another endpoint, as that one has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// What an access has to name.
    pub key: Key,
    /// Length.
    pub bytes: u64,
    /// What may be done.
    pub access: Access,
    /// What the application there calls it.
    pub label: u32,
}

/// Memory of this endpoint that others are to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Where it begins.
    pub start: Local,
    /// Length.
    pub bytes: u64,
    /// What others may do.
    pub access: Access,
    /// What the application calls it, for the others to know it by.
    pub label: u32,
}

/// Why an operation failed that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The other endpoint has ended.
    #[error("the other endpoint has ended")]
    Ended,
    /// The other endpoint takes no events.
    #[error("the other endpoint has taken no events for longer than its deadline")]
    Unresponsive,
    /// The other endpoint does not allow it: its window was taken back, or is another one than it told.
    #[error("the other endpoint refuses: {0}")]
    Refused(Refusal),
    /// This endpoint has no more files or memory for the other one.
    #[error("this process has too many open files, or no memory, for the other endpoint")]
    Resources,
    /// The node of the torus that this endpoint uses has ended, or has another place in its machine.
    #[error("the node of this host has ended, or is at another place of its machine")]
    Node,
    /// What carries the data failed.
    #[error("the provider of libfabric has failed: error {0}")]
    Carrier(i32),
    /// The other endpoint broke the rules of the exchange.
    #[error("the other endpoint sent what is no message of this version")]
    Protocol,
}

/// Why an operation cannot be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostError {
    /// A queue is full; take completions, or let the other endpoint take its events.
    #[error("the queue of {queue} is full; poll and post again")]
    Full {
        /// Of what.
        queue: &'static str,
    },
    /// The other endpoint is not joined, or has left.
    #[error("endpoint {} is not joined", .0.0)]
    NotJoined(Peer),
    /// This endpoint has no such memory.
    #[error("{bytes} bytes from {offset} are not in a region of this endpoint that may be so used")]
    Local {
        /// Place in the region.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// The operation has more bytes than the backend moves at once.
    #[error("{bytes} bytes are more than the {bytes_max} of one operation; post several")]
    TooLong {
        /// Bytes asked for.
        bytes: u64,
        /// Most bytes of an operation.
        bytes_max: u64,
    },
    /// The window of the other endpoint does not allow it.
    #[error("the other endpoint's memory: {0}")]
    Remote(#[from] Refusal),
}

/// Why memory cannot be let for others to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This endpoint has no such memory.
    #[error("{bytes} bytes from {offset} are not in a region of this endpoint")]
    Local {
        /// Place in the region.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// There are as many windows as may be.
    #[error("{windows_max} windows are open; close one or allow more")]
    TooMany {
        /// Most windows at a time.
        windows_max: usize,
    },
    /// Others could cut the memory short while another process uses it.
    #[error(
        "other processes do not map an ordinary file, which can be cut short under them; memory of a PCI device (resourceN) can \
         be shared, and any file can be reached over udp"
    )]
    Unsealed,
    /// The system gave no random number for the key.
    #[error("the system has no random numbers: error {0}")]
    Random(i32),
}

/// What a backend is and can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub backend: &'static str,
    /// How far an operation has come when it is done.
    pub done_is: Level,
    /// Most bytes of an operation.
    pub bytes_max: u64,
    /// What bounds its rate.
    pub limit: &'static str,
}

/// The backend does not tell as much as is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "an operation over {backend} is done when its bytes are {done_is}, and {required} is required"
)]
pub struct LevelMissing {
    backend: &'static str,
    done_is: Level,
    required: Level,
}

impl Facts {
    /// Refuses a backend that tells less than `required`.
    ///
    /// # Errors
    /// When an operation is told to be done at a lower level.
    pub fn require(&self, required: Level) -> Result<(), LevelMissing> {
        let &Self { backend, done_is, .. } = self;
        if done_is < required {
            return Err(LevelMissing { backend, done_is, required });
        }
        Ok(())
    }
}

/// One end of the fabric: memory that others reach, and operations on theirs.
///
/// Nothing waits: what cannot be done now is refused, and what happens is told by
/// [`poll`](Self::poll). Operations to one endpoint are told to be done in the order in which they were posted;
/// where those under way together write the same bytes, the last one posted need not be the last to write.
pub trait Endpoint {
    /// What the backend is and can tell.
    fn facts(&self) -> Facts;

    /// Gives memory to the endpoint, which keeps it until it ends.
    ///
    /// # Errors
    /// Gives the region back when there are as many as may be.
    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion>;

    /// Memory of this endpoint.
    ///
    /// # Panics
    /// When it has no such region.
    fn region(&self, region: RegionId) -> &SharedRegion;

    /// Lets every endpoint that is joined, now or later, reach memory.
    ///
    /// # Errors
    /// When there is no such memory, or there are too many windows.
    fn open_window(&mut self, opening: &Opening) -> Result<Key, OpenError>;

    /// Takes a window back. Others may use it until [`Completion::WindowReturned`]; gives whether it was
    /// open.
    fn close_window(&mut self, key: Key) -> bool;

    /// Posts a PUT of which the other endpoint is told nothing.
    ///
    /// # Errors
    /// When it is not allowed, or a queue is full; then nothing happened.
    fn put(&mut self, put: &Put) -> Result<Request, PostError>;

    /// Posts a PUT of which the other endpoint is told with `immediate`, when all of its bytes and those of
    /// all before it are there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    fn put_notify(&mut self, put: &Put, immediate: u32) -> Result<Request, PostError>;

    /// Posts a GET.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    fn get(&mut self, get: &Get) -> Result<Request, PostError>;

    /// Posts an operation that is done when all before it to this endpoint are.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    fn flush(&mut self, peer: Peer) -> Result<Request, PostError>;

    /// Adds what happened to `completions`, oldest first, but no more than fits its capacity.
    fn poll(&mut self, completions: &mut Vec<Completion>);

    /// Does what is due at `now_ns`, which must not go back from one call to the next; gives when to call
    /// again at the latest. Who sends and receives calls it at least that often.
    fn progress(&mut self, now_ns: u64) -> Option<u64>;
}
