//! Where the nodes of this host have their sockets.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::local::connected;

/// Names of sockets begin so; the name of the host follows.
pub const SOCKET_BEGIN: &str = "gannet-torus-";
/// The end of the name of a socket for processes that use a node.
pub const PROCESSES: &str = ".processes";
/// The variable of the environment that names the socket for processes, where several nodes run on a host.
pub const NODE_VARIABLE: &str = "GANNET_TORUS_NODE";

/// Why it is not known which node is meant.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No node runs on this host.
    #[error(
        "no node of a torus runs here: there is no {SOCKET_BEGIN}NAME{end} in {}; start one by `gannet torus node`, or name its socket",
        directory.display()
    )]
    None {
        /// The end of its name.
        end: &'static str,
        /// Where sockets are looked for.
        directory: PathBuf,
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

/// The only socket of a node on this host whose name has this end, and that `answers`.
///
/// # Errors
/// When there is none, or there are several.
pub fn only(end: &'static str, answers: impl Fn(&Path) -> bool) -> Result<PathBuf, NodeError> {
    only_in(directory(), end, answers)
}

fn only_in(
    directory: PathBuf,
    end: &'static str,
    answers: impl Fn(&Path) -> bool,
) -> Result<PathBuf, NodeError> {
    let is_one = |name: &OsString| {
        name.to_str().is_some_and(|name| name.starts_with(SOCKET_BEGIN) && name.ends_with(end))
    };
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    // One that was killed has left its socket.
    let sockets = entries.filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path());
    let mut found: Vec<PathBuf> = sockets.filter(|path| answers(path)).collect();
    found.sort();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(NodeError::None { end, directory }),
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
    only(PROCESSES, |path| connected(path).is_ok()).map_err(|error| match error {
        NodeError::Several { count, first } => NodeError::Which { count, first },
        error => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_node_that_answers_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let only = |answers: &dyn Fn(&Path) -> bool| {
            only_in(directory.path().to_owned(), PROCESSES, answers)
        };
        assert!(matches!(only(&|_| true), Err(NodeError::None { .. })));
        for name in ["gannet-torus-b.processes", "gannet-torus-a.processes", "gannet-torus-a.sock"]
        {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let first = directory.path().join("gannet-torus-a.processes");
        match only(&|_| true) {
            Err(NodeError::Several { count: 2, first: told }) => assert_eq!(told, first),
            other => panic!("{other:?}"),
        }
        assert_eq!(only(&|path| path == first).unwrap(), first);
    }
}
