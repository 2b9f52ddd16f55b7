//! What another process may ask of a run, by its Unix socket: one request and one answer a connection,
//! each a line of JSON.

use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::slow_control::Outcome;

/// Name of the socket of a run that has no path for it, in its directory.
pub const SOCKET: &str = "gannet.sock";
/// Longest request, in bytes.
pub const REQUEST_LEN_MAX: usize = 64 << 10;
/// Longest answer that is read, in bytes: the snapshot of a large run.
const ANSWER_LEN_MAX: u64 = 64 << 20;
/// Longest path of a socket, in bytes (`unix(7)`: 108 with the zero behind it).
const PATH_LEN_MAX: usize = 107;

/// What may be asked of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Its snapshot.
    Status,
    /// Its end, as by a signal.
    Stop,
    /// To send commands to modules.
    Send {
        /// Which modules, as a configuration names them.
        module: String,
        /// Keys and values, in the order in which they are to be set.
        set: Vec<(String, String)>,
    },
}

/// What a run answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The snapshot.
    Snapshot(Value),
    /// It will stop.
    Stopping,
    /// How the commands ended.
    Outcomes(Vec<Outcome>),
    /// Why there is none.
    Error(String),
}

/// Asks the run with the socket at `path`, and waits no longer than `patience`.
///
/// # Errors
/// When nobody listens there, it is not allowed, or no answer comes.
pub fn ask(path: &Path, request: &Request, patience: Duration) -> io::Result<Answer> {
    check_path(path)?;
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut line = serde_json::to_vec(request)?;
    if line.len() >= REQUEST_LEN_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "these are too many commands at once"));
    }
    line.push(b'\n');
    // One that is refused may be answered before it was read to its end.
    let written = stream.write_all(&line);
    let mut answer = Vec::new();
    let read = BufReader::new(stream.take(ANSWER_LEN_MAX)).read_until(b'\n', &mut answer);
    match (written.and(read), serde_json::from_slice(&answer)) {
        (_, Ok(answer)) => Ok(answer),
        (Err(error), _) => Err(error),
        (Ok(_), Err(_)) => Err(io::Error::new(ErrorKind::UnexpectedEof, "it gave no answer")),
    }
}

fn check_path(path: &Path) -> io::Result<()> {
    let len = path.as_os_str().len();
    if len <= PATH_LEN_MAX {
        return Ok(());
    }
    let text = format!("its path has {len} bytes, and that of a socket at most {PATH_LEN_MAX}");
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}

/// A listening socket in the file system, for its owner only, which is removed when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    own: Metadata,
}

impl ControlSocket {
    /// A socket at `path`, in the place of one that nobody listens at any more.
    ///
    /// It gets its name when nobody but its owner may connect: it is made in a directory of its owner.
    ///
    /// # Errors
    /// When somebody listens there, something else is there, or the path is too long.
    pub fn bind(path: &Path) -> io::Result<Self> {
        check_path(path)?;
        check_place(path)?;
        let room = path.parent().unwrap_or(Path::new(".")).join(format!(".g{}", process::id()));
        let inside = room.join("s");
        check_path(&inside)?;
        // A process of this number may have been killed in between.
        let _nothing_there = fs::remove_file(&inside).and(fs::remove_dir(&room));
        DirBuilder::new().mode(0o700).create(&room)?;
        let made = UnixListener::bind(&inside).and_then(|listener| {
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            let own = fs::symlink_metadata(&inside)?;
            fs::rename(&inside, path)?;
            Ok(Self { listener, path: path.to_owned(), own })
        });
        let _nothing_left = fs::remove_file(&inside);
        let removed = fs::remove_dir(&room);
        made.and_then(|made| removed.map(|()| made))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The listener, which never waits.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// A connection that waits to be taken, of a process of the same user or of root; one of another
    /// is closed.
    pub fn accept(&self) -> Option<UnixStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if is_trusted(&stream) && stream.set_nonblocking(true).is_ok() => {
                    return Some(stream);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let place = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let is_own =
            fs::symlink_metadata(&self.path).is_ok_and(|now| place(&now) == place(&self.own));
        if is_own && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "{} is left behind", self.path.display());
        }
    }
}

fn is_trusted(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid() || peer.uid == Uid::ROOT)
}

/// Refuses a place that somebody else has.
fn check_place(path: &Path) -> io::Result<()> {
    let in_use = |what| Err(io::Error::new(ErrorKind::AddrInUse, what));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => in_use("there is something else"),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => in_use("another run listens there"),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_socket_is_for_its_owner_and_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gannet.sock");
        let socket = ControlSocket::bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(socket.accept().is_none());
        let client = UnixStream::connect(&path).unwrap();
        assert!(socket.accept().is_some());
        drop(client);
        let error = ControlSocket::bind(&path).unwrap_err();
        assert_eq!(error.to_string(), "another run listens there");
        drop(socket);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_other_files_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gannet.sock");
        drop(UnixListener::bind(&path).unwrap());
        let socket = ControlSocket::bind(&path).unwrap();
        let theirs = directory.path().join("theirs");
        fs::write(&theirs, "x").unwrap();
        fs::rename(&theirs, &path).unwrap();
        drop(socket);
        assert_eq!(fs::read(&path).unwrap(), b"x", "what is not its own is left");
        assert!(ControlSocket::bind(&path).is_err());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(ControlSocket::bind(&link).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_told() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(103)));
        let error = ControlSocket::bind(&path).unwrap_err();
        assert_eq!(error.to_string(), "its path has 108 bytes, and that of a socket at most 107");
    }

    #[test]
    fn requests_are_plain_json() {
        let set = vec![("hv".to_owned(), "1200".to_owned())];
        let send = Request::Send { module: "7".into(), set };
        let text = serde_json::to_string(&send).unwrap();
        assert_eq!(text, r#"{"send":{"module":"7","set":[["hv","1200"]]}}"#);
        assert_eq!(serde_json::to_string(&Request::Status).unwrap(), "\"status\"");
        assert!(
            serde_json::from_str::<Request>(r#"{"send":{"module":"7","set":[],"x":1}}"#).is_err()
        );
    }
}
