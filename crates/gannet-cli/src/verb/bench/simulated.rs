//! A path that is not there, as arguments.

use std::fmt::Write;
use std::path::PathBuf;

use gannet_evaluate::fabric::Simulation;
use gannet_topology::Path;
use gannet_wire::rdma::{DATA_LEN, DATA_LEN_MAX};

use super::fabric::fraction;
use crate::exit::Usage;
use crate::verb::predict;

/// What to simulate.
#[derive(Debug, clap::Args)]
pub struct Simulated {
    /// File (TOML) with the path that sim simulates; gannet predict --schema describes it.
    #[arg(long, value_name = "FILE", conflicts_with = "hop")]
    topology: Option<PathBuf>,
    /// Which path of the file, if it has several.
    #[arg(long, value_name = "NAME", requires = "topology")]
    path: Option<String>,
    /// A hop of the path that sim simulates, with the keys of a topology file; once for each hop.
    #[arg(long, value_name = "TOML")]
    hop: Vec<String>,
    /// Bytes of data in a packet that sim sends: of 4096 with its header if absent.
    #[arg(long, value_name = "N", default_value_t = DATA_LEN as u64,
          value_parser = clap::value_parser!(u64).range(1..=DATA_LEN_MAX as u64))]
    packet_bytes: u64,
    /// Share of packets that sim loses.
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = fraction)]
    loss: f64,
    /// What sim takes for chance.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

impl Simulated {
    /// What is to be simulated, if anything is.
    ///
    /// # Errors
    /// When there is no path, or one though nothing is simulated, or a file is wrong.
    pub fn simulation(&self, is_simulated: bool) -> anyhow::Result<Option<Simulation>> {
        let has_path = self.topology.is_some() || !self.hop.is_empty();
        let wrong = match (is_simulated, has_path) {
            (true, true) => {
                let (packet_bytes, loss, seed) = (self.packet_bytes as usize, self.loss, self.seed);
                return Ok(Some(Simulation { path: self.path()?, packet_bytes, loss, seed }));
            }
            (true, false) => "--backend sim needs a path: --topology FILE, or --hop for each hop",
            (false, true) => {
                "--topology and --hop are for --backend sim; other paths are as they are"
            }
            (false, false) => return Ok(None),
        };
        Err(Usage(wrong.to_owned()).into())
    }

    fn path(&self) -> anyhow::Result<Path> {
        let Some(file) = &self.topology else {
            let mut text = String::from("path = [{ name = \"--hop\", hop = [\n");
            self.hop.iter().for_each(|hop| _ = writeln!(text, "{{ {hop} }},"));
            text.push_str("] }]\n");
            return Ok(predict::parse("--hop", &text)?.remove(0));
        };
        let mut paths = predict::read(file)?;
        let names: Vec<_> = paths.iter().map(|path| format!("{:?}", path.name)).collect();
        let at = match &self.path {
            Some(name) => paths.iter().position(|path| path.name == *name),
            None => (paths.len() == 1).then_some(0),
        };
        let at = at.ok_or_else(|| {
            let names = names.join(", ");
            Usage(format!("{} has these paths, name one with --path: {names}", file.display()))
        });
        Ok(paths.swap_remove(at?))
    }
}
