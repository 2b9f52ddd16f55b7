//! `gannet check`: is this configuration right, and what will it need?

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use gannet_control::config::{self, Forecast, Plan};
use gannet_control::doctor::{Check, Needs, System, file_size_doubt, memory_doubt, obstacles};
use gannet_measure::quantity::Bytes;

use crate::exit::Outcome;
use crate::output;
use crate::serving;
use crate::{Detectors, detector};

/// Longest line of the forecast.
const WIDTH: usize = 88;

/// A disk that lasts longer than this, ten years, is not told to the hour.
const DISTANT_S: f64 = 10.0 * 365.25 * 86400.0;

/// Checks a configuration, forecasts what it needs, and prints it with every default filled in.
///
/// The forecast covers what comes, memory, cores, bandwidth and disk, as `[emulate]` says or else as the
/// detector expects it, and tells the modules that take commands; the output is a valid configuration
/// again. Exit code 4 when the configuration is wrong, and 5 when a run with it could not start on
/// this machine: an address is in use or not local, a module that the run needs cannot be reached, the
/// recorder's directory cannot be written to, or files may not be as large as a log needs (`ulimit -f`).
///
/// Example: gannet check detector.toml
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration file.
    #[arg(required_unless_present_any = ["schema", "openapi"])]
    file: Option<PathBuf>,
    /// Print the JSON schema of the configuration instead.
    #[arg(long)]
    schema: bool,
    /// The detector whose schema it is; the first that the program knows when absent.
    #[arg(long, value_name = "NAME", requires = "schema")]
    detector: Option<String>,
    /// Print the description (OpenAPI) of what pages and programs ask a run instead, from which clients can be generated.
    #[arg(long, conflicts_with = "schema")]
    openapi: bool,
    /// Judge the configuration only: it is for another machine.
    #[arg(long)]
    elsewhere: bool,
    /// Print forecast and configuration as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    if arguments.schema {
        output::json(&detector(arguments.detector.as_deref(), detectors)?.schema())?;
        return Ok(Outcome::Ok);
    }
    if arguments.openapi {
        output::json(&gannet_web::description())?;
        return Ok(Outcome::Ok);
    }
    let file = arguments.file.as_ref().context("name a configuration file")?;
    let plan = config::load(file, detectors)?;
    let name = file.display().to_string();
    plan.metrics_token(&name)?;
    plan.web_tokens(&name)?;
    serving::secured(&plan, &name)?;
    plan.doubts().iter().for_each(|doubt| tracing::warn!("{doubt}"));
    let can_start = arguments.elsewhere || can_start(&plan);
    let Plan { filled, forecast, slow_control, .. } = plan;
    let modules = slow_control.words();
    if arguments.json {
        let config: serde_json::Value = toml::from_str(&filled)?;
        output::json(&serde_json::json!({
            "forecast": forecast, "slow_control": modules, "configuration": config
        }))?;
    } else {
        output::print(|out| {
            print_forecast(out, &forecast)?;
            modules.iter().try_for_each(|modules| remark(out, "modules", modules))?;
            writeln!(out)?;
            out.write_all(filled.as_bytes())
        })?;
    }
    Ok(if can_start { Outcome::Ok } else { Outcome::ResourceMissing })
}

/// Whether a run can start on this machine; says why not, and what it would be short of.
fn can_start(plan: &Plan) -> bool {
    let system = System::default();
    let doubts = [memory_doubt(&system, plan), file_size_doubt(&system, plan)];
    doubts.iter().flatten().for_each(|doubt| tracing::warn!("{doubt}"));
    let obstacles = obstacles(&system, &Needs::of(plan));
    for Check { name, value, remedy, .. } in &obstacles {
        tracing::warn!("a run cannot start here: {name}: {value}\n  {remedy}");
    }
    obstacles.is_empty()
}

/// The forecast as lines of comment.
fn print_forecast(out: &mut impl Write, forecast: &Forecast) -> io::Result<()> {
    let memory = Bytes(forecast.memory_bytes >> 20 << 20);
    let (frames, gbit) = (forecast.frames_per_s, forecast.gbit_per_s);
    writeln!(out, "# {} streams, {frames:.0} frames/s, {gbit:.2} Gbit/s", forecast.streams)?;
    if !forecast.front_end.is_empty() {
        remark(out, "front end", &forecast.front_end)?;
    }
    writeln!(out, "# memory     {memory} for the last {:.2} s", forecast.depth_s)?;
    let (threads, percent) = (forecast.receive_threads, forecast.receive_busiest * 100.0);
    writeln!(
        out,
        "# cores      {} threads, {threads} of them receive; the busiest needs about\n\
         #            {percent:.0} % of a core; `gannet doctor` measures it",
        forecast.threads
    )?;
    if forecast.raw_streams > 0 {
        let (streams, rate) = (forecast.raw_streams, forecast.raw_bytes_per_s);
        let (mega, gbit) = (rate * 1e-6, rate * 8e-9);
        writeln!(out, "# raw        {mega:.0} MB/s ({gbit:.2} Gbit/s) of {streams} streams")?;
    }
    let disk = forecast.disk_bytes_per_s * 1e-6;
    let record = match forecast.record_bytes {
        0 => String::new(),
        bytes => format!(", {} a record", Bytes(bytes >> 10 << 10)),
    };
    remark(out, "disk", &format!("{disk:.2} MB/s{record}: {}", forecast.written))?;
    match forecast.disk_time_s {
        Some(seconds) if seconds > DISTANT_S => writeln!(out, "# disk full  not within ten years"),
        Some(seconds) => writeln!(out, "# disk full  after {:.1} h", seconds / 3600.0),
        None => writeln!(out, "# disk full  unknown: the directory is not there"),
    }
}

/// A line of comment that begins with a word, and as many more as the text needs.
fn remark(out: &mut impl Write, word: &str, text: &str) -> io::Result<()> {
    let mut line = format!("# {word:<10}");
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            writeln!(out, "{line}")?;
            line = format!("# {:<10}", "");
        }
        line.extend([" ", word]);
    }
    writeln!(out, "{line}")
}
