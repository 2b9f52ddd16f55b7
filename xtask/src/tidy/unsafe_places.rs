//! Where `unsafe` may live.

use std::path::Path;

use super::Finding;
use super::code::{code_only, has_word};
use super::tree::Tree;

/// Directories, or modules of one file, for the operating system, shared memory and CUDA.
const PLACES: [&str; 3] = ["sys", "shm", "cuda"];
/// Files of one instruction set.
const INSTRUCTION_SETS: [&str; 3] = ["avx2", "avx512", "neon"];

/// `unsafe` appears only in the named places, so that a reviewer knows where to look.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs").filter(|file| !is_allowed(&file.path)) {
        for (line, code) in (1..).zip(code_only(&file.text).lines()) {
            if has_word(code, "unsafe") {
                let message = "move it behind a safe function in a file under sys/, shm/ or \
                               cuda/, or in avx2.rs, avx512.rs or neon.rs";
                findings.push(Finding::new(&file.path, line, "unsafe place", message));
            }
        }
    }
    findings
}

fn is_allowed(path: &Path) -> bool {
    let in_place = path.iter().any(|part| PLACES.iter().any(|place| part == *place));
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    in_place || PLACES.contains(&stem) || INSTRUCTION_SETS.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn unsafe_is_found_outside_its_places() {
        let code = "#![allow(unsafe_code)]\n// unsafe in prose\nunsafe fn f() {}\n";
        for allowed in ["a/sys/b.rs", "a/sys.rs", "a/shm/b/c.rs", "a/avx2.rs", "neon.rs"] {
            assert_eq!(places(check, &[(allowed, code)]), [""; 0]);
        }
        assert_eq!(places(check, &[("a/system/b.rs", code)]), ["a/system/b.rs:3"]);
    }
}
