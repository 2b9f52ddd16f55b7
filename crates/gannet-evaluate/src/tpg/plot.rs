//! A picture of a scan over hit rates.

use gannet_measure::quantity::Bytes;
use gannet_plot::{Axis, COLOURS, Chart, Colour, Document, HEIGHT, INK, Key, Mark, Stroke};

use super::report::TpgResult;

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
    #[error(transparent)]
    Drawing(#[from] gannet_plot::Error),
}

/// What is drawn of a result, with its name in the legend.
const LINES: [(Stroke, &str); 3] = [
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

    fn coloured(&self) -> impl Iterator<Item = (&Curve<'a>, Colour)> {
        self.curves.iter().zip(COLOURS.into_iter().cycle())
    }

    /// All values of a kind.
    fn all(&self, value: fn(&TpgResult) -> f64) -> impl Iterator<Item = f64> {
        self.curves.iter().flat_map(|curve| &curve.results).map(move |result| value(result))
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
    let hits = Axis::new("hits per second on each channel", range);
    let hits = Axis { label: Box::new(hit_rate), log_base: Some(10.0), ..hits };
    let rates = curves.all(|result| result.gbit_per_s.max(result.limit_gbit_per_s));
    let mut chart = Chart::new(hits, Axis::up_to("rate, Gbit/s", rates));
    let found = curves.all(|result| result.tp_per_s * 1e-6);
    chart.right = Some(Axis::up_to("primitives found, millions per second", found));
    let line = |(stroke, name)| Key { stroke, ..Key::new(INK, name) };
    let mut legend: Vec<Key> = LINES.into_iter().map(line).collect();
    for (curve, colour) in curves.coloured() {
        let found = curve.points(|result| result.gbit_per_s);
        let read = curve.points(|result| result.limit_gbit_per_s);
        let tps = curve.points(|result| result.tp_per_s * 1e-6);
        // All searches have the same limit.
        let of_limit = if curves.differ { INK } else { colour };
        chart.marks.extend([
            Mark::Line(Stroke::Dashed, of_limit, read),
            Mark::Line(Stroke::Dots, colour, found.clone()),
            Mark::curve(colour, found),
            Mark::Right(Stroke::Dotted, colour, tps),
        ]);
        legend.push(Key { stroke: Stroke::Dots, ..Key::new(colour, curve.name.clone()) });
    }
    let columns = vec![vec![chart]];
    Ok(Document { title: title.to_owned(), width: 900, height: HEIGHT, legend, columns }.svg()?)
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
