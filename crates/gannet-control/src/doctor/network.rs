//! What the kernel's network has for sockets.

use super::rights::{Capability, has};
use super::{Check, Needs, System, Verdict};

/// Packets that wait before the protocol stack, the kernel's default.
const BACKLOG: u64 = 1000;
/// Bytes of a page, in which the kernel counts the memory of protocols.
const PAGE_BYTES: u64 = 4096;

pub(super) fn checks(system: &System, needs: &Needs) -> Vec<Check> {
    vec![
        receive_buffer(system, needs.kernel_buffer),
        default_buffer(system),
        udp_memory(system, needs),
        backlog(system),
    ]
}

fn receive_buffer(system: &System, wanted: u64) -> Check {
    let name = "socket buffer (net.core.rmem_max)";
    let reason = "frames wait here while the receiver is off its core; too small loses them";
    let found = system.number("proc/sys/net/core/rmem_max");
    let mut check = Check::bytes(name, found, wanted, Verdict::Slow, reason);
    if check.verdict == Verdict::Slow && has(system, Capability::NetAdmin) == Some(true) {
        check.verdict = Verdict::Ok;
        check.value.push_str("; CAP_NET_ADMIN goes beyond");
    }
    check.fixed_by(format!("sudo sysctl -w net.core.rmem_max={wanted}"))
}

/// What a socket has that asks for nothing: other people's receivers and senders on this machine.
fn default_buffer(system: &System) -> Check {
    let found = system.number("proc/sys/net/core/rmem_default");
    let reason = "only programs that ask for no buffer have it; gannet asks";
    Check::bytes("default buffer (net.core.rmem_default)", found, 0, Verdict::Ok, reason)
}

/// The memory of all UDP sockets together.
fn udp_memory(system: &System, needs: &Needs) -> Check {
    // Twice, because the kernel counts its own overhead against it too.
    let wanted = 2 * needs.sockets as u64 * needs.kernel_buffer;
    let text = system.text("proc/sys/net/ipv4/udp_mem").unwrap_or_default();
    let pages = text.split_whitespace().nth(2).and_then(|pages| pages.parse::<u64>().ok());
    let found = pages.map(|pages| pages.saturating_mul(PAGE_BYTES));
    let reason = "full sockets together must stay below it; beyond it the kernel drops for all";
    let enough = wanted.div_ceil(PAGE_BYTES);
    Check::bytes("memory of UDP (net.ipv4.udp_mem)", found, wanted, Verdict::Bad, reason)
        .fixed_by(format!("sudo sysctl -w net.ipv4.udp_mem=\"{enough} {enough} {enough}\""))
}

fn backlog(system: &System) -> Check {
    let name = "device backlog (net.core.netdev_max_backlog)";
    let reason = "packets wait here before the protocol stack";
    let (value, verdict) = match system.number("proc/sys/net/core/netdev_max_backlog") {
        Some(found) if found >= BACKLOG => (found.to_string(), Verdict::Ok),
        Some(found) => (format!("{found}, {BACKLOG} wanted"), Verdict::Bad),
        None => ("not readable".to_owned(), Verdict::Unknown),
    };
    Check::new(name, value, verdict, reason)
        .fixed_by(format!("sudo sysctl -w net.core.netdev_max_backlog={BACKLOG}"))
}

#[cfg(test)]
mod tests {
    use super::super::system::fake;
    use super::*;

    #[test]
    fn a_small_receive_buffer_is_slow_and_the_command_mends_it() {
        let (_root, system) = fake(&[("proc/sys/net/core/rmem_max", "212992\n")]);
        let check = receive_buffer(&system, 32 << 20);
        assert_eq!(check.verdict, Verdict::Slow);
        assert_eq!(check.value, "208 KiB, 32 MiB wanted");
        assert!(check.remedy.contains("net.core.rmem_max=33554432"), "{check:?}");
    }

    #[test]
    fn the_right_to_go_beyond_makes_the_limit_harmless() {
        let files = [
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/self/status", "Name:\tx\nCapEff:\t0000000000001000\n"),
        ];
        assert_eq!(receive_buffer(&fake(&files).1, 32 << 20).verdict, Verdict::Ok);
    }

    #[test]
    fn the_memory_of_udp_is_the_third_number_in_pages() {
        let (_root, system) = fake(&[("proc/sys/net/ipv4/udp_mem", "100\t200\t65536\n")]);
        let check = |sockets| udp_memory(&system, &Needs { sockets, ..Needs::default() });
        assert_eq!(check(2).verdict, Verdict::Ok);
        assert_eq!(check(3).verdict, Verdict::Bad);
        assert!(check(3).remedy.ends_with("=\"98304 98304 98304\""), "{:?}", check(3));
    }

    #[test]
    fn what_cannot_be_read_is_unknown_not_ok() {
        let (_root, system) = fake(&[]);
        assert!(checks(&system, &Needs::default()).iter().all(|c| c.verdict == Verdict::Unknown));
    }
}
