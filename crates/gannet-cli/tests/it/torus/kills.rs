//! Nodes and their users that are killed at random: nothing is left of them, and the others go on.

use std::process::Child;

use gannet_measure::random::Random;
use gannet_measure::testing::skipped;

use super::namespaces::{Ends, HOSTS, Ring, ip, patiently};

/// First byte of the addresses of routes, beside the 10 of tunnels.
const ROUTED: &str = "11";

impl Ring {
    fn tunnel(&self, host: usize) -> Child {
        let mut command = self.gannet(host, &["torus", "tun"]);
        command.arg(self.status(host).with_extension("processes")).spawn().unwrap()
    }

    fn routing(&self, host: usize) -> Child {
        let mut command = self.gannet(host, &["torus", "routes", "--install", "--network", ROUTED]);
        command.arg(self.status(host)).spawn().unwrap()
    }

    /// Devices of the torus and routes of the kernel that a host has.
    fn devices_and_routes(&self, host: usize) -> (usize, usize) {
        let namespace = self.namespace(host);
        let links = ip(&format!("-n {namespace} -oneline link show")).unwrap();
        let is_ours = |link: &&str| link.contains("gannet0") || link.contains("torus0");
        let routes = ip(&format!("-n {namespace} route show proto 71")).unwrap();
        (links.lines().filter(is_ours).count(), routes.lines().count())
    }

    fn wait_until_all_are_back(&self) {
        for host in 0..HOSTS {
            let _well = self.address(host);
            patiently("a host has not all of its devices and routes", || {
                (self.devices_and_routes(host) == (2, 2 * (HOSTS - 1))).then_some(())
            });
        }
    }
}

#[test]
fn nothing_is_left_of_what_is_killed_and_the_others_go_on() {
    let mut ring = match Ring::lay(Ends::Interfaces) {
        Ok(ring) => ring,
        Err(why) => return skipped("kills in a torus of namespaces", why),
    };
    for host in 0..HOSTS {
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        ring.within(host, forward).unwrap();
    }
    // Three of each host: its node, its tunnel and its routes.
    let ports = ["east".to_owned(), "west".to_owned()];
    for host in 0..HOSTS {
        let _well = ring.address(host);
        let (tunnel, routing) = (ring.tunnel(host), ring.routing(host));
        ring.programs.extend([tunnel, routing]);
    }
    ring.wait_until_all_are_back();
    let mut random = Random::new(3);
    let kills = if std::env::var_os("GANNET_LONG").is_some() { 300 } else { 6 };
    for _ in 0..kills {
        let host = random.below(HOSTS as u64) as usize;
        let victim = random.below(3) as usize;
        let child = match victim {
            0 => &mut ring.nodes[host],
            of_host => &mut ring.programs[2 * host + of_host - 1],
        };
        child.kill().unwrap();
        child.wait().unwrap();
        match victim {
            0 => {
                // Its users are told, and the other hosts.
                patiently("routes or devices outlive their node", || {
                    (ring.devices_and_routes(host) == (1, 0)).then_some(())
                });
                let other = (host + 1) % HOSTS;
                patiently("a dead host is not missed", || {
                    let mut status = ring.gannet(other, &["torus", "status"]);
                    let said = status.arg(ring.status(other)).output().unwrap().stdout;
                    let said = String::from_utf8(said).unwrap();
                    said.contains(&format!("n{host} at ")).then_some(())
                });
                ring.nodes[host] = ring.node(host, &ports);
            }
            1 => {
                patiently("a device outlives its tunnel", || {
                    (ring.devices_and_routes(host).0 == 1).then_some(())
                });
                ring.programs[2 * host] = ring.tunnel(host);
            }
            _ => {
                patiently("routes outlive who has made them", || {
                    (ring.devices_and_routes(host) == (1, 0)).then_some(())
                });
                ring.programs[2 * host + 1] = ring.routing(host);
            }
        }
        ring.wait_until_all_are_back();
    }
    for child in ring.nodes.iter_mut().chain(&mut ring.programs) {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for host in 0..HOSTS {
        patiently("something is left when all are dead", || {
            (ring.devices_and_routes(host) == (0, 0)).then_some(())
        });
        assert_eq!(ip(&format!("netns pids {}", ring.namespace(host))).unwrap(), "");
    }
}
