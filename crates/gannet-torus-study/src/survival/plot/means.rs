//! How routes get round faults, by number of faults.

use gannet_plot::{Area, BLUE, Drawn, GREEN, INK, ORANGE, RED, SMALL, letters};
use plotters::prelude::*;

use super::{PlotError, document};
use crate::survival::{RoutingReport, Row};

/// Draws the part of trials that were routed by each means, against the number of faults on the
/// left and of dead nodes on the right: an SVG document.
///
/// # Errors
/// When the picture cannot be drawn.
pub fn means_svg(report: &RoutingReport) -> Result<String, PlotError> {
    let title = format!(
        "{}, {} virtual channels: routes round {} random sets of faults",
        report.lattice, report.vcs, report.total.trials
    );
    let legend = [
        (Some(BLUE), "long way round rings"),
        (Some(ORANGE), "early turns"),
        (Some(GREEN), "tree"),
        (Some(RED), "refused"),
    ];
    document(&title, &legend, |left, right| {
        draw(left, &report.by_faults, "dead nodes and cables")?;
        draw(right, &report.by_dead_nodes, "dead nodes")
    })
}

fn draw<'a>(area: &Area<'a>, rows: &[Row], name: &str) -> Drawn<'a> {
    let numbers = || rows.iter().map(|row| f64::from(row.faults));
    let left = numbers().fold(f64::MAX, f64::min).min(0.0) - 0.6;
    let right = numbers().fold(0.0, f64::max) + 0.6;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_top(0)
        .x_label_area_size(46)
        .y_label_area_size(60)
        .build_cartesian_2d(left..right, 0.0..100.0)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.35))
        .light_line_style(INK.mix(0.0))
        .disable_x_mesh()
        .label_style(letters(SMALL))
        .x_label_formatter(&|faults| format!("{faults:.0}"))
        .y_label_formatter(&|part| format!("{part:.0}"))
        .x_desc(name)
        .y_desc("part of the trials, %")
        .draw()?;
    chart.draw_series(rows.iter().flat_map(bars))?;
    Ok(())
}

/// The bars of one number of faults, on top of each other.
fn bars(row: &Row) -> Vec<Rectangle<(f64, f64)>> {
    let (x, figures) = (f64::from(row.faults), &row.figures);
    let parts = [
        (figures.long_way, BLUE),
        (figures.early_turn, ORANGE),
        (figures.tree, GREEN),
        (figures.refused, RED),
    ];
    let mut base = 0.0;
    let bar = |(count, colour): (u64, RGBColor)| {
        let top = base + 100.0 * count as f64 / figures.trials.max(1) as f64;
        let corners = [(x - 0.4, base), (x + 0.4, top)];
        base = top;
        (count > 0).then(|| Rectangle::new(corners, colour.filled()))
    };
    parts.into_iter().filter_map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survival::{FaultCounts, RoutingCampaign};
    use crate::trials::run_all;

    #[test]
    fn a_picture_has_a_bar_for_each_means_and_number() {
        let mut campaign = RoutingCampaign::new("4x4".parse().unwrap());
        campaign.counts = FaultCounts { nodes: (0, 2), cables: (0, 1) };
        campaign.trials = 20;
        campaign.cycles = 50;
        let report = run_all(&campaign.trials().unwrap(), &mut |_| ());
        let picture = means_svg(&report).unwrap();
        for text in
            ["4x4x1, 4 virtual channels", "early turns", "refused", "dead nodes", "trials, %"]
        {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        let bars = |row: &Row| {
            let figures = &row.figures;
            let counts = [figures.long_way, figures.early_turn, figures.tree, figures.refused];
            counts.iter().filter(|count| **count > 0).count()
        };
        let expected: usize = report.by_faults.iter().chain(&report.by_dead_nodes).map(bars).sum();
        assert_eq!(picture.matches("<rect").count(), expected, "{picture}");
    }
}
