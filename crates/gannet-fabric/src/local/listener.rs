//! A socket at which processes of one host find each other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, chmod, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};

/// How long a process waits for who listens to take its connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// A socket that waits for other processes; its name is taken away again when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`, where nothing may be; only this user can connect.
    ///
    /// # Errors
    /// When the path is taken or too long, or cannot be made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let listener = Self { socket, path: path.to_owned() };
        // Nobody can connect before `listen`.
        chmod(path, Mode::RUSR | Mode::WUSR)?;
        listen(&listener.socket, 16)?;
        Ok(listener)
    }

    /// Waits for another process, no longer than `wait`.
    ///
    /// # Errors
    /// When none comes in time.
    pub fn accept(&self, wait: Duration) -> io::Result<OwnedFd> {
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(wait))?;
        Ok(accept_with(&self.socket, SocketFlags::CLOEXEC)?)
    }
}

impl Listener {
    /// Another process that waits to be let in, if there is one.
    ///
    /// # Errors
    /// When the system gives no descriptor for it.
    pub fn next(&self) -> io::Result<Option<OwnedFd>> {
        let mut socket = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut socket, Some(&Timespec::default()))? {
            0 => Ok(None),
            _ => Ok(Some(accept_with(&self.socket, SocketFlags::CLOEXEC)?)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = unlink(&self.path);
    }
}

/// Connects to the listener at `path`.
///
/// # Errors
/// When nobody listens there; [`io::ErrorKind::TimedOut`] when who listens takes no connections for 5 s.
pub fn connected(path: &Path) -> io::Result<OwnedFd> {
    connected_within(path, PATIENCE)
}

fn connected_within(path: &Path, wait: Duration) -> io::Result<OwnedFd> {
    let (socket, address) = (socket()?, SocketAddrUnix::new(path)?);
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(wait))?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let text = "who listens there takes no connections, and may be halted";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_no_connections_is_not_waited_for_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("halted");
        let listener = Listener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match connected_within(&path, Duration::from_millis(50)) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
            assert!(waiting.len() < 100, "all are queued");
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("takes no connections"), "{error}");
        assert!(listener.next().unwrap().is_some());
        connected_within(&path, Duration::from_secs(5)).unwrap();
    }
}
