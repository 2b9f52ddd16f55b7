//! The picture of bandwidth against message size, with and without TLB.

use gannet_torus::rdma::ablation::{Ablations, TlbRow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::plot::PlotError;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 520);
/// Height of the title and the names of the curves.
const HEAD: i32 = 68;
/// Text and axes: readable on white and on black.
const INK: RGBColor = RGBColor(128, 128, 128);
const BLUE: RGBColor = RGBColor(58, 128, 217);
const ORANGE: RGBColor = RGBColor(217, 112, 30);
const FONT: &str = "sans-serif";
const LARGE: i32 = 19;
const SMALL: i32 = 16;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Name, colour, whether the TLB is there, and rate in GB/s.
type Curve = (&'static str, RGBColor, bool, fn(&TlbRow) -> f64);

const CURVES: [Curve; 4] = [
    ("host, TLB", BLUE, true, |row| row.host_with * 1e-9),
    ("host, none", BLUE, false, |row| row.host_without * 1e-9),
    ("GPU, TLB", ORANGE, true, |row| row.gpu_with * 1e-9),
    ("GPU, none", ORANGE, false, |row| row.gpu_without * 1e-9),
];

/// Draws bandwidth to host and GPU memory against the size of messages, with and without TLB, below
/// the rate of the link: an SVG document.
///
/// # Errors
/// When it cannot be drawn.
pub fn ablation_svg(ablations: &Ablations) -> Result<String, PlotError> {
    let drawing = |error: DrawingAreaErrorKind<_>| PlotError::Drawing(error.to_string());
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let (head, body) = root.split_vertically(HEAD);
    draw_head(&head).map_err(drawing)?;
    draw_curves(&body, ablations).map_err(drawing)?;
    root.present().map_err(drawing)?;
    drop((head, body, root));
    Ok(text)
}

fn draw_head<'a>(head: &Area<'a>) -> Drawn<'a> {
    let large = (FONT, LARGE).into_font().color(&INK);
    head.draw(&Text::new("RDMA PUT with and without TLB", (20, 14), large))?;
    let small = (FONT, SMALL).into_font().color(&INK);
    let mut x = 72;
    for (name, colour, with, _) in CURVES {
        draw_line(head, vec![(x, 54), (x + 28, 54)], colour, with)?;
        head.draw(&Text::new(name, (x + 34, 47), small.clone()))?;
        x += 140;
    }
    head.draw(&DashedPathElement::new(vec![(x, 54), (x + 28, 54)], 5, 4, INK.stroke_width(1)))?;
    head.draw(&Text::new("link", (x + 34, 47), small))
}

/// A line, dotted without TLB.
fn draw_line<'a>(
    area: &Area<'a>,
    points: Vec<(i32, i32)>,
    colour: RGBColor,
    is_solid: bool,
) -> Drawn<'a> {
    let style = colour.stroke_width(2);
    match is_solid {
        true => area.draw(&PathElement::new(points, style)),
        false => area.draw(&DashedPathElement::new(points, 2, 5, style)),
    }
}

fn draw_curves<'a>(body: &Area<'a>, ablations: &Ablations) -> Drawn<'a> {
    let rows = &ablations.tlb;
    let link = ablations.parameters.link_bytes_per_s * 1e-9;
    let first = rows.first().map_or(1.0, |row| row.bytes as f64);
    let last = rows.last().map_or(2.0, |row| row.bytes as f64);
    let fastest = rows.iter().flat_map(|row| CURVES.map(|(.., rate)| rate(row)));
    // A link far faster than all else is no limit worth to be seen.
    let fastest = fastest.fold(f64::MIN_POSITIVE, f64::max);
    let top = 1.1 * if link < 2.0 * fastest { link.max(fastest) } else { fastest };
    let label = (FONT, SMALL).into_font().color(&INK);
    let mut chart = ChartBuilder::on(body)
        .margin(12)
        .margin_top(0)
        .x_label_area_size(46)
        .y_label_area_size(60)
        .build_cartesian_2d((first..last).log_scale().base(4.0), 0.0..top)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.35))
        .light_line_style(INK.mix(0.0))
        .label_style(label)
        .x_desc("bytes of a message")
        .y_desc("bandwidth, GB/s")
        .x_label_formatter(&size)
        .draw()?;
    for (_, colour, with, rate) in CURVES {
        let points: Vec<(f64, f64)> =
            rows.iter().map(|row| (row.bytes as f64, rate(row))).collect();
        let style = colour.stroke_width(2);
        match with {
            true => _ = chart.draw_series([PathElement::new(points, style)])?,
            false => _ = chart.draw_series([DashedPathElement::new(points, 2, 5, style)])?,
        }
    }
    if link <= top {
        let line = vec![(first, link), (last, link)];
        chart.draw_series([DashedPathElement::new(line, 5, 4, INK.stroke_width(1))])?;
    }
    Ok(())
}

/// A size as a label: `64`, `4Ki`, `1Mi`.
fn size(bytes: &f64) -> String {
    match bytes.round() as u64 {
        bytes if bytes >= 1 << 20 => format!("{}Mi", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{}Ki", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torus::AblationReport;
    use gannet_torus::rdma::ablation::Parameters;

    #[test]
    fn a_picture_has_its_curves_names_and_units() {
        let report = AblationReport::new(&Parameters::default());
        let picture = ablation_svg(&report.ablations).unwrap();
        for text in
            ["host, TLB", "GPU, none", "bandwidth, GB/s", "bytes of a message", "4Ki", "1Mi"]
        {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
    }
}
