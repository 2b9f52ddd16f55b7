//! Processor and memory.

use std::thread::available_parallelism;

use gannet_kernels::Isa;

use super::{Check, Needs, System, Verdict};

pub(super) fn checks(system: &System, needs: &Needs) -> Vec<Check> {
    let cores = available_parallelism().map_or(1, |n| n.get());
    let mut checks = vec![processors(cores, needs.threads), instruction_set(Isa::best())];
    checks.extend(governor(system));
    checks.extend([clock(system), memory(system, needs.memory), huge_pages(system)]);
    checks
}

fn processors(cores: usize, wanted: usize) -> Check {
    let (value, verdict) = match cores {
        cores if cores >= wanted => (cores.to_string(), Verdict::Ok),
        cores => (format!("{cores}, {wanted} wanted"), Verdict::Slow),
    };
    Check::new("cores", value, verdict, "each socket keeps one busy, the trigger a part of one")
        .mended_by("give the process more cores (taskset, cgroup cpuset), or use fewer sockets")
}

fn instruction_set(best: Isa) -> Check {
    let verdict = if best == Isa::Scalar { Verdict::Slow } else { Verdict::Ok };
    Check::new("instruction set", best, verdict, "primitives are found with the widest vectors")
        .mended_by("run on a processor with AVX2 or AVX-512, or fewer streams a core")
}

/// How the processor chooses its frequency, where it tells.
fn governor(system: &System) -> Option<Check> {
    let found = system.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    let verdict = if found == "performance" { Verdict::Ok } else { Verdict::Slow };
    let reason = "a processor that must first speed up answers late";
    let check = Check::new("frequency governor", found, verdict, reason);
    Some(check.mended_by("sudo cpupower frequency-set -g performance"))
}

fn clock(system: &System) -> Check {
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let reason = "the clock is read for every burst of frames; a slow one costs";
    let Some(found) = system.text(path) else {
        return Check::new("clock source", "not readable", Verdict::Unknown, reason);
    };
    let fast = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
    let verdict = if fast.contains(&&*found) { Verdict::Ok } else { Verdict::Slow };
    let check = Check::new("clock source", found, verdict, reason);
    check.mended_by(format!("echo tsc | sudo tee /{path}"))
}

fn memory(system: &System, wanted: u64) -> Check {
    let available = system.entry("proc/meminfo", "MemAvailable").and_then(|entry| {
        entry.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    let reason = "buffers hold the last seconds of every stream";
    Check::bytes("memory available", available, wanted, Verdict::Bad, reason)
        .mended_by("close other programs, or make `depth` of the sources shorter")
}

fn huge_pages(system: &System) -> Check {
    let reserved = system.number("proc/sys/vm/nr_hugepages").unwrap_or(0);
    let enabled = system.text("sys/kernel/mm/transparent_hugepage/enabled");
    let is_transparent = enabled.is_some_and(|text| !text.contains("[never]"));
    let (value, verdict) = match (reserved, is_transparent) {
        (0, false) => ("none".to_owned(), Verdict::Slow),
        (0, true) => ("transparent".to_owned(), Verdict::Ok),
        (reserved, _) => (format!("{reserved} reserved"), Verdict::Ok),
    };
    Check::new("huge pages", value, verdict, "fewer address translations in the buffers")
        .mended_by("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
}

#[cfg(test)]
mod tests {
    use super::super::system::fake;
    use super::*;

    #[test]
    fn memory_is_judged_against_what_is_needed() {
        let (_root, system) =
            fake(&[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 2097152 kB\n")]);
        assert_eq!(memory(&system, 1 << 30).verdict, Verdict::Ok);
        let short = memory(&system, 1 << 40);
        assert_eq!((short.verdict, &short.value[..]), (Verdict::Bad, "2 GiB, 1 TiB wanted"));
        assert!(!short.remedy.is_empty());
    }

    #[test]
    fn either_kind_of_huge_pages_will_do() {
        let path = "sys/kernel/mm/transparent_hugepage/enabled";
        let verdict = |files: &[(&str, &str)]| huge_pages(&fake(files).1).verdict;
        assert_eq!(verdict(&[(path, "always [madvise] never\n")]), Verdict::Ok);
        assert_eq!(verdict(&[(path, "always madvise [never]\n")]), Verdict::Slow);
        assert_eq!(verdict(&[("proc/sys/vm/nr_hugepages", "512\n")]), Verdict::Ok);
    }

    #[test]
    fn few_cores_and_slow_clocks_are_slow() {
        assert_eq!(processors(2, 2).verdict, Verdict::Ok);
        assert_eq!(processors(1, 2).verdict, Verdict::Slow);
        let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert_eq!(clock(&fake(&[(path, "tsc\n")]).1).verdict, Verdict::Ok);
        assert_eq!(clock(&fake(&[(path, "hpet\n")]).1).verdict, Verdict::Slow);
        assert_eq!(clock(&fake(&[]).1).verdict, Verdict::Unknown);
    }
}
