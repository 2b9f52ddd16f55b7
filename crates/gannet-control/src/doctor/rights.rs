//! What the process may do: limits and capabilities.

use super::{Check, System, Verdict};

/// Open files that a run with many sockets and rotating files needs.
const OPEN_FILES: u64 = 1024;
/// Memory that the rings of io_uring lock.
const LOCKED_BYTES: u64 = 8 << 20;
/// Gives the program every right that it uses: `setcap` takes away those that it does not name.
const GIVE_RIGHTS: &str = "sudo setcap cap_net_admin,cap_bpf,cap_sys_nice+ep $(command -v gannet)";

/// A capability of Linux, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capability {
    NetAdmin = 12,
    SysNice = 23,
    Bpf = 39,
}

/// Whether the process has a capability.
pub(super) fn has(system: &System, capability: Capability) -> Option<bool> {
    let mask = system.entry("proc/self/status", "CapEff")?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> capability as u32 & 1 == 1)
}

pub(super) fn checks(system: &System) -> Vec<Check> {
    vec![
        right(
            system,
            Capability::NetAdmin,
            "CAP_NET_ADMIN",
            "a socket's buffer may go beyond net.core.rmem_max",
        ),
        right(
            system,
            Capability::SysNice,
            "CAP_SYS_NICE",
            "receiving threads run ahead of other work",
        ),
        right(
            system,
            Capability::Bpf,
            "CAP_BPF",
            "frames are counted before the kernel's queue, so that every loss has its size",
        ),
        locked_memory(system),
        open_files(system),
    ]
}

fn right(system: &System, capability: Capability, name: &str, reason: &'static str) -> Check {
    let (value, verdict) = match has(system, capability) {
        Some(true) => ("yes", Verdict::Ok),
        Some(false) => ("no", Verdict::Slow),
        None => ("not readable", Verdict::Unknown),
    };
    Check::new(name, value, verdict, reason).mended_by(GIVE_RIGHTS)
}

/// The soft limit of the resource that `/proc/self/limits` lists under `name`.
fn limit(system: &System, name: &str) -> Option<u64> {
    match system.entry("proc/self/limits", name)?.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn locked_memory(system: &System) -> Check {
    let found = limit(system, "Max locked memory");
    let reason = "rings shared with the kernel are locked in memory";
    Check::bytes("locked memory (ulimit -l)", found, LOCKED_BYTES, Verdict::Slow, reason)
        .mended_by("ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit file")
}

fn open_files(system: &System) -> Check {
    let (value, verdict) = match limit(system, "Max open files") {
        Some(found) if found >= OPEN_FILES => (found.to_string(), Verdict::Ok),
        Some(found) => (format!("{found}, {OPEN_FILES} wanted"), Verdict::Slow),
        None => ("not readable".to_owned(), Verdict::Unknown),
    };
    let reason = "sockets, files and clients of the metrics take one each";
    Check::new("open files (ulimit -n)", value, verdict, reason)
        .mended_by(format!("ulimit -n {OPEN_FILES}"))
}

#[cfg(test)]
mod tests {
    use super::super::system::fake;
    use super::*;

    #[test]
    fn limits_are_read_by_name() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            512                  4096                 files\n\
                    Max locked memory         unlimited            unlimited            bytes\n";
        let (_root, system) = fake(&[("proc/self/limits", text)]);
        assert_eq!(open_files(&system).verdict, Verdict::Slow);
        assert_eq!(locked_memory(&system).value, "unlimited");
    }

    #[test]
    fn capabilities_are_bits_of_a_mask() {
        let (_root, system) =
            fake(&[("proc/self/status", "CapPrm:\t0\nCapEff:\t0000008000001000\n")]);
        assert_eq!(has(&system, Capability::NetAdmin), Some(true));
        assert_eq!(has(&system, Capability::Bpf), Some(true));
        assert_eq!(has(&system, Capability::SysNice), Some(false));
        let check = &checks(&system)[1];
        assert_eq!(check.verdict, Verdict::Slow);
        assert_eq!(check.remedy, GIVE_RIGHTS);
    }

    #[test]
    fn the_remedies_of_several_rights_do_not_undo_each_other() {
        let (_root, system) = fake(&[("proc/self/status", "CapEff:\t0000000000000000\n")]);
        let (_other, granted) = fake(&[("proc/self/status", "CapEff:\t000001ffffffffff\n")]);
        let missing = |system| {
            let checks = checks(system).into_iter().filter(|check| check.name.starts_with("CAP_"));
            checks.map(|check| check.remedy).collect::<Vec<_>>()
        };
        assert_eq!(missing(&system), [GIVE_RIGHTS; 3]);
        assert_eq!(missing(&granted), [""; 3]);
    }
}
