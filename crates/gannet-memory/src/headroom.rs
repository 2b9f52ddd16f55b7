//! How much memory this process may still take, and what bounds it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What bounds the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The memory of the machine that others leave.
    Machine,
    /// The limit of its control group.
    ControlGroup,
    /// The limit of its address space, as `ulimit -v` sets it.
    AddressSpace,
    /// The limit of its data, as `ulimit -d` sets it.
    Data,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the memory of this machine that is free",
            Self::ControlGroup => "the limit of the control group",
            Self::AddressSpace => "the limit of the address space (ulimit -v)",
            Self::Data => "the limit of the data segment (ulimit -d)",
        })
    }
}

/// Memory that a process may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// How much, in bytes.
    pub bytes: u64,
    /// What bounds it.
    pub bound: Bound,
}

/// Memory that this process may still take without swapping or being refused, where the system
/// tells: the least of what the machine, its control groups and its own limits leave.
pub fn headroom() -> Option<Headroom> {
    under(Path::new("/"))
}

/// The same, by the files under `root`.
fn under(root: &Path) -> Option<Headroom> {
    let machine = kib(&text(root, "proc/meminfo"), "MemAvailable:");
    let limits = text(root, "proc/self/limits");
    let status = text(root, "proc/self/status");
    let limit = |name: &str, used: &str| {
        let limit = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let soft: u64 = limit.split_whitespace().next()?.parse().ok()?;
        Some(soft.saturating_sub(kib(&status, used)?))
    };
    let bounds = [
        (Bound::Machine, machine),
        (Bound::ControlGroup, control_groups(root)),
        (Bound::AddressSpace, limit("Max address space", "VmSize:")),
        (Bound::Data, limit("Max data size", "VmData:")),
    ];
    let told =
        bounds.into_iter().filter_map(|(bound, bytes)| Some(Headroom { bytes: bytes?, bound }));
    told.min_by_key(|room| room.bytes)
}

/// What the control groups of this process leave: the least of its own and of those above it.
fn control_groups(root: &Path) -> Option<u64> {
    let groups = text(root, "proc/self/cgroup");
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (mount, limit, used) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => return None,
        };
        let mount = root.join(mount);
        let group = mount.join(path.trim_start_matches('/'));
        let above = group.ancestors().take_while(|group| group.starts_with(&mount));
        above.filter_map(|group| left(group, limit, used)).min()
    };
    groups.lines().filter_map(of_line).min()
}

/// What a control group leaves: its limit less what is used beside the files that it can drop.
fn left(group: &Path, limit: &str, used: &str) -> Option<u64> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = stat.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        matches!(name, "inactive_file" | "total_inactive_file")
            .then(|| bytes.parse::<u64>().ok())?
    });
    let used = number(used)?.saturating_sub(files.max().unwrap_or(0));
    Some(number(limit)?.saturating_sub(used))
}

/// The text of a file, or none.
fn text(root: &Path, file: &str) -> String {
    let file: PathBuf = root.join(file);
    fs::read_to_string(file).unwrap_or_default()
}

/// The number of KiB behind `name`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit Soft Limit Hard Limit Units\n\
                          Max data size             unlimited            unlimited            bytes\n\
                          Max address space         unlimited            unlimited            bytes\n";

    /// Headroom by made-up files.
    fn told(files: &[(&str, &str)]) -> Option<Headroom> {
        let root = tempfile::tempdir().unwrap();
        let usual = [
            ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"),
            ("proc/self/limits", LIMITS),
            ("proc/self/status", "VmPeak: 900 kB\nVmSize:\t 100 kB\nVmData:\t 50 kB\n"),
        ];
        for (path, text) in usual.iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        under(root.path())
    }

    fn room(kib: u64, bound: Bound) -> Option<Headroom> {
        Some(Headroom { bytes: kib * 1024, bound })
    }

    #[test]
    fn a_machine_without_limits_gives_what_is_free() {
        assert_eq!(told(&[]), room(8000, Bound::Machine));
        assert_eq!(under(Path::new("/nowhere")), None);
        assert!(headroom().is_none_or(|room| room.bytes > 1 << 20));
    }

    #[test]
    fn limits_of_the_process_count_less_what_it_has() {
        let limited = LIMITS.replacen("space         unlimited", "space         1024000", 1);
        assert_eq!(told(&[("proc/self/limits", &limited)]), room(900, Bound::AddressSpace));
        let limited = LIMITS.replacen("size             unlimited", "size             51200", 1);
        assert_eq!(told(&[("proc/self/limits", &limited)]), room(0, Bound::Data));
    }

    #[test]
    fn the_tightest_group_above_the_process_counts() {
        let second = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1024\n"),
            ("sys/fs/cgroup/a/memory.max", "4096000\n"),
            ("sys/fs/cgroup/a/memory.current", "1024000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 512000\n"),
        ];
        assert_eq!(told(&second), room(3500, Bound::ControlGroup));
        let first = [
            ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box/not-seen-here\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2048000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024000\n"),
        ];
        assert_eq!(told(&first), room(1000, Bound::ControlGroup));
    }
}
