//! The sockets of a node of a torus: at one it tells how the machine is, to whoever connects, as a JSON document; the other
//! is for processes that use the node.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use gannet_fabric::local::connected;
use gannet_fabric::torus::here::{self, PROCESSES, SOCKET_BEGIN};
use gannet_torus_live::status::Status;

use crate::exit::Lacking;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a document.
const LEN_MAX: u64 = 16 << 20;

/// Which of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// That for `gannet torus status`.
    Status,
    /// That for processes that use the node.
    Processes,
}

impl Door {
    fn end(self) -> &'static str {
        match self {
            Self::Status => ".sock",
            Self::Processes => PROCESSES,
        }
    }

    fn answers(self, path: &Path) -> bool {
        match self {
            Self::Status => UnixStream::connect(path).is_ok(),
            Self::Processes => connected(path).is_ok(),
        }
    }

    /// Makes place for a socket at `path`.
    ///
    /// # Errors
    /// When another node has it, or what is there cannot be taken away.
    pub fn clear(self, path: &Path) -> Result<(), Lacking> {
        let place = path.display();
        if self.answers(path) {
            let option = if self == Self::Status { "--status" } else { "--processes" };
            return Err(Lacking(format!(
                "another node answers at {place}: give this one another --name, or {option}"
            )));
        }
        // What a node that was killed has left.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Lacking(format!("cannot make {place}: {error}")))
            }
            _ => Ok(()),
        }
    }
}

/// Where the socket for `gannet torus status` of a host of this name is.
pub fn of_host(name: &str) -> PathBuf {
    here::directory().join(format!("{SOCKET_BEGIN}{name}{}", Door::Status.end()))
}

/// The only such socket of a host on this machine; for processes the one that the environment names, if it names one.
///
/// # Errors
/// When there is none, or there are several.
pub fn only(door: Door) -> Result<PathBuf, Lacking> {
    let found = match door {
        Door::Status => here::only(door.end(), |path| door.answers(path)),
        Door::Processes => here::node(),
    };
    found.map_err(|error| Lacking(error.to_string()))
}

/// What the host at a socket says.
///
/// # Errors
/// When nobody is there, or says anything.
pub fn ask(path: &Path) -> Result<Status, Lacking> {
    let read = || -> io::Result<String> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.take(LEN_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    let lacking =
        |why: String| Lacking(format!("no node of a torus answers at {}: {why}", path.display()));
    let text = read().map_err(|error| lacking(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| lacking(error.to_string()))
}

/// The socket of a host, gone when this is.
pub struct Socket {
    path: PathBuf,
    asks: Receiver<Sender<String>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

impl Socket {
    /// A socket at `path`, for the user of this process only.
    ///
    /// # Errors
    /// When another node has it, or it cannot be made.
    pub fn open(path: PathBuf) -> Result<Self, Lacking> {
        Door::Status.clear(&path)?;
        let lacking =
            |error: io::Error| Lacking(format!("cannot make {}: {error}", path.display()));
        let listener = UnixListener::bind(&path).map_err(lacking)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(lacking)?;
        let (ask, asks) = channel();
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let (tell, told) = channel();
                if ask.send(tell).is_err() {
                    return;
                }
                let _timed = stream.set_write_timeout(Some(PATIENCE));
                if let Ok(text) = told.recv_timeout(PATIENCE) {
                    let _written = (&stream).write_all(String::as_bytes(&text));
                }
            }
        };
        thread::Builder::new().name("status".into()).spawn(serve).map_err(lacking)?;
        Ok(Self { path, asks })
    }

    /// Tells all who have asked.
    pub fn tell(&self, status: impl Fn() -> Status) {
        for tell in self.asks.try_iter() {
            let text = serde_json::to_string_pretty(&status()).unwrap_or_default();
            let _told = tell.send(text);
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
