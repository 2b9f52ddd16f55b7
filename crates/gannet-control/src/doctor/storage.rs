//! The disk that records are written to.

use std::path::Path;

use super::{Check, Needs, Verdict};
use crate::sys;

/// Free disk below which a run is short.
const FREE_BYTES: u64 = 10 << 30;

pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    vec![directory(&needs.directory), free(&needs.directory)]
}

fn directory(path: &Path) -> Check {
    let reason = "the recorder never makes it: it may be a disk that is not mounted";
    let name = format!("directory {}", path.display());
    if !path.is_dir() {
        let check = Check::new(name, "not there", Verdict::Bad, reason);
        return check.mended_by(format!("mkdir -p {}", path.display()));
    }
    let (value, verdict) = match sys::is_writable(path) {
        true => ("writable", Verdict::Ok),
        false => ("not writable", Verdict::Bad),
    };
    let check = Check::new(name, value, verdict, reason);
    check.mended_by(format!("sudo chown $USER {}", path.display()))
}

fn free(path: &Path) -> Check {
    let found = gannet_readout::log::free_bytes(path).ok();
    let reason = "records and primitives are written here";
    Check::bytes("disk free", found, FREE_BYTES, Verdict::Slow, reason)
        .mended_by(format!("free space under {}, or record elsewhere", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_bad_and_the_command_makes_it() {
        let check = directory(Path::new("/no/such/place"));
        assert_eq!((check.verdict, &check.remedy[..]), (Verdict::Bad, "mkdir -p /no/such/place"));
        assert_eq!(free(Path::new("/no/such/place")).verdict, Verdict::Unknown);
    }

    #[test]
    fn a_directory_of_ones_own_is_writable() {
        let own = tempfile::tempdir().unwrap();
        assert_eq!(directory(own.path()).verdict, Verdict::Ok);
    }
}
