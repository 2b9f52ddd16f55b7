//! `gannet torus status`: how a machine is, as one of its hosts knows it.

use std::io::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use gannet_torus_live::status::Status;

use super::page;
use super::socket::{self, Door};
use crate::exit::Outcome;
use crate::output;
use crate::signals::Signals;

/// From one picture to the next with --watch.
const WATCH: Duration = Duration::from_millis(500);
/// Columns before what is wrong.
const INDENT: usize = 14;

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
    /// Print it twice a second, until Ctrl-C; on a terminal as much as it has lines for.
    #[arg(long)]
    watch: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let path = arguments.socket.clone().map_or_else(|| socket::only(Door::Status), Ok)?;
    let signals = Signals::install()?;
    let is_page = arguments.watch && output::is_terminal();
    let mut is_first = true;
    loop {
        let status = socket::ask(&path)?;
        let text = match (arguments.json, arguments.watch) {
            (true, true) => format!("{}\n", serde_json::to_string(&status)?),
            (true, false) => format!("{}\n", serde_json::to_string_pretty(&status)?),
            (false, _) => status.to_string(),
        };
        if is_page && !arguments.json {
            let (columns, room) = page::room();
            page::show(&fitting(&status, columns, room), columns, is_first)?;
            is_first = false;
        } else if !output::offer(|out| out.write_all(text.as_bytes()))? && arguments.watch {
            return Ok(Outcome::Ok);
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

/// As many rows of the status as there is room for, and how many more there are.
fn fitting(status: &Status, columns: usize, room: usize) -> Vec<String> {
    let text = status.to_string();
    let mut rows: Vec<String> =
        text.lines().flat_map(|line| page::wrapped(line, columns, INDENT)).collect();
    if rows.len() > room {
        let hidden = rows.split_off(room - 1).len();
        let faults = status.faults.len();
        rows.push(format!("({hidden} more lines; faults in all: {faults})"));
    }
    rows
}

#[cfg(test)]
mod tests {
    use gannet_torus_live::status::Fault;

    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let fault = Fault { text: "the cable is cut".into(), for_s: 1.0 };
        let status = Status { host: "n0".into(), faults: vec![fault], ..Status::default() };
        let whole = fitting(&status, 80, 24);
        assert_eq!(whole.join("\n") + "\n", status.to_string());
        let cut = fitting(&status, 80, 3);
        assert_eq!(cut[..2], whole[..2]);
        let hidden = whole.len() - 2;
        assert_eq!(cut[2..], [format!("({hidden} more lines; faults in all: 1)")]);
    }
}
