//! Who a host is, and what it has to know to take part.

use gannet_wire::neighbour::HostId;
use sha2::{Digest, Sha256};

/// Key of a machine: who does not know it does not take part.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// The key that follows from a secret of any length.
    pub fn of(secret: &[u8]) -> Self {
        Self(digest(b"gannet torus key", &[secret]))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// The number of a host: the same after each restart, and another on each machine and for each name, so that several may
/// run on one machine. The identity of the machine cannot be told from it.
pub fn host_id(machine: &[u8], name: &str) -> HostId {
    let digest = digest(b"gannet torus host", &[machine, name.as_bytes()]);
    let number = digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    // 0 stands for no host.
    HostId(number.max(1))
}

fn digest(purpose: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new_with_prefix(purpose);
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_and_names_have_numbers_of_their_own() {
        let id = host_id(b"machine", "n01");
        assert_eq!(id, host_id(b"machine", "n01"));
        assert_ne!(id, host_id(b"machine", "n02"));
        assert_ne!(id, host_id(b"machinen", "01"));
        assert_ne!(Key::of(b"secret"), Key::of(b"secret\n"));
        assert_eq!(format!("{:?}", Key::of(b"secret")), "Key");
    }
}
