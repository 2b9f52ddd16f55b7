//! Frames that a sender puts into the cells of a far clop: remote CLOP.
//!
//! The receiver's ring is a window. Its sender PUTs each frame into the next cell, so a frame lands where it
//! stays, and nobody copies it again. It writes only cells for which it has *leave*: those that the receiver
//! has reserved ([`Producer::reserve_to`](gannet_memory::Producer::reserve_to)), which nobody looks at. The
//! receiver commits them in order.
//!
//! ```text
//!   sender                                              receiver
//!      |  window for words                                  |
//!      |--------------------------------------------------->|
//!      |  window of the ring, greeting: cells, next, leave  |   or: another sender writes
//!      |<---------------------------------------------------|
//!      |  PUT of a frame, count                             |
//!      |--------------------------------------------------->|   for each frame
//!      |  leave                                             |
//!      |<---------------------------------------------------|   for many frames
//!      |  PUT of nothing, count                             |
//!      |--------------------------------------------------->|   at the end
//! ```
//!
//! Immediates say all but the greeting. That of a frame is the number of frames that were offered to the
//! sender, sent or dropped, this one included; 32 bits of it, as of all counts. So the receiver sees how many
//! were dropped before each, and by the last word, behind the last. That of leave is the first cell without.
//!
//! [`FabricConfig::policy`] says what happens when frames come faster than they are looked at. Either way the
//! account of the source has every frame that the sender was offered, and the sender agrees.
//!
//! One sender at a time writes to a source; another is told so. Each has an endpoint of its own at the
//! receiver, made by a thread that waits for them: no stranger holds up who polls.

mod config;
mod door;
mod greeting;
mod intake;
mod leave;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gannet_ingest::{Landing, Sink, Source};
use gannet_measure::clock::Clock;
use gannet_measure::quantity::Span;
use thiserror::Error;

use crate::meet::{Meet, OverOfi, OverShm, OverTorus, OverUdp};
use crate::{Failure, JoinError, SecretError};

pub use config::{Backend, FabricConfig, Policy};
pub use sink::ClopSink;
pub use source::ClopSource;

/// Why frames cannot be put, or be taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The path of a socket is none.
    #[error("listen = {0:?} is no path of a socket: it needs 1 to 107 bytes")]
    Path(String),
    /// The address is none.
    #[error("listen = {0:?} is no address; write one with a port, as \"10.0.0.2:17480\"")]
    Address(String),
    /// There is no secret where one is needed.
    #[error(
        "frames for {0} come by a network: sender and receiver need a secret_file with the same secret"
    )]
    NoSecretFile(String),
    /// A provider is named where there is none to choose.
    #[error("provider = {provider:?} is for the backend ofi; leave it out for {backend}")]
    Provider {
        /// Its name.
        provider: String,
        /// What carries the frames.
        backend: Backend,
    },
    /// A sender is to wait for too long.
    #[error("wait = {0} is longer than 10 s")]
    Wait(Span),
    /// There is no secret that can be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Nobody can be let in.
    #[error("cannot listen at {place}: {cause}{}", listen_advice(.cause))]
    Listen {
        /// Where.
        place: String,
        /// Answer of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The receiver cannot be joined.
    #[error("cannot join the receiver at {place}: {cause}{}", join_advice(.cause))]
    Join {
        /// Where it is to be.
        place: String,
        /// Why not.
        #[source]
        cause: JoinError,
    },
    /// The receiver takes frames of another sender.
    #[error("the receiver at {0} takes frames of another sender, and of one at a time only")]
    Busy(String),
    /// The receiver gave no greeting.
    #[error("the receiver at {0} gave no sign in time; does its run take frames yet?")]
    Silent(String),
    /// What listens is no receiver of frames.
    #[error("what listens at {0} takes no frames, or is of another version")]
    NoReceiver(String),
    /// The receiver went away.
    #[error("the receiver at {place} went away: {cause}")]
    Left {
        /// Where it was.
        place: String,
        /// How.
        #[source]
        cause: Failure,
    },
    /// Memory for the frames cannot be had.
    #[error(transparent)]
    Memory(#[from] gannet_memory::RegionError),
    /// The system has no thread, descriptor or random number left.
    #[error("cannot take frames by the fabric: {0}")]
    System(#[from] io::Error),
}

impl From<Error> for gannet_ingest::Error {
    fn from(error: Error) -> Self {
        Self::Outside(Box::new(error))
    }
}

fn listen_advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "; another program has it",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address, see `ip address`",
        io::ErrorKind::NotFound => "; make its directory first",
        io::ErrorKind::PermissionDenied => "; choose a place that this user may write",
        _ => "",
    }
}

