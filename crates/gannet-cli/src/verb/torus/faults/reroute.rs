//! `gannet torus faults reroute`: what does a fault cost a machine under load?

use std::io::{self, Write};

use gannet_lattice::Lattice;
use gannet_lofamo::Mode;
use gannet_measure::histogram::Summary;
use gannet_measure::quantity::Span;
use gannet_torus::simulator::Setup;
use gannet_torus_study::over_time_svg;
use gannet_torus_study::survival::{RerouteCampaign, RerouteReport, Warning};
use serde::Serialize;

use super::super::quantity::period;
use super::trials::{self, TrialArguments, options, trials_of};
use crate::exit::{Outcome, Usage};
use crate::output::{self, grouped};

/// Breaks part of a loaded machine and reports what it costs until new routes are in use.
///
/// Nodes and cables fail at a random time. Packets that need them are lost and sent again later.
/// Once the master knows, it plans routes around the faults and proves them correct; sources pause
/// until the last packet on the old routes has gone, and then use the new ones. The report gives
/// the time of each step, packets lost, sent again and refused, latency before, during and after,
/// and throughput over time. The time until the master knows comes from trials of `gannet torus
/// faults` on the same lattice, or from --aware-after. Planning is not simulated: its time on this
/// machine is reported separately.
///
/// The exit code is 6 when a packet is unaccounted for or the network got stuck; each such trial is
/// listed with the command that replays it.
///
/// Example: gannet torus faults reroute --lattice 4x4x4 --aware-after 2000 --svg fault.svg
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Sizes of the rings in x, y and z, such as 4x4x4 or 8x3.
    #[arg(long, default_value = "4x4x4", value_name = "SIZES")]
    lattice: Lattice,
    /// Virtual channels per link, 2 to 8.
    #[arg(long, default_value = "4", value_name = "N")]
    vcs: u8,
    /// Depth of a virtual channel, in flits.
    #[arg(long, default_value = "16", value_name = "FLITS")]
    vc_depth: u16,
    /// Packet length, in flits.
    #[arg(long, default_value = "1", value_name = "N")]
    packet_flits: u16,
    /// Load: flits offered per node and cycle, 0 to 1.
    #[arg(long, default_value = "0.3", value_name = "LOAD")]
    load: f64,
    /// Time until the master knows: cycles, or a time such as 50us [default: as measured by `gannet
    /// torus faults`].
    #[arg(long, value_name = "TIME", value_parser = delay, conflicts_with_all = ["mode", "period"])]
    aware_after: Option<Delay>,
    /// How nodes are watched: poll or push.
    #[arg(long, default_value = "push", value_name = "MODE", value_parser = mode)]
    mode: Mode,
    /// Watchdog period.
    #[arg(long, default_value = "1ms", value_name = "TIME", value_parser = period)]
    period: Span,
    /// Duration of a cycle.
    #[arg(long, default_value = "5ns", value_name = "TIME", value_parser = cycle)]
    cycle: Span,
    /// Cycles after which a lost packet is sent again, or never. If this is much shorter than the
    /// time until the fault is known, it makes a storm: packets to what is broken are lost again
    /// each time.
    #[arg(long, default_value = "1000", value_name = "CYCLES", value_parser = replay_after)]
    replay_after: Replay,
    #[command(flatten)]
    trials: TrialArguments,
}

/// A time, or cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Delay {
    Cycles(u64),
    Time(Span),
}

/// Cycles until a lost packet is sent again, if it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Replay(Option<u32>);

fn delay(text: &str) -> Result<Delay, String> {
    match text.parse() {
        Ok(cycles) => Ok(Delay::Cycles(cycles)),
        Err(_) => text
            .parse()
            .map(Delay::Time)
            .map_err(|_| format!("`{text}` is neither cycles nor a time; write 2000, or 50us")),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    let named = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    named.ok_or_else(|| format!("`{text}` is neither poll nor push"))
}

fn cycle(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=1_000_000).contains(&span.ns()) {
        Ok(span)
    } else {
        Err("choose 1 ns to 1 ms".to_owned())
    }
}

