//! The `gannet` binary; all of it is in the library.

use std::process::ExitCode;

use gannet_dune::detector::DUNE_TPC;
use gannet_km3::KM3NET;
use gannet_rich::NA62_RICH;

#[global_allocator]
static MEMORY: gannet_cli::Memory = gannet_cli::Memory;

fn main() -> ExitCode {
    gannet_cli::main(&[&DUNE_TPC, &NA62_RICH, &KM3NET])
}
