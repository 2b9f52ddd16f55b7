//! A picture of a scan over hit rates.

use std::ops::Range;

use gannet_measure::quantity::Bytes;
use gannet_plot::{Area, COLOURS, Drawn, HEADROOM, INK, LARGE, SMALL, Stroke, letters, line};
use plotters::prelude::*;

use super::report::TpgResult;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 560);
/// Height of the title and the first row of the legend.
const HEAD: i32 = 64;
/// Height of a further row of the legend.
const ROW: i32 = 20;
/// Curves that a row of the legend names, if their searches differ, and what each takes of it.
const NAMES: usize = 3;
const NAME: i32 = 270;
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

/// What the results of a curve have in common: a search and a working set.
struct Curve<'a> {
    name: String,
    results: Vec<&'a TpgResult>,
}

/// The curves of results in the order of their hit rates.
struct Curves<'a> {
    curves: Vec<Curve<'a>>,
    /// Whether there are several searches.
    differ: bool,
}

impl<'a> Curves<'a> {
    fn of(results: &'a [TpgResult], search: &dyn Fn(&TpgResult) -> String) -> Self {
        let mut sorted: Vec<&TpgResult> = results.iter().filter(|r| r.hit_rate_hz > 0.0).collect();
        sorted.sort_by(|a, b| {
            let sets = a.working_set_bytes.cmp(&b.working_set_bytes);
            sets.then(a.hit_rate_hz.total_cmp(&b.hit_rate_hz))
        });
        let is_first =
            |result: &&TpgResult| result.working_set_bytes == sorted[0].working_set_bytes;
        let one_set = sorted.iter().all(is_first);
        let differ = sorted.iter().any(|result| search(result) != search(sorted[0]));
        let mut curves: Vec<Curve<'a>> = Vec::new();
        for result in sorted {
            let set = Bytes(result.working_set_bytes).to_string();
            let name = match (differ, one_set) {
                (false, _) => set,
                (true, true) => search(result),
                (true, false) => format!("{}, {set}", search(result)),
            };
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.results.push(result),
                None => curves.push(Curve { name, results: vec![result] }),
            }
        }
        Self { curves, differ }
    }

    fn coloured(&self) -> impl Iterator<Item = (&Curve<'a>, RGBColor)> {
        self.curves.iter().zip(COLOURS.into_iter().cycle())
    }

    /// Height of title and legend.
    fn head(&self) -> i32 {
        let rows = if self.differ { self.curves.len().div_ceil(NAMES) } else { 0 };
        HEAD + ROW * rows as i32
    }

    /// Greatest of a value, with some room above.
    fn top(&self, value: fn(&TpgResult) -> f64) -> f64 {
        let all = self.curves.iter().flat_map(|curve| &curve.results);
        HEADROOM * all.map(|result| value(result)).fold(f64::MIN_POSITIVE, f64::max)
    }
}

impl Curve<'_> {
    fn points(&self, value: fn(&TpgResult) -> f64) -> Vec<(f64, f64)> {
        self.results.iter().map(|result| (result.hit_rate_hz, value(result))).collect()
    }
}

/// Draws the rates of searching and reading, and that of the primitives, against the hit rate: an
/// SVG document. `search` names the search of a result; there is a curve for each name and working
/// set.
///
/// # Errors
/// When there are fewer than two hit rates above 0.
pub fn svg(
    title: &str,
    results: &[TpgResult],
    search: &dyn Fn(&TpgResult) -> String,
) -> Result<String, PlotError> {
    let hit_rates_hz: Vec<f64> = results.iter().map(|result| result.hit_rate_hz).collect();
    if !is_drawable(&hit_rates_hz) {
        return Err(PlotError::TooFew);
    }
    let positive = || hit_rates_hz.iter().copied().filter(|rate| *rate > 0.0);
    let range = positive().fold(f64::INFINITY, f64::min)..positive().fold(0.0, f64::max);
    let curves = Curves::of(results, search);
    let draw = |root: &Area<'_>| {
        let (head, body) = root.split_vertically(curves.head());
        draw_head(&head, title, &curves)?;
        draw_curves(&body, &curves, range)
    };
    gannet_plot::document(SIZE, draw).map_err(PlotError::Drawing)
}

