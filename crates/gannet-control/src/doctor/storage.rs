//! The disk that records are written to.

use std::path::Path;

use gannet_measure::quantity::Bytes;

use super::{Check, Needs, Verdict, quoted};
use crate::sys;

/// Time that the free disk should last at least, in seconds.
const LASTS_S: f64 = 3600.0;

pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    let free = gannet_log::free_bytes(&needs.directory).ok();
    vec![directory(&needs.directory), disk(free, needs)]
}

fn directory(path: &Path) -> Check {
    let reason = "the recorder never makes it: it may be a disk that is not mounted";
    let name = format!("directory {}", path.display());
    if !path.is_dir() {
        let check = Check::new(name, "not there", Verdict::Bad, reason);
        return check.fixed_by(format!("mkdir -p {}", quoted(path)));
    }
    let (value, verdict) = match sys::is_writable(path) {
        true => ("writable", Verdict::Ok),
        false => ("not writable", Verdict::Bad),
    };
    let check = Check::new(name, value, verdict, reason);
    check.fixed_by(format!("sudo chown \"$USER\" {}", quoted(path)))
}

/// The free disk, of which the recorder leaves a reserve.
fn disk(free: Option<u64>, needs: &Needs) -> Check {
    let (value, verdict) = match free {
        None => ("not readable".to_owned(), Verdict::Unknown),
        Some(free) if free <= needs.disk_reserve => {
            let reserve = Bytes(needs.disk_reserve);
            (format!("{}, {reserve} of it kept free", whole_mib(free)), Verdict::Bad)
        }
        Some(free) => {
            let usable = (free - needs.disk_reserve) as f64;
            let lasts_s = usable / needs.disk_bytes_per_s.max(1.0);
            let verdict = if lasts_s < LASTS_S { Verdict::Slow } else { Verdict::Ok };
            (format!("{}, lasts {:.1} h", whole_mib(free), lasts_s / 3600.0), verdict)
        }
    };
    let reason = "records and primitives are written here, at the forecast's rate";
    Check::new("disk free", value, verdict, reason)
        .fixed_by(format!("# free space under {}, or record elsewhere", needs.directory.display()))
}

fn whole_mib(bytes: u64) -> Bytes {
    Bytes(bytes >> 20 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_bad_and_the_command_makes_it() {
        let check = directory(Path::new("/no/such/place"));
        assert_eq!((check.verdict, &check.remedy[..]), (Verdict::Bad, "mkdir -p /no/such/place"));
        let check = directory(Path::new("/no/such place/it's"));
        assert_eq!(check.remedy, r"mkdir -p '/no/such place/it'\''s'");
        let needs = Needs { directory: "/no/such/place".into(), ..Needs::default() };
        assert_eq!(checks(&needs)[1].verdict, Verdict::Unknown);
    }

    #[test]
    fn a_directory_of_ones_own_is_writable() {
        let own = tempfile::tempdir().unwrap();
        assert_eq!(directory(own.path()).verdict, Verdict::Ok);
    }

    #[test]
    fn the_disk_is_judged_by_what_is_written_and_kept_free() {
        let needs =
            Needs { disk_reserve: 1 << 30, disk_bytes_per_s: 1048576.0, ..Needs::default() };
        let found = |free_mib: u64| {
            let check = disk(Some(free_mib << 20), &needs);
            (check.verdict, check.value)
        };
        assert_eq!(found(1024 + 7200), (Verdict::Ok, "8224 MiB, lasts 2.0 h".into()));
        assert_eq!(found(1024 + 1800), (Verdict::Slow, "2824 MiB, lasts 0.5 h".into()));
        assert_eq!(found(1024), (Verdict::Bad, "1 GiB, 1 GiB of it kept free".into()));
    }
}
