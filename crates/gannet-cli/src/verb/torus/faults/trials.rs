//! What the studies of routing and of rerouting have in common.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use gannet_torus::simulator::{FlowControl, Setup};
use gannet_torus_study::survival::FaultCounts;
use gannet_torus_study::trials::{self, Failure, TRIALS_MAX, Trials};
use serde::Serialize;

use crate::background;
use crate::destination::Destination;
use crate::log;
use crate::output::{self, grouped};
use crate::progress;

/// Trials of a study, and what fails in them.
#[derive(Debug, clap::Args)]
pub struct TrialArguments {
    /// Number of trials.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=TRIALS_MAX))]
    pub trials: Option<u64>,
    /// Dead nodes in each trial: a number, or a range such as 0..8 to draw from.
    #[arg(long, value_name = "RANGE")]
    pub dead_nodes: Option<Count>,
    /// Dead cables in each trial: a number, or a range to draw from.
    #[arg(long, value_name = "RANGE")]
    pub dead_cables: Option<Count>,
    /// Seed; trial I depends only on the seed and on I.
    #[arg(long, default_value = "1", value_name = "SEED")]
    pub seed: u64,
    /// Run only this trial and report what happens in it.
    #[arg(long, value_name = "I", conflicts_with = "svg")]
    pub trial: Option<u64>,
    /// When a packet may move on.
    #[arg(long, default_value = "wormhole", value_name = "RULE")]
    pub flow_control: Rule,
    /// Number of threads; the results do not depend on it.
    #[arg(long, default_value = "1", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Plot the result to this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "svg")]
    pub overwrite: bool,
    /// Print the report as JSON.
    #[arg(long, conflicts_with = "trial")]
    pub json: bool,
}

/// When a packet moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// As soon as there is room for a flit.
    Wormhole,
    /// When there is room for all of it.
    VirtualCutThrough,
}

/// A number, or a range of which one is drawn, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub (u32, u32));

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.trim().parse::<u32>();
            number.map_err(|_| format!("`{text}` is no number; write 3 or a range as 0..8"))
        };
        let (least, most) = match text.split_once("..") {
            Some((least, most)) => (number(least)?, number(most.trim_start_matches('='))?),
            None => (number(text)?, number(text)?),
        };
        if least > most {
            return Err(format!("{least} is more than {most}"));
        }
        Ok(Self((least, most)))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            (least, most) if least == most => write!(out, "{least}"),
            (least, most) => write!(out, "{least}..{most}"),
        }
    }
}

impl TrialArguments {
    /// What fails, with defaults for what is not said.
    pub fn counts(&self, default: FaultCounts) -> FaultCounts {
        FaultCounts {
            nodes: self.dead_nodes.map_or(default.nodes, |count| count.0),
            cables: self.dead_cables.map_or(default.cables, |count| count.0),
        }
    }

    /// The setup with seed, threads and flow control.
    pub fn setup(&self, setup: Setup) -> Setup {
        let flow_control = match self.flow_control {
            Rule::Wormhole => FlowControl::Wormhole,
            Rule::VirtualCutThrough => FlowControl::VirtualCutThrough,
        };
        Setup { seed: self.seed, threads: self.threads.into(), flow_control, ..setup }
    }

    /// Where the picture goes, found out before the work begins.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn picture(&self) -> anyhow::Result<Option<Destination>> {
        self.svg.as_ref().map(|file| Destination::begin(file, self.overwrite)).transpose()
    }
}

/// The options by which a machine, its traffic and its faults are told, for a command.
pub fn options(setup: &Setup, load: f64, counts: &FaultCounts) -> String {
    let Setup { lattice, vcs, vc_depth, packet_flits, seed, flow_control, .. } = setup;
    let rule = match flow_control {
        FlowControl::Wormhole => "",
        _ => " --flow-control virtual-cut-through",
    };
    let (nodes, cables) = (Count(counts.nodes), Count(counts.cables));
    format!(
        "--lattice {lattice} --vcs {vcs} --vc-depth {vc_depth} --packet-flits {packet_flits}{rule} \
         --load {load} --dead-nodes {nodes} --dead-cables {cables} --seed {seed}"
    )
}

/// What came of a campaign, and how to see its failures again.
#[derive(Debug, Serialize)]
pub struct Judged<R> {
    #[serde(flatten)]
    pub report: R,
    /// Number of trials that were asked for; a signal may have ended them before.
    pub trials_asked: u64,
    /// A command for each failure.
    pub replays: Vec<String>,
}

