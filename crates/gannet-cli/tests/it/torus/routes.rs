//! `gannet torus routes`: kernels of hosts, each in a network namespace of its own, that route by themselves.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Child, Output, Stdio};

use gannet_measure::testing::skipped;
use serde_json::Value;

use super::namespaces::{Ends, HOSTS, Ring, ip, patiently, signal};
use crate::torus::text;

impl Ring {
    /// A ring of hosts that forward packets.
    fn forwarding() -> Result<Self, String> {
        let ring = Self::lay(Ends::Interfaces)?;
        for host in 0..HOSTS {
            ring.set(host, "ip_forward", "1");
        }
        Ok(ring)
    }

    fn set(&self, host: usize, setting: &str, value: &str) {
        let place = format!("/proc/sys/net/ipv4/{setting}");
        self.within(host, || fs::write(place, value)).unwrap();
    }

    fn routes(&self, host: usize, arguments: &[&str]) -> Output {
        let mut command = self.gannet(host, &["torus", "routes"]);
        command.arg(self.status(host)).args(arguments).stderr(Stdio::piped()).output().unwrap()
    }

    /// What is said of routes that cannot be installed.
    fn refused(&self, host: usize) -> String {
        let output = self.routes(host, &["--install"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        said
    }

    /// Has the kernel of a host route, until what this gives ends.
    fn install(&self, host: usize) -> Child {
        let mut command = self.gannet(host, &["torus", "routes", "--install"]);
        let child = command.arg(self.status(host)).spawn().unwrap();
        self.wait_until_all_is_there(host);
        child
    }

    /// What a host has of routes and addresses of the machine, and of devices for these, a line each.
    fn left(&self, host: usize) -> Vec<String> {
        let namespace = self.namespace(host);
        let routes = ip(&format!("-n {namespace} route show proto 71")).unwrap();
        let addresses =
            ip(&format!("-n {namespace} -oneline -4 address show to 10.0.0.0/8")).unwrap();
        let links = ip(&format!("-n {namespace} -oneline link show")).unwrap();
        let devices = links.lines().filter(|link| link.contains("torus0"));
        routes.lines().chain(addresses.lines()).chain(devices).map(str::to_owned).collect()
    }

    /// Waits for a device, its address and two routes to each other host, of which one says that it cannot be reached.
    fn wait_until_all_is_there(&self, host: usize) {
        patiently("no routes", || (self.left(host).len() == 2 + 2 * (HOSTS - 1)).then_some(()));
    }

    fn wait_until_nothing_is_left(&self, host: usize) {
        patiently("routes are left", || self.left(host).is_empty().then_some(()));
    }
}

#[test]
fn a_connection_by_routes_of_the_kernel_survives_a_cut_cable() {
    let mut ring = match Ring::forwarding() {
        Ok(ring) => ring,
        Err(why) => return skipped("routes of kernels in a torus of namespaces", why),
    };
    let addresses: Vec<Ipv4Addr> = (0..HOSTS).map(|host| ring.address(host)).collect();
    for host in 0..HOSTS {
        let child = ring.install(host);
        ring.programs.push(child);
    }
    let table: Value = serde_json::from_slice(&ring.routes(0, &["--json"]).stdout).unwrap();
    assert_eq!((&table["lattice"], &table["routes"][1]["hops"]), (&"3x1x1".into(), &1.into()));
    assert_eq!(table["address"], addresses[0].to_string());
    ring.echo_over_a_cut_cable(&addresses);
    let output = ring.routes(0, &[]);
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stdout);
    let ways: Vec<_> = told.lines().filter(|line| line.contains(" west ")).collect();
    assert!(ways.len() == 2 && ways.iter().any(|line| line.contains(" 2  fe80:")), "{told}");
    // The kernel says the same, and that nothing goes to other networks where there is no way.
    assert_eq!(ring.left(0).iter().filter(|line| line.starts_with("unreachable 10.")).count(), 2);
    assert!(ring.left(0).iter().filter(|line| line.contains("dev west")).count() == 2);
}

#[test]
fn nothing_is_left_of_routes_however_they_end() {
    let mut ring = match Ring::forwarding() {
        Ok(ring) => ring,
        Err(why) => return skipped("the end of routes of a kernel", why),
    };
    (0..HOSTS).for_each(|host| _ = ring.address(host));
    let mut routes = ring.install(0);
    assert!(ring.refused(0).contains("cannot make the network device torus0"));
    signal(&routes, "TERM");
    assert_eq!(routes.wait().unwrap().code(), Some(143));
    assert_eq!(ring.left(0), Vec::<String>::new());
    // Whoever is killed cannot clear up.
    let mut routes = ring.install(0);
    routes.kill().unwrap();
    routes.wait().unwrap();
    ring.wait_until_nothing_is_left(0);
    // Whoever hangs has nothing but its device.
    let mut routes = ring.install(0);
    signal(&routes, "STOP");
    patiently("routes are left", || (ring.left(0).len() == 1).then_some(()));
    signal(&routes, "CONT");
    ring.wait_until_all_is_there(0);
    // The node is killed, and comes back.
    ring.nodes[0].kill().unwrap();
    ring.nodes[0].wait().unwrap();
    patiently("routes are left", || (ring.left(0).len() == 1).then_some(()));
    ring.nodes[0] = ring.node(0, &["east".into(), "west".into()]);
    ring.wait_until_all_is_there(0);
    signal(&routes, "INT");
    assert_eq!(routes.wait().unwrap().code(), Some(130));
    assert_eq!(ring.left(0), Vec::<String>::new());
}

#[test]
fn what_would_make_packets_vanish_is_told() {
    let ring = match Ring::forwarding() {
        Ok(ring) => ring,
        Err(why) => return skipped("settings of a kernel that routes", why),
    };
    let address = ring.address(0);
    let mut elsewhere = ring.gannet(1, &["torus", "routes", "--install"]);
    let output = elsewhere.arg(ring.status(0)).stderr(Stdio::piped()).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("is in another network namespace"), "{said}");
    assert_eq!(output.status.code(), Some(5));
    ring.set(0, "conf/east/forwarding", "0");
    ring.set(0, "conf/west/rp_filter", "1");
    let said = ring.refused(0);
    assert!(said.contains("`sysctl -w net.ipv4.conf.east.forwarding=1`"), "{said}");
    assert!(said.contains("`sysctl -w net.ipv4.conf.west.rp_filter=2`"), "{said}");
    ring.set(0, "conf/east/forwarding", "1");
    ring.set(0, "conf/west/rp_filter", "2");
    ip(&format!("-n {} address add {address}/32 dev east", ring.namespace(0))).unwrap();
    let said = ring.refused(0);
    assert!(said.contains(&format!("{address} is an address of east already")), "{said}");
}
