//! What can be chosen about receiving over UDP.

use std::net::SocketAddr;

use gannet_measure::quantity::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::source::in_range;
use crate::udp::allow::{RULES_MAX, SenderRule};

/// Sockets that one address may have.
const SOCKETS_MAX: u32 = 256;

/// How datagrams are taken from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// `recvmsg`, which was measured to be the fastest; what the kernel offers of it.
    #[default]
    Auto,
    /// Coalesced messages, one a call (`UDP_GRO`). When few datagrams come together, it takes
    /// them one by one, many a call, for a while.
    Recvmsg,
    /// Datagrams one by one, many a call; never coalesced.
    Recvmmsg,
}

impl Engine {
    /// Name in reports, the one used in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Recvmsg => "recvmsg",
            Self::Recvmmsg => "recvmmsg",
        }
    }
}

/// Options of a UDP source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UdpConfig {
    /// Addresses to listen on, each with its port.
    pub listen: Vec<SocketAddr>,
    /// Sockets for each address, each with a receiving thread of its own. The streams of the source
    /// are dealt out to them evenly, by crate, slot and stream in the datagram (`SO_REUSEPORT` with
    /// a BPF program, which needs no rights).
    pub sockets: u32,
    /// How datagrams are taken from the kernel.
    pub engine: Engine,
    /// Kernel memory for datagrams that wait, for each socket. Without `CAP_NET_ADMIN` the
    /// kernel gives no more than `net.core.rmem_max`.
    pub kernel_buffer: Bytes,
    /// Senders that are listened to; empty for everybody.
    pub allow: Vec<SenderRule>,
    /// Whether to count datagrams before the kernel's queue, by a small BPF program. It needs
    /// `CAP_BPF`. With it, kernel drops are exact to the datagram even while messages are
    /// coalesced; without it, coalescing is switched off when the queue fills.
    pub count_before_queue: bool,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            sockets: 1,
            engine: Engine::Auto,
            kernel_buffer: Bytes::mib(64),
            allow: Vec::new(),
            count_before_queue: true,
        }
    }
}

impl UdpConfig {
    /// Refuses what the types cannot refuse.
    ///
    /// # Errors
    /// Names the first value that is not allowed.
    pub fn check(&self) -> Result<(), Error> {
        if self.listen.is_empty() {
            return Err(Error::NoAddress);
        }
        in_range("sockets", self.sockets.into(), 1, SOCKETS_MAX.into())?;
        in_range("kernel_buffer", self.kernel_buffer.bytes(), 1, 1 << 30)?;
        in_range("number of allow rules", self.allow.len() as u64, 0, RULES_MAX as u64)
    }
}
