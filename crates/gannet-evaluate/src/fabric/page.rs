//! A page that shows what was measured, without anything from elsewhere.

use std::fmt::Write;

use gannet_plot::{Axis, COLOURS, Chart, Document, Error, HEIGHT, INK, Key, Mark, Stroke};

use super::{FabricReport, FabricRow, Operation};

/// How the page looks, on white and on black.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1300px;margin:2em auto;padding:0 1em;\
color-scheme:light dark}svg{max-width:100%;height:auto}table{border-collapse:collapse}\
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #8886}td:last-child,th:last-child{text-align:left}";

impl FabricReport {
    /// The report as an HTML page with its pictures in it.
    ///
    /// # Errors
    /// When a picture cannot be drawn.
    pub fn page(&self) -> Result<String, Error> {
        let mut page = String::from("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">");
        let title = "What the fabric gives, beside what bounds it";
        let _ = write!(page, "<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>\n<p>");
        self.place.lines().iter().for_each(|line| _ = writeln!(page, "{}. ", escaped(line)));
        page.push_str("</p>\n");
        page.push_str(&self.pictures().svg()?);
        page.push_str(
            "\n<table><tr><th>operation<th>bytes<th>per second<th>least<th>most<th>GB/s<th>p50, ns\
             <th>p99, ns<th>ratio<th>limit</tr>\n",
        );
        self.rows.iter().for_each(|row| page.push_str(&table_row(row)));
        page.push_str(
            "</table>\n<p>Dashed: the limit of each. Latency is half of a round trip.</p></html>\n",
        );
        Ok(page)
    }

    /// Rates and times by size, each with its limit.
    fn pictures(&self) -> Document {
        let rates: Vec<Operation> = self.operations(|operation| operation != Operation::RoundTrip);
        let trips = self.operations(|operation| operation == Operation::RoundTrip);
        let rate = |row: &FabricRow| row.gbyte_per_s;
        let rate_limit = |row: &FabricRow| row.limit * row.bytes as f64 * 1e-9;
        let time = |row: &FabricRow| row.latency_ns_p50.unwrap_or(f64::NAN);
        let time_limit = |row: &FabricRow| row.limit;
        let mut columns = Vec::new();
        if !rates.is_empty() {
            columns.push(vec![self.chart("GB/s", &rates, rate, rate_limit)]);
        }
        if !trips.is_empty() {
            columns.push(vec![self.chart("half a round trip, ns", &trips, time, time_limit)]);
        }
        let mut legend: Vec<Key> = Operation::ALL
            .into_iter()
            .filter(|operation| rates.contains(operation) || trips.contains(operation))
            .map(|operation| Key::new(colour(operation), name(operation)))
            .collect();
        legend.push(Key { stroke: Stroke::Dashed, ..Key::new(INK, "its limit") });
        Document { title: String::new(), width: 1300, height: HEIGHT, legend, columns }
    }

    fn operations(&self, which: impl Fn(Operation) -> bool) -> Vec<Operation> {
        let is_there =
            |&of: &Operation| which(of) && self.rows.iter().any(|row| row.operation == of);
        Operation::ALL.into_iter().filter(is_there).collect()
    }

    fn chart(
        &self,
        name: &str,
        operations: &[Operation],
        value: impl Fn(&FabricRow) -> f64,
        limit: impl Fn(&FabricRow) -> f64,
    ) -> Chart {
        let rows = || self.rows.iter().filter(|row| operations.contains(&row.operation));
        let sizes = || rows().map(|row| row.bytes as f64);
        let values = || rows().flat_map(|row| [value(row), limit(row)]).filter(|at| at.is_finite());
        let decades = 10f64.powf(values().fold(f64::INFINITY, f64::min).log10().floor())
            ..10f64.powf(values().fold(f64::MIN_POSITIVE, f64::max).log10().ceil());
        // One size has no extent.
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let across = Axis::new("bytes of an operation", least..most.max(2.0 * least));
        let across = Axis { log_base: Some(2.0), ..across };
        let mut chart =
            Chart::new(across, Axis { log_base: Some(10.0), ..Axis::new(name, decades) });
        for &operation in operations {
            let points = |of: &dyn Fn(&FabricRow) -> f64| {
                let mut points: Vec<(f64, f64)> = rows()
                    .filter(|row| row.operation == operation)
                    .map(|row| (row.bytes as f64, of(row)))
                    .collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                points
            };
            let colour = colour(operation);
            chart.marks.push(Mark::Line(Stroke::Dashed, colour, points(&limit)));
            chart.marks.push(Mark::curve(colour, points(&value)));
        }
        chart
    }
}

/// Text as HTML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn colour(operation: Operation) -> gannet_plot::Colour {
    COLOURS[operation as usize % COLOURS.len()]
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::OneWay => "one way",
        Operation::Flush => "flush",
        Operation::RoundTrip => "round trip",
        Operation::Get => "GET",
    }
}

fn table_row(row: &FabricRow) -> String {
    let ns = |value: Option<f64>| value.map_or_else(String::new, |ns| format!("{ns:.0}"));
    let [least, most] = row.per_s_range;
    format!(
        "<tr><td>{}<td>{}<td>{:.0}<td>{least:.0}<td>{most:.0}<td>{:.3}<td>{}<td>{}<td>{:.2}<td>{}</tr>\n",
        name(row.operation),
        row.bytes,
        row.per_s,
        row.gbyte_per_s,
        ns(row.latency_ns_p50),
        ns(row.latency_ns_p99),
        row.ratio,
        row.limit_is
    )
}
