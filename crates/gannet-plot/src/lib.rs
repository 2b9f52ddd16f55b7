//! Charts as SVG documents: what all have in common.
#![forbid(unsafe_code)]

use plotters::coord::Shift;
use plotters::element::{DashedPathElement, DynElement, IntoDynElement};
use plotters::prelude::*;
use plotters::style::TextStyle;

/// Text and axes: readable on white and on black.
pub const INK: RGBColor = RGBColor(128, 128, 128);
/// The first of the colours of curves.
pub const BLUE: RGBColor = RGBColor(58, 128, 217);
/// The second.
pub const ORANGE: RGBColor = RGBColor(217, 112, 30);
/// The third.
pub const GREEN: RGBColor = RGBColor(42, 157, 100);
/// What went wrong.
pub const RED: RGBColor = RGBColor(205, 62, 62);
/// Colours of curves, in turn: readable on white and on black.
pub const COLOURS: [RGBColor; 6] =
    [BLUE, ORANGE, GREEN, RGBColor(200, 80, 140), RGBColor(140, 110, 210), RGBColor(150, 130, 50)];
/// Heights of lines of text; letters are a good deal smaller.
pub const LARGE: i32 = 20;
/// Height of a line of all other text.
pub const SMALL: i32 = 16;
/// Scales reach this much beyond the greatest value.
pub const HEADROOM: f64 = 1.08;

/// Where something is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What may go wrong.
pub type Fault<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
/// Whether it was drawn.
pub type Drawn<'a> = Result<(), Fault<'a>>;

/// A way to draw a line.
#[derive(Clone, Copy)]
pub enum Stroke {
    /// Without gaps.
    Solid,
    /// Of dashes.
    Dashed,
    /// Of dots.
    Dotted,
}

/// The document that `draw` fills, of this width and height in pixels; or what went wrong.
pub fn document<F>(size: (u32, u32), draw: F) -> Result<String, String>
where
    F: for<'a> FnOnce(&Area<'a>) -> Drawn<'a>,
{
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw(&root).and_then(|()| root.present()).map_err(|error| error.to_string())?;
    drop(root);
    Ok(text)
}

/// How text of this size is drawn.
pub fn letters(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// A line through `points`.
pub fn line<'a, Coord: Clone + 'static>(
    points: Vec<Coord>,
    stroke: Stroke,
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, Coord> {
    let style = colour.stroke_width(2);
    match stroke {
        Stroke::Solid => PathElement::new(points, style).into_dyn(),
        Stroke::Dashed => DashedPathElement::new(points, 9, 6, style).into_dyn(),
        Stroke::Dotted => DashedPathElement::new(points, 2, 5, style).into_dyn(),
    }
}

/// A line that no measurement surpasses.
pub fn limit<'a, Coord: Clone + 'static>(
    points: Vec<Coord>,
) -> DynElement<'static, SVGBackend<'a>, Coord> {
    DashedPathElement::new(points, 5, 4, INK.stroke_width(1)).into_dyn()
}
