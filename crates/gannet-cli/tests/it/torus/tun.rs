//! `gannet torus tun`: programs of hosts, each in a network namespace of its own, that know nothing of the torus.

use std::io::Read;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use gannet_measure::testing::skipped;
use gannet_memory::SharedRegion;
use gannet_torus_live::addresses::Addresses;
use gannet_torus_live::tunnel::{self, PROCESS};
use gannet_torus_live::user::{Local, Reach, Remote, User};
use gannet_wire::ipv4;
use serde_json::Value;

use super::namespaces::{Ends, Ring, ip, patiently, signal, there_and_back};
use super::refused;

impl Ring {
    /// Carries IP at a host.
    fn begin_tunnel(&mut self, host: usize, arguments: &[&str]) {
        let mut command = self.gannet(host, &["torus", "tun", "--json"]);
        command.args(arguments).arg(self.status(host).with_extension("processes"));
        self.programs.push(command.spawn().unwrap());
    }

    /// Ends what began first; gives what it has counted.
    fn end_tunnel(&mut self) -> Value {
        signal(&self.programs[0], "INT");
        self.ended_tunnel(130)
    }

    /// What has counted that which began first, which ends with this code.
    fn ended_tunnel(&mut self, code: i32) -> Value {
        let mut tunnel = self.programs.remove(0);
        assert_eq!(tunnel.wait().unwrap().code(), Some(code));
        let mut told = String::new();
        tunnel.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        serde_json::from_str(&told).unwrap()
    }

    /// Sends packets to the tunnel of a host by PUT from another one, at which none runs.
    fn forge(&self, from: usize, to: Ipv4Addr, packets: &[Vec<u8>]) {
        let mut user = User::connect(&self.status(from).with_extension("processes"), None).unwrap();
        let memory = user.register(SharedRegion::new(4096).unwrap(), 0, Reach::Own).unwrap();
        let place = user.place().unwrap();
        let node = Addresses { first: 10, lattice: place.lattice }.node(to).unwrap();
        let ring_bytes = tunnel::ring_bytes(place.lattice.nodes() as u64);
        let address = tunnel::RINGS_ADDRESS + u64::from(place.node.0) * ring_bytes;
        for packet in packets {
            user.region(memory).write(0, packet);
            let target = Remote { node, process: PROCESS, address };
            let source = Local { region: memory, offset: 0 };
            user.put(source, target, packet.len() as u32, 0).unwrap();
            while user.under_way() > 0 {
                user.wait(Duration::from_millis(100)).unwrap();
                while user.poll().is_some() {}
            }
        }
    }
}

