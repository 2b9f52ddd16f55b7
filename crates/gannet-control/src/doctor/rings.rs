//! Places at which the rings of sources wait for their senders, and the builder for its readout.

use gannet_fabric::clop::{self, FabricConfig};

use super::{Check, Needs, Verdict};

pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    needs.rings.iter().map(check).chain(needs.builder.iter().map(builder)).collect()
}

/// Whether the builder can be had at its place, and the secret be read that both sides need.
fn builder(place: &FabricConfig) -> Check {
    let name = format!("builder {}", place.listen);
    let reason = "readout and builder meet there, and know each other by the secret";
    let check = |value: String, verdict| Check::new(&*name, value, verdict, reason);
    if let Err(error) = place.trust() {
        let remedy = "# mend it on this side, and have the same secret on the other";
        return check(error.to_string(), Verdict::Bad).fixed_by(remedy);
    }
    match clop::can_listen(place) {
        Ok(()) => check("can be had".into(), Verdict::Ok),
        // The configuration is the same on both sides, and a builder may be there already.
        Err(error) => {
            check(format!("{error}; no matter where only the readout runs"), Verdict::Unknown)
        }
    }
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use gannet_fabric::clop::Backend;

    #[test]
    fn a_builder_needs_its_secret_on_both_sides_and_its_place_on_one() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = |place: String| FabricConfig {
            secret_file: Some(secret.clone()),
            ..FabricConfig::new(Backend::Udp, place)
        };
        assert_eq!(builder(&at("127.0.0.1:0".into())).verdict, Verdict::Bad);
        fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(builder(&at("127.0.0.1:0".into())).verdict, Verdict::Ok);
        let there = builder(&at(taken.local_addr().unwrap().to_string()));
        assert_eq!(there.verdict, Verdict::Unknown, "{there:?}");
    }

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
        fs::write(&path, "0123456789abcdef").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(check(&secret).value.contains("open to other users"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check(&secret).verdict, Verdict::Ok);
    }
}
