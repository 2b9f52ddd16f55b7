//! `gannet torus`: a switchless machine before a cable is bought.

mod ablate;
mod animate;
mod faults;
mod link;
mod loads;
mod machine;
mod plan;
mod quantity;
mod row;
mod simulate;

use clap::Subcommand;

use crate::exit::Outcome;

/// Plans and simulates a switchless machine, a torus of direct links: its cabling, its traffic flit
/// by flit, and how soon its faults are known.
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
    Plan(plan::Arguments),
    Animate(animate::Arguments),
    Ablate(ablate::Arguments),
    Link(link::Arguments),
    Faults(faults::Arguments),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Simulate(arguments) => simulate::run(arguments),
        What::Plan(arguments) => plan::run(arguments),
        What::Animate(arguments) => animate::run(arguments),
        What::Ablate(arguments) => ablate::run(arguments),
        What::Link(arguments) => link::run(arguments),
        What::Faults(arguments) => faults::run(arguments),
    }
}
