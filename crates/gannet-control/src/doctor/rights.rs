//! What the process may do: limits and capabilities.

use super::{Check, System, Verdict};

/// Open files that a run with many sockets and rotating files needs.
const OPEN_FILES: u64 = 1024;
/// Memory that the rings of io_uring lock.
const LOCKED_BYTES: u64 = 8 << 20;

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
        io_uring(system),
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
    let give = format!("sudo setcap {}+ep $(command -v gannet)", name.to_lowercase());
    Check::new(name, value, verdict, reason).mended_by(give)
}

fn io_uring(system: &System) -> Check {
    let (value, verdict) = match system.number("proc/sys/kernel/io_uring_disabled") {
        Some(0) => ("allowed", Verdict::Ok),
        Some(_) => ("forbidden", Verdict::Slow),
        None => ("no switch for it, as before Linux 6.6", Verdict::Unknown),
    };
    let reason = "one of the engines; `engine = \"auto\"` does not need it";
    Check::new("io_uring", value, verdict, reason)
        .mended_by("sudo sysctl -w kernel.io_uring_disabled=0")
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
        let check = &checks(&system)[0];
        assert_eq!(check.verdict, Verdict::Slow);
        assert_eq!(check.remedy, "sudo setcap cap_sys_nice+ep $(command -v gannet)");
    }
}
