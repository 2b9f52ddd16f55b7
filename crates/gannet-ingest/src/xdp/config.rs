//! What can be chosen about receiving by AF_XDP.

use std::net::SocketAddrV4;

use gannet_measure::quantity::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::source::in_range;
use crate::sys::interfaces::interface_addresses;
use crate::sys::xdp::{Path, interface_index};
use crate::udp::{RULES_MAX, SenderRule};

/// How packets come to the memory that they are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// The card writes them there. Few drivers can.
    #[default]
    ZeroCopy,
    /// The kernel copies them in the driver. Slower than UDP sockets for frames of 7200 bytes.
    Native,
    /// The kernel copies them after the driver. Slower than UDP sockets for frames of 7200 bytes.
    Generic,
}

impl XdpMode {
    /// Name of the engine in reports.
    pub(super) fn engine(self) -> &'static str {
        match self {
            Self::ZeroCopy => "xdp zero-copy",
            Self::Native => "xdp native",
            Self::Generic => "xdp generic",
        }
    }

    pub(super) fn path(self) -> Path {
        match self {
            Self::ZeroCopy => Path::ZeroCopy,
            Self::Native => Path::Driver,
            Self::Generic => Path::Generic,
        }
    }
}

/// Options of an AF_XDP source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XdpConfig {
    /// Address and port to take, IPv4 only. With `0.0.0.0` the port is taken of every address.
    pub listen: SocketAddrV4,
    /// Network interface; where it is not given, the one that has the address.
    #[serde(default)]
    pub interface: Option<String>,
    /// Queue of the interface. What the card puts into another is counted as `other_path`.
    #[serde(default)]
    pub queue: u32,
    /// How packets come to user space. What the driver cannot do is refused.
    #[serde(default)]
    pub mode: XdpMode,
    /// Memory for packets that wait: 3840 bytes hold a packet, or a part of a longer one.
    #[serde(default = "buffer")]
    pub buffer: Bytes,
    /// Senders that are listened to; empty for everybody.
    #[serde(default)]
    pub allow: Vec<SenderRule>,
}

fn buffer() -> Bytes {
    Bytes::mib(60)
}

impl XdpConfig {
    /// Takes what is sent to `listen`, with the defaults.
    pub fn new(listen: SocketAddrV4) -> Self {
        Self {
            listen,
            interface: None,
            queue: 0,
            mode: XdpMode::default(),
            buffer: buffer(),
            allow: Vec::new(),
        }
    }

    /// Name of the interface: the one asked for, or the one that has the address.
    ///
    /// # Errors
    /// When there is none, or it is the loopback interface.
    pub fn card(&self) -> Result<String, Error> {
        let ip = *self.listen.ip();
        let owner = || interface_addresses().into_iter().find(|(_, own)| *own == ip);
        let given = self.interface.clone();
        let name = given.or_else(|| owner().map(|(name, _)| name)).ok_or(Error::NoInterface(ip))?;
        let index = |name: &str| {
            let failed = |cause| Error::Xdp { what: "find", interface: name.into(), cause };
            interface_index(name).map_err(failed)
        };
        match index("lo") {
            Ok(loopback) if loopback == index(&name)? => Err(Error::XdpOnLoopback),
            _ => Ok(name),
        }
    }

    /// Refuses what the types cannot refuse.
    ///
    /// # Errors
    /// Names the first value that is not allowed.
    pub fn check(&self) -> Result<(), Error> {
        in_range("queue", self.queue.into(), 0, 4095)?;
        in_range("buffer", self.buffer.bytes(), 1 << 20, 1 << 30)?;
        in_range("number of allow rules", self.allow.len() as u64, 0, RULES_MAX as u64)
    }
}
