//! `gannet bench`: what does this machine reach?

mod against;
mod cable;
mod coincidences;
mod fabric;
mod hop;
mod ingest;
mod latency;
mod names;
mod register;
mod rings;
mod simulated;
mod tlb;
mod torus;
mod tpg;

use clap::Subcommand;

use crate::exit::Outcome;

/// Measures how fast parts of the chain run on this machine, next to the physical limit.
///
/// Example: gannet bench ingest
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Cable(cable::Arguments),
    Coincidences(coincidences::Arguments),
    Fabric(fabric::Arguments),
    Hop(hop::Arguments),
    Ingest(ingest::Arguments),
    Latency(latency::Arguments),
    Register(register::Arguments),
    Rings(rings::Arguments),
    Tlb(tlb::Arguments),
    Torus(torus::Arguments),
    Tpg(tpg::Arguments),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Cable(arguments) => cable::run(arguments),
        What::Coincidences(arguments) => coincidences::run(arguments),
        What::Fabric(arguments) => fabric::run(arguments),
        What::Hop(arguments) => hop::run(arguments),
        What::Ingest(arguments) => ingest::run(arguments),
        What::Latency(arguments) => latency::run(arguments),
        What::Register(arguments) => register::run(arguments),
        What::Rings(arguments) => rings::run(arguments),
        What::Tlb(arguments) => tlb::run(arguments),
        What::Torus(arguments) => torus::run(arguments),
        What::Tpg(arguments) => tpg::run(arguments),
    }
}
