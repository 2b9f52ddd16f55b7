//! The steps that are one command each.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::judges::attempt;
use super::{Check, Outcome};

const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// Whether the code is formatted as `rustfmt.toml` says.
pub fn format(check: &mut Check) -> Result<Outcome> {
    if !has_component(check, "fmt") {
        return Ok(missing_component("rustfmt"));
    }
    finish(cargo(check).args(["fmt", "--all", "--check"]))
}

/// The rules of the house.
pub fn tidy(check: &mut Check) -> Result<Outcome> {
    let tidy = crate::tidy::run(&check.root)?;
    Ok(if tidy { Outcome::Passed } else { Outcome::Failed("see its lines above".into()) })
}

/// The lints of compiler and clippy, none of which may speak.
pub fn clippy(check: &mut Check) -> Result<Outcome> {
    if !has_component(check, "clippy") {
        return Ok(missing_component("clippy"));
    }
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    finish(cargo(check).args(arguments))
}

/// The documentation of every public item, without a broken link.
pub fn rustdoc(check: &mut Check) -> Result<Outcome> {
    let arguments = ["doc", "--workspace", "--no-deps", "--quiet"];
    finish(cargo(check).args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// That every dependency may be given away with the program, and comes from the registry.
pub fn licences(check: &mut Check) -> Result<Outcome> {
    deny(check, &["fetch", "--locked"], &["licenses", "sources"])
}

/// That no dependency has a known fault.
pub fn advisories(check: &mut Check) -> Result<Outcome> {
    deny(check, &["deny", "fetch", "db"], &["advisories"])
}

/// Lets `cargo deny` judge the dependencies, once `fetch` has brought what it must know.
fn deny(check: &Check, fetch: &[&str], which: &[&str]) -> Result<Outcome> {
    if !has_component(check, "deny") {
        let reason = "no cargo-deny; `cargo install --locked cargo-deny` fixes it";
        return Ok(Outcome::Skipped(reason.into()));
    }
    if let Err(error) = attempt(cargo(check).args(fetch)) {
        return Ok(Outcome::Skipped(format!("`cargo {}`: {error}", fetch.join(" "))));
    }
    finish(cargo(check).args(["deny", "--offline", "check"]).args(which))
}

/// That the kernels compile for a machine without AVX.
pub fn kernels_for_aarch64(check: &mut Check) -> Result<Outcome> {
    if !has_target(check, AARCH64)? {
        let reason = format!("no standard library for it; `rustup target add {AARCH64}` fixes it");
        return Ok(Outcome::Skipped(reason));
    }
    finish(cargo(check).args(["check", "--package", "gannet-kernels", "--target", AARCH64]))
}

/// The binary that users have, for the long tests of it.
pub fn release_build(check: &mut Check) -> Result<Outcome> {
    if !check.long {
        return Ok(Outcome::Long);
    }
    let outcome = finish(cargo(check).args(["build", "--release", "--package", "gannet-cli"]))?;
    if matches!(outcome, Outcome::Passed) {
        let name = format!("gannet{}", std::env::consts::EXE_SUFFIX);
        check.gannet = Some(check.target.join("release").join(name));
    }
    Ok(outcome)
}

/// That the reference pages are what the program tells.
pub fn reference_pages(check: &mut Check) -> Result<Outcome> {
    let Some(gannet) = &check.gannet else {
        return Ok(Outcome::Skipped("there is no build to ask".into()));
    };
    let stale = crate::reference::stale(&check.root, gannet)?;
    if stale.is_empty() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!("out of date: {}; `cargo xtask docs` fixes it", stale.join(", "))))
}

/// What readers of a clop and of a ring of events may see, over every interleaving that the memory model allows. It is
/// built apart, since loom takes the place of the atomics of the standard library.
pub fn memory_model(check: &mut Check) -> Result<Outcome> {
    let mut command = cargo(check);
    command.args(["test", "--package", "gannet-memory", "--package", "gannet-fabric", "--lib"]);
    command.arg("--target-dir").arg(check.target.join("loom")).env("RUSTFLAGS", "--cfg loom");
    // Only the walk through the interleavings has much to compute.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    command.args(["--config", "profile.dev.package.loom.opt-level=1", "model"]);
    // Three switches at any places find all that is known to go wrong, in ten seconds.
    command.env("LOOM_MAX_PREEMPTIONS", if check.long { "4" } else { "3" });
    finish(&mut command)
}

/// The cargo that started this program, in the root of the workspace. Beside tests it has less priority,
/// so that they do not wait for a compiler.
pub fn cargo(check: &Check) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = if check.beside.is_some() {
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(cargo);
        command
    } else {
        Command::new(cargo)
    };
    command.current_dir(&check.root);
    // What the outer cargo tells of this program makes build scripts run again that a cargo of the user has run.
    let outer = std::env::vars_os().map(|(name, _)| name);
    let is_of_outer = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    outer.filter(is_of_outer).for_each(|name| _ = command.env_remove(name));
    // What helps to build again after small changes takes as much of the disk as all else.
    command.env("CARGO_INCREMENTAL", "0");
    command
}

/// Runs a command with its output shown, and turns its exit status into an outcome.
///
/// # Errors
/// When it cannot be started.
pub fn finish(command: &mut Command) -> Result<Outcome> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed(status.to_string()) })
}

fn has_component(check: &Check, subcommand: &str) -> bool {
    let mut command = cargo(check);
    command.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn missing_component(name: &str) -> Outcome {
    Outcome::Skipped(format!("no {name}; `rustup component add {name}` fixes it"))
}

/// Whether the tool chain has the standard library of `target`.
fn has_target(check: &Check, target: &str) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let mut command = Command::new(rustc);
    command.args(["--print", "target-libdir", "--target", target]).current_dir(&check.root);
    let output = command.output().context("cannot start rustc")?;
    let directory = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(directory.trim()).is_dir())
}
