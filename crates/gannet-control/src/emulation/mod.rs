//! Front ends at work: frames that the emulator makes, or whoever else has some, sent when they are due.

mod disk;
mod emulator;
mod faults;
mod in_process;
mod modules;
mod role;
mod send;
mod target;

use std::sync::Arc;

use gannet_emulate::ConfigError;
use gannet_measure::counter::Counter;
use gannet_measure::histogram::Histogram;

pub(crate) use disk::TroubledDisk;
pub use emulator::{Emulation, EmulationReport, EventFile, EventSink, PlannedFrontEnd, unix_ticks};
pub use faults::{Breakable, FaultAccount, Faults, Injectable, Injection, Refused};
pub use in_process::FrontEndTruth;
pub use modules::{AppliedSink, play_modules};
pub use role::{Playing, Role, RoleReport};
pub use send::{FlowControl, Outlets, Running, wait};
pub use target::{Receiver, Target, receivers, stream_receivers};

/// Why frames cannot be sent, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// The configuration asks for something that cannot be emulated.
    #[error("emulate.{0}")]
    Config(#[from] ConfigError),
    /// A stream has no receiver in its own configuration.
    #[error(
        "emulate.streams: no source with an address takes stream {0}; \
         name an address with --to, or give a [[source]] this stream and a `udp.listen`"
    )]
    NoReceiver(String),
    /// The receiver takes any free port, which nobody else knows.
    #[error(
        "the source of stream {0} listens on port 0, which means any free one; \
         name its address with --to, or give the source a port"
    )]
    NoPort(String),
    /// A socket failed.
    #[error(transparent)]
    Sink(#[from] gannet_ingest::Error),
    /// A module cannot have its address.
    #[error("cannot play a module at {address}: {cause}")]
    Module {
        /// Its address.
        address: std::net::SocketAddr,
        /// What went wrong.
        #[source]
        cause: std::io::Error,
    },
    /// The system gave no thread.
    #[error("cannot start the sending thread: {0}")]
    Thread(std::io::Error),
    /// The sending thread stopped on an internal error.
    #[error("the sending thread stopped on an internal error; please report it")]
    Defect,
}

/// Figures that change while frames are sent.
#[derive(Debug, Default)]
pub struct Progress {
    /// Datagrams that the network took.
    pub datagrams: Counter,
    /// Bytes of those.
    pub bytes: Counter,
    /// Datagrams that the network did not take.
    pub unsent: Counter,
    /// Nanoseconds by which frames were late; empty when unpaced.
    pub lateness_ns: Arc<Histogram>,
}