/// A datagram of the discard protocol, and a virtio-net header that says this of it.
fn headed(
    to: Ipv4Addr,
    [flags, gso_type]: [u8; 2],
    [header_len, gso_size, checksum_start, checksum_offset]: [u16; 4],
) -> Vec<u8> {
    let mut packet = vec![flags, gso_type];
    for field in [header_len, gso_size, checksum_start, checksum_offset] {
        packet.extend(field.to_ne_bytes());
    }
    let mut ip = vec![0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 9, 9];
    ip.extend(to.octets());
    ip.extend([0, 9, 0, 9, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut ip = ipv4::Packet::new_unchecked(ip);
    ip.fill_checksum();
    packet.extend(ip.into_inner());
    packet
}

#[test]
fn a_connection_of_programs_that_know_nothing_of_it_survives_a_cut_cable() {
    let mut ring = match Ring::lay(Ends::Addresses) {
        Ok(ring) => ring,
        Err(why) => return skipped("IP over a torus of namespaces", why),
    };
    let addresses: Vec<Ipv4Addr> = (0..2).map(|host| ring.address(host)).collect();
    for host in 0..2 {
        ring.begin_tunnel(host, &[]);
    }
    ring.echo_over_a_cut_cable(&addresses);
    let counters = ring.end_tunnel();
    assert!(counters["sent_bytes"].as_u64().unwrap() > 6_000_000, "{counters}");
    assert!(counters["delivered_bytes"].as_u64().unwrap() > 6_000_000, "{counters}");
    assert_eq!((&counters["malformed"], &counters["refused"]), (&0.into(), &0.into()));
}

#[test]
fn programs_reach_each_other_whatever_the_mtu_is() {
    let mut ring = match Ring::lay(Ends::Addresses) {
        Ok(ring) => ring,
        Err(why) => return skipped("lengths of packets over a torus of namespaces", why),
    };
    let addresses: Vec<Ipv4Addr> = (0..2).map(|host| ring.address(host)).collect();
    for mtu in [576, 1500, 9000, 65_535] {
        (0..2).for_each(|host| ring.begin_tunnel(host, &["--mtu", &mtu.to_string()]));
        let (mut stream, echo) = ring.echo(&addresses);
        (0..20).for_each(|round| there_and_back(&mut stream, round));
        drop(stream);
        echo.join().unwrap();
        let [here, there] = [0, 1].map(|host| {
            let bind = || UdpSocket::bind((addresses[host], 0));
            let socket = ring.within(host, bind).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket
        });
        let mut bytes = vec![0; 1 << 16];
        // Within a packet, the most that goes into one, and as much in as many as it takes.
        for length in [0, 1, mtu - 28, 65_507] {
            let sent: Vec<u8> = (0..length).map(|at| (at * 5 + mtu) as u8).collect();
            for [from, to] in [[&here, &there], [&there, &here]] {
                from.send_to(&sent, to.local_addr().unwrap()).unwrap();
                let got = to.recv(&mut bytes).unwrap();
                assert!(bytes[..got] == sent, "{length} bytes come changed, MTU {mtu}");
            }
        }
        for counters in [ring.end_tunnel(), ring.end_tunnel()] {
            let count = |what: &str| counters[what].as_u64().unwrap();
            assert_eq!(count("malformed") + count("refused"), 0, "{counters}");
            // The last that TCP says may be under way when either tunnel ends.
            assert!(count("failed") <= 2, "{counters}");
            let kept = ["sent", "other_protocol", "no_node", "full", "failed"].map(count);
            assert_eq!(count("offered"), kept.iter().sum::<u64>(), "{counters}");
            // Packets are longer than the MTU where TCP leaves it to the other kernel to cut them.
            let mean = count("sent_bytes") / count("sent");
            assert!(mtu > 1500 || mean > mtu as u64, "MTU {mtu}: {counters}");
        }
    }
}

#[test]
fn a_device_gets_its_address_back_and_leaves_what_was_counted_when_it_is_deleted() {
    let mut ring = match Ring::lay(Ends::Addresses) {
        Ok(ring) => ring,
        Err(why) => return skipped("a device that is deleted", why),
    };
    let address = ring.address(0);
    ring.begin_tunnel(0, &[]);
    let bind = || UdpSocket::bind((address, 0)).ok();
    patiently("no address", || ring.within(0, bind));
    let namespace = ring.namespace(0);
    ip(&format!("-n {namespace} address flush dev gannet0")).unwrap();
    patiently("no address any more", || ring.within(0, bind));
    let routes = ip(&format!("-n {namespace} route show dev gannet0")).unwrap();
    assert!(routes.contains("10.0.0.0/8"), "{routes}");
    ip(&format!("-n {namespace} link delete gannet0")).unwrap();
    let counters = ring.ended_tunnel(5);
    assert!(counters["offered"].is_u64(), "{counters}");
}

#[test]
fn what_no_device_can_be_is_refused() {
    for mtu in ["100", "65536"] {
        assert!(refused(&["tun", "--mtu", mtu], 2).contains("576..=65535"));
    }
    assert!(refused(&["tun", "--device", "a b"], 2).contains("1 to 15 characters"));
}

#[test]
fn headers_that_make_no_sense_are_refused() {
    let mut ring = match Ring::lay(Ends::Addresses) {
        Ok(ring) => ring,
        Err(why) => return skipped("headers of packets over a torus of namespaces", why),
    };
    let (address, _) = (ring.address(0), ring.address(2));
    ring.begin_tunnel(0, &[]);
    let bind = || UdpSocket::bind((address, 9)).ok();
    let program = patiently("no address", || ring.within(0, bind));
    let (needs_checksum, tcp_over_ipv4, unknown) = (1, 1, 0x7f);
    let headed = |bytes, fields| headed(address, bytes, fields);
    let mut bytes = [0; 100];
    program.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // Its address is there before the node takes packets for it.
    patiently("no packet gets through", || {
        ring.forge(2, address, &[headed([needs_checksum, 0], [28, 0, 20, 6])]);
        program.recv(&mut bytes).ok()
    });
    let late = std::iter::from_fn(|| program.recv(&mut bytes).ok()).count() as u64;
    program.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    ring.forge(
        2,
        address,
        &[
            headed([0, tcp_over_ipv4], [28, 0, 0, 0]),
            headed([0, unknown], [28, 8, 0, 0]),
            headed([needs_checksum, 0], [28, 0, 60_000, 6]),
            headed([needs_checksum, 0], [28, 0, 20, 60_000]),
            headed([0, 0], [60_000, 0, 0, 0]),
            headed([needs_checksum, 0], [28, 0, 20, 6]),
        ],
    );
    assert_eq!(program.recv(&mut bytes).unwrap(), 8);
    assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
    let counters = ring.end_tunnel();
    let count = |what: &str| counters[what].as_u64().unwrap();
    assert_eq!((count("refused"), count("delivered")), (5, late + 2), "{counters}");
}