fn join_advice(cause: &JoinError) -> &'static str {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    match cause {
        JoinError::System(error) if matches!(error.kind(), ConnectionRefused | NotFound) => {
            "; nobody listens there: start the readout first, or wait for it with --wait"
        }
        _ => "",
    }
}

/// Makes a source whose sender puts frames into the cells of its ring.
///
/// # Errors
/// When a number is out of range, or memory or the secret cannot be had.
pub fn open(
    config: &FabricConfig,
    landing: Landing,
    clock: &Arc<dyn Clock>,
) -> Result<Box<dyn Source>, gannet_ingest::Error> {
    let clock = Arc::clone(clock);
    Ok(match config.backend {
        Backend::Shm => Box::new(ClopSource::new(shm(config), config, landing, clock)?),
        Backend::Udp => Box::new(ClopSource::new(udp(config), config, landing, clock)?),
        Backend::Ofi => Box::new(ClopSource::new(ofi(config), config, landing, clock)?),
        Backend::Torus => Box::new(ClopSource::new(torus(config), config, landing, clock)?),
    })
}

/// Joins the source of the same configuration, to put frames into its ring.
///
/// # Errors
/// When nobody listens there, or does not let this process join.
pub fn connect(config: &FabricConfig) -> Result<Box<dyn Sink>, gannet_ingest::Error> {
    config.check()?;
    Ok(match config.backend {
        Backend::Shm => Box::new(ClopSink::connect(shm(config), config)?),
        Backend::Udp => Box::new(ClopSink::connect(udp(config), config)?),
        Backend::Ofi => Box::new(ClopSink::connect(ofi(config), config)?),
        Backend::Torus => Box::new(ClopSink::connect(torus(config), config)?),
    })
}

/// Whether anybody listens where the source of this configuration is to be.
///
/// # Errors
/// When that cannot be asked.
pub fn is_listening(config: &FabricConfig) -> io::Result<bool> {
    match config.backend {
        Backend::Shm => shm(config).is_listening(),
        Backend::Udp => udp(config).is_listening(),
        Backend::Ofi => ofi(config).is_listening(),
        Backend::Torus => torus(config).is_listening(),
    }
}

/// Tests that a source of this configuration could wait for its sender: listens for a moment.
///
/// # Errors
/// When it could not, or its secret cannot be read.
pub fn can_listen(config: &FabricConfig) -> Result<(), Error> {
    config.check()?;
    config.trust()?;
    let listening = match config.backend {
        Backend::Shm => shm(config).listen().map(drop),
        Backend::Udp => udp(config).listen().map(drop),
        Backend::Ofi => ofi(config).listen().map(drop),
        Backend::Torus => torus(config).listen().map(drop),
    };
    listening.map_err(|cause| Error::Listen { place: config.listen.clone(), cause })
}

fn shm(config: &FabricConfig) -> OverShm {
    OverShm(PathBuf::from(&config.listen))
}

fn ofi(config: &FabricConfig) -> OverOfi {
    OverOfi { place: config.listen.clone(), provider: config.provider.clone() }
}

fn torus(config: &FabricConfig) -> OverTorus {
    OverTorus { place: config.listen.clone(), node: None }
}

fn udp(config: &FabricConfig) -> OverUdp {
    OverUdp(config.listen.clone())
}
