//! Commands to a station, and what it tells of its runs.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::station::{Command, Outcome as RunOutcome, State, Verified};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::{Api, Problem};
use crate::exit::Outcome;
use crate::output::{self, grouped};

/// Time between two looks whether a run has started or ended.
const LOOK: Duration = Duration::from_millis(100);
/// Attempts of a command while others command, too.
const ATTEMPTS: u32 = 5;

/// What is read of the state of a station.
#[derive(Debug, Deserialize)]
struct Status {
    state: State,
    run: Option<u32>,
    ended: u64,
    failure: Option<String>,
}

/// What is read of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Run {
    number: Option<u32>,
    state: String,
    begin_unix_s: f64,
    end_unix_s: Option<f64>,
    outcome: RunOutcome,
    failure: Option<String>,
    elapsed_s: f64,
    frames: u64,
    frames_lost: u64,
    records: Option<u64>,
    records_lost: u64,
    files: Vec<PathBuf>,
    exports: Vec<PathBuf>,
    verified: Vec<Verified>,
}

impl Run {
    fn title(&self) -> String {
        self.number
            .map_or_else(|| "a run that could not start".into(), |number| format!("run {number}"))
    }

    /// What it came to, in one line.
    fn line(&self) -> String {
        if let Some(failure) = &self.failure {
            return format!("{}: failed: {failure}", self.title());
        }
        let (frames, lost) = (grouped(self.frames), grouped(self.frames_lost));
        let records = self.records.map(|count| format!("{} records, ", grouped(count)));
        let sound = self.verified.iter().filter(|file| file.problem.is_none());
        let more = match (self.records_lost, self.outcome) {
            (0, RunOutcome::Degraded) if self.frames_lost == 0 => "; DEGRADED".into(),
            (0, _) => String::new(),
            (count, _) => format!("; DEGRADED, {} records lost", grouped(count)),
        };
        format!(
            "{} {}, {:.1} s: {frames} frames, {lost} lost, {}{} of {} files verified{more}",
            self.title(),
            self.state,
            self.elapsed_s,
            records.unwrap_or_default(),
            sound.count(),
            self.verified.len(),
        )
    }

    /// Its line, and its files.
    fn text(&self) -> String {
        let mut text = self.line() + "\n";
        for file in self.verified.iter().filter(|file| file.problem.is_some()) {
            let problem = file.problem.as_deref().unwrap_or_default();
            text += &format!("{}: NOT VERIFIED: {problem}\n", file.file.display());
        }
        for file in self.exports.iter().chain(&self.files) {
            text += &format!("{}\n", file.display());
        }
        text
    }
}

/// Gives a command, and waits until what it begins has come to its end.
pub fn command(
    api: &Api,
    command: Command,
    patience: Duration,
    json: bool,
) -> anyhow::Result<Outcome> {
    let begin = Instant::now();
    let before = give(api, command)?;
    let is_done = |status: &Status| match command {
        Command::Start => status.state != State::Starting,
        // Somebody else may have begun the next run meanwhile.
        Command::Stop => status.ended > before.ended || status.state.is_at_rest(),
        Command::Pause | Command::Resume => true,
    };
    let status = loop {
        let status: Status = api.get("state")?;
        if is_done(&status) {
            break status;
        }
        if begin.elapsed() > patience {
            anyhow::bail!(
                "the station is {} for {:.0} s; `gannet ctl ... status` tells how it goes on, and --timeout waits for longer",
                status.state,
                patience.as_secs_f64()
            );
        }
        thread::sleep(LOOK);
    };
    if command == Command::Stop {
        return stopped(api, before.run, json);
    }
    let failure = status.failure.as_deref().filter(|_| status.state == State::Failed);
    if let Some(failure) = failure {
        anyhow::bail!("the run could not start: {failure}");
    }
    match json {
        true => output::json(&api.get::<Value>("state")?)?,
        false => output::text(&format!("{}\n", line(&status)))?,
    }
    Ok(Outcome::Ok)
}

/// Gives a command in the state that the station has, and gives what it was before.
fn give(api: &Api, command: Command) -> anyhow::Result<Status> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let before: Status = api.get("state")?;
        match api.post(&format!("run/{command}"), &json!({ "believed": before.state })) {
            Ok(_) => return Ok(before),
            // Somebody else was faster; whether it can still be done is the station's to say.
            Err(error) if is_outdated(&error) && attempts < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_outdated(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Problem>().is_some_and(|problem| problem.code == "other-state")
}

/// Tells what a run came to that was stopped.
fn stopped(api: &Api, run: Option<u32>, json: bool) -> anyhow::Result<Outcome> {
    let runs: Vec<Run> = api.get("runs")?;
    let Some(run) = runs.iter().rfind(|it| it.number == run && it.end_unix_s.is_some()) else {
        output::text("the run was stopped before it took frames\n")?;
        return Ok(Outcome::Ok);
    };
    match json {
        true => output::json(run)?,
        false => output::text(&run.text())?,
    }
    match run.outcome {
        RunOutcome::Good => Ok(Outcome::Ok),
        RunOutcome::Degraded => Ok(Outcome::Degraded),
        RunOutcome::NotVerified => Ok(Outcome::NotVerified),
        RunOutcome::Failed => anyhow::bail!("the run failed"),
    }
}

/// How a station is, in one line.
fn line(Status { state, run, failure, .. }: &Status) -> String {
    let run = run.map(|number| format!(": run {number}")).unwrap_or_default();
    let failure = failure.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{state}{run}{failure}")
}

/// Tells how a station is.
pub fn status(api: &Api, json: bool) -> anyhow::Result<Outcome> {
    if json {
        let (mut state, snapshot): (Value, Value) = (api.get("state")?, api.get("snapshot")?);
        state["snapshot"] = snapshot;
        output::json(&state)?;
        return Ok(Outcome::Ok);
    }
    let status: Status = api.get("state")?;
    let mut text = line(&status) + "\n";
    let runs: Vec<Run> = api.get("runs")?;
    text.extend(runs.last().map(|run| format!("{}\n", run.line())));
    output::text(&text)?;
    Ok(Outcome::Ok)
}

/// Lists the runs.
pub fn runs(api: &Api, json: bool) -> anyhow::Result<Outcome> {
    if json {
        output::json(&api.get::<Value>("runs")?)?;
        return Ok(Outcome::Ok);
    }
    let runs: Vec<Run> = api.get("runs")?;
    let mut text: String = runs.iter().map(|run| run.line() + "\n").collect();
    if text.is_empty() {
        text = "there was no run yet\n".into();
    }
    output::text(&text)?;
    Ok(Outcome::Ok)
}
