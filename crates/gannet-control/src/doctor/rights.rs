//! What the process may do: limits and capabilities.

use super::{Check, Needs, System, Verdict, quoted};
use crate::config::Plan;

/// Open files that a run with many sockets and rotating files needs.
const OPEN_FILES: u64 = 1024;
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

pub(super) fn checks(system: &System, needs: &Needs) -> Vec<Check> {
    let limit = system.number("proc/sys/net/core/rmem_max");
    vec![
        right(
            system,
            needs,
            Capability::NetAdmin,
            "CAP_NET_ADMIN",
            limit.is_none_or(|limit| limit < needs.kernel_buffer),
            "a socket's buffer may go beyond net.core.rmem_max",
        ),
        right(
            system,
            needs,
            Capability::SysNice,
            "CAP_SYS_NICE",
            true,
            "receiving threads run ahead of other work",
        ),
        right(
            system,
            needs,
            Capability::Bpf,
            "CAP_BPF",
            needs.count_before_queue || !needs.xdp.is_empty(),
            "frames are counted before the kernel's queue, so that every loss has its size",
        ),
        open_files(system),
        file_size(system, needs),
    ]
}

fn right(
    system: &System,
    needs: &Needs,
    capability: Capability,
    name: &str,
    is_needed: bool,
    reason: &'static str,
) -> Check {
    let (value, verdict) = match has(system, capability) {
        Some(true) => ("yes", Verdict::Ok),
        Some(false) if is_needed => ("no", Verdict::Slow),
        Some(false) => ("no, and not needed", Verdict::Ok),
        None => ("not readable", Verdict::Unknown),
    };
    Check::new(name, value, verdict, reason).fixed_by(give_rights(needs))
}

/// Gives this program every right that it uses: `setcap` takes away those that it does not name.
pub(super) fn give_rights(needs: &Needs) -> String {
    let more = if needs.xdp.is_empty() { "" } else { ",cap_net_raw,cap_ipc_lock" };
    let program = std::env::current_exe().unwrap_or_else(|_| "gannet".into());
    format!("sudo setcap cap_net_admin,cap_bpf,cap_sys_nice{more}+ep {}", quoted(&program))
}

/// The soft limit of the resource that `/proc/self/limits` lists under `name`.
fn limit(system: &System, name: &str) -> Option<u64> {
    match system.entry("proc/self/limits", name)?.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn open_files(system: &System) -> Check {
    let (value, verdict) = match limit(system, "Max open files") {
        Some(found) if found >= OPEN_FILES => (found.to_string(), Verdict::Ok),
        Some(found) => (format!("{found}, {OPEN_FILES} wanted"), Verdict::Slow),
        None => ("not readable".to_owned(), Verdict::Unknown),
    };
    let reason = "sockets, files and clients of the metrics take one each";
    Check::new("open files (ulimit -n)", value, verdict, reason)
        .fixed_by(format!("ulimit -n {OPEN_FILES}  # in a unit file: LimitNOFILE={OPEN_FILES}"))
}

/// How large a file may be: that of a log, with its largest chunks.
pub(super) fn file_size(system: &System, needs: &Needs) -> Check {
    let limit = limit(system, "Max file size");
    let wanted = gannet_log::FILE_SIZE_LIMIT_MIN;
    let (value, verdict) = match limit {
        Some(u64::MAX) => ("unlimited".to_owned(), Verdict::Ok),
        Some(found) if found < wanted => (format!("{found} B, {wanted} B needed"), Verdict::Bad),
        Some(found) if (gannet_log::payload_bytes_max(found) as u64) < needs.record_bytes => {
            (format!("{found} B, too small for records of {} B", needs.record_bytes), Verdict::Slow)
        }
        Some(found) => (format!("{found} B"), Verdict::Ok),
        None => ("not readable".to_owned(), Verdict::Unknown),
    };
    let reason = "what does not fit into a file of the log is lost";
    Check::new("file size (ulimit -f)", value, verdict, reason)
        .fixed_by("ulimit -f unlimited  # in a unit file: LimitFSIZE=infinity")
}

/// What to say of a plan whose records do not fit into files.
pub fn file_size_doubt(system: &System, plan: &Plan) -> Option<String> {
    let Check { name, value, verdict, remedy, .. } = file_size(system, &Needs::of(plan));
    let records = plan.settings.recorder.enabled && verdict == Verdict::Slow;
    records.then(|| format!("{name}: {value}: they will be lost\n  {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::super::system::fake;
    use super::*;

    #[test]
    fn limits_are_read_by_name() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            512                  4096                 files\n";
        let (_root, system) = fake(&[("proc/self/limits", text)]);
        assert_eq!(open_files(&system).verdict, Verdict::Slow);
    }

    #[test]
    fn files_may_be_as_large_as_a_log_and_its_records() {
        let verdict = |limit: &str| {
            let text =
                format!("Max file size             {limit}      unlimited            bytes\n");
            let (_root, system) = fake(&[("proc/self/limits", &text)]);
            file_size(&system, &Needs { record_bytes: 3 << 20, ..Needs::default() })
        };
        assert_eq!(verdict("unlimited").verdict, Verdict::Ok);
        assert_eq!(verdict("8388608").verdict, Verdict::Ok);
        assert_eq!(verdict("4194304").verdict, Verdict::Slow);
        let small = verdict("2097151");
        assert_eq!((small.verdict, &*small.value), (Verdict::Bad, "2097151 B, 2097152 B needed"));
        assert!(small.remedy.contains("LimitFSIZE"));
    }

    #[test]
    fn capabilities_are_bits_of_a_mask() {
        let (_root, system) =
            fake(&[("proc/self/status", "CapPrm:\t0\nCapEff:\t0000008000001000\n")]);
        assert_eq!(has(&system, Capability::NetAdmin), Some(true));
        assert_eq!(has(&system, Capability::Bpf), Some(true));
        assert_eq!(has(&system, Capability::SysNice), Some(false));
        let check = &checks(&system, &Needs::default())[1];
        assert_eq!(check.verdict, Verdict::Slow);
        assert_eq!(check.remedy, give_rights(&Needs::default()));
    }

    #[test]
    fn the_remedies_of_several_rights_do_not_undo_each_other() {
        let (_root, system) = fake(&[("proc/self/status", "CapEff:\t0000000000000000\n")]);
        let (_other, granted) = fake(&[("proc/self/status", "CapEff:\t000001ffffffffff\n")]);
        let missing = |system| {
            let checks = checks(system, &Needs::default()).into_iter();
            let rights = checks.filter(|check| check.name.starts_with("CAP_"));
            rights.map(|check| check.remedy).collect::<Vec<_>>()
        };
        assert_eq!(missing(&system), [&*give_rights(&Needs::default()); 3]);
        assert_eq!(missing(&granted), [""; 3]);
    }

    #[test]
    fn a_right_that_is_not_needed_is_not_missed() {
        let files = [
            ("proc/self/status", "CapEff:\t0000000000000000\n"),
            ("proc/sys/net/core/rmem_max", "67108864\n"),
        ];
        let (_root, system) = fake(&files);
        let verdicts = |kernel_buffer, count_before_queue| {
            let needs = Needs { kernel_buffer, count_before_queue, ..Needs::default() };
            let checks = checks(&system, &needs);
            (checks[0].verdict, checks[2].verdict)
        };
        assert_eq!(verdicts(64 << 20, false), (Verdict::Ok, Verdict::Ok));
        assert_eq!(verdicts(65 << 20, true), (Verdict::Slow, Verdict::Slow));
    }
}
