//! IP packets over the torus, between sockets that stand for network devices.

use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gannet_lattice::Node;
use gannet_memory::SharedRegion;
use gannet_torus_live::addresses::Addresses;
use gannet_torus_live::tunnel::{self, Counters, PROCESS, RINGS_ADDRESS, Tunnel, VNET_HEADER_LEN};
use gannet_torus_live::user::{Local, Outcome, Reach, Remote};

use crate::host::{machine_with_users, stop};
use crate::users::{outcome, user};

/// A tunnel, and the end of its device that programs have.
struct Carried {
    addresses: Addresses,
    node: Node,
    program: UnixDatagram,
    tunnel: Tunnel,
}

impl Carried {
    fn at(directory: &Path, host: usize) -> Self {
        let user = user(directory, host, PROCESS);
        let place = user.place().unwrap();
        let (device, program) = UnixDatagram::pair().unwrap();
        let tunnel = Tunnel::new(user, place, 10, &device).unwrap();
        program.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        program.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let addresses = Addresses { first: 10, lattice: place.lattice };
        Self { addresses, node: place.node, program, tunnel }
    }

    /// Sends a packet of `length` bytes of IP to a node.
    fn send(&self, to: Node, number: u32, length: usize) {
        self.program
            .send(&packet(self.addresses.of(to).unwrap().octets(), number, length))
            .unwrap();
    }

    fn end(self) -> Counters {
        let counters = self.tunnel.finish();
        assert_eq!(counters.offered, counters.sent + counters.dropped(), "{counters:?}");
        counters
    }
}

/// Waits until something is so.
fn until(mut is_it: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_it() {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing happens");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A virtio-net header, of which a tunnel knows nothing but the length, and a packet behind it.
fn packet(to: [u8; 4], number: u32, length: usize) -> Vec<u8> {
    let bytes = 0..VNET_HEADER_LEN + length;
    let mut packet: Vec<u8> = bytes.map(|at| (at as u8).wrapping_add(number as u8)).collect();
    let ip = &mut packet[VNET_HEADER_LEN..];
    ip[0] = 0x45;
    ip[4..8].copy_from_slice(&number.to_le_bytes());
    ip[16..20].copy_from_slice(&to);
    packet
}

#[test]
fn packets_come_whole_and_in_order_and_the_rest_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("3", directory.path());
    let (near, far) = (Carried::at(directory.path(), 0), Carried::at(directory.path(), 2));
    // More than a ring holds, and answers to each, so that nothing is sent faster than it is taken.
    let (mut buffer, mut bytes) = (vec![0; 70_000], 0);
    for number in 0..400u32 {
        // The longest is one that the other side cuts into segments.
        let length = if number == 7 { 65_535 } else { 20 + (number as usize * 7919) % 30_000 };
        bytes += length as u64;
        near.send(far.node, number, length);
        let got = far.program.recv(&mut buffer).unwrap();
        let to = near.addresses.of(far.node).unwrap().octets();
        assert_eq!(buffer[..got], packet(to, number, length), "packet {number}");
        far.send(near.node, number, 40);
        assert_eq!(near.program.recv(&mut buffer).unwrap(), VNET_HEADER_LEN + 40);
    }
    // Nobody carries packets at the third one, and there is no fourth.
    let third = (0..3).map(Node).find(|node| ![near.node, far.node].contains(node)).unwrap();
    near.send(third, 0, 100);
    near.program.send(&packet([10, 4, 1, 1], 0, 100)).unwrap();
    near.program.send(&[0x60; VNET_HEADER_LEN + 40]).unwrap();
    near.program.send(&[0x45; VNET_HEADER_LEN + 19]).unwrap();
    near.send(far.node, 400, 50);
    far.program.recv(&mut buffer).unwrap();
    thread::sleep(Duration::from_millis(300));
    let (near, far) = (near.end(), far.end());
    assert_eq!((near.sent, near.delivered, near.offered), (401, 400, 405));
    assert_eq!((near.failed, near.no_node, near.other_protocol, near.full), (1, 1, 2, 0));
    assert_eq!((far.sent, far.delivered, far.malformed), (400, 401, 0));
    // Of the packets alone, without headers in front.
    assert_eq!((near.sent_bytes, far.delivered_bytes), (bytes + 50, bytes + 50));
    assert_eq!((far.sent_bytes, near.delivered_bytes), (16_000, 16_000));
    stop(hosts);
}

#[test]
fn memory_of_packets_that_are_dropped_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("3", directory.path());
    let (near, far) = (Carried::at(directory.path(), 0), Carried::at(directory.path(), 2));
    let third = (0..3).map(Node).find(|node| ![near.node, far.node].contains(node)).unwrap();
    // More of each than may be under way: for nobody, for a node that refuses them, and for one that takes none.
    for number in 0..400 {
        near.program.send(&packet([10, 4, 1, 1], number, 100)).unwrap();
        near.program.send(&[0x60; VNET_HEADER_LEN + 40]).unwrap();
        near.send(third, number, 100);
    }
    let mut buffer = [0; 100];
    let mut reach_far = |number| {
        near.send(far.node, number, 50);
        assert_eq!(far.program.recv(&mut buffer).unwrap(), VNET_HEADER_LEN + 50);
    };
    reach_far(0);
    let mut idle = user(directory.path(), 1, PROCESS);
    let rings = SharedRegion::new(3 * tunnel::ring_bytes(3) as usize).unwrap();
    idle.register(rings, RINGS_ADDRESS, Reach::Write).unwrap();
    for number in 0..400 {
        near.send(third, number, 60_000);
    }
    reach_far(1);
    thread::sleep(Duration::from_millis(300));
    let counters = near.end();
    assert_eq!((counters.no_node, counters.other_protocol), (400, 400));
    assert!(counters.failed > 200 && counters.full > 200, "{counters}");
    assert_eq!(counters.offered, counters.sent + counters.dropped());
    far.end();
    stop(hosts);
}