impl<R> Judged<R> {
    /// The report of a campaign; `command` runs a trial again.
    pub fn new(
        report: R,
        trials_asked: u64,
        failures: fn(&R) -> &[Failure],
        command: impl Fn(u64) -> String,
    ) -> Self {
        let replays = failures(&report).iter().map(|failure| command(failure.trial)).collect();
        Self { report, trials_asked, replays }
    }
}

/// What campaigns came to.
pub struct Done<R> {
    /// The report of each campaign with trials done.
    pub reports: Vec<Option<R>>,
    /// Number of a signal that ended the work before.
    pub signal: Option<i32>,
}

/// Runs campaigns of these names one after the other, and tells how far they are.
///
/// # Errors
/// When signals cannot be caught.
pub fn run<T>(campaigns: &[(String, T)]) -> anyhow::Result<Done<T::Report>>
where
    T: Trials<Outcome: 'static> + Clone + Send + 'static,
{
    let mut sums: Vec<_> = campaigns.iter().map(|(_, campaign)| (0, campaign.none())).collect();
    let mut shown: Vec<Option<Progress>> = campaigns.iter().map(|_| None).collect();
    let work: Vec<T> = campaigns.iter().map(|(_, campaign)| campaign.clone()).collect();
    let signal = background::until_signal(
        move |steps| {
            for (index, campaign) in work.iter().enumerate() {
                // Nobody hears them when a signal has ended the verb.
                trials::run(campaign, &mut |trial, outcome| {
                    _ = steps.send((index, trial, outcome));
                });
            }
        },
        |(index, trial, outcome)| {
            let ((name, campaign), (done, sums)) = (&campaigns[index], &mut sums[index]);
            campaign.add(sums, trial, outcome);
            *done += 1;
            let all = campaign.count();
            shown[index].get_or_insert_with(|| Progress::new(name, all)).show(*done);
            shown[index].take_if(|_| *done == all);
        },
    )?;
    drop(shown);
    let report = |((_, campaign), (done, sums)): (&(String, T), (u64, T::Sums))| {
        (done > 0).then(|| campaign.report(sums))
    };
    Ok(Done { reports: campaigns.iter().zip(sums).map(report).collect(), signal })
}

/// Runs one trial again, prints the command that does so and what happens in it, each line behind
/// `margin`, and gives what came of it.
///
/// # Errors
/// When it cannot be printed.
pub fn replay<T: Trials>(
    trials: &T,
    index: u64,
    command: &str,
    margin: &str,
) -> anyhow::Result<T::Outcome> {
    let (outcome, lines) = trials::tell(trials, index);
    output::print(|out| {
        writeln!(out, "{command}")?;
        lines.iter().try_for_each(|line| writeln!(out, "{margin}{line}"))
    })?;
    Ok(outcome)
}

/// `7 of 9 trials`, or `9 trials` where none is missing.
pub fn trials_of(done: u64, asked: u64) -> String {
    if done == asked {
        format!("{} trials", grouped(done))
    } else {
        format!("{} of {} trials", grouped(done), grouped(asked))
    }
}

/// Tells how far the trials are: a line of the terminal, or one line for each tenth.
struct Progress {
    name: String,
    trials: u64,
    tenths: u64,
    line: progress::Progress,
}

impl Progress {
    fn new(name: &str, trials: u64) -> Self {
        Self { line: progress::Progress::new(name), name: name.to_owned(), trials, tenths: 0 }
    }

    fn show(&mut self, done: u64) {
        self.line.show(done, self.trials);
        let tenths = 10 * done / self.trials;
        if tenths > self.tenths && done < self.trials && self.trials >= 10_000 {
            self.tenths = tenths;
            let (done, all) = (grouped(done), grouped(self.trials));
            log::say(format_args!("{}: {done} of {all} trials", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_or_ranges() {
        let read = |text: &str| text.parse::<Count>().map(|count| count.0);
        assert_eq!((read("3"), read("0..8"), read("1..=2")), (Ok((3, 3)), Ok((0, 8)), Ok((1, 2))));
        for bad in ["", "x", "2..1", "..3", "-1", "1.."] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(
            (Count((3, 3)).to_string(), Count((0, 8)).to_string()),
            ("3".into(), "0..8".into())
        );
    }
}
