//! Network interfaces: where frames come in, and how large a packet may be there.

use std::net::IpAddr;

use super::{Check, Needs, System, Verdict};

/// Bytes of the headers of IPv4 and UDP.
const HEADERS_BYTES: u64 = 28;
/// The kernel's name of the loopback interface.
const LOOPBACK: &str = "lo";

/// How a configuration concerns an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Frames come in there.
    Listened,
    /// They might: no configuration tells.
    Possible,
    /// None come in.
    Unused,
}

/// `addresses` are those of the interfaces, with their names.
pub(super) fn checks(system: &System, needs: &Needs, addresses: &[(String, IpAddr)]) -> Vec<Check> {
    let mut checks = Vec::new();
    for name in system.names("sys/class/net").iter().filter(|name| is_up(system, name)) {
        match purpose(system, name, needs, addresses) {
            Use::Listened => checks.push(mtu(system, name, needs, Verdict::Bad)),
            Use::Possible => checks.push(mtu(system, name, needs, Verdict::Slow)),
            Use::Unused => (),
        }
    }
    checks
}

fn purpose(system: &System, name: &str, needs: &Needs, addresses: &[(String, IpAddr)]) -> Use {
    let Some(listen) = &needs.listen else {
        // Of the interfaces that programs make, containers for example, there may be dozens.
        let is_device = system.names(&format!("sys/class/net/{name}")).contains(&"device".into());
        return match name {
            LOOPBACK => Use::Listened,
            _ if is_device => Use::Possible,
            _ => Use::Unused,
        };
    };
    let own = |ip: &IpAddr| addresses.iter().any(|(owner, own)| owner == name && own == ip);
    let concerned = |ip: &IpAddr| match name {
        LOOPBACK => ip.is_loopback() || own(ip),
        // A socket on every address takes what comes in anywhere.
        _ => ip.is_unspecified() || own(ip),
    };
    if listen.iter().any(|address| concerned(&address.ip())) { Use::Listened } else { Use::Unused }
}

fn is_up(system: &System, name: &str) -> bool {
    system.text(&format!("sys/class/net/{name}/operstate")).as_deref() != Some("down")
}

/// The largest packet of an interface; `short` when that is too small for a frame.
fn mtu(system: &System, name: &str, needs: &Needs, short: Verdict) -> Check {
    let wanted = needs.frame_len_max as u64 + HEADERS_BYTES;
    let reason = "a frame must fit one packet: of fragments, one lost loses all";
    let (value, verdict) = match system.number(&format!("sys/class/net/{name}/mtu")) {
        Some(found) if found >= wanted => (found.to_string(), Verdict::Ok),
        Some(found) => (format!("{found}, {wanted} wanted"), short),
        None => ("not readable".to_owned(), Verdict::Unknown),
    };
    Check::new(format!("MTU of {name}"), value, verdict, reason)
        .fixed_by(format!("sudo ip link set {name} mtu 9000"))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::system::fake;
    use super::*;

    /// MTUs found on a machine with two networks, a container's interface and one that is down.
    fn mtus(listen: Option<&[&str]>) -> Vec<(String, Verdict)> {
        mtus_for(listen, 7200)
    }

    /// The same where frames have up to `frame_len_max` bytes.
    fn mtus_for(listen: Option<&[&str]>, frame_len_max: usize) -> Vec<(String, Verdict)> {
        let (_root, system) = fake(&[
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/device/vendor", "0x8086\n"),
            ("sys/class/net/eth1/mtu", "9000\n"),
            ("sys/class/net/eth1/operstate", "up\n"),
            ("sys/class/net/eth1/device/vendor", "0x8086\n"),
            ("sys/class/net/eth2/mtu", "1500\n"),
            ("sys/class/net/eth2/operstate", "down\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
            ("sys/class/net/lo/operstate", "unknown\n"),
            ("sys/class/net/veth7/mtu", "1500\n"),
        ]);
        let addresses = [("eth0", "10.0.0.1"), ("eth1", "10.1.0.1"), ("lo", "127.0.0.1")];
        let addresses = addresses.map(|(name, ip)| (name.to_owned(), ip.parse().unwrap()));
        let address = |ip: &&str| SocketAddr::new(ip.parse().unwrap(), 7000);
        let listen = listen.map(|ips| ips.iter().map(address).collect());
        let needs = Needs { listen, frame_len_max, ..Needs::default() };
        let checks = checks(&system, &needs, &addresses).into_iter();
        let mtu =
            |check: Check| check.name.strip_prefix("MTU of ").map(|n| (n.into(), check.verdict));
        checks.filter_map(mtu).collect()
    }

    fn found(name: &str, verdict: Verdict) -> (String, Verdict) {
        (name.to_owned(), verdict)
    }

    #[test]
    fn only_interfaces_that_are_listened_on_matter() {
        assert_eq!(mtus(Some(&["10.1.0.1"])), [found("eth1", Verdict::Ok)]);
        assert_eq!(mtus(Some(&["10.0.0.1"])), [found("eth0", Verdict::Bad)]);
        assert_eq!(mtus(Some(&["127.0.0.2"])), [found("lo", Verdict::Ok)]);
        assert_eq!(mtus(Some(&[])), []);
    }

    #[test]
    fn every_interface_that_is_up_matters_to_the_unspecified_address() {
        let expected = [("eth0", Verdict::Bad), ("eth1", Verdict::Ok), ("veth7", Verdict::Bad)];
        assert_eq!(mtus(Some(&["0.0.0.0"])), expected.map(|(name, v)| found(name, v)));
    }

    #[test]
    fn the_longest_frame_says_how_large_a_packet_must_be() {
        let eth0 = |len| mtus_for(Some(&["10.0.0.1"]), len);
        assert_eq!(eth0(1472), [found("eth0", Verdict::Ok)]);
        assert_eq!(eth0(1473), [found("eth0", Verdict::Bad)]);
    }

    #[test]
    fn without_a_configuration_a_small_mtu_is_told_but_not_bad() {
        let expected = [("eth0", Verdict::Slow), ("eth1", Verdict::Ok), ("lo", Verdict::Ok)];
        assert_eq!(mtus(None), expected.map(|(name, v)| found(name, v)));
    }
}
