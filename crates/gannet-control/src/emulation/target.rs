//! Where emulated frames go, as a configuration says or its reader, and whether anybody listens there.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use gannet_wire::{ChannelMap, GeoId};

use super::{EmulationError, FlowControl};
use crate::config::{Plan, SourceInput};

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

/// Where the receiver of the same configuration expects each emulated stream: the first address
/// of its source. A receiver on all addresses is reached by loopback.
///
/// # Errors
/// When a stream has no receiver, or one on a port that is not known.
pub fn addresses(plan: &Plan) -> Result<Vec<SocketAddr>, EmulationError> {
    let streams = plan.config.emulate.streams.geo_ids();
    streams.into_iter().map(|stream| address(plan, stream)).collect()
}

fn address(plan: &Plan, stream: GeoId) -> Result<SocketAddr, EmulationError> {
    let mut sources = plan.sources.iter();
    let source = sources.find(|source| source.streams.iter().any(|own| own.geo_id == stream));
    let listen = match source.map(|source| &source.input) {
        Some(SourceInput::Udp(udp)) => udp.listen.first().copied(),
        Some(SourceInput::Xdp(xdp)) => Some(xdp.listen.into()),
        _ => None,
    };
    match listen {
        None => Err(EmulationError::NoReceiver(stream)),
        Some(address) if address.port() == 0 => Err(EmulationError::NoPort(stream)),
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

/// The channel map of the emulated streams: that of the plan, so that a receiver with the same
/// configuration agrees about channels. Without a configured map, streams that no source has get
/// a synthetic one.
///
/// # Errors
/// When there are more streams than a map can be made up for.
pub fn channel_map(plan: &Plan) -> Result<ChannelMap, EmulationError> {
    let streams = plan.config.emulate.streams.geo_ids();
    let known = |stream: &GeoId| plan.channel_map.stream(*stream).is_some();
    if plan.config.channel_map.is_some() || streams.iter().all(known) {
        return Ok(plan.channel_map.clone());
    }
    Ok(ChannelMap::synthetic(&streams)?)
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
    use std::path::Path;

    fn plan(text: &str) -> Plan {
        config::parse("test.toml", text, Path::new(".")).unwrap()
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
        let addresses = addresses(&plan).unwrap();
        assert_eq!(addresses[..8], ["127.0.0.1:7000".parse().unwrap(); 8]);
        assert_eq!(addresses[8..], ["[::1]:7001".parse().unwrap(); 8]);
    }

    #[test]
    fn a_stream_without_receiver_or_port_is_told() {
        let error = addresses(&plan(&format!("{SOURCES}\n[emulate.streams]\ncrate = 2")));
        assert!(matches!(error, Err(EmulationError::NoReceiver(geo)) if geo.crate_id == 2));
        let error = addresses(&plan(&format!("{SOURCES}\n[emulate.streams]\nslot = 2")));
        assert!(matches!(error, Err(EmulationError::NoPort(geo)) if geo.slot == 2));
        let capture = "[[source]]\ncapture = \"a.pcap\"\nstreams = { count = 4 }";
        assert!(matches!(addresses(&plan(capture)), Err(EmulationError::NoReceiver(_))));
    }

    #[test]
    fn emulator_and_receiver_agree_about_channels() {
        let plan = plan(&format!("{SOURCES}\n[emulate.streams]\nslot = 1"));
        let map = channel_map(&plan).unwrap();
        let stream = plan.config.emulate.streams.geo_ids()[0];
        assert_eq!(map.stream(stream), plan.channel_map.stream(stream));
    }

    #[test]
    fn streams_that_no_source_has_get_a_map_of_their_own() {
        let plan = plan("[emulate.streams]\ncount = 3");
        let map = channel_map(&plan).unwrap();
        assert!(plan.config.emulate.streams.geo_ids().iter().all(|g| map.stream(*g).is_some()));
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
