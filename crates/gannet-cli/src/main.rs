//! The `gannet` binary; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    gannet_cli::main()
}
