//! The `gannet` binary; all of it is in the library.

use std::process::ExitCode;

use gannet_dune::detector::DUNE_TPC;

fn main() -> ExitCode {
    gannet_cli::main(&[&DUNE_TPC])
}
