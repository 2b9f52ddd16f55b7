//! Where emulated frames go, as a configuration says or its reader, and whether anybody listens there.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_emulate::FaultSwitch;
use gannet_fabric::clop::{self, Backend, FabricConfig};
use gannet_ingest::roce::{RoceConfig, RoceTarget, window_cells};
use gannet_wire::StreamKey;

use super::{EmulationError, FlowControl};
use crate::config::{Plan, PlannedSource, PlannedStream, SourceInput};

/// Who takes frames.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// Datagrams are sent to this address.
    Udp(SocketAddr),
    /// Frames are written into a window by RDMA (RoCEv2).
    Roce(SocketAddrV4, RoceTarget),
    /// Frames are put into the ring of another process.
    Fabric(FabricConfig),
}

impl Receiver {
    /// Whether anybody listens there; asking UDP sockets takes 200 ms.
    ///
    /// # Errors
    /// When that cannot be asked.
    pub fn is_listening(&self) -> io::Result<bool> {
        match self {
            Self::Udp(address) => is_listening(*address),
            Self::Roce(address, _) => is_listening((*address).into()),
            Self::Fabric(fabric) => clop::is_listening(fabric),
        }
    }

    /// Whether it takes any free port, which nobody else knows.
    fn is_anywhere(&self) -> bool {
        match self {
            Self::Udp(address) => address.port() == 0,
            Self::Roce(address, _) => address.port() == 0,
            Self::Fabric(fabric) => fabric.listen.ends_with(":0"),
        }
    }

    /// Refuses a port that nobody knows.
    fn with_port(self, stream: &PlannedStream) -> Result<Self, EmulationError> {
        match self.is_anywhere() {
            true => Err(EmulationError::NoPort(stream.name.clone())),
            false => Ok(self),
        }
    }

    /// The first address of a source, or its window.
    fn of_source(source: &PlannedSource) -> Option<Self> {
        match &source.input {
            SourceInput::Udp(udp) => udp.listen.first().copied().map(reachable).map(Self::from),
            SourceInput::Xdp(xdp) => Some(reachable(xdp.listen.into()).into()),
            SourceInput::Roce(roce) => Self::window(roce, source),
            SourceInput::Fabric(fabric) => Some(Self::Fabric(reachable_ring(fabric))),
            SourceInput::Capture(_) | SourceInput::Emulated => None,
        }
    }

    /// The window of a source; the sender takes the first of its queue pairs.
    fn window(roce: &RoceConfig, source: &PlannedSource) -> Option<Self> {
        let target = RoceTarget {
            queue_pair: *roce.queue_pairs.first()?,
            key: roce.key,
            start: roce.start,
            cell_bytes: source.frame_bytes(),
            cells: window_cells(source.cells),
        };
        Some(Self::Roce(roce.listen, target))
    }
}

/// Where it is, as people write it.
impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => address.fmt(f),
            Self::Roce(address, _) => address.fmt(f),
            Self::Fabric(fabric) => f.write_str(&fabric.listen),
        }
    }
}

impl From<SocketAddr> for Receiver {
    fn from(address: SocketAddr) -> Self {
        Self::Udp(address)
    }
}

/// Where emulated frames go, and for how long.
#[derive(Clone, Debug)]
pub struct Target {
    /// Who takes each stream, in the order of the configuration.
    pub receivers: Vec<Receiver>,
    /// Frames of each stream to make; absent: until stopped.
    pub frames: Option<u64>,
    /// Waits for the receiver; absent: sends when frames are due, as front ends do.
    pub flow_control: Option<FlowControl>,
    /// What puts faults in meanwhile, if anything does.
    pub faults: Option<Arc<FaultSwitch>>,
}

/// Where the receiver of the same configuration expects each emulated stream: the first address
/// of its source. A receiver on all addresses is reached by loopback.
///
/// # Errors
/// When a stream has no receiver, or one on a port that is not known.
pub fn receivers(plan: &Plan) -> Result<Vec<Receiver>, EmulationError> {
    plan.detector.emulated().into_iter().map(|stream| receiver(plan, stream)).collect()
}

fn receiver(plan: &Plan, stream: PlannedStream) -> Result<Receiver, EmulationError> {
    let mut sources = plan.sources.iter();
    let source = sources.find(|source| source.streams.iter().any(|own| own.key == stream.key));
    match source.and_then(Receiver::of_source) {
        None => Err(EmulationError::NoReceiver(stream.name)),
        Some(to) => to.with_port(&stream),
    }
}

/// Who takes each stream, of all sources that have an address.
///
/// # Errors
/// When the port of one is not known.
pub fn stream_receivers(plan: &Plan) -> Result<HashMap<StreamKey, Receiver>, EmulationError> {
    let mut receivers = HashMap::new();
    for source in &plan.sources {
        let Some(receiver) = Receiver::of_source(source) else { continue };
        for stream in &source.streams {
            receivers.insert(stream.key, receiver.clone().with_port(stream)?);
        }
    }
    Ok(receivers)
}

