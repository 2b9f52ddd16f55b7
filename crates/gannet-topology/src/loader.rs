//! Where the loader of programs would find a library, without opening it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::files::Files;

/// Where it looks after everything that is configured.
const DEFAULT: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// Its list of directories, and a directory of more such lists.
const LIST: &str = "etc/ld.so.conf";
const LISTS: &str = "etc/ld.so.conf.d";
/// Most directories that are looked through.
const DIRECTORIES_MAX: usize = 256;

/// The first place of `library` on the way of the loader; `preferred` are directories separated by colons, as
/// `LD_LIBRARY_PATH` has them.
pub fn find(files: &Files, library: &str, preferred: Option<&OsStr>) -> Option<PathBuf> {
    let preferred = preferred.map(std::env::split_paths).into_iter().flatten();
    let more = files.names(LISTS).unwrap_or_default().into_iter();
    let more = more.filter(|name| name.ends_with(".conf")).map(|name| Path::new(LISTS).join(name));
    let lists = std::iter::once(PathBuf::from(LIST)).chain(more);
    let listed = lists.flat_map(|list| {
        let text = files.text(list).unwrap_or_default();
        let lines: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('/'))
            .map(PathBuf::from)
            .collect();
        lines
    });
    preferred
        .filter(|directory| directory.is_absolute())
        .chain(listed)
        .chain(DEFAULT.map(PathBuf::from))
        .take(DIRECTORIES_MAX)
        .map(|directory| directory.join(library))
        .find(|path| files.has(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_looked_through_in_their_order() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let files = Files::below(root.path());
        let found = |preferred: Option<&str>| find(&files, "lib.so.1", preferred.map(OsStr::new));
        assert_eq!(found(None), None);
        write("usr/lib/lib.so.1", "");
        assert_eq!(found(None), Some("/usr/lib/lib.so.1".into()));
        write("etc/ld.so.conf.d/a.conf", "# more\n/opt/a/lib\n/usr/lib/x86_64-linux-gnu\n");
        write("usr/lib/x86_64-linux-gnu/lib.so.1", "");
        assert_eq!(found(None), Some("/usr/lib/x86_64-linux-gnu/lib.so.1".into()));
        write("home/lib.so.1", "");
        assert_eq!(found(Some("relative:/nowhere:/home")), Some("/home/lib.so.1".into()));
    }
}
