//! The picture of a latency-load curve.

use std::ops::Range;

use gannet_plot::{
    Area, BLUE, Drawn, Fault, INK, LARGE, ORANGE, SMALL, Stroke, letters, limit, line,
};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::limits::Limits;
use super::point::Point;
use super::report::LoadReport;

/// Width and height in pixels.
const SIZE: (u32, u32) = (1000, 520);
/// Height of the title.
const HEAD: i32 = 44;
/// Height of the names of the curves.
const LEGEND: i32 = 26;
/// Latencies above this many times that of a packet alone lie outside the picture.
const LATENCY_TOP: f64 = 8.0;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A curve needs two points.
    #[error("a picture needs two loads at least; ask for a range, as by --load 0.1..0.9:0.1")]
    TooFew,
    /// The picture cannot be drawn.
    #[error("cannot draw the picture: {0}")]
    Drawing(String),
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Curve = Vec<(f64, f64)>;

/// Draws latency against load on the left, and accepted against offered on the right, with their
/// limits: an SVG document.
///
/// # Errors
/// When there are fewer than two loads.
pub fn curve_svg(title: &str, report: &LoadReport) -> Result<String, PlotError> {
    let points = report.curve();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(PlotError::TooFew);
    };
    if first.load >= last.load {
        return Err(PlotError::TooFew);
    }
    let draw = |root: &Area<'_>| {
        let (head, body) = root.split_vertically(HEAD);
        head.draw(&Text::new(title.to_owned(), (20, 14), letters(LARGE)))?;
        let (left, right) = body.split_horizontally(SIZE.0 as i32 / 2);
        draw_latency(&left, &points, &report.limits)?;
        draw_throughput(&right, &points, &report.limits)
    };
    gannet_plot::document(SIZE, draw).map_err(PlotError::Drawing)
}

/// Latency against load, as far as it means anything.
fn draw_latency<'a>(area: &Area<'a>, points: &[&Point], limits: &Limits) -> Drawn<'a> {
    let alone = limits.zero_load_latency_cycles.unwrap_or(1.0);
    let steady = || points.iter().filter(|point| !point.saturated);
    let longest = steady().filter_map(|point| point.latency_p99_cycles).max().unwrap_or(0) as f64;
    let slowest = longest.max(2.0 * alone);
    let top = (1.08 * slowest).min(LATENCY_TOP * alone);
    let loads = 0.0..1.04 * points.iter().map(|point| point.load).fold(0.0, f64::max);
    let (names, body) = area.split_vertically(LEGEND);
    let name = match points.iter().any(|point| point.saturated) {
        true => "latency, cycles (saturated loads: not drawn)",
        false => "latency, cycles",
    };
    let mut chart = axes(&body, loads.clone(), 0.0..top, name)?;
    let curve = |value: fn(&Point) -> Option<f64>| -> Curve {
        let places = steady().filter_map(|point| Some((point.load, value(point)?)));
        places.filter(|at| at.1 <= top).collect()
    };
    series(&mut chart, curve(|point| point.latency_mean_cycles), BLUE)?;
    series(
        &mut chart,
        curve(|point| point.latency_p99_cycles.map(|cycles| cycles as f64)),
        ORANGE,
    )?;
    chart.draw_series([limit(vec![(0.0, alone), (loads.end, alone)])])?;
    bound(&mut chart, limits, top, loads.end)?;
    let limits = (None, "packet alone, bound of load");
    legend(&names, &[(Some(BLUE), "mean"), (Some(ORANGE), "99th percentile"), limits])
}

/// Accepted and offered throughput.
fn draw_throughput<'a>(area: &Area<'a>, points: &[&Point], limits: &Limits) -> Drawn<'a> {
    let most = points.iter().map(|point| point.load).fold(0.0, f64::max);
    let accepted: Curve = points.iter().map(|point| (point.load, point.accepted)).collect();
    let (right, top) = (1.04 * most, 1.12 * most);
    let (names, body) = area.split_vertically(LEGEND);
    let mut chart = axes(&body, 0.0..right, 0.0..top, "accepted, flits per node and cycle")?;
    series(&mut chart, accepted, BLUE)?;
    chart.draw_series([limit(vec![(0.0, 0.0), (most, most)])])?;
    bound(&mut chart, limits, top, right)?;
    legend(&names, &[(Some(BLUE), "accepted"), (None, "all that is offered, bound of load")])
}

fn axes<'a, 'b>(
    area: &Area<'b>,
    loads: Range<f64>,
    values: Range<f64>,
    name: &str,
) -> Result<Chart<'a, 'b>, Fault<'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_top(0)
        .x_label_area_size(46)
        .y_label_area_size(60)
        .build_cartesian_2d(loads, values)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.35))
        .light_line_style(INK.mix(0.0))
        .label_style(letters(SMALL))
        .x_desc("offered, flits per node and cycle")
        .y_desc(name)
        .x_labels(8)
        .y_labels(8)
        .draw()?;
    Ok(chart)
}

/// A measured curve with its points.
fn series<'b>(chart: &mut Chart<'_, 'b>, curve: Curve, colour: RGBColor) -> Drawn<'b> {
    chart.draw_series(curve.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
    chart.draw_series([line(curve, Stroke::Solid, colour)])?;
    Ok(())
}

/// The load that cannot be surpassed, where it lies in the picture.
fn bound<'b>(chart: &mut Chart<'_, 'b>, limits: &Limits, top: f64, right: f64) -> Drawn<'b> {
    let load = limits.saturation_bound;
    if load <= right {
        chart.draw_series([limit(vec![(load, 0.0), (load, top)])])?;
    }
    Ok(())
}

/// Names of the curves, side by side; those without a colour are drawn dashed.
fn legend<'b>(area: &Area<'b>, names: &[(Option<RGBColor>, &str)]) -> Drawn<'b> {
    let mut x = 72;
    for (colour, name) in names {
        let ends = vec![(x, 12), (x + 22, 12)];
        area.draw(&match colour {
            Some(colour) => line(ends, Stroke::Solid, *colour),
            None => limit(ends),
        })?;
        area.draw(&Text::new((*name).to_owned(), (x + 28, 5), letters(SMALL)))?;
        x += 44 + 7 * name.len() as i32;
    }
    Ok(())
}
