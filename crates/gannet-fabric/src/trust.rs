//! By what endpoints know that they may join.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::exchange::JoinError;

/// Shortest secret, in bytes: who meets an endpoint can try shorter ones against its proof at leisure.
pub const SECRET_LEN_MIN: usize = 16;
/// Longest secret, in bytes.
const SECRET_LEN_MAX: u64 = 64 << 10;

/// How endpoints know that they may join.
#[derive(Clone)]
pub enum Trust {
    /// They are of one user on one host.
    SameUser,
    /// They know the same secret.
    Secret(Vec<u8>),
}

/// Why a file has no secret that can be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It cannot be read.
    #[error("cannot read the secret in {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Answer of the operating system.
        #[source]
        cause: io::Error,
    },
    /// Everybody on this host knows it.
    #[error(
        "the secret in {0} is open to other users: take that away by `chmod 600 {0}`, and change the secret",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// It can be guessed, or is no secret.
    #[error(
        "the secret in {0} has {bytes} bytes, and needs 16 bytes to 64 KiB: make one by `(umask 077; head -c 32 /dev/urandom | base64 > {0})`",
        path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Length of what is in it, without white space at its end.
        bytes: usize,
    },
    /// All of its bytes are alike, as where the file was made and never written.
    #[error(
        "the secret in {0} is one byte again and again, which is easily guessed: make one by \
         `(umask 077; head -c 32 /dev/urandom | base64 > {0})`",
        path.display()
    )]
    Alike {
        /// The file.
        path: PathBuf,
    },
}

impl Trust {
    /// By the secret in the file at `path`, without white space at its end. A regular file has to be closed to
    /// other users; a pipe is taken as it is.
    ///
    /// # Errors
    /// When it cannot be read, others can read it, it has not 16 bytes to 64 KiB, or these are all alike.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let unreadable = |cause| SecretError::Read { path: path.to_owned(), cause };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            return Err(SecretError::Open { path: path.to_owned() });
        }
        let mut text = Vec::new();
        file.take(SECRET_LEN_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        let secret = text.trim_ascii_end();
        if secret.len() < SECRET_LEN_MIN || text.len() as u64 > SECRET_LEN_MAX {
            return Err(SecretError::Length { path: path.to_owned(), bytes: secret.len() });
        }
        // What fills up words of base64 says nothing.
        let mut told = secret.iter().filter(|byte| **byte != b'=');
        let first = told.next();
        if told.all(|byte| Some(byte) == first) {
            return Err(SecretError::Alike { path: path.to_owned() });
        }
        Ok(Self::Secret(secret.to_vec()))
    }

    /// The key of the codes: the hash of the secret, since HMAC takes secrets that differ in zeros at their
    /// end for one; no bytes without a secret.
    ///
    /// # Errors
    /// When the secret is shorter than [`SECRET_LEN_MIN`].
    pub fn key(&self) -> Result<Vec<u8>, JoinError> {
        match self {
            Self::SameUser => Ok(Vec::new()),
            Self::Secret(secret) if secret.len() < SECRET_LEN_MIN => {
                Err(JoinError::ShortSecret(secret.len()))
            }
            Self::Secret(secret) => Ok(Sha256::digest(secret).to_vec()),
        }
    }
}

/// Prints nothing of the secret.
impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameUser => "SameUser",
            Self::Secret(_) => "Secret(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_of_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let read = |text: &[u8], mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Trust::from_file(&path)
        };
        assert!(matches!(Trust::from_file(&path), Err(SecretError::Read { .. })));
        match read(b"  sixteen bytes, \n", 0o600) {
            Ok(Trust::Secret(secret)) => assert_eq!(secret, b"  sixteen bytes,"),
            other => panic!("{other:?}"),
        }
        for mode in [0o640, 0o604, 0o620] {
            let open = read(b"0123456789abcdef", mode).unwrap_err();
            assert!(matches!(open, SecretError::Open { .. }), "{mode:o}: {open}");
        }
        for bad in [&b""[..], b"0123456789abcde\n\n", &vec![b'x'; (64 << 10) + 1]] {
            let refused = read(bad, 0o600).unwrap_err();
            assert!(matches!(refused, SecretError::Length { .. }), "{refused}");
        }
        let words = [&b"AAAAAAAAAAAAAAAAAAAAAAA="[..], b"AAAAAAAAAAAAAAAAAAAAAA==\n"];
        for alike in [&[0; 32][..], &[b'x'; 32]].into_iter().chain(words) {
            let refused = read(alike, 0o600).unwrap_err();
            assert!(matches!(refused, SecretError::Alike { .. }), "{refused}");
        }
    }
}
