//! The sockets of a node of a torus: at one it tells how the machine is, to whoever connects, as a JSON document in a line; the
//! other is for processes that use the node.
//!
//! Who has nothing to say, and ends its side of the connection, is told once. Who says [`FOLLOW`] is told again whenever the order
//! or a neighbour has changed, and now and then in between.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::local::connected;
use gannet_fabric::torus::here::{self, PROCESSES, SOCKET_BEGIN};
use gannet_torus_live::status::Status;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::exit::Lacking;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a document.
const LEN_MAX: u64 = 16 << 20;
/// What somebody says who is to be told of changes.
const FOLLOW: &[u8] = b"follow\n";
/// Most connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 16;
/// Documents that wait for one who follows; who takes none is let go.
const WAITING_MAX: usize = 16;
/// From a connection that the system cannot give to the next try.
const AGAIN: Duration = Duration::from_millis(100);

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

    fn connect(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Status => connect(path).map(drop),
            Self::Processes => connected(path).map(drop),
        }
    }

    /// Why no node answers at `path`, where this socket of it should be, and what to do.
    pub fn lacking(self, path: &Path, error: &io::Error) -> Lacking {
        let place = path.display();
        if is_late(error) {
            return silent(path);
        }
        if !is_other_socket(error) {
            return Lacking(format!("no node of a torus answers at {place}: {error}"));
        }
        let [is, give] = match self {
            Self::Status => ["processes", "`gannet torus status`"],
            Self::Processes => ["`gannet torus status`", "processes"],
        };
        let other = path.with_extension(self.end().trim_start_matches('.'));
        Lacking(format!(
            "{place} is a node's socket for {is}: give its socket for {give} instead, {} unless the node was told another",
            other.display()
        ))
    }

    /// Makes place for a socket at `path`.
    ///
    /// # Errors
    /// When another node has it, or what is there cannot be taken away.
    pub fn clear(self, path: &Path) -> Result<(), Lacking> {
        let place = path.display();
        let option = if self == Self::Status { "--status" } else { "--processes" };
        let lacking = |error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("; it is another user's: give this node another --name, or {option}")
                }
                _ => String::new(),
            };
            Lacking(format!("cannot make {place}: {error}{advice}"))
        };
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(Lacking(format!(
                    "{place} is there and is no socket: give another {option}, or take it away"
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            _ => {}
        }
        let taken = || {
            Lacking(format!("another node has {place}: give this one another --name, or {option}"))
        };
        match self.connect(path) {
            Ok(()) => Err(taken()),
            // What a node that was killed has left.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(lacking)
            }
            // It does not answer, or has its other socket there.
            Err(error) if is_late(&error) || is_other_socket(&error) => Err(taken()),
            Err(error) => Err(lacking(error)),
        }
    }
}

/// Whether somebody is there who does not answer in time.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether a socket is there, but not of the kind that was expected.
fn is_other_socket(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPROTOTYPE)
}

/// What to say of a node that is there and does not answer.
fn silent(path: &Path) -> Lacking {
    let (place, patience) = (path.display(), PATIENCE.as_secs());
    Lacking(format!("the node at {place} does not answer within {patience} s: it may be halted"))
}

/// Connects to the socket for `gannet torus status` at `path`; [`io::ErrorKind::WouldBlock`] when the node takes no connection.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // This also bounds how long connect(2) waits while the queue of the node is full.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    let address = SocketAddrUnix::new(path)?;
    rustix::io::retry_on_intr(|| net::connect(&socket, &address))?;
    Ok(socket.into())
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
        // One that is halted is there all the same.
        Door::Status => here::only(door.end(), |path| {
            door.connect(path).map_or_else(|error| is_late(&error), |()| true)
        }),
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
        let stream = connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.shutdown(Shutdown::Write)?;
        let mut text = String::new();
        stream.take(LEN_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    let begin = Instant::now();
    let text = read().map_err(|error| Door::Status.lacking(path, &error))?;
    if text.is_empty() {
        // Its thread for connections gives up after as long as this side when the node says nothing.
        let is_late = begin.elapsed() > PATIENCE / 2;
        return Err(if is_late {
            silent(path)
        } else {
            Lacking(format!(
                "the node at {} has closed the connection at once: more than {CONNECTIONS_MAX} ask it at a time, or it has just \
                 ended",
                path.display()
            ))
        });
    }
    serde_json::from_str(&text).map_err(|error| Door::Status.lacking(path, &error.into()))
}

/// What a host says, now and whenever something has changed.
pub struct Following {
    stream: BufReader<UnixStream>,
    /// What has come of the next document.
    line: Vec<u8>,
}