fn replay_after(text: &str) -> Result<Replay, String> {
    match text {
        "never" => Ok(Replay(None)),
        _ => match text.parse() {
            Ok(cycles) => Ok(Replay(Some(cycles))),
            Err(_) => Err(format!("`{text}` is neither a number of cycles nor never")),
        },
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether every packet is accounted for.
    sound: bool,
    #[serde(flatten)]
    report: RerouteReport,
    /// Number of trials that were asked for; a signal may have ended them before.
    trials_asked: u64,
    /// Time of a cycle.
    cycle_ns: u64,
    /// Wall time of the planning of routes and their proof, on this machine.
    planning_wall_ns: Summary,
    /// A command for each failure.
    replays: Vec<String>,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let trials = campaign(arguments).trials().map_err(|error| Usage(error.to_string()))?;
    let campaign = trials.campaign();
    if let Some(index) = arguments.trials.trial {
        let again = trials::replay(&trials, index, &command(arguments, campaign, index), "  ")?;
        let is_sound = again.result.failure.is_none();
        return Ok(if is_sound { Outcome::Ok } else { Outcome::NotVerified });
    }
    let picture = arguments.trials.picture()?;
    let named = [(arguments.lattice.to_string(), trials.clone())];
    let trials::Done { reports, signal } = trials::run(&named)?;
    let Some((report, planning_wall_ns)) = reports.into_iter().flatten().next() else {
        return Ok(signal.map_or(Outcome::Ok, Outcome::Interrupted));
    };
    if let Some(picture) = picture {
        picture.write(&over_time_svg(&report)?)?;
    }
    let replays = report.failures.iter();
    let replays = replays.map(|it| command(arguments, campaign, it.trial)).collect();
    let (sound, cycle_ns) = (report.failed == 0, arguments.cycle.ns());
    let trials_asked = campaign.trials;
    let report = Report { sound, report, trials_asked, cycle_ns, planning_wall_ns, replays };
    match arguments.trials.json {
        true => output::json(&report)?,
        false => output::print(|out| print(out, &report))?,
    }
    let outcome = if sound { Outcome::Ok } else { Outcome::NotVerified };
    Ok(signal.map_or(outcome, Outcome::Interrupted))
}

fn campaign(arguments: &Arguments) -> RerouteCampaign {
    let default = RerouteCampaign::new(arguments.lattice);
    let cycle_ns = arguments.cycle.ns();
    let warning = match arguments.aware_after {
        Some(Delay::Cycles(cycles)) => Warning::After { cycles },
        Some(Delay::Time(time)) => Warning::After { cycles: time.ns().div_ceil(cycle_ns) },
        None => Warning::Watched {
            mode: arguments.mode,
            period_ns: arguments.period.ns(),
            cycle_ns: cycle_ns as f64,
        },
    };
    let setup = arguments.trials.setup(Setup {
        vcs: arguments.vcs,
        vc_depth: arguments.vc_depth,
        packet_flits: arguments.packet_flits,
        replay_after: arguments.replay_after.0,
        ..default.setup
    });
    RerouteCampaign {
        setup,
        load: arguments.load,
        counts: arguments.trials.counts(default.counts),
        warning,
        trials: arguments.trials.trials.unwrap_or(20),
    }
}

/// The command that runs a trial again.
fn command(arguments: &Arguments, campaign: &RerouteCampaign, trial: u64) -> String {
    let options = options(&campaign.setup, campaign.load, &campaign.counts);
    let compact = |span: Span| span.to_string().replace(' ', "");
    let warning = match campaign.warning {
        Warning::After { cycles } => format!("--aware-after {cycles}"),
        Warning::Watched { mode, .. } => {
            let (period, cycle) = (compact(arguments.period), compact(arguments.cycle));
            format!("--mode {} --period {period} --cycle {cycle}", mode.name())
        }
    };
    let wait = arguments.replay_after.0.map_or("never".to_owned(), |cycles| cycles.to_string());
    format!("gannet torus faults reroute {options} {warning} --replay-after {wait} --trial {trial}")
}

fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let RerouteReport { lattice, vcs, vc_depth, packet_flits, load, trials, .. } = &report.report;
    let trials = trials_of(*trials, report.trials_asked);
    let it = &report.report;
    writeln!(
        out,
        "{lattice}, {vcs} channels of {vc_depth}, packets of {packet_flits}, load {load}: \
         {trials}"
    )?;
    writeln!(
        out,
        "  new routes: {} the long way, {} early turns, {} tree; {} refused",
        it.long_way, it.early_turn, it.tree, it.refused
    )?;
    let us = |cycles: f64| cycles * report.cycle_ns as f64 * 1e-3;
    writeln!(out, "  {:<32}{:>11}{:>11}{:>11}{:>11}", "", "mean", "median", "99 %", "longest")?;
    for (name, cycles) in [
        ("aware after", &it.aware_cycles),
        ("then new routes after", &it.drain_cycles),
        ("then all sent again after", &it.replay_cycles),
    ] {
        let values = [cycles.mean, cycles.p50 as f64, cycles.p99 as f64, cycles.max as f64];
        row(out, &format!("{name}, us"), values.map(us))?;
    }
    let planning = &report.planning_wall_ns;
    let values = [planning.mean, planning.p50 as f64, planning.p99 as f64, planning.max as f64];
    row(out, "planning here, us", values.map(|ns| ns * 1e-3))?;
    for (name, cycles) in [
        ("latency before, cycles", &it.latency_before),
        ("latency until new routes, cycles", &it.latency_during),
        ("latency after, cycles", &it.latency_after),
    ] {
        row(out, name, [cycles.mean, cycles.p50 as f64, cycles.p99 as f64, cycles.max as f64])?;
    }
    print_packets(out, it)?;
    for refusal in &it.refusals {
        writeln!(out, "  trial {} refused: {}", refusal.trial, refusal.why)?;
    }
    for (failure, replay) in it.failures.iter().zip(&report.replays) {
        writeln!(out, "  trial {}: {}\n    {replay}", failure.trial, failure.what)?;
    }
    Ok(())
}

