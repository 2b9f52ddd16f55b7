//! `gannet predict`: what can the paths carry, and what limits them?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gannet_control::config::{self, Document, Problem};
use gannet_topology::{Machine, Prediction, TopologyFile};

use crate::exit::Outcome;
use crate::output;

/// What describes the keys of a topology file.
const SCHEMA: &str = "gannet predict --schema";

/// Predicts the rate of PUT and GET over each path between memories, and names the hop that limits it and
/// the one that would be next.
///
/// The paths are those of this machine: from the wire of each network card to the host's memory and to each
/// accelerator, as far as the kernel tells of them. Or they are those of a topology file: links, switches, wires
/// and memory ports, hop by hop; `examples/topology` has some. Figures that rest on a measurement
/// to which they were fitted say so. Nothing is measured. Exit code 4 when the file is wrong.
///
/// Example: gannet predict --topology offload.toml
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Predict the paths of this file (TOML) instead of this machine's.
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Look for /sys, /proc and /etc below this directory: a copy of another machine's.
    #[arg(long, value_name = "DIRECTORY", default_value = "/", conflicts_with = "topology")]
    root: PathBuf,
    /// Print the JSON schema of a topology file instead.
    #[arg(long, conflicts_with_all = ["topology", "root"])]
    schema: bool,
    /// Print the predictions as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.schema {
        output::json(&TopologyFile::schema())?;
        return Ok(Outcome::Ok);
    }
    let paths = match &arguments.topology {
        Some(file) => read(file)?,
        None => Machine::read(&arguments.root).paths(),
    };
    let predictions: Vec<_> = paths.iter().map(gannet_topology::Path::predict).collect();
    if predictions.is_empty() {
        tracing::warn!(
            "no network card is told of here; `--topology FILE` predicts the paths of a file"
        );
    }
    match arguments.json {
        true => output::json(&predictions)?,
        false => output::print(|out| print(out, &predictions))?,
    }
    Ok(Outcome::Ok)
}

/// The paths of a file.
pub fn read(path: &Path) -> Result<Vec<gannet_topology::Path>, Problem> {
    let text =
        config::read_text(path, "name a topology file; `gannet predict --schema` describes it")?;
    parse(&path.display().to_string(), &text)
}

/// The paths of a text of this name.
pub fn parse(name: &str, text: &str) -> Result<Vec<gannet_topology::Path>, Problem> {
    let document = Document::new(name, text).described_by(SCHEMA);
    let wrong = |it: gannet_topology::Wrong| document.problem(&it.place, it.cause, it.suggestion);
    document.read::<TopologyFile>()?.paths().map_err(wrong)
}

/// Each path with its sentence; those of which nothing is known in one line at the end.
fn print(out: &mut impl Write, predictions: &[Prediction]) -> io::Result<()> {
    let (told, untold): (Vec<_>, Vec<_>) = predictions.iter().partition(|it| it.put.is_some());
    for Prediction { path, sentence, .. } in &told {
        writeln!(out, "{path}:\n  {sentence}")?;
    }
    match untold.as_slice() {
        [] => Ok(()),
        [only] => writeln!(out, "{}: {}", only.path, only.sentence),
        [first, ..] => writeln!(
            out,
            "{} and {} more: the kernel tells no link on the way, as in a virtual machine",
            first.path,
            untold.len() - 1
        ),
    }
}