/// What the curves have in common, and what tells them apart.
fn draw_head<'a>(head: &Area<'a>, title: &str, curves: &Curves<'_>) -> Drawn<'a> {
    head.draw(&Text::new(title.to_owned(), (70, 12), letters(LARGE)))?;
    let mut x = 70;
    for (stroke, name) in CURVES {
        head.draw(&line(vec![(x, 50), (x + 34, 50)], stroke, INK))?;
        head.draw(&Text::new(name, (x + 42, 42), letters(SMALL)))?;
        x += 185;
    }
    for (number, (curve, colour)) in curves.coloured().enumerate() {
        // Sizes of memory stand in the first row; names of searches take rows of their own.
        let (x, y) = match curves.differ {
            false => (x + 85 * number as i32, 50),
            true => (75 + NAME * (number % NAMES) as i32, 50 + ROW * (1 + number / NAMES) as i32),
        };
        head.draw(&Circle::new((x, y), 5, colour.filled()))?;
        head.draw(&Text::new(curve.name.clone(), (x + 10, y - 8), letters(SMALL)))?;
    }
    Ok(())
}

/// The curves and their scales.
fn draw_curves<'a>(body: &Area<'a>, curves: &Curves<'_>, hit_rates: Range<f64>) -> Drawn<'a> {
    let gbit_top = curves.top(|result| result.gbit_per_s.max(result.limit_gbit_per_s));
    let tp_top = curves.top(|result| result.tp_per_s * 1e-6);
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
    for (curve, colour) in curves.coloured() {
        let found = curve.points(|result| result.gbit_per_s);
        let read = curve.points(|result| result.limit_gbit_per_s);
        let tps = curve.points(|result| result.tp_per_s * 1e-6);
        // All searches have the same limit.
        let of_limit = if curves.differ { INK } else { colour };
        chart.draw_series([line(read, Stroke::Dashed, of_limit)])?;
        chart.draw_series(found.iter().map(|&at| Circle::new(at, 4, colour.filled())))?;
        chart.draw_series([line(found, Stroke::Solid, colour)])?;
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
    use crate::tpg::{PathChoice, TpgPlan, TpgSearch, WorkingSet, measure};

    fn plan(sizes: &[u64]) -> TpgPlan {
        TpgPlan {
            hit_rates_hz: vec![100.0, 3000.0, 90e3],
            working_sets: sizes.iter().map(|size| WorkingSet::Size(Bytes(*size))).collect(),
            time: std::time::Duration::ZERO,
            ..TpgPlan::default()
        }
    }

    #[test]
    fn a_picture_has_its_curves_labels_and_units() {
        let report = measure(&plan(&[1 << 16, 1 << 17]), &mut |_| ()).unwrap();
        let one = |_: &TpgResult| String::new();
        let picture = svg("a & b < c", &report.results, &one).unwrap();
        let text = ["a &amp; b &lt; c", "64 KiB", "128 KiB", "rate, Gbit/s", "10k", "per second"];
        for text in text {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        assert_eq!(picture.matches("<circle").count(), 2 * (3 + 1), "points, and the legend");
        let too_few = svg("", &report.results[..1], &one).unwrap_err();
        assert!(matches!(too_few, PlotError::TooFew));
    }

    #[test]
    fn searches_have_a_curve_each_and_a_name_in_the_legend() {
        let searches = [PathChoice::Adaptive, PathChoice::Sparse, PathChoice::Dense];
        let searches = searches.map(|path| TpgSearch { path, ..TpgSearch::default() });
        let of_path = |result: &TpgResult| format!("path {:?}", result.path);
        for (sizes, set) in [(&[1 << 16][..], ""), (&[1 << 16, 1 << 17], ", 128 KiB")] {
            let plan = TpgPlan { searches: searches.to_vec(), ..plan(sizes) };
            let report = measure(&plan, &mut |_| ()).unwrap();
            let picture = svg("", &report.results, &of_path).unwrap();
            assert_eq!(picture.matches("<circle").count(), 3 * sizes.len() * (3 + 1), "{picture}");
            let has = |name| picture.contains(&format!("path {name}{set}"));
            assert!(["Adaptive", "Sparse", "Dense"].into_iter().all(has), "{picture}");
        }
    }
}
