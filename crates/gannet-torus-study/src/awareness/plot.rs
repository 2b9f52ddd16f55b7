//! A picture of how long a torus takes to become aware of a fault.

use gannet_plot::{
    Area, COLOURS, Drawn, HEADROOM, INK, LARGE, SMALL, Stroke, letters, limit, line,
};
use plotters::prelude::*;

use crate::awareness::{CampaignReport, Distribution, FaultKind};

/// Awareness time over the watchdog period that was published: 0.9 s at 500 ms.
///
/// Source: Ammendola et al., arXiv:1307.0433.
pub const PUBLISHED_PERIODS: f64 = 1.8;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 520);
/// Height of title and legend.
const HEAD: i32 = 64;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// Nothing to draw, or things that do not go together.
    #[error(
        "a picture needs campaigns at one watchdog period in which hosts hung, and at most one of \
         each mode; ask for one --period and one --lattice"
    )]
    Unfit,
    /// The picture cannot be drawn.
    #[error("cannot draw the picture: {0}")]
    Drawing(String),
}

/// A curve: its name and colour, and when hung hosts were known.
struct Curve<'a> {
    name: &'static str,
    colour: RGBColor,
    hung: &'a Distribution,
}

impl<'a> Curve<'a> {
    fn of(report: &'a CampaignReport, colour: RGBColor) -> Option<Self> {
        let hung = report.kinds.iter().find(|kind| kind.kind == FaultKind::HostHung)?;
        Some(Self { name: report.mode.name(), colour, hung: &hung.awareness })
    }

    /// The part of faults known within each hundredth of `period_s`, in %, as a line of steps.
    fn steps(&self, period_s: f64) -> Vec<(f64, f64)> {
        let bin_s = self.hung.bin_s.unwrap_or_default();
        let scale = 100.0 / self.hung.count.max(1) as f64 * (period_s / 100.0) / bin_s;
        let step = |(index, &count): (usize, &u64)| {
            let (left, height) = (index as f64 * bin_s, scale * count as f64);
            [(left, height), (left + bin_s, height)]
        };
        let bins = self.hung.histogram.iter();
        let end = (bins.len() as f64 * bin_s, 0.0);
        bins.enumerate().flat_map(step).chain([end]).collect()
    }
}

/// Draws how long it took until hung hosts were known, in each mode, beside the published figure:
/// an SVG document.
///
/// # Errors
/// When the reports are not of one lattice and watchdog period, or tell of no hung host.
pub fn svg(reports: &[CampaignReport]) -> Result<String, PlotError> {
    let Some(first) = reports.first() else { return Err(PlotError::Unfit) };
    let same = |it: &CampaignReport| it.lattice == first.lattice && it.period_s == first.period_s;
    let curves: Vec<Curve> =
        reports.iter().zip(COLOURS).filter_map(|(it, colour)| Curve::of(it, colour)).collect();
    let twice = (1..reports.len())
        .any(|it| reports[..it].iter().any(|other| other.mode == reports[it].mode));
    if !reports.iter().all(same) || curves.len() != reports.len() || twice {
        return Err(PlotError::Unfit);
    }
    let title = format!(
        "{}: time until a hung host is known, watchdog period {} ms",
        first.lattice,
        first.period_s * 1e3
    );
    let draw = |root: &Area<'_>| {
        let (head, body) = root.split_vertically(HEAD);
        draw_head(&head, &title, &curves)?;
        draw_curves(&body, &curves, first.period_s)
    };
    gannet_plot::document(SIZE, draw).map_err(PlotError::Drawing)
}

fn milliseconds(time_s: Option<f64>) -> f64 {
    time_s.unwrap_or_default() * 1e3
}

fn draw_head<'a>(head: &Area<'a>, title: &str, curves: &[Curve]) -> Drawn<'a> {
    head.draw(&Text::new(title.to_owned(), (70, 12), letters(LARGE)))?;
    let mut x = 70;
    for curve in curves {
        head.draw(&line(vec![(x, 50), (x + 30, 50)], Stroke::Solid, curve.colour))?;
        let (mean, max) = (milliseconds(curve.hung.mean_s), milliseconds(curve.hung.max_s));
        let name = format!("{}: mean {mean:.0} ms, longest {max:.0}", curve.name);
        head.draw(&Text::new(name, (x + 38, 42), letters(SMALL)))?;
        x += 300;
    }
    head.draw(&limit(vec![(x, 50), (x + 30, 50)]))?;
    head.draw(&Text::new(
        format!("published: {PUBLISHED_PERIODS} periods"),
        (x + 38, 42),
        letters(SMALL),
    ))
}

fn draw_curves<'a>(body: &Area<'a>, curves: &[Curve], period_s: f64) -> Drawn<'a> {
    let published_s = PUBLISHED_PERIODS * period_s;
    let longest = curves.iter().filter_map(|curve| curve.hung.max_s).fold(published_s, f64::max);
    let lines: Vec<_> = curves.iter().map(|curve| curve.steps(period_s)).collect();
    let highest = lines.iter().flatten().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let (right, top) = (HEADROOM * longest, HEADROOM * highest);
    let mut chart = ChartBuilder::on(body)
        .margin(10)
        .margin_top(0)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.35))
        .light_line_style(INK.mix(0.12))
        .label_style(letters(SMALL))
        .x_desc("time from the fault until the master knows, s")
        .y_desc("faults known, % in T/100")
        .draw()?;
    for (curve, steps) in curves.iter().zip(lines) {
        chart.draw_series([line(steps, Stroke::Solid, curve.colour)])?;
    }
    chart.draw_series([limit(vec![(published_s, 0.0), (published_s, top)])])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::awareness::{Campaign, Surroundings};
    use crate::trials::run_all;
    use gannet_lofamo::Mode;

    #[test]
    fn a_picture_has_both_modes_and_the_published_line() {
        let report = |mode| {
            let campaign = Campaign {
                lattice: "3x3".parse().unwrap(),
                mode,
                period_ns: 500_000_000,
                trials: 40,
                faults: 6,
                seed: 1,
                surroundings: Surroundings::default(),
                threads: 1,
            };
            run_all(&campaign, &mut |_| ())
        };
        let reports = Mode::ALL.map(report);
        let picture = svg(&reports).unwrap();
        for text in ["3x3x1", "500 ms", "poll: mean", "push: mean", "published", "% in T/100"] {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        assert!(matches!(svg(&[]), Err(PlotError::Unfit)));
        let twice = [reports[0].clone(), reports[0].clone()];
        assert!(matches!(svg(&twice), Err(PlotError::Unfit)));
    }
}
