//! The tables of `gannet torus faults`.

use std::io::{self, Write};

use gannet_measure::quantity::Span;
use gannet_torus_study::awareness::{
    CampaignReport, Distribution, Limits, PUBLISHED_PERIODS, TrialResult,
};

use super::Report;
use super::trials::{Judged, trials_of};
use crate::output::grouped;

pub fn end_of_trial(out: &mut impl Write, result: &TrialResult) -> io::Result<()> {
    for what in &result.undetected {
        writeln!(out, "undetected: {what}")?;
    }
    for what in &result.false_reports {
        writeln!(out, "false: {what}")?;
    }
    for what in &result.late {
        writeln!(out, "late: {what}")?;
    }
    writeln!(
        out,
        "{} faults known, {} beyond the rule, {} known before, {} unreachable, {} undetected, {} false reports",
        result.known.len() + result.known_by_next.len(),
        result.known_beyond_rule,
        result.known_before,
        result.unreachable,
        result.undetected.len(),
        result.false_reports.len()
    )
}

pub fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for campaign in &report.campaigns {
        print_campaign(out, campaign)?;
    }
    for quiet in &report.quiet {
        writeln!(
            out,
            "{}, {}, T = {}: {} false reports in {} h without faults",
            quiet.lattice,
            quiet.mode.name(),
            span(quiet.period_s),
            quiet.false_reports,
            quiet.hours
        )?;
        quiet.claims.iter().try_for_each(|claim| writeln!(out, "  {claim}"))?;
    }
    Ok(())
}

pub fn span(seconds: f64) -> Span {
    Span((seconds * 1e9).round() as u64)
}

fn print_campaign(out: &mut impl Write, campaign: &Judged<CampaignReport>) -> io::Result<()> {
    let report = &campaign.report;
    let period = span(report.period_s);
    let mode = report.mode.name();
    let trials = trials_of(report.trials, campaign.trials_asked);
    writeln!(out, "{}, {mode}, T = {period}, {trials}", report.lattice)?;
    writeln!(
        out,
        "  {} faults: {} known, {} undetected, {} unreachable, {} beyond the rule, {} known \
         before; {} false reports, {} late",
        grouped(report.faults),
        grouped(report.known),
        report.undetected,
        grouped(report.unreachable),
        grouped(report.known_beyond_rule),
        grouped(report.known_before),
        report.false_reports,
        report.late
    )?;
    if report.healed > 0 || report.takeovers > 0 {
        let (healed, takeovers) = (grouped(report.healed), grouped(report.takeovers));
        writeln!(out, "  {healed} faults healed unknown in time; {takeovers} masters took over")?;
    }
    let headings = ["mean", "median", "99 %", "longest"];
    let units = headings.map(|_| format!("{:>11}", "ms"));
    writeln!(out, "  {:<22}{:>11}{}", "aware after", "faults", units.concat())?;
    writeln!(out, "  {:<33}{}", "", headings.map(|it| format!("{it:>11}")).concat())?;
    for kind in &report.kinds {
        line(out, kind.kind.name(), &kind.awareness)?;
    }
    line(out, "all", &report.awareness)?;
    if report.awareness_of_next.count > 0 {
        line(out, "by the next master", &report.awareness_of_next)?;
    }
    print_limits(out, report)?;
    for (failure, replay) in report.failures.iter().zip(&campaign.replays) {
        writeln!(out, "  trial {}: {}\n    {replay}", failure.trial, failure.what)?;
    }
    Ok(())
}

fn print_limits(out: &mut impl Write, report: &CampaignReport) -> io::Result<()> {
    let Limits { mean_s, worst_s } = report.limits;
    let verdict = match report.within_limits {
        Some(true) => "kept by every kind",
        Some(false) => "NOT kept",
        None => return writeln!(out, "  limits: none; no neighbours, or nothing known"),
    };
    let (mean_ms, worst_ms) = (mean_s * 1e3, worst_s * 1e3);
    writeln!(out, "  limits: mean {mean_ms:.1} ms, longest {worst_ms:.1} ms: {verdict}")?;
    let (published_ms, beats) =
        (PUBLISHED_PERIODS * report.period_s * 1e3, report.beats_per_period);
    writeln!(
        out,
        "  published: {published_ms:.1} ms, at a beat in T; here there are {beats:.2} beats in T"
    )
}

fn line(out: &mut impl Write, name: &str, times: &Distribution) -> io::Result<()> {
    let cell = |time_s: Option<f64>| match time_s {
        Some(time_s) => format!("{:>11.3}", time_s * 1e3),
        None => format!("{:>11}", "-"),
    };
    let cells = [times.mean_s, times.p50_s, times.p99_s, times.max_s].map(cell).concat();
    writeln!(out, "  {name:<22}{:>11}{cells}", grouped(times.count))
}
