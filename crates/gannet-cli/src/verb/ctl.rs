//! `gannet ctl`: ask a running process.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use gannet_control::config::check_command;
use gannet_control::remote::{self, Answer, Request};

use crate::exit::{Outcome, Unreachable, Usage};
use crate::output;

/// Asks a run by its socket: to send commands to modules, for its figures, or to stop.
///
/// A run with modules in `[slow_control]` has the socket `gannet.sock` in its recorder's directory,
/// which only its own user may use. Exit code 1 when a command was not applied, or not acknowledged,
/// and 5 when no run listens at the socket.
///
/// Example: gannet ctl data/gannet.sock send 7 hv=1200
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The socket of the run, or the directory in which it is.
    socket: PathBuf,
    /// Longest time to wait for an answer.
    #[arg(long, value_name = "SECONDS", value_parser = output::seconds, default_value = "60")]
    timeout: Duration,
    #[command(subcommand)]
    request: Asked,
}

#[derive(Debug, Subcommand)]
enum Asked {
    /// Sends commands to modules, and says how each ended.
    Send {
        /// An identifier, a name, a range such as `1-18`, or `*` for all modules.
        module: String,
        /// What to set; one after the other, up to the first that fails.
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        set: Vec<(String, String)>,
        /// Print the outcomes as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints the run at this moment, as JSON.
    Status,
    /// Ends the run, as Ctrl-C does.
    Stop,
}

/// Reads `key=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    check_command(key, value).map_err(|(cause, advice)| format!("{cause}: {advice}"))?;
    Ok((key.to_owned(), value.to_owned()))
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let socket = match arguments.socket.is_dir() {
        true => arguments.socket.join(remote::SOCKET),
        false => arguments.socket.clone(),
    };
    let request = match &arguments.request {
        Asked::Status => Request::Status,
        Asked::Stop => Request::Stop,
        Asked::Send { module, set, .. } => {
            Request::Send { module: module.clone(), set: set.clone() }
        }
    };
    let answer = remote::ask(&socket, &request, arguments.timeout);
    let answer = answer.map_err(|cause| Unreachable { socket: socket.clone(), cause })?;
    let outcomes = match answer {
        Answer::Error(error) => return Err(Usage(error).into()),
        Answer::Snapshot(snapshot) => {
            output::json(&snapshot)?;
            return Ok(Outcome::Ok);
        }
        Answer::Stopping => {
            output::text("the run is stopping\n")?;
            return Ok(Outcome::Ok);
        }
        Answer::Outcomes(outcomes) => outcomes,
    };
    match &arguments.request {
        Asked::Send { json: true, .. } => output::json(&outcomes)?,
        _ => output::text(
            &outcomes.iter().map(|outcome| format!("{outcome}\n")).collect::<String>(),
        )?,
    }
    let failed = outcomes.iter().filter(|outcome| outcome.ending.failure().is_some()).count();
    match failed {
        0 => Ok(Outcome::Ok),
        failed => {
            let all = outcomes.len();
            Err(anyhow::anyhow!("{failed} of {all} commands failed")).context("slow control")
        }
    }
}
