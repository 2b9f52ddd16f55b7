//! What can be chosen about receiving RoCEv2.

use std::net::{SocketAddr, SocketAddrV4};

use gannet_measure::quantity::Bytes;
use gannet_wire::roce::NUMBERS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::source::in_range;
use crate::udp::{SenderRule, UdpConfig};

/// Queue pairs that one source may have.
const QUEUE_PAIRS_MAX: u64 = 1024;

/// Options of a RoCEv2 source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoceConfig {
    /// Address and port to listen on: an address of this machine, as the check sum covers it; the port
    /// of RoCEv2 is 4791.
    pub listen: SocketAddrV4,
    /// Queue pairs that front ends write to, one for each sender.
    pub queue_pairs: Vec<u32>,
    /// Key of the window that they write into.
    pub key: u32,
    /// Virtual address at which the window begins for them.
    #[serde(default)]
    pub start: u64,
    /// Whether to test the invariant CRC of each packet.
    #[serde(default = "yes")]
    pub check_crc: bool,
    /// Kernel memory for packets that wait. Without `CAP_NET_ADMIN` the kernel gives no more than
    /// `net.core.rmem_max`.
    #[serde(default = "kernel_buffer")]
    pub kernel_buffer: Bytes,
    /// Senders that are listened to; empty for everybody who knows queue pair and key.
    #[serde(default)]
    pub allow: Vec<SenderRule>,
}

fn yes() -> bool {
    true
}

fn kernel_buffer() -> Bytes {
    Bytes::mib(64)
}

impl RoceConfig {
    /// Takes what is written to these queue pairs at `listen`, with the defaults.
    pub fn new(listen: SocketAddrV4, queue_pairs: Vec<u32>, key: u32) -> Self {
        Self {
            listen,
            queue_pairs,
            key,
            start: 0,
            check_crc: true,
            kernel_buffer: kernel_buffer(),
            allow: Vec::new(),
        }
    }

    /// Refuses what the types cannot refuse.
    ///
    /// # Errors
    /// Names the first value that is not allowed.
    pub fn check(&self) -> Result<(), Error> {
        if self.listen.ip().is_unspecified() {
            return Err(Error::RoceWildcard);
        }
        in_range("number of queue pairs", self.queue_pairs.len() as u64, 1, QUEUE_PAIRS_MAX)?;
        for queue_pair in &self.queue_pairs {
            in_range("queue pair", (*queue_pair).into(), 0, u64::from(NUMBERS) - 1)?;
        }
        self.udp().check()
    }

    /// The sockets below.
    pub(super) fn udp(&self) -> UdpConfig {
        UdpConfig {
            listen: vec![SocketAddr::V4(self.listen)],
            kernel_buffer: self.kernel_buffer,
            allow: self.allow.clone(),
            ..UdpConfig::default()
        }
    }
}
