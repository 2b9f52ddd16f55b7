//! Pictures of a torus that survives its faults.

mod means;
mod over_time;

use gannet_plot::{Area, Drawn, LARGE, SMALL, letters};
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

/// Width and height in pixels.
const SIZE: (u32, u32) = (1000, 520);
/// Height of title and legend.
const HEAD: u32 = 70;

/// A document with a title and a legend, in whose left and right half something is drawn.
///
/// What has no colour in the legend is a mark.
fn document<F>(
    title: &str,
    legend: &[(Option<RGBColor>, &str)],
    draw: F,
) -> Result<String, PlotError>
where
    F: for<'a> FnOnce(&Area<'a>, &Area<'a>) -> Drawn<'a>,
{
    let whole = |root: &Area<'_>| {
        let (head, body) = root.split_vertically(HEAD);
        draw_head(&head, title, legend)?;
        let (left, right) = body.split_horizontally(SIZE.0 / 2);
        draw(&left, &right)
    };
    gannet_plot::document(SIZE, whole).map_err(PlotError::Drawing)
}

fn draw_head<'a>(head: &Area<'a>, title: &str, legend: &[(Option<RGBColor>, &str)]) -> Drawn<'a> {
    head.draw(&Text::new(title.to_owned(), (20, 12), letters(LARGE)))?;
    let mut x = 20;
    for (colour, name) in legend {
        let line = vec![(x, 52), (x + 24, 52)];
        match colour {
            Some(colour) => head.draw(&PathElement::new(line, colour.stroke_width(4)))?,
            None => head.draw(&gannet_plot::limit(line))?,
        }
        head.draw(&Text::new((*name).to_owned(), (x + 30, 45), letters(SMALL)))?;
        x += 50 + 8 * name.len() as i32;
    }
    Ok(())
}
