//! Processor and memory.

use std::thread::available_parallelism;

use gannet_kernels::Isa;
use gannet_measure::quantity::Bytes;

use super::{Check, Needs, System, Verdict};
use crate::config::Plan;

pub(super) fn checks(system: &System, needs: &Needs) -> Vec<Check> {
    let cores = available_parallelism().map_or(1, |n| n.get());
    let mut checks =
        vec![processors(cores, needs.threads), instruction_set(Isa::best()), check_sums()];
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
        .fixed_by("# give the process more cores (taskset, cgroup cpuset), or use fewer sockets")
}

fn instruction_set(best: Isa) -> Check {
    let verdict = if best == Isa::Scalar { Verdict::Slow } else { Verdict::Ok };
    Check::new("instruction set", best, verdict, "primitives are found with the widest vectors")
        .fixed_by("# run on a processor with AVX2 or AVX-512, or fewer streams a core")
}

/// How check sums of packets of the torus are taken.
fn check_sums() -> Check {
    let reason = "those of packets of a torus; vectors take them while packets are copied";
    Check::new(
        "check sums",
        gannet_checksum::ways().last().unwrap_or_default(),
        Verdict::Ok,
        reason,
    )
}

/// How the processor chooses its frequency, where it tells.
fn governor(system: &System) -> Option<Check> {
    let found = system.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    let verdict = if found == "performance" { Verdict::Ok } else { Verdict::Slow };
    let reason = "a processor that must first speed up answers late";
    let check = Check::new("frequency governor", found, verdict, reason);
    Some(check.fixed_by("sudo cpupower frequency-set -g performance"))
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
    check.fixed_by(format!("echo tsc | sudo tee /{path}"))
}

fn memory(system: &System, wanted: u64) -> Check {
    let available = system.memory_available();
    let reason = "buffers hold the last seconds of every stream";
    Check::bytes("memory available", available, wanted, Verdict::Bad, reason)
        .fixed_by("# close other programs, or make `depth` of the sources shorter")
}

/// What to say of a plan for which there is not enough memory.
pub fn memory_doubt(system: &System, plan: &Plan) -> Option<String> {
    let (wanted, available) = (plan.forecast.memory_bytes, system.memory_available()?);
    let mib = |bytes: u64| Bytes(bytes >> 20 << 20);
    (wanted > available).then(|| {
        format!(
            "the buffers need {} of memory, and {} are available: make `depth` shorter, or \
             the run will fail",
            mib(wanted),
            mib(available)
        )
    })
}

fn huge_pages(system: &System) -> Check {
    let reserved = system.number("proc/sys/vm/nr_hugepages").unwrap_or(0);
    let enabled = system.text("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let transparent = chosen(&enabled).unwrap_or("not in this kernel");
    let is_transparent = ["always", "madvise"].contains(&transparent);
    let value = format!("{reserved} reserved; transparent: {transparent}");
    let verdict = if reserved > 0 || is_transparent { Verdict::Ok } else { Verdict::Slow };
    Check::new("huge pages", value, verdict, "fewer address translations in the buffers")
        .fixed_by("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
}

/// The word in brackets: how the kernel shows which of the settings it lists is the one in use.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
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
    fn a_plan_that_needs_more_memory_than_there_is_is_doubted() {
        let text = "[[source]]\nstreams = { count = 4 }\nudp = { listen = [\"127.0.0.1:0\"] }\n";
        let plan = crate::fixture::parse(text).unwrap();
        // Four streams of a second need 838 MiB.
        let doubt = |meminfo| memory_doubt(&fake(&[("proc/meminfo", meminfo)]).1, &plan);
        let told = doubt("MemAvailable: 819200 kB\n").unwrap();
        assert!(told.contains("need 841 MiB") && told.contains("and 800 MiB are"), "{told}");
        assert_eq!(doubt("MemAvailable: 921600 kB\n"), None);
        assert_eq!(doubt("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn either_kind_of_huge_pages_will_do() {
        let path = "sys/kernel/mm/transparent_hugepage/enabled";
        let verdict = |files: &[(&str, &str)]| huge_pages(&fake(files).1).verdict;
        assert_eq!(verdict(&[(path, "always [madvise] never\n")]), Verdict::Ok);
        assert_eq!(verdict(&[(path, "always madvise [never]\n")]), Verdict::Slow);
        assert_eq!(verdict(&[("proc/sys/vm/nr_hugepages", "512\n")]), Verdict::Ok);
        assert_eq!(verdict(&[]), Verdict::Slow);
        let value = huge_pages(&fake(&[(path, "[always] madvise never\n")]).1).value;
        assert_eq!(value, "0 reserved; transparent: always");
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