fn print_packets(out: &mut impl Write, report: &RerouteReport) -> io::Result<()> {
    let packets = &report.packets;
    writeln!(
        out,
        "  lost: {:.1} packets a trial, at most {}; {:.2} per 1000 cycles until new routes",
        report.lost_packets.mean, report.lost_packets.max, report.lost_per_kilocycle
    )?;
    writeln!(
        out,
        "  packets: {} made, {} delivered, {} refused, {} gone; {} losses, {} sent again",
        grouped(packets.made),
        grouped(packets.delivered),
        grouped(packets.refused),
        grouped(report.gone),
        grouped(packets.lost),
        grouped(packets.replayed)
    )?;
    writeln!(out, "  {} trials failed", report.failed)
}

fn row(out: &mut impl Write, name: &str, values: [f64; 4]) -> io::Result<()> {
    write!(out, "  {name:<32}")?;
    values.iter().try_for_each(|value| write!(out, "{value:>11.1}"))?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cycles_or_have_a_unit() {
        assert_eq!(delay("2000"), Ok(Delay::Cycles(2000)));
        assert_eq!(delay("50us"), Ok(Delay::Time(Span(50_000))));
        assert!(delay("soon").is_err() && period("10us").is_err() && cycle("0ns").is_err());
        assert_eq!(
            (replay_after("never"), replay_after("5")),
            (Ok(Replay(None)), Ok(Replay(Some(5))))
        );
    }
}
