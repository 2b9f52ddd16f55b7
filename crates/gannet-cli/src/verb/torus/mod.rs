//! `gannet torus`: a switchless machine before a cable is bought.

mod loads;
mod machine;
mod simulate;

use clap::Subcommand;

use crate::exit::Outcome;

/// Simulates a torus of direct links, flit by flit.
///
/// Example: gannet torus simulate --lattice 4x4x4 --load 0.1..0.9:0.1
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Simulate(simulate::Arguments),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Simulate(arguments) => simulate::run(arguments),
    }
}
