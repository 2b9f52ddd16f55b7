//! Reference pages that the program writes about itself.
//!
//! What a key of the configuration or an argument of a verb means is written once, at the type that
//! reads it; so is what a run can be asked. The binary tells it (`gannet check --schema`, `gannet help`), and here it becomes pages
//! under `docs/reference`. xtask imports no room of the house, so it asks the built binary.

mod command_line;
mod configuration;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Where the pages lie, from the root.
const DIRECTORY: &str = "docs/reference";
/// Width of the texts of the command line, in characters.
const COLUMNS: &str = "100";

/// A page: name of its file, and all of it.
type Page = (&'static str, String);

/// Builds the binary and writes the pages anew from what it tells; false when it does not build.
///
/// # Errors
/// When the binary cannot be built or asked, or a page cannot be written.
pub fn run(root: &Path) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "gannet-cli"]).current_dir(root);
    if !build.status().context("cannot start cargo")?.success() {
        return Ok(false);
    }
    // Cargo puts all binaries of a profile side by side.
    let xtask = std::env::current_exe().context("cannot tell where xtask lies")?;
    let gannet = xtask.with_file_name(format!("gannet{}", std::env::consts::EXE_SUFFIX));
    for (name, text) in pages(&gannet)? {
        let path = root.join(DIRECTORY).join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{DIRECTORY}/{name}");
    }
    Ok(true)
}

/// Names of the pages that differ from what the binary `gannet` tells.
///
/// # Errors
/// When the binary cannot be asked.
pub fn stale(root: &Path, gannet: &Path) -> Result<Vec<&'static str>> {
    let differs = |(name, text): &Page| {
        fs::read_to_string(root.join(DIRECTORY).join(name)).ok().as_ref() != Some(text)
    };
    let pages = pages(gannet)?;
    Ok(pages.iter().filter(|page| differs(page)).map(|(name, _)| *name).collect())
}

fn pages(gannet: &Path) -> Result<[Page; 6]> {
    let schema = ask(gannet, &["check", "--schema"])?;
    let parsed = serde_json::from_str(&schema).context("the schema is no JSON")?;
    let of = |detector| {
        let schema = ask(gannet, &["check", "--schema", "--detector", detector])?;
        let schema = serde_json::from_str(&schema).context("the schema is no JSON")?;
        anyhow::Ok(configuration::page_of(detector, &schema))
    };
    Ok([
        ("configuration.schema.json", schema),
        ("configuration.md", configuration::page(&parsed)),
        ("configuration-na62-rich.md", of("na62-rich")?),
        ("configuration-km3net.md", of("km3net")?),
        ("openapi.json", ask(gannet, &["check", "--openapi"])?),
        ("command-line.md", command_line::page(&mut |arguments| ask(gannet, arguments))?),
    ])
}

/// What `gannet` prints, whatever the terminal is like.
fn ask(gannet: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(gannet);
    command.args(arguments).stdin(Stdio::null()).env("COLUMNS", COLUMNS);
    let output = command.output().with_context(|| format!("cannot start {}", gannet.display()))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).context("its output is no text")
}
