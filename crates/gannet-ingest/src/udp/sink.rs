//! Sending datagrams to one UDP address.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::quantity::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sink::{Datagram, Sent, Sink};
use crate::sys::send::{SEGMENTS_MAX, SendBatch};
use crate::sys::socket::Socket;
use crate::{Error, KernelBuffer};

/// Pause before trying again when a device had no room; sockets without room say when they have.
const DEVICE_PAUSE: Duration = Duration::from_micros(50);

/// Options of a UDP sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UdpSinkConfig {
    /// Own address to send from; by default any address and a free port.
    pub from: Option<SocketAddr>,
    /// Kernel memory for datagrams on their way out.
    pub kernel_buffer: Bytes,
    /// Longest time that one call waits for the kernel to have room.
    pub wait: Span,
    /// Whether datagrams of one length go to the kernel as one message (`UDP_SEGMENT`).
    pub coalesce: bool,
}

impl Default for UdpSinkConfig {
    fn default() -> Self {
        Self { from: None, kernel_buffer: Bytes::mib(4), wait: Span::s(1), coalesce: true }
    }
}

/// Sends datagrams to one UDP address.
///
/// Datagrams that follow one another and have one length go to the kernel as one message, with a shorter
/// one behind them, if there is one; the kernel or the network card cuts it up. Where that is refused, each goes as its own message.
pub struct UdpSink {
    socket: Socket,
    target: SocketAddr,
    local: SocketAddr,
    kernel_buffer: KernelBuffer,
    batch: SendBatch,
    segments_max: usize,
    wait: Duration,
}

impl UdpSink {
    /// A sink for `target`.
    ///
    /// # Errors
    /// When the socket cannot be made or bound, or there is no route to the target.
    pub fn connect(target: SocketAddr, config: &UdpSinkConfig) -> Result<Self, Error> {
        let from = config.from.unwrap_or(match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        });
        let sink = Self::bind(target, from, config, None)?;
        sink.socket.connect(&target).map_err(Error::socket("connect to", target))?;
        let local = sink.socket.local_address();
        Ok(Self { local: local.map_err(Error::socket("ask the address of", from))?, ..sink })
    }

    /// A sink for `target` whose IPv4 packets have the identification 0 and are never fragmented, and how
    /// many bytes such a packet may have on its way. Of datagrams that are coalesced, what cuts them up
    /// counts the identification on.
    ///
    /// Linux numbers the packets of sockets that have a target, and all that may be fragmented. So this one has
    /// none, and asks another socket which address it is to send from.
    pub(crate) fn unnumbered(
        target: SocketAddrV4,
        config: &UdpSinkConfig,
    ) -> Result<(Self, usize), Error> {
        let target = SocketAddr::V4(target);
        let scout = Self::connect(target, config)?;
        let mtu = scout.socket.path_mtu().map_err(Error::socket("ask for the MTU to", target))?;
        let from = scout.local;
        drop(scout);
        let sink = Self::bind(target, from, config, Some(&target))?;
        let options = sink.socket.never_fragment().and_then(|()| sink.socket.report_refusals());
        options.map_err(Error::socket("set up a socket for", target))?;
        Ok((sink, mtu))
    }

    fn bind(
        target: SocketAddr,
        from: SocketAddr,
        config: &UdpSinkConfig,
        to: Option<&SocketAddr>,
    ) -> Result<Self, Error> {
        let socket = Socket::new(&target).map_err(Error::socket("open a socket for", target))?;
        socket.bind(&from).map_err(Error::socket("bind", from))?;
        let asked = config.kernel_buffer.bytes();
        let obtained =
            socket.set_send_buffer(asked).map_err(Error::socket("set the buffer of", from))?;
        let local = socket.local_address().map_err(Error::socket("ask the address of", from))?;
        let can_coalesce = config.coalesce
            && socket.set_segment_len(1).and_then(|()| socket.set_segment_len(0)).is_ok();
        Ok(Self {
            socket,
            target,
            local,
            kernel_buffer: KernelBuffer { asked, obtained },
            batch: SendBatch::new(to),
            segments_max: if can_coalesce { SEGMENTS_MAX } else { 1 },
            wait: config.wait.duration(),
        })
    }

    /// Address that the datagrams come from.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Kernel memory of the socket.
    pub fn kernel_buffer(&self) -> KernelBuffer {
        self.kernel_buffer
    }

    /// Whether several datagrams go to the kernel as one message.
    pub fn coalesces(&self) -> bool {
        self.segments_max > 1
    }

    /// Deals with a refusal; says whether to try again.
    fn recover(
        &mut self,
        cause: io::Error,
        since: Instant,
        sent: &mut Sent,
    ) -> Result<bool, Error> {
        match cause.raw_os_error() {
            // An earlier datagram found no listener; nothing of this call was sent.
            Some(libc::ECONNREFUSED) => sent.refused += 1,
            Some(libc::EINTR) => {}
            Some(libc::ENOBUFS) => thread::sleep(DEVICE_PAUSE),
            Some(libc::EAGAIN) => {
                let left = self.wait.saturating_sub(since.elapsed());
                let waited = self.socket.wait_writable(left);
                waited.map_err(Error::socket("wait for", self.target))?;
            }
            // No check sum offload, a path of small MTU, or a device without this feature.
            Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE)
                if self.coalesces() =>
            {
                let target = self.target;
                tracing::warn!(%target, %cause, "coalesced sending refused; datagrams go one by one");
                self.segments_max = 1;
            }
            _ => return Err(Error::socket("send to", self.target)(cause)),
        }
        Ok(since.elapsed() < self.wait)
    }
}

impl Sink for UdpSink {
    fn send(&mut self, datagrams: &[Datagram<'_>]) -> Result<Sent, Error> {
        let (mut rest, mut sent, mut since) = (datagrams, Sent::default(), Instant::now());
        while !rest.is_empty() {
            match self.batch.send(&self.socket, rest, self.segments_max) {
                Ok(count) => {
                    let (now, later) = rest.split_at(count);
                    sent.datagrams += count as u64;
                    sent.bytes += now.iter().map(|datagram| datagram.len() as u64).sum::<u64>();
                    (rest, since) = (later, Instant::now());
                }
                Err(cause) => {
                    if !self.recover(cause, since, &mut sent)? {
                        break;
                    }
                }
            }
        }
        Ok(sent)
    }
}
