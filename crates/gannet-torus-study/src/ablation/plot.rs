//! The picture of bandwidth against message size, with and without TLB.

use gannet_plot::{Area, BLUE, Drawn, INK, LARGE, ORANGE, SMALL, Stroke, letters, limit, line};
use plotters::prelude::*;

use super::{Ablations, TlbRow};
use crate::PlotError;

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 520);
/// Height of the title and the names of the curves.
const HEAD: i32 = 68;
/// Name, colour, stroke, and rate in GB/s.
type Curve = (&'static str, RGBColor, Stroke, fn(&TlbRow) -> f64);

const CURVES: [Curve; 4] = [
    ("host, TLB", BLUE, Stroke::Solid, |row| row.host_with * 1e-9),
    ("host, none", BLUE, Stroke::Dotted, |row| row.host_without * 1e-9),
    ("GPU, TLB", ORANGE, Stroke::Solid, |row| row.gpu_with * 1e-9),
    ("GPU, none", ORANGE, Stroke::Dotted, |row| row.gpu_without * 1e-9),
];

/// Draws bandwidth to host and GPU memory against the size of messages, with and without TLB, below
/// the rate of the link: an SVG document.
///
/// # Errors
/// When it cannot be drawn.
pub fn svg(ablations: &Ablations) -> Result<String, PlotError> {
    let draw = |root: &Area<'_>| {
        let (head, body) = root.split_vertically(HEAD);
        draw_head(&head)?;
        draw_curves(&body, ablations)
    };
    gannet_plot::document(SIZE, draw).map_err(PlotError::Drawing)
}

fn draw_head<'a>(head: &Area<'a>) -> Drawn<'a> {
    head.draw(&Text::new("RDMA PUT with and without TLB", (20, 14), letters(LARGE)))?;
    let mut x = 72;
    for (name, colour, stroke, _) in CURVES {
        head.draw(&line(vec![(x, 54), (x + 28, 54)], stroke, colour))?;
        head.draw(&Text::new(name, (x + 34, 47), letters(SMALL)))?;
        x += 140;
    }
    head.draw(&limit(vec![(x, 54), (x + 28, 54)]))?;
    head.draw(&Text::new("link", (x + 34, 47), letters(SMALL)))
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
        .label_style(letters(SMALL))
        .x_desc("bytes of a message")
        .y_desc("bandwidth, GB/s")
        .x_label_formatter(&size)
        .draw()?;
    for (_, colour, stroke, rate) in CURVES {
        let points: Vec<(f64, f64)> =
            rows.iter().map(|row| (row.bytes as f64, rate(row))).collect();
        chart.draw_series([line(points, stroke, colour)])?;
    }
    if link <= top {
        chart.draw_series([limit(vec![(first, link), (last, link)])])?;
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
    use crate::ablation::Parameters;

    #[test]
    fn a_picture_has_its_curves_names_and_units() {
        let ablations = Ablations::run(&Parameters::default());
        let picture = svg(&ablations).unwrap();
        for text in
            ["host, TLB", "GPU, none", "bandwidth, GB/s", "bytes of a message", "4Ki", "1Mi"]
        {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
    }
}
