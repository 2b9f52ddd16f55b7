//! `gannet torus animate`: a page that shows a machine at work.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use gannet_torus::simulator::WarmUp;
use gannet_torus_study::{Animation, CurvePoint, Error, Experiment, Timing};

use super::machine::{MachineArguments, tell_left_out, title};
use crate::background;
use crate::destination::Destination;
use crate::exit::Outcome;
use crate::progress::Progress;

/// The page; `DATA` is where its data go.
const PAGE: &str = include_str!("animate.html");
const DATA: &str = "/*DATA*/null";
/// Points of the latency-load curve, unless loads are asked for.
const CURVE: u32 = 8;
/// Cycles of a point of that curve.
const CURVE_CYCLES: u32 = 2000;

/// Simulates a torus from a cold start and writes a web page that shows it: the load of every link
/// in colour, faults as they happen, throughput and latency over time, and the latency-load curve.
///
/// The page is a single file and opens offline. With several loads the curve shows those, and the
/// animation shows the last; otherwise the curve runs up to the bound of the machine.
///
/// Example: gannet torus animate lattice.html --lattice 4x4x4 --load 0.5 --overwrite
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// File to write the page to.
    #[arg(value_name = "OUT.html")]
    page: PathBuf,
    /// Overwrite the file if it exists.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    machine: MachineArguments,
    /// Number of frames in the animation.
    #[arg(long, default_value = "60", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frames: u32,
    /// Cycles in one frame.
    #[arg(long, default_value = "50", value_name = "CYCLES",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    frame_cycles: u32,
}

enum Step {
    Done(u64),
    Animation(Box<Result<Animation, Error>>),
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let quick = Timing {
        warm_up: Some(WarmUp::Cycles(1000)),
        window: Some(CURVE_CYCLES),
        drain: CURVE_CYCLES,
    };
    let (experiment, measured) = match arguments.machine.experiment()? {
        ControlFlow::Continue(experiment) => {
            let measured = experiment.without_script(quick);
            (experiment, measured)
        }
        ControlFlow::Break(signal) => return Ok(Outcome::Interrupted(signal)),
    };
    let machine = experiment.machine().clone();
    let page = Destination::begin(&arguments.page, arguments.overwrite)?;
    let loads = arguments.machine.loads();
    let curve = curve_loads(&experiment, arguments.machine.has_loads().then_some(&loads));
    let load = loads.last().copied().unwrap_or_default();
    let (frames, cycles) = (arguments.frames, arguments.frame_cycles);
    let total = u64::from(frames) + curve.len() as u64;
    let work = move |steps: &Sender<Step>| {
        let made = animation(&experiment, &measured, &curve, (load, frames, cycles), steps);
        // Nobody hears it when a signal has ended the verb.
        _ = steps.send(Step::Animation(Box::new(made)));
    };
    let mut progress = Progress::new("simulating");
    let mut made = None;
    let signal = background::until_break(work, |step| {
        match step {
            Step::Done(done) => progress.show(done, total),
            Step::Animation(animation) => made = Some(*animation),
        }
        ControlFlow::Continue(())
    })?;
    drop(progress);
    let Some(animation) = made else {
        return Ok(signal.map_or(Outcome::Ok, Outcome::Interrupted));
    };
    let animation = animation?;
    if let Some(last) = animation.frames.last() {
        tell_left_out(&machine, "the animation", last.cycle + last.cycles, "--frames");
    }
    // Within a script element, only the end tag would end the data.
    let json = serde_json::to_string(&animation)?.replace("</", "<\\/");
    page.write(&PAGE.replacen(DATA, &json, 1))?;
    Ok(Outcome::Ok)
}

/// Loads of the curve: those asked for if there are several, else steps up to the bound; none of a
/// trace.
fn curve_loads(experiment: &Experiment, asked: Option<&Vec<f64>>) -> Vec<f64> {
    match asked {
        _ if experiment.own_load().is_some() => Vec::new(),
        Some(loads) if loads.len() > 1 => loads.clone(),
        _ => {
            let bound = experiment.limits().saturation_bound;
            (1..=CURVE).map(|step| bound * f64::from(step) / f64::from(CURVE)).collect()
        }
    }
}

/// The frames at a load, and the points of the curve, which has no script.
fn animation(
    experiment: &Experiment,
    measured: &Experiment,
    curve: &[f64],
    (load, frames, cycles): (f64, u32, u32),
    steps: &Sender<Step>,
) -> Result<Animation, Error> {
    let tell = |done| _ = steps.send(Step::Done(done as u64));
    let shown = experiment.own_load().map_or(load, |_| 0.0);
    let shown = experiment.frames(shown, frames as usize, cycles, &mut |done| tell(done))?;
    let mut points = Vec::new();
    for &load in curve {
        tell(frames as usize + points.len());
        points.push(CurvePoint::from(&measured.measure(load)?));
    }
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    Ok(Animation {
        title: title(experiment.machine()),
        sizes: experiment.machine().setup.lattice.sizes(),
        load: experiment.own_load().unwrap_or(load),
        limits: experiment.limits().clone(),
        frames: shown,
        curve: points,
    })
}
