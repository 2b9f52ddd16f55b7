//! Which processor each receiving thread keeps to.

use std::net::{IpAddr, SocketAddr};

use crate::config::ReceiveCpus;
use crate::doctor::System;

/// A processor of its own for each receiving thread, or none for all of them.
pub(super) type Placement = Vec<Option<usize>>;

/// Places threads as `wanted`, one for each address that is listened on, of those processors that
/// this process is `allowed`. `interfaces` are the addresses of this machine.
///
/// # Errors
/// Says which processor cannot be had.
pub(super) fn place(
    wanted: &ReceiveCpus,
    listen: &[Option<SocketAddr>],
    system: &System,
    allowed: &[usize],
    interfaces: &[(String, IpAddr)],
) -> Result<Placement, String> {
    match wanted {
        ReceiveCpus::Any => Ok(vec![None; listen.len()]),
        ReceiveCpus::Listed(cpus) => match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(format!("this process may not run on CPU {cpu}")),
            None => Ok(cpus.iter().copied().map(Some).collect()),
        },
        ReceiveCpus::Auto => {
            let nodes: Vec<_> = listen.iter().map(|ip| node_of(system, *ip, interfaces)).collect();
            Ok(choose(system, allowed, &nodes))
        }
    }
}

/// A physical core for each thread, on its node where there is one left. None for any thread when
/// nothing would be left for the others.
fn choose(system: &System, allowed: &[usize], nodes: &[Option<u64>]) -> Placement {
    let mut cores = Vec::new();
    let mut seen = Vec::new();
    for &cpu in allowed {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = system.text(&path).and_then(|text| list(&text)).unwrap_or(vec![cpu]);
        if !siblings.iter().any(|sibling| seen.contains(sibling)) {
            cores.push(cpu);
        }
        seen.push(cpu);
    }
    if cores.len() <= nodes.len() {
        tracing::info!(
            "receiving threads stay where the system puts them: {} of them need {} cores, and {} \
             can be had",
            nodes.len(),
            nodes.len() + 1,
            cores.len(),
        );
        return vec![None; nodes.len()];
    }
    // The first core often serves the interrupts.
    cores.rotate_left(1);
    let place = |node: &Option<u64>| {
        let beside = node.and_then(|node| {
            list(&system.text(&format!("sys/devices/system/node/node{node}/cpulist"))?)
        });
        let is_beside = |cpu: &usize| beside.as_ref().is_some_and(|cpus| cpus.contains(cpu));
        let place = cores.iter().position(is_beside).unwrap_or(0);
        Some(cores.remove(place))
    };
    nodes.iter().map(place).collect()
}

/// The memory node of the card that has the address, or of all cards if it is every address.
fn node_of(
    system: &System,
    listen: Option<SocketAddr>,
    interfaces: &[(String, IpAddr)],
) -> Option<u64> {
    let ip = listen?.ip();
    let concerned = interfaces.iter().filter(|(_, own)| ip.is_unspecified() || *own == ip);
    // What is no card, loopback for example, has no such file; -1 is a machine of one node.
    let node = |name: &String| {
        system.text(&format!("sys/class/net/{name}/device/numa_node"))?.parse().ok()
    };
    let mut nodes = concerned.filter_map(|(name, _)| node(name));
    let first = nodes.next()?;
    nodes.all(|node| node == first).then_some(first)
}

/// The numbers in a list such as `0-3,8`.
fn list(text: &str) -> Option<Vec<usize>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::fake;

    /// Two nodes of two cores of two threads each, as Linux numbers them, with a card beside each.
    fn two_nodes() -> (tempfile::TempDir, System) {
        let siblings = |cpu: usize| format!("{},{}", cpu % 4, cpu % 4 + 4);
        let mut files: Vec<(String, String)> = (0..8)
            .map(|cpu| {
                let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
                (path, siblings(cpu))
            })
            .collect();
        for (path, text) in [
            ("sys/devices/system/node/node0/cpulist", "0-1,4-5"),
            ("sys/devices/system/node/node1/cpulist", "2-3,6-7"),
            ("sys/class/net/near/device/numa_node", "0"),
            ("sys/class/net/far/device/numa_node", "1"),
            ("sys/class/net/one/device/numa_node", "-1"),
        ] {
            files.push((path.into(), text.into()));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (&path[..], &text[..])).collect();
        fake(&files)
    }

    fn auto(listen: &[&str], allowed: &[usize]) -> Placement {
        let (_directory, system) = two_nodes();
        let interfaces: Vec<(String, IpAddr)> =
            [("near", "10.0.0.1"), ("far", "10.0.1.1"), ("one", "10.0.2.1"), ("lo", "127.0.0.1")]
                .map(|(name, ip)| (name.into(), ip.parse().unwrap()))
                .into();
        let listen: Vec<_> =
            listen.iter().map(|ip| Some(SocketAddr::new(ip.parse().unwrap(), 1))).collect();
        place(&ReceiveCpus::Auto, &listen, &system, allowed, &interfaces).unwrap()
    }

    const ALL: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn each_thread_gets_a_core_beside_its_card_while_there_is_one() {
        assert_eq!(auto(&["10.0.1.1"], &ALL), [Some(2)]);
        assert_eq!(auto(&["10.0.1.1", "10.0.1.1", "10.0.1.1"], &ALL), [Some(2), Some(3), Some(1)]);
        assert_eq!(auto(&["10.0.0.1", "10.0.0.1"], &ALL), [Some(1), Some(0)]);
        for no_card in ["127.0.0.1", "10.0.2.1", "0.0.0.0"] {
            assert_eq!(auto(&[no_card], &ALL), [Some(1)], "{no_card}");
        }
    }

    #[test]
    fn two_threads_of_a_core_are_one_and_what_is_not_allowed_is_left() {
        assert_eq!(auto(&["127.0.0.1"], &[0, 4]), [None]);
        assert_eq!(auto(&["10.0.0.1"], &[4, 5, 6]), [Some(5)]);
    }

    #[test]
    fn a_core_is_left_for_the_other_threads_or_none_is_taken() {
        assert_eq!(auto(&["127.0.0.1"; 3], &ALL), [Some(1), Some(2), Some(3)]);
        assert_eq!(auto(&["127.0.0.1"; 4], &ALL), [None; 4]);
    }

    #[test]
    fn listed_processors_are_taken_as_they_are_or_refused() {
        let (_directory, system) = two_nodes();
        let place = |cpus: &[usize]| {
            place(&ReceiveCpus::Listed(cpus.into()), &[None, None], &system, &[0, 5, 6], &[])
        };
        assert_eq!(place(&[6, 5]).unwrap(), [Some(6), Some(5)]);
        assert!(place(&[6, 4]).unwrap_err().contains("CPU 4"));
    }
}
