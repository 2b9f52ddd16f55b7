//! Places at which the rings of sources wait for their senders, and the builder for its readout.

use std::io;

use gannet_fabric::clop::{self, Backend, FabricConfig};
use gannet_fabric::torus::here::NODE_VARIABLE;

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
        Err(error) => {
            let remedy = remedy(&error, ring.backend);
            Check::new(name, error, Verdict::Bad, reason).fixed_by(remedy)
        }
    }
}

/// What to do where a ring cannot be had.
fn remedy(error: &clop::Error, backend: Backend) -> String {
    let kind = match error {
        clop::Error::Listen { cause, .. } => cause.kind(),
        clop::Error::Secret(_) | clop::Error::NoSecretFile(_) => {
            return "# mend secret_file, and have the same secret on the side of the sender".into();
        }
        _ => return "# mend it in the configuration".into(),
    };
    match (kind, backend) {
        // What the system says of a place has a kind of its own.
        (io::ErrorKind::Other, Backend::Torus) => format!(
            "# start `gannet torus node` on this host, or set the variable {NODE_VARIABLE} to the socket for processes of \
             the node to use"
        ),
        (io::ErrorKind::AddrInUse, _) => {
            "# end the program that has it, or choose another place".into()
        }
        _ => "# choose another place".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
        assert!(check(&secret).remedy.contains("secret_file"));
        let path = directory.path().join("secret");
        fs::write(&path, "0123456789abcdef").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(check(&secret).value.contains("open to other users"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check(&secret).verdict, Verdict::Ok);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        secret.listen = taken.local_addr().unwrap().to_string();
        assert!(check(&secret).remedy.contains("end the program that has it"));
    }

    #[test]
    fn a_ring_without_its_node_says_how_to_name_one() {
        let listen = |cause| clop::Error::Listen { place: "10.0.0.2:17480".into(), cause };
        let remedy = remedy(&listen(io::Error::other("no node")), Backend::Torus);
        assert!(remedy.contains("GANNET_TORUS_NODE"), "{remedy}");
    }
}
