//! What can be chosen about frames that come by the fabric.

use std::path::PathBuf;

use gannet_measure::quantity::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Error;
use crate::Trust;

/// Longest path of a socket, in bytes (`unix(7)`: 108 with the zero behind it).
const PATH_LEN_MAX: usize = 107;
/// Longest time that a sender may wait for leave: no front end has memory for more.
const WAIT_MAX: Span = Span::s(10);

/// What carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Memory that two processes of this host share.
    Shm,
    /// UDP sockets, of any hosts.
    Udp,
    /// A provider of libfabric, of any hosts: RDMA cards, and TCP.
    Ofi,
    /// A live torus, by the nodes of its hosts.
    Torus,
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Shm => "shm",
            Self::Udp => "udp",
            Self::Ofi => "ofi",
            Self::Torus => "torus",
        })
    }
}

/// What to do when frames come faster than they are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The sender gets no leave to write, and drops new ones: counted as `no_leave`.
    #[default]
    CreditStop,
    /// The oldest that wait are given up, so that a sender need not wait for a reader that is slow: counted as
    /// `given_up`.
    OverwriteOldest,
}

/// Options of a source whose sender puts frames into the cells of its ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricConfig {
    /// Where the sender finds it: the path of a socket for `shm`, an address and port of TCP for `udp`, `ofi` and
    /// `torus`.
    pub listen: String,
    /// What carries the frames: `shm` on one host, `udp` between hosts, `ofi`, a provider of libfabric, or `torus`, the nodes of
    /// the hosts (`gannet torus node`).
    pub backend: Backend,
    /// Provider of libfabric, for `ofi`; absent: the best one that can be used.
    #[serde(default)]
    pub provider: Option<String>,
    /// File with the secret by which sender and receiver know each other. Without one, which `shm` allows,
    /// both have to be of the same user.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// What to do when frames come faster than they are looked at.
    #[serde(default)]
    pub policy: Policy,
    /// Memory for frames that wait, beside those of the past that `depth` keeps.
    #[serde(default = "queue")]
    pub queue: Bytes,
    /// Longest time that `gannet emulate` and `gannet replay` wait for leave before they drop frames.
    #[serde(default = "wait")]
    pub wait: Span,
}

fn queue() -> Bytes {
    Bytes::mib(64)
}

fn wait() -> Span {
    Span::ms(10)
}

impl FabricConfig {
    /// Takes what is put by `backend` at `listen`, with the defaults.
    pub fn new(backend: Backend, listen: impl Into<String>) -> Self {
        Self {
            listen: listen.into(),
            backend,
            provider: None,
            secret_file: None,
            policy: Policy::default(),
            queue: queue(),
            wait: wait(),
        }
    }

    /// Refuses what the types cannot refuse.
    ///
    /// # Errors
    /// Names the first value that is not allowed.
    pub fn check(&self) -> Result<(), Error> {
        let listen = || self.listen.clone();
        match self.backend {
            Backend::Shm if self.listen.is_empty() || self.listen.len() > PATH_LEN_MAX => {
                return Err(Error::Path(listen()));
            }
            Backend::Shm => {}
            Backend::Udp | Backend::Ofi | Backend::Torus => {
                let port = self.listen.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
                if !matches!(port, Some(Ok(_))) {
                    return Err(Error::Address(listen()));
                }
                if self.secret_file.is_none() {
                    return Err(Error::NoSecretFile(listen()));
                }
            }
        }
        if let Some(provider) = &self.provider
            && self.backend != Backend::Ofi
        {
            let (provider, backend) = (provider.clone(), self.backend);
            return Err(Error::Provider { provider, backend });
        }
        if self.wait > WAIT_MAX {
            return Err(Error::Wait(self.wait));
        }
        Ok(())
    }

    /// What sender and receiver know each other by.
    ///
    /// # Errors
    /// When the secret cannot be read.
    pub fn trust(&self) -> Result<Trust, Error> {
        self.secret_file.as_deref().map_or(Ok(Trust::SameUser), |path| Ok(Trust::from_file(path)?))
    }
}
