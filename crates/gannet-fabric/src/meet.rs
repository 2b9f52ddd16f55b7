//! How two endpoints of a backend meet at a place that both know.

mod address;
mod reception;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::address::{Address, OverOfi, OverTorus, OverUdp};
pub use self::reception::{Reception, Strangers};
use crate::endpoint::{Endpoint, Peer};
use crate::exchange::{JoinError, Side};
use crate::local::{self, Listener};
use crate::own::Limits;
use crate::shm::Shm;
use crate::trust::Trust;

/// A place at which endpoints of one backend meet: one listens, others connect.
pub trait Meet: Clone + Send + 'static {
    /// One end.
    type Endpoint: Endpoint + Send + 'static;
    /// Who waits for others.
    type Listener: Send + Sync + 'static;
    /// Who has come, and has not said who it is.
    type Caller: Send + 'static;

    /// Listens at the place.
    ///
    /// # Errors
    /// When it is taken, or none that can be listened at.
    fn listen(&self) -> io::Result<Self::Listener>;

    /// The place as people write it, of one who listens.
    fn place(&self, listener: &Self::Listener) -> String;

    /// Waits for somebody to come, no longer than `wait`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nobody comes.
    fn come(&self, listener: &Self::Listener, wait: Duration) -> io::Result<Self::Caller>;

    /// The socket of who has come, by which a meeting can be ended; none where a meeting never waits.
    fn socket<'a>(&self, caller: &'a Self::Caller) -> Option<BorrowedFd<'a>> {
        let _ = caller;
        None
    }

    /// Joins an endpoint of its own to who has come, within the deadline of the limits.
    ///
    /// # Errors
    /// When who has come may not join.
    fn join(
        &self,
        caller: Self::Caller,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Self::Endpoint, Peer), JoinError>;

    /// Joins an endpoint of its own to the next that comes within `wait`. A [`Reception`] meets several at a time.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nobody comes; else when who comes may not join.
    fn accept(
        &self,
        listener: &Self::Listener,
        wait: Duration,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Self::Endpoint, Peer), JoinError> {
        self.join(self.come(listener, wait)?, limits, trust)
    }

    /// Joins an endpoint to the one that listens.
    ///
    /// # Errors
    /// When nobody listens, or does not let this one join.
    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Self::Endpoint, Peer), JoinError>;

    /// Whether anybody listens.
    ///
    /// # Errors
    /// When that cannot be asked.
    fn is_listening(&self) -> io::Result<bool>;
}

/// What a failure to connect says about who listens.
fn answer<T>(connected: io::Result<T>) -> io::Result<bool> {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NotFound, TimedOut};
    match connected {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            ConnectionRefused | HostUnreachable | NotFound | TimedOut => Ok(false),
            _ => Err(error),
        },
    }
}

/// Meeting over shared memory, at the path of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverShm(pub PathBuf);

impl Meet for OverShm {
    type Endpoint = Shm;
    type Listener = Listener;
    type Caller = OwnedFd;

    /// A socket that a process has left behind, which was killed, is replaced; who listens there takes the
    /// question for somebody who did not join.
    fn listen(&self) -> io::Result<Listener> {
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        // Files of other kinds refuse as well.
        let is_socket = || self.0.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
        match Listener::bind(&self.0) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && is_socket()
                    && local::connected(&self.0).is_err_and(is_refused) =>
            {
                std::fs::remove_file(&self.0)?;
                Listener::bind(&self.0)
            }
            bound => bound,
        }
    }

    fn place(&self, _: &Listener) -> String {
        self.0.display().to_string()
    }

    fn come(&self, listener: &Listener, wait: Duration) -> io::Result<OwnedFd> {
        listener.accept(wait)
    }

    fn socket<'a>(&self, caller: &'a OwnedFd) -> Option<BorrowedFd<'a>> {
        Some(caller.as_fd())
    }

    fn join(
        &self,
        caller: OwnedFd,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Shm, Peer), JoinError> {
        let mut endpoint = Shm::new(limits.clone());
        let peer = endpoint.join(caller, Side::Accepting, trust)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, trust: &Trust) -> Result<(Shm, Peer), JoinError> {
        let mut endpoint = Shm::new(limits.clone());
        let peer = endpoint.connect(&self.0, trust)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        answer(local::connected(&self.0))
    }
}