#[test]
fn what_is_no_packet_is_counted_and_packets_without_headers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let far = Carried::at(directory.path(), 1);
    let mut forger = user(directory.path(), 0, PROCESS);
    let here = u64::from(forger.place().unwrap().node.0);
    let memory = SharedRegion::new(1 << 20).unwrap();
    let source = Local { region: forger.register(memory, 0, Reach::Own).unwrap(), offset: 0 };
    let mut put = |address, length| {
        let target = Remote { node: far.node, process: PROCESS, address };
        let request = forger.put(source, target, length, 0).unwrap();
        outcome(&mut forger, request)
    };
    let (rings, ring_bytes) = (RINGS_ADDRESS, tunnel::ring_bytes(2));
    let own = rings + here * ring_bytes;
    for length in [0, VNET_HEADER_LEN + 19, VNET_HEADER_LEN + 65_536] {
        assert_eq!(put(own, length as u32), Outcome::Done);
    }
    assert_eq!(put(rings + (1 - here) * ring_bytes, 100), Outcome::Done, "the ring of another");
    assert_eq!(put(own, 100), Outcome::Done);
    // Here versions wrote whose packets have no header in front.
    assert_ne!(put((2 << 40) + here * ring_bytes, 100), Outcome::Done);
    let mut buffer = [0; 200];
    assert_eq!(far.program.recv(&mut buffer).unwrap(), 100);
    let far = far.end();
    assert_eq!((far.malformed, far.delivered, far.delivered_bytes), (4, 1, 90));
    stop(hosts);
}

#[test]
fn a_device_that_is_gone_is_carried_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let user = user(directory.path(), 0, PROCESS);
    let place = user.place().unwrap();
    let (device, program) = UnixStream::pair().unwrap();
    let mut tunnel = Tunnel::new(user, place, 10, &device).unwrap();
    tunnel.wait(Duration::from_millis(100)).unwrap();
    assert!(!tunnel.is_gone() && !tunnel.is_over());
    drop(program);
    until(|| {
        tunnel.wait(Duration::from_millis(10)).unwrap();
        tunnel.is_gone()
    });
    assert!(!tunnel.is_over());
    assert_eq!(tunnel.finish(), Counters::default());
    stop(hosts);
}

#[test]
fn what_arrives_before_a_tunnel_is_there_does_not_make_it_deaf() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let mut far = user(directory.path(), 1, PROCESS);
    let place = far.place().unwrap();
    far.register(SharedRegion::new(4096).unwrap(), 1 << 30, Reach::Write).unwrap();
    let mut near = user(directory.path(), 0, 7);
    let source = near.register(SharedRegion::new(4096).unwrap(), 0, Reach::Own).unwrap();
    let target = Remote { node: place.node, process: PROCESS, address: 1 << 30 };
    let put = near.put(Local { region: source, offset: 0 }, target, 8, 0).unwrap();
    assert_eq!(outcome(&mut near, put), Outcome::Done);
    let (device, _program) = UnixDatagram::pair().unwrap();
    let mut tunnel = Tunnel::new(far, place, 10, &device).unwrap();
    stop(hosts);
    until(|| {
        tunnel.wait(Duration::from_millis(10)).unwrap();
        tunnel.is_over()
    });
}

#[test]
fn packets_under_way_to_nobody_are_accounted_for_however_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut hosts = machine_with_users("2", directory.path());
    let near = Carried::at(directory.path(), 0);
    let to = (0..2).map(Node).find(|node| *node != near.node).unwrap();
    // Nobody says any more whether they have come.
    stop(vec![hosts.pop().unwrap()]);
    for number in 0..20 {
        near.send(to, number, 30_000);
    }
    until(|| near.tunnel.counters().offered == 20);
    let begin = Instant::now();
    let counters = near.end();
    assert_eq!((counters.offered, counters.sent), (20, 0));
    assert!(begin.elapsed() < Duration::from_secs(2), "it waits for what never comes");

    let mut near = Carried::at(directory.path(), 0);
    for number in 0..20 {
        near.send(to, number, 30_000);
    }
    until(|| near.tunnel.counters().offered == 20);
    stop(hosts);
    until(|| {
        near.tunnel.wait(Duration::from_millis(10)).unwrap();
        near.tunnel.is_over()
    });
    assert_eq!(near.end().offered, 20);
}

#[test]
fn a_flood_loses_only_what_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let (near, far) = (Carried::at(directory.path(), 0), Carried::at(directory.path(), 1));
    let (to, count) = (far.node, 3000);
    let reader = far.program.try_clone().unwrap();
    reader.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let taker = thread::spawn(move || {
        let (mut buffer, mut last, mut taken) = (vec![0; 70_000], None, 0u64);
        while let Ok(length) = reader.recv(&mut buffer) {
            let number = u32::from_le_bytes(buffer[VNET_HEADER_LEN + 4..][..4].try_into().unwrap());
            assert!(last < Some(number), "{number} after {last:?}");
            assert_eq!(buffer[length - 1], (length as u8 - 1).wrapping_add(number as u8));
            (last, taken) = (Some(number), taken + 1);
        }
        taken
    });
    for number in 0..count {
        near.send(to, number, 9000);
    }
    let taken = taker.join().unwrap();
    let (near, far) = (near.end(), far.end());
    assert_eq!(near.offered, u64::from(count));
    assert_eq!(near.offered, near.sent + near.dropped());
    assert_eq!(near.sent, far.delivered + far.refused);
    assert_eq!(taken, far.delivered);
    assert!(taken > 100, "{near} {far}");
    stop(hosts);
}
