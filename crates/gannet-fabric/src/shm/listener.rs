//! A socket at which endpoints of one host find each other.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, chmod, unlink};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};

/// A socket that waits for endpoints; its name is taken away again when it is dropped.
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

    /// Waits for an endpoint, no longer than `wait`.
    pub(crate) fn accept(&self, wait: Duration) -> io::Result<OwnedFd> {
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(wait))?;
        Ok(accept_with(&self.socket, SocketFlags::CLOEXEC)?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = unlink(&self.path);
    }
}

/// Connects to the listener at `path`.
pub(crate) fn connected(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}
