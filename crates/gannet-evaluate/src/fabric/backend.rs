//! The backends that can be measured.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use gannet_fabric::shm::{Limits, Listener, Shm};
use gannet_fabric::{Endpoint, JoinError, Peer, Trust};
use serde::{Deserialize, Serialize};

use super::Error;

/// Time within which somebody has to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// What carries the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Memory that two processes share.
    Shm,
}

/// How endpoints of a backend meet.
pub(super) trait Meet {
    /// One end.
    type Endpoint: Endpoint;

    /// Joins the endpoint that listens at `path`.
    fn connect(&self, path: &Path, trust: &Trust) -> Result<(Self::Endpoint, Peer), JoinError>;

    /// Listens at `path` until an endpoint was joined.
    fn accept(&self, path: &Path, trust: &Trust) -> Result<(Self::Endpoint, Peer), Error>;
}

/// Meeting over shared memory.
pub(super) struct OverShm;

impl OverShm {
    fn endpoint() -> Shm {
        Shm::new(Limits { deadline: Duration::from_secs(5), ..Limits::default() })
    }
}

impl Meet for OverShm {
    type Endpoint = Shm;

    fn connect(&self, path: &Path, trust: &Trust) -> Result<(Shm, Peer), JoinError> {
        let mut endpoint = Self::endpoint();
        let peer = endpoint.connect(path, trust)?;
        Ok((endpoint, peer))
    }

    fn accept(&self, path: &Path, trust: &Trust) -> Result<(Shm, Peer), Error> {
        let listener = Listener::bind(path);
        let listener = listener.map_err(|cause| Error::Listen { path: path.to_owned(), cause })?;
        let mut endpoint = Self::endpoint();
        let begin = Instant::now();
        loop {
            match endpoint.accept(&listener, trust) {
                Ok(peer) => return Ok((endpoint, peer)),
                Err(JoinError::System(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    if begin.elapsed() > CONNECT_WITHIN {
                        return Err(Error::Nobody(CONNECT_WITHIN));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
