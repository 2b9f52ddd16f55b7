//! Tells the program which commit it is built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A copy of the sources may lie in the checkout of something else: that commit is not ours.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = if is_ours { git(&["rev-parse", "--short=12", "HEAD"]) } else { None };
    if commit.is_some() {
        // The second one changes with every commit, too.
        for file in ["HEAD", "logs/HEAD"] {
            let path = git(&["rev-parse", "--git-path", file]);
            if let Some(path) = path.filter(|path| Path::new(path).exists()) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    println!("cargo::rustc-env=GANNET_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// What git answers; nothing outside a checkout, or without git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| answer.trim().to_owned())
}
