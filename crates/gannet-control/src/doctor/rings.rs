//! Places at which the rings of sources wait for their senders.

use gannet_fabric::clop::{self, FabricConfig};

use super::{Check, Needs, Verdict};

pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    needs.rings.iter().map(check).collect()
}

/// Whether a ring can be had at its place, and its secret be read.
fn check(ring: &FabricConfig) -> Check {
    let name = format!("ring {}", ring.listen);
    let reason = "the sender finds the ring there, and has to be one that may write to it";
    match clop::can_listen(ring) {
        Ok(()) if ring.secret_file.is_none() => {
            Check::new(name, "can be had; senders of this user", Verdict::Ok, reason)
        }
        Ok(()) => Check::new(name, "can be had; senders with the secret", Verdict::Ok, reason),
        Err(error) => Check::new(name, error, Verdict::Bad, reason)
            .fixed_by("# end the program that has it, or choose another place or secret"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use gannet_fabric::clop::Backend;

    #[test]
    fn a_ring_that_cannot_be_had_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let at = |place: &str| {
            let place = directory.path().join(place).display().to_string();
            check(&FabricConfig::new(Backend::Shm, place))
        };
        assert_eq!(at("ring").verdict, Verdict::Ok);
        assert!(!directory.path().join("ring").exists(), "nothing is left");
        let nowhere = at("none/ring");
        assert_eq!(nowhere.verdict, Verdict::Bad);
        assert!(nowhere.value.contains("make its directory first"), "{}", nowhere.value);
        let mut secret = FabricConfig::new(Backend::Udp, "127.0.0.1:0");
        secret.secret_file = Some(directory.path().join("secret"));
        assert!(check(&secret).value.contains("cannot read the secret"));
        let path = directory.path().join("secret");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(check(&secret).value.contains("open to other users"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check(&secret).verdict, Verdict::Ok);
    }
}
