//! Where emulated frames go, as a configuration says or its reader, and whether anybody listens there.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use gannet_emulate::FrontEnd;
use gannet_wire::{FrameFormat, StreamKey};

use super::{EmulationError, FlowControl};
use crate::config::{Plan, PlannedStream, SourceInput};

/// Where emulated frames go, and for how long.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address for each stream, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
    /// Frames of each stream to make; absent: until stopped.
    pub frames: Option<u64>,
    /// Waits for the receiver; absent: sends when frames are due, as front ends do.
    pub flow_control: Option<FlowControl>,
}

/// Where the receiver of the same configuration expects each stream of `front_end`: the first
/// address of its source. A receiver on all addresses is reached by loopback.
///
/// # Errors
/// When a stream has no receiver, or one on a port that is not known.
pub fn addresses(
    plan: &Plan,
    front_end: &impl FrontEnd,
) -> Result<Vec<SocketAddr>, EmulationError> {
    let name = |stream| front_end.format().stream_name(stream);
    front_end.streams().iter().map(|stream| address(plan, *stream, name)).collect()
}

fn address(
    plan: &Plan,
    stream: StreamKey,
    name: impl Fn(StreamKey) -> String,
) -> Result<SocketAddr, EmulationError> {
    let sends = |own: &PlannedStream| StreamKey::from(own.geo_id) == stream;
    let source = plan.sources.iter().find(|source| source.streams.iter().any(sends));
    let listen = match source.map(|source| &source.input) {
        Some(SourceInput::Udp(udp)) => udp.listen.first().copied(),
        Some(SourceInput::Xdp(xdp)) => Some(xdp.listen.into()),
        _ => None,
    };
    match listen {
        None => Err(EmulationError::NoReceiver(name(stream))),
        Some(address) if address.port() == 0 => Err(EmulationError::NoPort(name(stream))),
        Some(address) => Ok(reachable(address)),
    }
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
pub fn is_listening(address: SocketAddr) -> io::Result<bool> {
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
    use crate::config;
    use gannet_emulate::tpc::TpcFrontEnd;
    use gannet_wire::ChannelMap;
    use std::path::Path;

    fn plan(text: &str) -> Plan {
        config::parse("test.toml", text, Path::new(".")).unwrap()
    }

    fn addresses_of(plan: &Plan) -> Result<Vec<SocketAddr>, EmulationError> {
        let emulate = &plan.config.emulate;
        let map = ChannelMap::synthetic(&emulate.streams.geo_ids()).unwrap();
        addresses(plan, &TpcFrontEnd::new(emulate, &map, 0).unwrap())
    }

    const SOURCES: &str = r#"
[[source]]
streams = { count = 8 }
udp = { listen = ["0.0.0.0:7000", "10.0.0.1:7009"] }
[[source]]
streams = { count = 8, slot = 1 }
udp = { listen = ["[::]:7001"] }
[[source]]
streams = { count = 8, slot = 2 }
udp = { listen = ["127.0.0.1:0"] }
"#;

    #[test]
    fn streams_go_to_their_own_sources() {
        let plan = plan(&format!("{SOURCES}\n[emulate.streams]\ncount = 16"));
        let addresses = addresses_of(&plan).unwrap();
        assert_eq!(addresses[..8], ["127.0.0.1:7000".parse().unwrap(); 8]);
        assert_eq!(addresses[8..], ["[::1]:7001".parse().unwrap(); 8]);
    }

    #[test]
    fn a_stream_without_receiver_or_port_is_told() {
        let error = addresses_of(&plan(&format!("{SOURCES}\n[emulate.streams]\ncrate = 2")));
        assert!(matches!(error, Err(EmulationError::NoReceiver(name)) if name == "3/2/0/0"));
        let error = addresses_of(&plan(&format!("{SOURCES}\n[emulate.streams]\nslot = 2")));
        assert!(matches!(error, Err(EmulationError::NoPort(name)) if name == "3/1/2/0"));
        let capture = "[[source]]\ncapture = \"a.pcap\"\nstreams = { count = 4 }";
        assert!(matches!(addresses_of(&plan(capture)), Err(EmulationError::NoReceiver(_))));
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