/// Loopback instead of the wildcard address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The same for the ring of a source.
fn reachable_ring(fabric: &FabricConfig) -> FabricConfig {
    let address = fabric.listen.parse().map(reachable).ok();
    let address = address.filter(|_| fabric.backend != Backend::Shm);
    let listen = address.map_or_else(|| fabric.listen.clone(), |address| address.to_string());
    FabricConfig { listen, ..fabric.clone() }
}

/// Longest time between the port and the start of a readout, and far more than an answer of the
/// network takes.
const SETTLE: Duration = Duration::from_millis(100);

/// Asks twice whether anybody listens at `address`, by empty datagrams, in 200 ms.
///
/// A host answers a datagram to a port that nobody has. The second question finds out whether a
/// readout that had its port at the first still has it, and by then it takes frames; it counts the
/// questions as `before_start` and `empty`, neither of which is a loss. Where a firewall swallows
/// the question or its answer, this says yes: silence is all that a listener gives, too.
///
/// # Errors
/// When there is no socket or no route to be had.
fn is_listening(address: SocketAddr) -> io::Result<bool> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    for _ in 0..2 {
        let sent = socket.send(&[]).map(drop);
        thread::sleep(SETTLE);
        let answered = socket.take_error()?.map_or(Ok(()), Err);
        match sent.and(answered) {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether the host says that nobody listens, or is not there itself.
fn is_refusal(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse;

    const SOURCES: &str = r#"
[[source]]
streams = { count = 8 }
udp = { listen = ["0.0.0.0:7000", "10.0.0.1:7009"] }
[[source]]
streams = { count = 8, crate = 1 }
udp = { listen = ["[::]:7001"] }
[[source]]
streams = { count = 8, crate = 2 }
udp = { listen = ["127.0.0.1:0"] }
"#;

    fn of(emulated: &str) -> Result<Vec<Receiver>, EmulationError> {
        receivers(&parse(&format!("{SOURCES}\n[emulate.streams]\n{emulated}")).unwrap())
    }

    fn udp(address: &str) -> Receiver {
        Receiver::Udp(address.parse().unwrap())
    }

    #[test]
    fn a_window_is_written_through_its_first_queue_pair() {
        let plan = "[emulate.streams]\ncount = 1\n[[source]]\nstreams = { count = 1 }\n\
                    roce = { listen = \"127.0.0.1:4791\", queue_pairs = [9, 8], key = 7, start = 4096 }";
        let plan = parse(plan).unwrap();
        let &[Receiver::Roce(address, target)] = &receivers(&plan).unwrap()[..] else { panic!() };
        assert_eq!(address, "127.0.0.1:4791".parse().unwrap());
        assert_eq!((target.queue_pair, target.key, target.start), (9, 7, 4096));
        assert_eq!(target.cell_bytes, plan.sources[0].frame_bytes());
    }

    #[test]
    fn streams_go_to_the_first_address_of_their_own_source() {
        assert_eq!(of("count = 2").unwrap(), vec![udp("127.0.0.1:7000"); 2]);
        assert_eq!(of("count = 2\ncrate = 1").unwrap(), vec![udp("[::1]:7001"); 2]);
    }

    #[test]
    fn a_ring_is_found_where_its_source_waits() {
        let of = |fabric: &str| {
            let plan = format!(
                "[emulate.streams]\ncount = 1\n[[source]]\nstreams = {{ count = 1 }}\nfabric = {fabric}"
            );
            receivers(&parse(&plan).unwrap()).map(|receivers| receivers[0].to_string())
        };
        let shm = "{ backend = \"shm\", listen = \"/run/ring\" }";
        assert_eq!(of(shm).unwrap(), "/run/ring");
        let udp = |listen: &str| {
            format!("{{ backend = \"udp\", listen = \"{listen}\", secret_file = \"s\" }}")
        };
        assert_eq!(of(&udp("0.0.0.0:7000")).unwrap(), "127.0.0.1:7000");
        assert_eq!(of(&udp("readout:7000")).unwrap(), "readout:7000");
        assert!(matches!(of(&udp("10.0.0.1:0")), Err(EmulationError::NoPort(_))));
    }

    #[test]
    fn a_stream_without_receiver_or_port_is_told() {
        let error = of("count = 9").unwrap_err();
        assert!(matches!(error, EmulationError::NoReceiver(stream) if stream == "8"));
        let error = of("count = 1\ncrate = 2").unwrap_err();
        assert!(matches!(error, EmulationError::NoPort(stream) if stream == "200"));
        let capture = "[emulate.streams]\ncount = 1\n\
                       [[source]]\ncapture = \"a.pcap\"\nstreams = { count = 4 }";
        let error = receivers(&parse(capture).unwrap());
        assert!(matches!(error, Err(EmulationError::NoReceiver(_))));
    }

    #[test]
    fn a_port_without_a_listener_is_told_from_one_with() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = UdpSocket::bind(local) else { continue };
            let address = listener.local_addr().unwrap();
            assert!(is_listening(address).unwrap());
            drop(listener);
            assert!(!is_listening(address).unwrap());
        }
    }
}
