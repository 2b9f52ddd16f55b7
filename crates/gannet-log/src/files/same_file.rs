//! Whether two paths lead to one file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether two paths lead to one file, by whatever names, links included; or would, once the file is
/// made.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => place(a).is_some_and(|a| Some(a) == place(b)),
        _ => false,
    }
}

/// Where a file that is not there would be.
fn place(path: &Path) -> Option<PathBuf> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Some(directory.canonicalize().ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_detours_lead_to_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["a", "b"] {
            fs::write(at(name), name).unwrap();
        }
        fs::hard_link(at("a"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("a"), at("soft")).unwrap();
        fs::create_dir(at("d")).unwrap();
        for same in ["a", "hard", "soft", "d/../a"] {
            assert!(is_same_file(&at("a"), &at(same)), "{same}");
        }
        assert!(!is_same_file(&at("a"), &at("b")) && !is_same_file(&at("a"), &at("new")));
        assert!(
            is_same_file(&at("new"), &at("d/../new")) && !is_same_file(&at("new"), &at("d/new"))
        );
        assert!(!is_same_file(&at("gone/x"), &at("gone/x")), "nobody can write there");
    }
}
