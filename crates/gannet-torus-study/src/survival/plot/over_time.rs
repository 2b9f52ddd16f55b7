//! A network around a fault, over time.

use std::ops::Range;

use gannet_plot::{
    Area, BLUE, Drawn, Fault, GREEN, INK, ORANGE, RED, SMALL, Stroke, letters, limit, line,
};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::{PlotError, document};
use crate::survival::{Instant, RerouteReport};

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Curve = Vec<(f64, f64)>;

/// Draws throughput on the left, and lost and replayed packets on the right, against the time since
/// a fault: an SVG document.
///
/// # Errors
/// When nothing was simulated, or the picture cannot be drawn.
pub fn over_time_svg(report: &RerouteReport) -> Result<String, PlotError> {
    let points = &report.series.points;
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(PlotError::Empty);
    };
    let times = first.cycle as f64..(last.cycle + i64::from(report.series.stretch_cycles)) as f64;
    let title = format!(
        "{}, load {}: mean over {} trials, in each a fault at 0",
        report.lattice, report.load, report.trials
    );
    let legend = [
        (Some(BLUE), "throughput"),
        (Some(RED), "lost"),
        (Some(GREEN), "sent again"),
        (Some(ORANGE), "latency"),
        (None, "fault, master aware, new routes (means)"),
    ];
    let known = report.aware_cycles.mean;
    let marks = [0.0, known, known + report.drain_cycles.mean];
    document(&title, &legend, |left, right| {
        throughput(left, report, times.clone(), &marks)?;
        let (upper, lower) = right.split_vertically(right.dim_in_pixel().1 / 2);
        packets(&upper, report, times.clone(), &marks)?;
        latency(&lower, report, times, &marks)
    })
}

fn curve(report: &RerouteReport, value: impl Fn(&Instant) -> Option<f64>) -> Curve {
    let middle = f64::from(report.series.stretch_cycles) / 2.0;
    let points = report.series.points.iter();
    points.filter_map(|point| Some((point.cycle as f64 + middle, value(point)?))).collect()
}

fn top(curves: &[&Curve]) -> f64 {
    1.1 * curves
        .iter()
        .flat_map(|curve| curve.iter())
        .map(|at| at.1)
        .fold(f64::MIN_POSITIVE, f64::max)
}

fn throughput<'a>(
    area: &Area<'a>,
    report: &RerouteReport,
    times: Range<f64>,
    marks: &[f64],
) -> Drawn<'a> {
    let accepted = curve(report, |point| Some(point.accepted));
    let top = top(&[&accepted]);
    let mut chart = axes(area, times, top, "accepted, flits per node and cycle")?;
    draw_marks(&mut chart, marks, top)?;
    draw_curve(&mut chart, accepted, BLUE)
}

fn packets<'a>(
    area: &Area<'a>,
    report: &RerouteReport,
    times: Range<f64>,
    marks: &[f64],
) -> Drawn<'a> {
    let lost = curve(report, |point| Some(point.lost));
    let replayed = curve(report, |point| Some(point.replayed));
    let top = top(&[&lost, &replayed]);
    let mut chart = axes(area, times, top, "packets a kilocycle")?;
    draw_marks(&mut chart, marks, top)?;
    draw_curve(&mut chart, lost, RED)?;
    draw_curve(&mut chart, replayed, GREEN)
}

fn latency<'a>(
    area: &Area<'a>,
    report: &RerouteReport,
    times: Range<f64>,
    marks: &[f64],
) -> Drawn<'a> {
    let mean = curve(report, |point| point.latency_cycles);
    let top = top(&[&mean]);
    let mut chart = axes(area, times, top, "mean latency, cycles")?;
    draw_marks(&mut chart, marks, top)?;
    draw_curve(&mut chart, mean, ORANGE)
}

fn axes<'a, 'b>(
    area: &Area<'b>,
    times: Range<f64>,
    top: f64,
    name: &str,
) -> Result<Chart<'a, 'b>, Fault<'b>> {
    let digits = if top < 1.0 { 2 } else { usize::from(top < 10.0) };
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_top(0)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(times, 0.0..top)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.35))
        .light_line_style(INK.mix(0.0))
        .label_style(letters(SMALL))
        .x_label_formatter(&|cycles| format!("{cycles:.0}"))
        .y_label_formatter(&|value| format!("{value:.digits$}"))
        .x_desc("cycles after the fault")
        .y_desc(name)
        .x_labels(7)
        .y_labels(7)
        .draw()?;
    Ok(chart)
}

fn draw_curve<'b>(chart: &mut Chart<'_, 'b>, curve: Curve, colour: RGBColor) -> Drawn<'b> {
    chart.draw_series([line(curve, Stroke::Solid, colour)])?;
    Ok(())
}

fn draw_marks<'b>(chart: &mut Chart<'_, 'b>, marks: &[f64], top: f64) -> Drawn<'b> {
    chart.draw_series(marks.iter().map(|&at| limit(vec![(at, 0.0), (at, top)])))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survival::{RerouteCampaign, Warning};
    use crate::trials::run_all;

    #[test]
    fn a_picture_shows_throughput_losses_and_latency() {
        let mut campaign = RerouteCampaign::new("4x4".parse().unwrap());
        campaign.warning = Warning::After { cycles: 300 };
        campaign.trials = 3;
        let (report, _) = run_all(&campaign.trials().unwrap(), &mut |_| ());
        let picture = over_time_svg(&report).unwrap();
        for text in ["4x4x1, load 0.3", "accepted, flits", "packets a kilocycle", "mean latency"] {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        for colour in ["#3A80D9", "#CD3E3E", "#2A9D64", "#D9701E"] {
            assert!(picture.matches(colour).count() >= 2, "{colour} is not in {picture}");
        }
    }
}
