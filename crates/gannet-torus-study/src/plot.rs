//! What the experiments came to, as pictures: SVG documents.

use gannet_plot::{
    Axis, BLUE, COLOURS, Chart, Colour, Document, GREEN, HEIGHT, Key, Mark, ORANGE, RED, Stroke,
};

use crate::ablation::{Ablations, TlbRow};
use crate::awareness::{CampaignReport, Distribution, FaultKind, PUBLISHED_PERIODS};
use crate::point::Point;
use crate::report::LoadReport;
use crate::survival::{Instant, RerouteReport, RoutingReport, Row};

/// Latencies above this many times that of a packet alone lie outside the picture.
const LATENCY_TOP: f64 = 8.0;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A curve needs two points.
    #[error("a picture needs two loads at least; ask for a range, as by --load 0.1..0.9:0.1")]
    TooFew,
    /// Campaigns that do not go together.
    #[error(
        "a picture needs campaigns at one watchdog period in which hosts hung, and at most one of \
         each mode; ask for one --period and one --lattice"
    )]
    Unfit,
    /// Nothing was simulated.
    #[error("a picture needs a trial that was not refused")]
    Empty,
    /// The picture cannot be drawn.
    #[error(transparent)]
    Drawing(#[from] gannet_plot::Error),
}

fn document(
    title: String,
    legend: Vec<Key>,
    columns: Vec<Vec<Chart>>,
) -> Result<String, PlotError> {
    Ok(Document { title, width: 1000, height: HEIGHT, legend, columns }.svg()?)
}

/// Draws latency against load on the left, and accepted against offered on the right, with their
/// limits.
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
    let (limits, most) = (&report.limits, last.load);
    let alone = limits.zero_load_latency_cycles.unwrap_or(1.0);
    let steady = || points.iter().filter(|point| !point.saturated);
    let longest = steady().filter_map(|point| point.latency_p99_cycles).max().unwrap_or(0) as f64;
    let top = (1.08 * longest.max(2.0 * alone)).min(LATENCY_TOP * alone);
    let curve = |colour, value: fn(&Point) -> Option<f64>| {
        let places = steady().filter_map(|point| Some((point.load, value(point)?)));
        with_dots(colour, places.filter(|at| at.1 <= top).collect())
    };
    let name = match points.iter().any(|point| point.saturated) {
        true => "latency, cycles (saturated loads: not drawn)",
        false => "latency, cycles",
    };
    let offered = || Axis::new("offered, flits per node and cycle", 0.0..1.04 * most);
    let mut latency = Chart::new(offered(), Axis::new(name, 0.0..top));
    latency.marks.extend(curve(BLUE, |point| point.latency_mean_cycles));
    latency.marks.extend(curve(ORANGE, |point| point.latency_p99_cycles.map(|it| it as f64)));
    latency.marks.push(Mark::limit((0.0, alone), (1.04 * most, alone)));
    let accepted = Axis::new("accepted, flits per node and cycle", 0.0..1.12 * most);
    let mut throughput = Chart::new(offered(), accepted);
    let accepted = points.iter().map(|point| (point.load, point.accepted)).collect();
    throughput.marks.extend(with_dots(BLUE, accepted));
    throughput.marks.push(Mark::limit((0.0, 0.0), (most, most)));
    for chart in [&mut latency, &mut throughput] {
        chart.limit_at(limits.saturation_bound);
    }
    let legend = vec![
        Key::new(BLUE, "mean, accepted"),
        Key::new(ORANGE, "99th percentile"),
        Key::limit("packet alone, all that is offered, bound of load"),
    ];
    document(title.to_owned(), legend, vec![vec![latency], vec![throughput]])
}

/// A measured curve with its points.
fn with_dots(colour: Colour, points: Vec<(f64, f64)>) -> [Mark; 2] {
    [Mark::Line(Stroke::Dots, colour, points.clone()), Mark::curve(colour, points)]
}

