//! `gannet torus`: a switchless machine, before a cable is bought and when it runs.

mod ablate;
mod animate;
mod demo;
mod device;
mod faults;
mod link;
pub mod machine;
mod network;
mod node;
mod page;
mod plan;
mod ports;
pub mod quantity;
mod routes;
mod simulate;
mod socket;
mod status;
mod tun;

use std::io::{self, Write};

use clap::Subcommand;

use crate::exit::Outcome;

/// Plans, simulates and runs a switchless machine, a torus of direct links: its cabling, its traffic flit
/// by flit, how soon its faults are known, and a node of it on this host.
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
    Demo(demo::Arguments),
    Node(node::Arguments),
    Status(status::Arguments),
    Tun(tun::Arguments),
    Routes(routes::Arguments),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Simulate(arguments) => simulate::run(arguments),
        What::Plan(arguments) => plan::run(arguments),
        What::Animate(arguments) => animate::run(arguments),
        What::Ablate(arguments) => ablate::run(arguments),
        What::Link(arguments) => link::run(arguments),
        What::Faults(arguments) => faults::run(arguments),
        What::Demo(arguments) => demo::run(arguments),
        What::Node(arguments) => node::run(arguments),
        What::Status(arguments) => status::run(arguments),
        What::Tun(arguments) => tun::run(arguments),
        What::Routes(arguments) => routes::run(arguments),
    }
}

/// Prints a row of cells, the first of them wide.
fn line(out: &mut impl Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    for (at, cell) in cells.enumerate() {
        let width = if at == 0 { 18 } else { 11 };
        write!(out, "{cell:>width$}")?;
    }
    writeln!(out)
}
