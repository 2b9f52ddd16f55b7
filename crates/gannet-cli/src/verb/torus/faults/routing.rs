//! `gannet torus faults routing`: are there routes round these faults, and do they drain?

use std::io::{self, Write};

use gannet_lattice::Lattice;
use gannet_torus::simulator::Setup;
use gannet_torus_study::means_svg;
use gannet_torus_study::survival::{Figures, RoutingCampaign, RoutingReport, Row};
use serde::Serialize;

use super::trials::{self, Judged, TrialArguments, options, trials_of};
use crate::exit::{Outcome, Usage};
use crate::output::{self, grouped};

/// Breaks nodes and cables at random, plans routes around them, and checks that an overload drains.
///
/// Each set of faults is routed by the simplest means that works: the long way around broken rings,
/// early turns with escape channels (at least four virtual channels), or up a tree and down again.
/// If none works, the set is refused with the reason. Routes are proven by the planner and once
/// more independently: each node reaches everything it is connected to over working links, and no
/// channels wait for each other in a cycle. Then every source offers more than the network can
/// take, the sources stop, and everything in flight must arrive. Single-flit packets in channels of
/// depth one find a deadlock soonest, so these are the defaults; at a load of 1 sources have a
/// packet ready in every cycle, which is more than 1.2 times what gets through in all but the
/// smallest machines.
///
/// The exit code is 6 when a trial failed; each failed trial is listed with the command that
/// replays it. See `gannet torus faults` for how soon a master knows of faults, and `gannet torus
/// faults reroute` for what a change of routes costs.
///
/// Example: gannet torus faults routing --lattice 4x4x4,5x3x2 --trials 200 --svg means.svg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Sizes of the rings in x, y and z, such as 4x4x4 or 8x3; several with commas.
    #[arg(long, default_value = "4x4x4", value_name = "SIZES", value_delimiter = ',')]
    lattice: Vec<Lattice>,
    /// Virtual channels per link, 2 to 8; several with commas.
    #[arg(long, default_value = "4", value_name = "N", value_delimiter = ',')]
    vcs: Vec<u8>,
    /// Depth of a virtual channel, in flits.
    #[arg(long, default_value = "1", value_name = "FLITS")]
    vc_depth: u16,
    /// Packet length, in flits.
    #[arg(long, default_value = "1", value_name = "N")]
    packet_flits: u16,
    /// Load: flits offered per node and cycle, 0 to 1.
    #[arg(long, default_value = "1", value_name = "LOAD")]
    load: f64,
    /// Duration of the overload, in cycles.
    #[arg(long, default_value = "500", value_name = "N")]
    cycles: u32,
    #[command(flatten)]
    trials: TrialArguments,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether every set of faults was routed or refused, and every overload drained.
    sound: bool,
    campaigns: Vec<Judged<RoutingReport>>,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let campaigns = campaigns(arguments)?;
    if let Some(index) = arguments.trials.trial {
        return replay(&campaigns, index);
    }
    if arguments.trials.svg.is_some() && campaigns.len() > 1 {
        return Err(Usage("a picture shows one --lattice with one of --vcs".to_owned()).into());
    }
    let picture = arguments.trials.picture()?;
    let name = |it: &RoutingCampaign| it.setup.lattice.to_string();
    let named: Vec<_> = campaigns.iter().map(|it| (name(it), it.clone())).collect();
    let trials::Done { reports, signal } = trials::run(&named)?;
    let mut report = Report { sound: true, campaigns: Vec::new() };
    for (campaign, judged) in campaigns.iter().zip(reports) {
        let Some(judged) = judged else { continue };
        report.sound &= judged.failed == 0;
        let command = |trial| command(campaign, trial);
        let judged = Judged::new(judged, campaign.trials, |it| &it.failures, command);
        report.campaigns.push(judged);
    }
    if let (Some(picture), Some(judged)) = (picture, report.campaigns.first()) {
        picture.write(&means_svg(&judged.report)?)?;
    }
    match arguments.trials.json {
        true => output::json(&report)?,
        false => output::print(|out| report.campaigns.iter().try_for_each(|it| print(out, it)))?,
    }
    let outcome = if report.sound { Outcome::Ok } else { Outcome::NotVerified };
    Ok(signal.map_or(outcome, Outcome::Interrupted))
}

