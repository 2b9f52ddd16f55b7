//! The picture: latency against the size of a buffer.

use gannet_plot::{Axis, COLOURS, Chart, Document, Error, HEIGHT, INK, Key, Mark, Stroke};

use super::{BUDGET_US, LatencyReport, LinkReport, Point};

/// Draws latencies against the size of buffers, and beside them transfer and processing apart: an SVG document.
///
/// # Errors
/// When it cannot be drawn.
pub fn svg(report: &LatencyReport) -> Result<String, Error> {
    let links = || report.links.iter().zip(COLOURS.into_iter().cycle());
    let mut legend: Vec<Key> =
        links().map(|(link, colour)| Key::new(colour, link.link.name())).collect();
    let line = |stroke, name: &str| Key { stroke, ..Key::new(INK, name) };
    legend.extend([
        line(Stroke::Solid, "one buffer at a time; transfer"),
        line(Stroke::Dashed, "overlapped"),
        line(Stroke::Dotted, "processing"),
        Key::limit("1 ms"),
    ]);
    let mut latency = chart(report, "latency, us");
    let mut parts = chart(report, "transfer and processing, us");
    for (link, colour) in links() {
        latency.marks.extend([
            Mark::curve(colour, points(link, |point| point.serialised.us)),
            Mark::Line(Stroke::Dashed, colour, points(link, |point| point.overlapped_latency.us)),
        ]);
        parts.marks.extend([
            Mark::curve(colour, points(link, |point| point.transfer.us)),
            Mark::Line(Stroke::Dotted, colour, points(link, |point| point.processing.us)),
        ]);
    }
    let title = "Latency of a buffer of events of the RICH, by its size".to_owned();
    let columns = vec![vec![latency], vec![parts]];
    Document { title, width: 1300, height: HEIGHT, legend, columns }.svg()
}

fn points(link: &LinkReport, us: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    link.points.iter().map(|point| (point.events as f64, us(point))).collect()
}

/// Axes and the budget.
fn chart(report: &LatencyReport, name: &str) -> Chart {
    let all = || report.links.iter().flat_map(|link| &link.points);
    let sizes = || all().map(|point| point.events as f64);
    let times = || {
        let times = |point: &Point| {
            [point.transfer, point.processing, point.serialised, point.overlapped_latency]
        };
        all().flat_map(times).map(|span| span.us)
    };
    let least = times().fold(BUDGET_US, f64::min).max(1e-3);
    let decades = 10f64.powf(least.log10().floor())
        ..10f64.powf(times().fold(BUDGET_US, f64::max).log10().ceil());
    let sizes = sizes().fold(f64::INFINITY, f64::min)..sizes().fold(0.0, f64::max);
    let across =
        Axis { log_base: Some(2.0), ..Axis::new("size of a buffer, events", sizes.clone()) };
    let up = Axis { log_base: Some(10.0), ..Axis::new(name, decades) };
    let mut chart = Chart::new(across, up);
    chart.marks.push(Mark::limit((sizes.start, BUDGET_US), (sizes.end, BUDGET_US)));
    chart
}
