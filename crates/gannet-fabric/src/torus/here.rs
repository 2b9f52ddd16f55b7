//! Where the nodes of this host have their sockets.
//!
//! In a directory for temporary files anybody may have left one of such a name: only those of the own user, of root, and of the user on whose
//! behalf root acts, are found without being named.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use thiserror::Error;

use crate::local::connected;

/// Names of sockets begin so; the name of the host follows.
pub const SOCKET_BEGIN: &str = "gannet-torus-";
/// The end of the name of a socket for processes that use a node.
pub const PROCESSES: &str = ".processes";
/// The variable of the environment that names the socket for processes, where several nodes run on a host.
pub const NODE_VARIABLE: &str = "GANNET_TORUS_NODE";
/// The variable of the environment in which `sudo` tells root who has called it, by number.
const CALLER_VARIABLE: &str = "SUDO_UID";

/// Why it is not known which node is meant.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No node runs on this host.
    #[error(
        "no node of a torus runs here for this user: there is no {SOCKET_BEGIN}NAME{end} of this user or of root in {}; start one by `gannet \
         torus node`, or name its socket",
        directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
    )]
    None {
        /// The end of its name.
        end: &'static str,
        /// Where sockets are looked for.
        directories: Vec<PathBuf>,
    },
    /// Several nodes run on this host.
    #[error("{count} nodes of a torus run here: name the socket of one, such as {}", first.display())]
    Several {
        /// How many.
        count: usize,
        /// The first of them, by name.
        first: PathBuf,
    },
    /// Several nodes run on this host, of which processes use one.
    #[error("{count} nodes of a torus run here: say which one to use by {NODE_VARIABLE}={}", first.display())]
    Which {
        /// How many.
        count: usize,
        /// The first of them, by name.
        first: PathBuf,
    },
}

/// Where sockets are, unless said otherwise: in the directory of the user, or else in that for temporary files.
pub fn directory() -> PathBuf {
    let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    own.unwrap_or_else(env::temp_dir)
}

/// Who has called root, where this process is root.
fn caller() -> Option<u32> {
    let told = env::var(CALLER_VARIABLE).ok().filter(|_| geteuid().is_root());
    told.and_then(|told| told.parse().ok())
}

/// Where sockets are looked for: as root, also in the directory of the user who has called it.
fn directories() -> Vec<PathBuf> {
    let of_caller = caller().map(|user| PathBuf::from(format!("/run/user/{user}")));
    let of_caller = of_caller.filter(|path| path.is_dir());
    [Some(directory()), of_caller].into_iter().flatten().collect()
}

/// Whether this is a socket of somebody who may say what this process does.
fn is_trusted(it: &Metadata) -> bool {
    let is_known = it.uid() == geteuid().as_raw() || it.uid() == 0 || Some(it.uid()) == caller();
    it.file_type().is_socket() && is_known
}

/// The only socket of a node on this host whose name has this end, and that `answers`.
///
/// # Errors
/// When there is none, or there are several.
pub fn only(end: &'static str, answers: impl Fn(&Path) -> bool) -> Result<PathBuf, NodeError> {
    only_in(directories(), end, answers)
}

fn only_in(
    directories: Vec<PathBuf>,
    end: &'static str,
    answers: impl Fn(&Path) -> bool,
) -> Result<PathBuf, NodeError> {
    let is_one = |name: &OsString| {
        name.to_str().is_some_and(|name| name.starts_with(SOCKET_BEGIN) && name.ends_with(end))
    };
    let entries = directories.iter().flat_map(fs::read_dir).flatten().flatten();
    let sockets = entries.filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path());
    let sockets = sockets.filter(|path| fs::symlink_metadata(path).is_ok_and(|it| is_trusted(&it)));
    // One that was killed has left its socket.
    let mut found: Vec<PathBuf> = sockets.filter(|path| answers(path)).collect();
    found.sort();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(NodeError::None { end, directories }),
        [first, ..] => Err(NodeError::Several { count: found.len(), first: first.clone() }),
    }
}

/// The socket for processes of the node to use: the one that [`NODE_VARIABLE`] names, or that of the only node.
///
/// # Errors
/// When none is named, and there is none or there are several.
pub fn node() -> Result<PathBuf, NodeError> {
    if let Some(path) = env::var_os(NODE_VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    // One that is halted is there all the same; who uses it is told so.
    let is_there = |path: &Path| match connected(path) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::TimedOut,
    };
    only(PROCESSES, is_there).map_err(|error| match error {
        NodeError::Several { count, first } => NodeError::Which { count, first },
        error => error,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use gannet_measure::testing::skipped;

    use super::*;

    #[test]
    fn the_only_node_that_answers_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let only = |answers: &dyn Fn(&Path) -> bool| {
            only_in(vec![directory.path().to_owned()], PROCESSES, answers)
        };
        assert!(matches!(only(&|_| true), Err(NodeError::None { .. })));
        for name in ["gannet-torus-b.processes", "gannet-torus-a.processes", "gannet-torus-a.sock"]
        {
            UnixListener::bind(directory.path().join(name)).unwrap();
        }
        // What is no socket, or only points to one, is none.
        fs::write(directory.path().join("gannet-torus-0.processes"), "").unwrap();
        let link = directory.path().join("gannet-torus-1.processes");
        std::os::unix::fs::symlink(directory.path().join("gannet-torus-b.processes"), link)
            .unwrap();
        let first = directory.path().join("gannet-torus-a.processes");
        match only(&|_| true) {
            Err(NodeError::Several { count: 2, first: told }) => assert_eq!(told, first),
            other => panic!("{other:?}"),
        }
        assert_eq!(only(&|path| path == first).unwrap(), first);
    }

    #[test]
    fn sockets_of_other_users_are_left_alone() {
        if !geteuid().is_root() {
            return skipped(
                "sockets_of_other_users_are_left_alone",
                "it takes root to give a socket away",
            );
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gannet-torus-a.processes");
        UnixListener::bind(&path).unwrap();
        let only = || only_in(vec![directory.path().to_owned()], PROCESSES, |_| true);
        assert_eq!(only().unwrap(), path);
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let refused = only().unwrap_err().to_string();
        assert!(refused.contains(&directory.path().display().to_string()), "{refused}");
    }
}