/// The campaigns asked for, checked before the first begins.
fn campaigns(arguments: &Arguments) -> anyhow::Result<Vec<RoutingCampaign>> {
    let mut campaigns = Vec::new();
    for &lattice in &arguments.lattice {
        for &vcs in &arguments.vcs {
            let default = RoutingCampaign::new(lattice);
            let setup = arguments.trials.setup(Setup {
                vcs,
                vc_depth: arguments.vc_depth,
                packet_flits: arguments.packet_flits,
                ..default.setup
            });
            let campaign = RoutingCampaign {
                setup,
                load: arguments.load,
                cycles: arguments.cycles,
                counts: arguments.trials.counts(default.counts),
                trials: arguments.trials.trials.unwrap_or(default.trials),
            };
            campaign.check().map_err(|error| Usage(error.to_string()))?;
            campaigns.push(campaign);
        }
    }
    Ok(campaigns)
}

/// The command that runs a trial again.
fn command(campaign: &RoutingCampaign, trial: u64) -> String {
    let RoutingCampaign { setup, load, cycles, counts, .. } = campaign;
    let options = options(setup, *load, counts);
    format!("gannet torus faults routing {options} --cycles {cycles} --trial {trial}")
}

/// Runs one trial for each campaign asked for, and tells what happens.
fn replay(campaigns: &[RoutingCampaign], index: u64) -> anyhow::Result<Outcome> {
    let mut sound = true;
    for campaign in campaigns {
        let result = trials::replay(campaign, index, &command(campaign, index), "  ")?;
        sound &= result.failure.is_none();
    }
    Ok(if sound { Outcome::Ok } else { Outcome::NotVerified })
}

/// Heading and value of a column.
type Column = (&'static str, fn(&Figures) -> String);

const COLUMNS: [Column; 10] = [
    ("trials", |it| grouped(it.trials)),
    ("long way", |it| percent(it.long_way, it)),
    ("early turn", |it| percent(it.early_turn, it)),
    ("tree", |it| percent(it.tree, it)),
    ("refused", |it| percent(it.refused, it)),
    ("in parts", |it| percent(it.divided, it)),
    ("route", |it| format!("{:.3}", it.hops_mean)),
    ("shortest", |it| format!("{:.3}", it.shortest_mean)),
    ("longest", |it| it.longest_max.to_string()),
    ("drain", |it| it.drain_cycles_max.to_string()),
];

fn percent(count: u64, figures: &Figures) -> String {
    format!("{:.1} %", 100.0 * count as f64 / figures.trials.max(1) as f64)
}

fn print(out: &mut impl Write, judged: &Judged<RoutingReport>) -> io::Result<()> {
    let report = &judged.report;
    let RoutingReport { lattice, vcs, vc_depth, packet_flits, load, total, .. } = report;
    let trials = trials_of(total.trials, judged.trials_asked);
    writeln!(
        out,
        "{lattice}, {vcs} channels of {vc_depth}, packets of {packet_flits}, load {load}: {trials}"
    )?;
    rows(out, "faults", &report.by_faults)?;
    rows(out, "dead nodes", &report.by_dead_nodes)?;
    line(out, "all", COLUMNS.iter().map(|(_, value)| value(total)))?;
    writeln!(
        out,
        "  route: links, mean over all pairs; shortest: that the faults leave; longest: of all \
         routes; drain: cycles at most"
    )?;
    writeln!(
        out,
        "  overload: {:.3} flits per node and cycle offered, {:.3} arrived; 1.2 times and more \
         offered in {} trials",
        total.offered,
        total.accepted,
        grouped(total.overloaded)
    )?;
    writeln!(
        out,
        "  {} drained with every packet accounted for, {} refused, {} failed",
        grouped(total.drained),
        grouped(total.refused),
        grouped(report.failed)
    )?;
    for refusal in &report.refusals {
        writeln!(out, "  trial {} refused: {}", refusal.trial, refusal.why)?;
    }
    for (failure, replay) in report.failures.iter().zip(&judged.replays) {
        writeln!(out, "  trial {}: {}\n    {replay}", failure.trial, failure.what)?;
    }
    Ok(())
}

fn rows(out: &mut impl Write, name: &str, rows: &[Row]) -> io::Result<()> {
    line(out, name, COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()))?;
    rows.iter().try_for_each(|row| {
        let cells = COLUMNS.iter().map(|(_, value)| value(&row.figures));
        line(out, &row.faults.to_string(), cells)
    })
}

fn line(
    out: &mut impl Write,
    name: &str,
    mut cells: impl Iterator<Item = String>,
) -> io::Result<()> {
    write!(out, "  {name:>10}")?;
    cells.try_for_each(|cell| write!(out, "{cell:>11}"))?;
    writeln!(out)
}