/// Draws bandwidth to host and GPU memory against the size of messages, with and without TLB, below
/// the rate of the link.
///
/// # Errors
/// When it cannot be drawn.
pub fn tlb_svg(ablations: &Ablations) -> Result<String, PlotError> {
    type Curve = (&'static str, Colour, Stroke, fn(&TlbRow) -> f64);
    let curves: [Curve; 4] = [
        ("host, TLB", BLUE, Stroke::Solid, |row| row.host_with),
        ("host, none", BLUE, Stroke::Dotted, |row| row.host_without),
        ("GPU, TLB", ORANGE, Stroke::Solid, |row| row.gpu_with),
        ("GPU, none", ORANGE, Stroke::Dotted, |row| row.gpu_without),
    ];
    let rows = &ablations.tlb;
    let link = ablations.parameters.link_bytes_per_s * 1e-9;
    let fastest = rows.iter().flat_map(|row| curves.map(|(.., rate)| rate(row) * 1e-9));
    // A link far faster than all else is no limit worth to be seen.
    let fastest = fastest.fold(f64::MIN_POSITIVE, f64::max);
    let top = 1.1 * if link < 2.0 * fastest { link.max(fastest) } else { fastest };
    let first = rows.first().map_or(1.0, |row| row.bytes as f64);
    let last = rows.last().map_or(2.0, |row| row.bytes as f64);
    let bytes = Axis::new("bytes of a message", first..last);
    let bytes = Axis { label: Box::new(size), log_base: Some(4.0), ..bytes };
    let mut chart = Chart::new(bytes, Axis::new("bandwidth, GB/s", 0.0..top));
    let mut legend = Vec::new();
    for (name, colour, stroke, rate) in curves {
        let points = rows.iter().map(|row| (row.bytes as f64, rate(row) * 1e-9)).collect();
        chart.marks.push(Mark::Line(stroke, colour, points));
        legend.push(Key { stroke, ..Key::new(colour, name) });
    }
    if link <= top {
        chart.marks.push(Mark::limit((first, link), (last, link)));
    }
    legend.push(Key::limit("link"));
    document("RDMA PUT with and without TLB".to_owned(), legend, vec![vec![chart]])
}

/// A size as a label: `64`, `4Ki`, `1Mi`.
fn size(bytes: &f64) -> String {
    match bytes.round() as u64 {
        bytes if bytes >= 1 << 20 => format!("{}Mi", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{}Ki", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// Draws how long it took until hung hosts were known, in each mode, beside the published figure.
///
/// # Errors
/// When the reports are not of one lattice and watchdog period, or tell of no hung host.
pub fn awareness_svg(reports: &[CampaignReport]) -> Result<String, PlotError> {
    let Some(first) = reports.first() else { return Err(PlotError::Unfit) };
    let fits = |(index, it): (usize, &CampaignReport)| {
        let same = it.lattice == first.lattice && it.period_s == first.period_s;
        same && reports[..index].iter().all(|other| other.mode != it.mode)
    };
    if !reports.iter().enumerate().all(fits) {
        return Err(PlotError::Unfit);
    }
    let published_s = PUBLISHED_PERIODS * first.period_s;
    let (mut legend, mut marks) = (Vec::new(), Vec::new());
    let (mut longest, mut highest) = (published_s, 0.0_f64);
    for (report, colour) in reports.iter().zip(COLOURS) {
        let hung = report.kinds.iter().find(|kind| kind.kind == FaultKind::HostHung);
        let hung = &hung.ok_or(PlotError::Unfit)?.awareness;
        let ms = |time_s: Option<f64>| time_s.unwrap_or_default() * 1e3;
        let (mode, mean, max) = (report.mode.name(), ms(hung.mean_s), ms(hung.max_s));
        legend.push(Key::new(colour, format!("{mode}: mean {mean:.0} ms, longest {max:.0}")));
        let steps = steps(hung, first.period_s);
        longest = longest.max(hung.max_s.unwrap_or_default());
        highest = steps.iter().map(|point| point.1).fold(highest, f64::max);
        marks.push(Mark::curve(colour, steps));
    }
    let time = Axis::up_to("time from the fault until the master knows, s", [longest]);
    let mut chart = Chart::new(time, Axis::up_to("faults known, % in T/100", [highest]));
    chart.marks = marks;
    chart.limit_at(published_s);
    legend.push(Key::limit(format!(
        "published: {PUBLISHED_PERIODS} periods, of a beat; push has two"
    )));
    let period_ms = first.period_s * 1e3;
    let lattice = &first.lattice;
    let title =
        format!("{lattice}: time until a hung host is known, watchdog period {period_ms} ms");
    document(title, legend, vec![vec![chart]])
}

/// The part of faults known within each hundredth of `period_s`, in %, as a line of steps.
fn steps(times: &Distribution, period_s: f64) -> Vec<(f64, f64)> {
    let bin_s = times.bin_s.unwrap_or_default();
    let scale = period_s / bin_s / times.count.max(1) as f64;
    let step = |(index, &count): (usize, &u64)| {
        let (left, height) = (index as f64 * bin_s, scale * count as f64);
        [(left, height), (left + bin_s, height)]
    };
    let end = (times.histogram.len() as f64 * bin_s, 0.0);
    times.histogram.iter().enumerate().flat_map(step).chain([end]).collect()
}

/// Draws the part of trials that were routed by each means, against the number of faults on the
/// left and of dead nodes on the right.
///
/// # Errors
/// When the picture cannot be drawn.
pub fn means_svg(report: &RoutingReport) -> Result<String, PlotError> {
    let title = format!(
        "{}, {} virtual channels: routes round {} random sets of faults",
        report.lattice, report.vcs, report.total.trials
    );
    let legend = vec![
        Key::new(BLUE, "long way round rings"),
        Key::new(ORANGE, "early turns"),
        Key::new(GREEN, "tree"),
        Key::new(RED, "refused"),
    ];
    let chart = |rows: &[Row], name| {
        let numbers = rows.iter().map(|row| f64::from(row.faults));
        let faults = Axis::new(name, -0.6..numbers.fold(0.0, f64::max) + 0.6).digits(0);
        let mut chart = Chart::new(faults, Axis::new("part of the trials, %", 0.0..100.0));
        chart.marks = rows.iter().flat_map(bars).collect();
        vec![chart]
    };
    let by_faults = chart(&report.by_faults, "dead nodes and cables");
    document(title, legend, vec![by_faults, chart(&report.by_dead_nodes, "dead nodes")])
}

/// The bars of one number of faults, on top of each other.
fn bars(row: &Row) -> Vec<Mark> {
    let (x, figures) = (f64::from(row.faults), &row.figures);
    let parts = [
        (figures.long_way, BLUE),
        (figures.early_turn, ORANGE),
        (figures.tree, GREEN),
        (figures.refused, RED),
    ];
    let mut base = 0.0;
    let bar = |(count, colour): (u64, Colour)| {
        let top = base + 100.0 * count as f64 / figures.trials.max(1) as f64;
        let corners = [(x - 0.4, base), (x + 0.4, top)];
        base = top;
        (count > 0).then_some(Mark::Bar(colour, corners))
    };
    parts.into_iter().filter_map(bar).collect()
}

/// Draws throughput on the left, and lost and replayed packets and latency on the right, against the
/// time since a fault.
///
/// # Errors
/// When nothing was simulated, or the picture cannot be drawn.
pub fn over_time_svg(report: &RerouteReport) -> Result<String, PlotError> {
    let (points, stretch) = (&report.series.points, report.series.stretch_cycles);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(PlotError::Empty);
    };
    let times = first.cycle as f64..(last.cycle + i64::from(stretch)) as f64;
    let known = report.aware_cycles.mean;
    let moments = [0.0, known, known + report.drain_cycles.mean];
    type Value = fn(&Instant) -> Option<f64>;
    let chart = |name, curves: &[(Colour, Value)]| {
        let values = curves.iter().flat_map(|(_, value)| points.iter().filter_map(value));
        let cycles = Axis::new("cycles after the fault", times.clone()).digits(0);
        let up = Axis::up_to(name, values);
        let top = up.range.end;
        let digits = if top < 1.0 { 2 } else { usize::from(top < 10.0) };
        let mut chart = Chart::new(cycles, up.digits(digits));
        moments.into_iter().for_each(|moment| chart.limit_at(moment));
        for (colour, value) in curves {
            let at = |it: &Instant| Some((it.cycle as f64 + f64::from(stretch) / 2.0, value(it)?));
            chart.marks.push(Mark::curve(*colour, points.iter().filter_map(at).collect()));
        }
        chart
    };
    let accepted = chart("accepted, flits per node and cycle", &[(BLUE, |it| Some(it.accepted))]);
    let packets: [(Colour, Value); 2] =
        [(RED, |it| Some(it.lost)), (GREEN, |it| Some(it.replayed))];
    let packets = chart("packets a kilocycle", &packets);
    let latency = chart("mean latency, cycles", &[(ORANGE, |it| it.latency_cycles)]);
    let title = format!(
        "{}, load {}: mean over {} trials, in each a fault at 0",
        report.lattice, report.load, report.trials
    );
    let legend = vec![
        Key::new(BLUE, "throughput"),
        Key::new(RED, "lost"),
        Key::new(GREEN, "sent again"),
        Key::new(ORANGE, "latency"),
        Key::limit("fault, master aware, new routes (means)"),
    ];
    document(title, legend, vec![vec![accepted], vec![packets, latency]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ablation::Parameters;
    use crate::awareness::{Campaign, Watched};
    use crate::survival::{FaultCounts, RerouteCampaign, RoutingCampaign, Warning};
    use crate::trials::run_all;
    use gannet_lofamo::Mode;

    fn assert_shows(picture: &str, texts: &[&str]) {
        for text in texts {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
    }

    #[test]
    fn ablations_have_their_curves_names_and_units() {
        let picture = tlb_svg(&Ablations::run(&Parameters::default())).unwrap();
        let curves = ["host, TLB", "GPU, none", "bandwidth, GB/s"];
        assert_shows(&picture, &curves);
        assert_shows(&picture, &["bytes of a message", "4Ki", "1Mi"]);
    }

    #[test]
    fn awareness_is_drawn_in_both_modes_beside_the_published_line() {
        let report = |mode| {
            let machine = Watched::new("3x3".parse().unwrap(), mode, 500_000_000);
            run_all(&Campaign::new(machine, 40, 6))
        };
        let reports = Mode::ALL.map(report);
        let picture = awareness_svg(&reports).unwrap();
        assert_shows(&picture, &["3x3x1", "500 ms", "poll: mean", "push: mean", "published"]);
        assert!(matches!(awareness_svg(&[]), Err(PlotError::Unfit)));
        let twice = [reports[0].clone(), reports[0].clone()];
        assert!(matches!(awareness_svg(&twice), Err(PlotError::Unfit)));
    }

    #[test]
    fn each_means_and_number_of_faults_has_a_bar() {
        let mut campaign = RoutingCampaign::new("4x4".parse().unwrap());
        campaign.counts = FaultCounts { nodes: (0, 2), cables: (0, 1) };
        (campaign.trials, campaign.cycles) = (20, 50);
        let report = run_all(&campaign);
        let picture = means_svg(&report).unwrap();
        assert_shows(&picture, &["4x4x1, 4 virtual channels", "early turns", "refused"]);
        let bars = |row: &Row| {
            let figures = &row.figures;
            let counts = [figures.long_way, figures.early_turn, figures.tree, figures.refused];
            counts.iter().filter(|count| **count > 0).count()
        };
        let expected: usize = report.by_faults.iter().chain(&report.by_dead_nodes).map(bars).sum();
        assert_eq!(picture.matches("<rect").count(), expected, "{picture}");
    }

    #[test]
    fn a_fault_shows_in_throughput_losses_and_latency() {
        let mut campaign = RerouteCampaign::new("4x4".parse().unwrap());
        (campaign.warning, campaign.trials) = (Warning::After { cycles: 300 }, 3);
        let (report, _) = run_all(&campaign.trials().unwrap());
        let picture = over_time_svg(&report).unwrap();
        let names = ["4x4x1, load 0.3", "accepted, flits", "packets a kilocycle", "mean latency"];
        assert_shows(&picture, &names);
        for colour in ["#3A80D9", "#CD3E3E", "#2A9D64", "#D9701E"] {
            assert!(picture.matches(colour).count() >= 2, "{colour} is not in {picture}");
        }
    }
}
