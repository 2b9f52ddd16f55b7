//! `gannet torus status`: how a machine is, as one of its hosts knows it.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::socket::{self, Door};
use crate::exit::Outcome;
use crate::output;
use crate::signals::Signals;

/// From one picture to the next with --watch.
const WATCH: Duration = Duration::from_millis(500);

/// Tells how a machine is, as a node of it on this host knows it: its lattice, its ports, how long packets take to each
/// other node, and what is wrong for how long.
///
/// The picture has the planes of the lattice, with `--` and `|` for the cables that carry packets to the next node in x and
/// y, and an `x` before nodes that cannot be reached.
///
/// Exit code 3 when something is wrong, 5 when no node answers.
///
/// Example: gannet torus status --watch
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Socket of the node [default: that of the only node on this machine].
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Print it as JSON; with --watch as a document in each line.
    #[arg(long)]
    json: bool,
    /// Print it twice a second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let path = arguments.socket.clone().map_or_else(|| socket::only(Door::Status), Ok)?;
    let signals = Signals::install()?;
    loop {
        let status = socket::ask(&path)?;
        if arguments.json && arguments.watch {
            output::text(&format!("{}\n", serde_json::to_string(&status)?))?;
        } else if arguments.json {
            output::json(&status)?;
        } else {
            let clear = if arguments.watch && output::is_terminal() { "\x1b[H\x1b[2J" } else { "" };
            output::text(&format!("{clear}{status}"))?;
        }
        if !arguments.watch {
            let is_whole = status.faults.is_empty() && status.lattice.is_some();
            return Ok(if is_whole { Outcome::Ok } else { Outcome::Degraded });
        }
        thread::sleep(WATCH);
        if let Some(signal) = signals.received() {
            return Ok(Outcome::Interrupted(signal));
        }
    }
}