impl Following {
    /// Follows the host at a socket.
    ///
    /// # Errors
    /// When nobody is there.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let mut stream = connect(path)?;
        stream.write_all(FOLLOW)?;
        Ok(Self { stream: BufReader::new(stream), line: Vec::new() })
    }

    /// The next document; none if none comes for `most`.
    ///
    /// # Errors
    /// When the host has ended; [`io::ErrorKind::InvalidData`] when what it says is no such document.
    pub fn next(&mut self, most: Duration) -> io::Result<Option<Status>> {
        self.stream.get_ref().set_read_timeout(Some(most))?;
        let room = LEN_MAX - self.line.len() as u64;
        match self.stream.by_ref().take(room).read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => {
                let status = serde_json::from_slice(&self.line);
                self.line.clear();
                status.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            }
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Somebody who is to be told.
struct Ask {
    tell: SyncSender<Arc<str>>,
    follows: bool,
}

/// The socket of a host, gone when this is.
pub struct Socket {
    path: PathBuf,
    asks: Receiver<Ask>,
    followers: Vec<SyncSender<Arc<str>>>,
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
        let accept = move || {
            // Each connection has one of it.
            let open = Arc::new(());
            for stream in listener.incoming() {
                // Without a descriptor for it the connection goes on waiting.
                let Ok(stream) = stream else {
                    thread::sleep(AGAIN);
                    continue;
                };
                if Arc::strong_count(&open) > CONNECTIONS_MAX {
                    continue;
                }
                let (ask, open) = (ask.clone(), Arc::clone(&open));
                let serve = move || {
                    // Who is gone need not be told.
                    let _told = serve(&stream, &ask);
                    drop(open);
                };
                let _closed = thread::Builder::new().name("status".into()).spawn(serve);
            }
        };
        thread::Builder::new().name("status".into()).spawn(accept).map_err(lacking)?;
        Ok(Self { path, asks, followers: Vec::new() })
    }

    /// Tells all who have asked, and those who follow if there are `news`.
    pub fn tell(&mut self, news: bool, status: impl FnOnce() -> Status) {
        let mut asks = self.asks.try_iter().peekable();
        let is_awaited = news && !self.followers.is_empty() || asks.peek().is_some();
        if !is_awaited {
            return;
        }
        let mut text = serde_json::to_string(&status()).unwrap_or_default();
        text.push('\n');
        let text: Arc<str> = text.into();
        if news {
            self.followers.retain(|tell| tell.try_send(Arc::clone(&text)).is_ok());
        }
        for Ask { tell, follows } in asks {
            if tell.try_send(Arc::clone(&text)).is_ok() && follows {
                self.followers.push(tell);
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Tells somebody who has connected.
fn serve(mut stream: &UnixStream, asks: &Sender<Ask>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut word = Vec::new();
    // Who says nothing for so long, and goes on listening, is told once, too.
    let read = BufReader::new(stream).take(FOLLOW.len() as u64).read_until(b'\n', &mut word);
    read.or_else(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Ok(0),
        _ => Err(error),
    })?;
    let (tell, told) = sync_channel(WAITING_MAX);
    let follows = word == FOLLOW;
    asks.send(Ask { tell, follows }).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    let mut text: Arc<str> = told.recv_timeout(PATIENCE).map_err(|_| io::ErrorKind::TimedOut)?;
    loop {
        stream.write_all(text.as_bytes())?;
        match told.recv() {
            Ok(next) => text = next,
            Err(_) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_is_told_of_news_and_others_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let mut socket = Socket::open(path.clone()).unwrap();
        let status = |order| Status { order: Some(order), ..Status::default() };
        let mut following = Following::begin(&path).unwrap();
        let mut next = |most| following.next(Duration::from_millis(most)).unwrap();
        assert_eq!(next(10), None);
        let once = thread::spawn(move || ask(&path).map_err(|error| error.to_string()));
        // Both have asked by then, one soon after the other.
        while socket.followers.is_empty() || !once.is_finished() {
            socket.tell(false, || status(1));
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(once.join().unwrap().unwrap().order, Some(1));
        assert_eq!(next(5000).and_then(|it| it.order), Some(1));
        for order in [2, 3] {
            socket.tell(true, || status(order));
        }
        socket.tell(false, || panic!("nobody has asked, and there are no news"));
        for order in [2, 3] {
            assert_eq!(next(5000).and_then(|it| it.order), Some(order));
        }
        assert_eq!(next(10), None);
        drop(socket);
        assert!(following.next(Duration::from_secs(5)).is_err());
    }

    #[test]
    fn why_no_node_answers_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let [status, processes] = ["n.sock", "n.processes"].map(|name| directory.path().join(name));
        let nobody = ask(&status).unwrap_err().to_string();
        assert!(nobody.contains("no node of a torus answers at"), "{nobody}");
        let listener = UnixListener::bind(&status).unwrap();
        let _processes = gannet_fabric::local::Listener::bind(&processes).unwrap();
        let wrong = ask(&processes).unwrap_err().to_string();
        assert!(wrong.contains("is a node's socket for processes"), "{wrong}");
        assert!(wrong.contains(&status.display().to_string()), "{wrong}");
        let error = Door::Processes.connect(&status).unwrap_err();
        let wrong = Door::Processes.lacking(&status, &error).to_string();
        assert!(wrong.contains("is a node's socket for `gannet torus status`"), "{wrong}");
        assert!(wrong.contains(&processes.display().to_string()), "{wrong}");
        assert!(Door::Status.clear(&processes).unwrap_err().to_string().contains("another node"));
        let late = Door::Status.lacking(&status, &io::ErrorKind::WouldBlock.into()).to_string();
        assert!(late.contains("does not answer within 5 s"), "{late}");
        let close = thread::spawn(move || listener.accept().map(drop));
        let closed = ask(&status).unwrap_err().to_string();
        assert!(closed.contains("closed the connection at once"), "{closed}");
        close.join().unwrap().unwrap();
    }

    #[test]
    fn who_follows_and_does_not_read_is_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let mut socket = Socket::open(path.clone()).unwrap();
        let _silent = Following::begin(&path).unwrap();
        while socket.followers.is_empty() {
            socket.tell(false, Status::default);
        }
        let long = || Status { host: "n".repeat(1 << 20), ..Status::default() };
        for _ in 0..2 * WAITING_MAX {
            socket.tell(true, long);
        }
        assert!(socket.followers.is_empty());
    }
}
