//! `gannet ctl`: ask a running process, by its socket or by the address of its pages.

mod api;
mod station;
mod tls;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use gannet_control::config::check_command;
use gannet_control::remote::{self, Answer, Request};
use gannet_control::station::Command;

use crate::exit::{Outcome, Unreachable, Usage};
use crate::output;
use api::Api;

/// Commands a running process: to start, stop, pause and resume runs, for its figures, or to send commands to modules.
///
/// It is asked at the address of its pages (`gannet run --web`, `gannet demo`, `[web] listen`), which may be pasted as it
/// was printed, token included; otherwise the token is in GANNET_TOKEN, or in the file of `--token-file`. An address with TLS
/// also wants `--ca`. `start` and `stop` return when the run takes frames, and when its files were read back.
///
/// A run with modules in `[slow_control]` also has the socket `gannet.sock` in its recorder's directory, which only its own
/// user may use: it knows `send`, `status` and `stop`.
///
/// Exit code 1 when a command is refused, or was not applied or acknowledged by a module; 3 and 6 when a run that was
/// stopped had lost data, or a file did not verify; 5 when nobody answers.
///
/// Example: gannet ctl http://127.0.0.1:8080 stop, or gannet ctl data/gannet.sock send 7 hv=1200
///
/// Example: gannet ctl https://daq.example.org:8443 --ca web.crt --token-file token status
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address of the pages, or the socket of the run or the directory in which that is.
    #[arg(value_name = "ADDRESS|SOCKET")]
    target: String,
    /// File with the token for the pages, instead of the one in GANNET_TOKEN.
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// File with the certificate, as PEM, by which a station at `https://` is known: its own, or that of whoever signed it. The
    /// authorities that this machine knows have no say.
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// Longest time to wait for an answer, or until a run has started or ended.
    #[arg(long, value_name = "SECONDS", value_parser = patience, default_value = "60", global = true)]
    timeout: Duration,
    /// Print what comes of it as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    request: Asked,
}

#[derive(Debug, Subcommand)]
enum Asked {
    /// Starts the next run, and returns when it takes frames.
    Start,
    /// Ends the run; at an address, returns when its files were read back, and says what it came to.
    Stop,
    /// Lets nothing be decided for a while; frames are taken on.
    Pause,
    /// Lets decisions be made again.
    Resume,
    /// Prints how it is at this moment; by a socket, the run as JSON.
    Status,
    /// Lists the runs since the start, and what each came to.
    Runs,
    /// Sends commands to modules, by a socket, and says how each ended.
    Send {
        /// An identifier, a name, a range such as `1-18`, or `*` for all modules.
        module: String,
        /// What to set; one after the other, up to the first that fails.
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        set: Vec<(String, String)>,
    },
}

/// Reads a time to wait.
fn patience(text: &str) -> Result<Duration, String> {
    let time = output::seconds(text)?;
    (!time.is_zero())
        .then_some(time)
        .ok_or_else(|| "an answer takes longer; write more than 0".to_owned())
}

/// Reads `key=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    check_command(key, value).map_err(|(cause, advice)| format!("{cause}: {advice}"))?;
    Ok((key.to_owned(), value.to_owned()))
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match arguments.target.contains("://") {
        true => at_address(arguments),
        false => at_socket(arguments),
    }
}

/// Asks at the address of the pages.
fn at_address(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let Arguments { target, token_file, ca, timeout, json, request } = arguments;
    let api = Api::new(target, token_file.as_deref(), ca.as_deref(), *timeout)?;
    let command = match request {
        Asked::Start => Command::Start,
        Asked::Stop => Command::Stop,
        Asked::Pause => Command::Pause,
        Asked::Resume => Command::Resume,
        Asked::Status => return station::status(&api, *json),
        Asked::Runs => return station::runs(&api, *json),
        Asked::Send { .. } => {
            return Err(Usage("modules are commanded by the socket of the run".into()).into());
        }
    };
    station::command(&api, command, *timeout, *json)
}

/// Asks by the socket of a run.
fn at_socket(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let target = Path::new(&arguments.target);
    let socket = match target.is_dir() {
        true => target.join(remote::SOCKET),
        false => target.to_owned(),
    };
    let request = match &arguments.request {
        Asked::Status => Request::Status,
        Asked::Stop => Request::Stop,
        Asked::Send { module, set } => Request::Send { module: module.clone(), set: set.clone() },
        Asked::Start | Asked::Pause | Asked::Resume | Asked::Runs => {
            let why = "a socket is that of a single run; name the address of the pages instead";
            return Err(Usage(why.into()).into());
        }
    };
    let answer = remote::ask(&socket, &request, arguments.timeout);
    let answer =
        answer.map_err(|cause| Unreachable { place: socket.display().to_string(), cause })?;
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
    match arguments.json {
        true => output::json(&outcomes)?,
        false => output::text(
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
