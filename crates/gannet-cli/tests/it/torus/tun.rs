//! `gannet torus tun`: programs of hosts, each in a network namespace of its own, that know nothing of the torus.

use std::io::Read;
use std::net::Ipv4Addr;

use gannet_measure::testing::skipped;
use serde_json::Value;

use super::namespaces::{Ends, Ring, signal};

#[test]
fn a_connection_of_programs_that_know_nothing_of_it_survives_a_cut_cable() {
    let mut ring = match Ring::lay(Ends::Addresses) {
        Ok(ring) => ring,
        Err(why) => return skipped("IP over a torus of namespaces", why),
    };
    let addresses: Vec<Ipv4Addr> = (0..2).map(|host| ring.address(host)).collect();
    for host in 0..2 {
        let mut command = ring.gannet(host, &["torus", "tun", "--json"]);
        command.arg(ring.status(host).with_extension("processes"));
        ring.programs.push(command.spawn().unwrap());
    }
    ring.echo_over_a_cut_cable(&addresses);
    let mut tunnel = ring.programs.remove(0);
    signal(&tunnel, "INT");
    assert_eq!(tunnel.wait().unwrap().code(), Some(130));
    let mut told = String::new();
    tunnel.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    let counters: Value = serde_json::from_str(&told).unwrap();
    assert!(counters["sent_bytes"].as_u64().unwrap() > 6_000_000, "{told}");
    assert!(counters["delivered_bytes"].as_u64().unwrap() > 6_000_000, "{told}");
    assert_eq!((&counters["malformed"], &counters["refused"]), (&0.into(), &0.into()), "{told}");
}
