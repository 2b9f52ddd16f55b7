//! Pictures of a torus that survives its faults.

mod means;
mod over_time;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

pub use means::means_svg;
pub use over_time::over_time_svg;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// There is nothing to draw.
    #[error("a picture needs a trial that was not refused")]
    Empty,
    /// The picture cannot be drawn.
    #[error("cannot draw the picture: {0}")]
    Drawing(String),
}

impl PlotError {
    fn drawing(error: impl ToString) -> Self {
        Self::Drawing(error.to_string())
    }
}

/// Width and height in pixels.
const SIZE: (u32, u32) = (1000, 520);
/// Height of title and legend.
const HEAD: i32 = 70;
/// Text and axes: readable on white and on black.
const INK: RGBColor = RGBColor(128, 128, 128);
const BLUE: RGBColor = RGBColor(58, 128, 217);
const ORANGE: RGBColor = RGBColor(217, 112, 30);
const GREEN: RGBColor = RGBColor(56, 158, 92);
const RED: RGBColor = RGBColor(205, 62, 62);
const FONT: &str = "sans-serif";
const LARGE: i32 = 19;
const SMALL: i32 = 16;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failed<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Drawn<'a> = Result<(), Failed<'a>>;

/// A document with a title and a legend, in whose left and right half something is drawn.
fn document(
    title: &str,
    legend: &[(Option<RGBColor>, &str)],
    draw: impl FnOnce(&Area, &Area) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let (head, body) = root.split_vertically(HEAD);
    draw_head(&head, title, legend).map_err(PlotError::drawing)?;
    let (left, right) = body.split_horizontally(SIZE.0 as i32 / 2);
    draw(&left, &right)?;
    root.present().map_err(PlotError::drawing)?;
    drop((left, right, head, body, root));
    Ok(text)
}

/// Title and names; what has no colour is drawn dashed.
fn draw_head<'a>(head: &Area<'a>, title: &str, legend: &[(Option<RGBColor>, &str)]) -> Drawn<'a> {
    let (large, small) = ((FONT, LARGE).into_font(), (FONT, SMALL).into_font());
    head.draw(&Text::new(title.to_owned(), (20, 12), large.color(&INK)))?;
    let mut x = 20;
    for (colour, name) in legend {
        let line = [(x, 52), (x + 24, 52)];
        match colour {
            Some(colour) => head.draw(&PathElement::new(line, colour.stroke_width(4)))?,
            None => head.draw(&DashedPathElement::new(line, 5, 4, INK.stroke_width(1)))?,
        }
        head.draw(&Text::new((*name).to_owned(), (x + 30, 45), small.clone().color(&INK)))?;
        x += 50 + 8 * name.len() as i32;
    }
    Ok(())
}
