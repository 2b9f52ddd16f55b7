//! A picture of a scan over hit rates.

use std::ops::Range;

use gannet_measure::quantity::Bytes;
use plotters::prelude::*;

use super::report::TpgResult;
use crate::picture::{
    self, Area, COLOURS, Drawn, HEADROOM, INK, LARGE, SMALL, Stroke, letters, line,
};

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 560);
/// Height of the title and the legend.
const HEAD: i32 = 64;
/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A line needs two points.
    #[error(
        "a picture needs two hit rates above 0 at least; ask for a scan, as by \
         --hit-rate 100..90000"
    )]
    TooFew,
    /// The picture cannot be drawn.
    #[error("cannot draw the picture: {0}")]
    Drawing(String),
}

/// What is drawn of a result, with its name in the legend.
const CURVES: [(Stroke, &str); 3] = [
    (Stroke::Solid, "searching, Gbit/s"),
    (Stroke::Dashed, "reading, Gbit/s"),
    (Stroke::Dotted, "primitives, right"),
];

/// Whether results at these hit rates make a picture.
pub fn is_drawable(hit_rates_hz: &[f64]) -> bool {
    let mut positive = hit_rates_hz.iter().filter(|rate| **rate > 0.0);
    positive.next().is_some_and(|first| positive.any(|rate| rate != first))
}

/// Draws the rates of searching and reading, and that of the primitives, against the hit rate: an
/// SVG document.
///
/// # Errors
/// When there are fewer than two hit rates above 0.
pub fn svg(title: &str, results: &[TpgResult]) -> Result<String, PlotError> {
    let hit_rates_hz: Vec<f64> = results.iter().map(|result| result.hit_rate_hz).collect();
    if !is_drawable(&hit_rates_hz) {
        return Err(PlotError::TooFew);
    }
    let mut results: Vec<&TpgResult> = results.iter().filter(|r| r.hit_rate_hz > 0.0).collect();
    results.sort_by(|a, b| a.hit_rate_hz.total_cmp(&b.hit_rate_hz));
    let (Some(first), Some(last)) = (results.first(), results.last()) else {
        return Err(PlotError::TooFew);
    };
    let hit_rates = first.hit_rate_hz..last.hit_rate_hz;
    let mut sets: Vec<u64> = results.iter().map(|result| result.working_set_bytes).collect();
    sets.sort_unstable();
    sets.dedup();
    let draw = |root: &Area<'_>| {
        let (head, body) = root.split_vertically(HEAD);
        draw_head(&head, title, &sets)?;
        draw_curves(&body, &results, &sets, hit_rates)
    };
    picture::document(SIZE, draw).map_err(PlotError::Drawing)
}

/// What the curves have in common, and what tells them apart.
fn draw_head<'a>(head: &Area<'a>, title: &str, sets: &[u64]) -> Drawn<'a> {
    head.draw(&Text::new(title.to_owned(), (70, 12), letters(LARGE)))?;
    let mut x = 70;
    for (stroke, name) in CURVES {
        head.draw(&line(vec![(x, 50), (x + 34, 50)], stroke, INK))?;
        head.draw(&Text::new(name, (x + 42, 42), letters(SMALL)))?;
        x += 185;
    }
    for (set, colour) in sets.iter().zip(COLOURS.into_iter().cycle()) {
        head.draw(&Circle::new((x, 50), 5, colour.filled()))?;
        head.draw(&Text::new(Bytes(*set).to_string(), (x + 10, 42), letters(SMALL)))?;
        x += 85;
    }
    Ok(())
}

/// The curves and their scales.
fn draw_curves<'a>(
    body: &Area<'a>,
    results: &[&TpgResult],
    sets: &[u64],
    hit_rates: Range<f64>,
) -> Drawn<'a> {
    let top = |value: fn(&TpgResult) -> f64| {
        HEADROOM * results.iter().map(|result| value(result)).fold(f64::MIN_POSITIVE, f64::max)
    };
    let gbit_top = top(|result| result.gbit_per_s.max(result.limit_gbit_per_s));
    let tp_top = top(|result| result.tp_per_s * 1e-6);
    let label = letters(SMALL);
    let mut chart = ChartBuilder::on(body)
        .margin(10)
        .margin_top(0)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .right_y_label_area_size(58)
        .build_cartesian_2d(hit_rates.clone().log_scale(), 0.0..gbit_top)?
        .set_secondary_coord(hit_rates.log_scale(), 0.0..tp_top);
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.35))
        .light_line_style(INK.mix(0.12))
        .label_style(label.clone())
        .x_desc("hits per second on each channel")
        .y_desc("rate, Gbit/s")
        .x_label_formatter(&hit_rate)
        .y_max_light_lines(1)
        .y_label_formatter(&f64::to_string)
        .draw()?;
    chart
        .configure_secondary_axes()
        .axis_style(INK)
        .label_style(label)
        .y_label_formatter(&f64::to_string)
        .y_desc("primitives found, millions per second")
        .draw()?;
    for (set, colour) in sets.iter().zip(COLOURS.into_iter().cycle()) {
        let curve = |value: fn(&TpgResult) -> f64| -> Vec<(f64, f64)> {
            let of_set = results.iter().filter(|result| result.working_set_bytes == *set);
            of_set.map(|result| (result.hit_rate_hz, value(result))).collect()
        };
        let found = curve(|result| result.gbit_per_s);
        let read = curve(|result| result.limit_gbit_per_s);
        let tps = curve(|result| result.tp_per_s * 1e-6);
        chart.draw_series(found.iter().map(|&at| Circle::new(at, 4, colour.filled())))?;
        chart.draw_series([line(found, Stroke::Solid, colour)])?;
        chart.draw_series([line(read, Stroke::Dashed, colour)])?;
        chart.draw_secondary_series([line(tps, Stroke::Dotted, colour)])?;
    }
    Ok(())
}

/// A hit rate as a label: `100`, `2k`, `90k`.
fn hit_rate(hz: &f64) -> String {
    match *hz {
        hz if hz >= 1000.0 => format!("{}k", hz / 1000.0),
        hz => hz.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::{TpgPlan, WorkingSet, measure};

    #[test]
    fn a_picture_has_its_curves_labels_and_units() {
        let sizes = [1 << 16, 1 << 17].map(|bytes| WorkingSet::Size(Bytes(bytes)));
        let plan = TpgPlan {
            hit_rates_hz: vec![100.0, 3000.0, 90e3],
            working_sets: sizes.to_vec(),
            time: std::time::Duration::ZERO,
            ..TpgPlan::default()
        };
        let report = measure(&plan, &mut |_| ()).unwrap();
        let picture = svg("a & b < c", &report.results).unwrap();
        let text = ["a &amp; b &lt; c", "64 KiB", "128 KiB", "rate, Gbit/s", "10k", "per second"];
        for text in text {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        assert_eq!(picture.matches("<circle").count(), 2 * (3 + 1), "points, and the legend");
        let too_few = svg("", &report.results[..1]).unwrap_err();
        assert!(matches!(too_few, PlotError::TooFew));
    }
}
