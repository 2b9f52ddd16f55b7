//! Charts as SVG documents, from what they show: a [`Document`] has a title, a legend and columns of
//! [`Chart`]s, and a chart has axes and [`Mark`]s. How all of it looks is decided here alone.
#![forbid(unsafe_code)]

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::element::{DashedPathElement, DynElement, IntoDynElement};
use plotters::prelude::*;
use plotters::style::TextStyle;

/// A colour.
pub type Colour = RGBColor;
/// Text and axes: readable on white and on black, as all colours here.
pub const INK: Colour = RGBColor(128, 128, 128);
/// A blue.
pub const BLUE: Colour = RGBColor(58, 128, 217);
/// An orange.
pub const ORANGE: Colour = RGBColor(217, 112, 30);
/// A green.
pub const GREEN: Colour = RGBColor(42, 157, 100);
/// A red, for what went wrong.
pub const RED: Colour = RGBColor(205, 62, 62);
/// Colours of curves, in turn.
pub const COLOURS: [Colour; 6] =
    [BLUE, ORANGE, GREEN, RGBColor(200, 80, 140), RGBColor(140, 110, 210), RGBColor(150, 130, 50)];

/// Usual height of a page with one row in its legend, in pixels.
pub const HEIGHT: u32 = 520;
/// Heights of lines of text; letters are a good deal smaller.
const LARGE: i32 = 20;
const SMALL: i32 = 16;
/// Height of a title, and of a row of a legend.
const TITLE: i32 = 40;
const ROW: i32 = 24;
/// Left edge of titles and legends.
const LEFT: i32 = 20;
/// Width of a letter of a legend, and of its mark with the gaps.
const LETTER: i32 = 7;
const KEY: i32 = 50;
/// Around a chart but above it, and what the scales below it and beside it take.
const MARGIN: i32 = 12;
const BELOW: i32 = 46;
const BESIDE: i32 = 62;
/// Scales reach this much beyond the greatest value.
const HEADROOM: f64 = 1.08;
/// Radius of a dot.
const DOT: i32 = 4;
/// How much there is of what stays in the background.
const FAINT: f64 = 0.35;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;
type Element<'a, Coord> = DynElement<'static, SVGBackend<'a>, Coord>;

/// What cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the picture: {0}")]
pub struct Error(String);

/// A way to draw a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Without gaps.
    Solid,
    /// In dashes.
    Dashed,
    /// In dots.
    Dotted,
    /// Thin, grey and in dashes: what no measurement surpasses, or a moment.
    Limit,
    /// Filled, with a dot at each point in place of a line.
    Dots,
    /// The same, hollow.
    Circles,
}

/// How much of a circle is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// All of it.
    Filled,
    /// Its line.
    Outline,
    /// The same, thin and pale.
    Faint,
}

/// How large a circle is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Radius {
    /// In units of the axis across, of a chart that is [to scale](Chart::is_to_scale).
    Units(f64),
    /// In pixels, whatever the axes.
    Pixels(u32),
}

/// What stands for a name in a legend.
#[derive(Clone, Debug)]
pub struct Key {
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its colour.
    pub colour: Colour,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of a solid curve.
    pub fn new(colour: Colour, name: impl Into<String>) -> Self {
        Self { stroke: Stroke::Solid, colour, name: name.into() }
    }

    /// The key of a limit.
    pub fn limit(name: impl Into<String>) -> Self {
        Self { stroke: Stroke::Limit, ..Self::new(INK, name) }
    }
}

/// An axis: what it shows, from where to where.
pub struct Axis {
    /// Quantity and unit.
    pub name: String,
    /// First and last value.
    pub range: Range<f64>,
    /// How a value is written.
    pub label: Box<dyn Fn(&f64) -> String>,
    /// Whether each step is the same factor, and which; else the same difference. An axis on the right
    /// goes in the steps of that on the left.
    pub log_base: Option<f64>,
}

impl Axis {
    /// An even axis.
    pub fn new(name: impl Into<String>, range: Range<f64>) -> Self {
        // Sums of decimal fractions are not quite those fractions.
        let label = |value: &f64| ((value * 1e9).round() / 1e9).to_string();
        Self { name: name.into(), range, label: Box::new(label), log_base: None }
    }

    /// An even axis from 0 to a little beyond the greatest of `values`.
    pub fn up_to(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let greatest = values.into_iter().fold(f64::MIN_POSITIVE, f64::max);
        Self::new(name, 0.0..HEADROOM * greatest)
    }

    /// The same with so many digits behind the point.
    pub fn digits(self, digits: usize) -> Self {
        Self { label: Box::new(move |value| format!("{value:.digits$}")), ..self }
    }
}

/// Something drawn in a chart.
#[derive(Clone, Debug)]
pub enum Mark {
    /// A line through points, or a dot at each.
    Line(Stroke, Colour, Vec<(f64, f64)>),
    /// The same by the axis on the right.
    Right(Stroke, Colour, Vec<(f64, f64)>),
    /// A filled rectangle, by two opposite corners.
    Bar(Colour, [(f64, f64); 2]),
    /// A circle around a point.
    Circle(Paint, Colour, (f64, f64), Radius),
}

impl Mark {
    /// A solid curve.
    pub fn curve(colour: Colour, points: Vec<(f64, f64)>) -> Self {
        Self::Line(Stroke::Solid, colour, points)
    }

    /// A limit between two points.
    pub fn limit(from: (f64, f64), to: (f64, f64)) -> Self {
        Self::Line(Stroke::Limit, INK, vec![from, to])
    }
}

/// Marks between axes.
pub struct Chart {
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Up on the right, if other quantities are drawn.
    pub right: Option<Axis>,
    /// What is drawn, the first behind all others.
    pub marks: Vec<Mark>,
    /// Whether a unit is as long across as up. One of the axes, which have to be even, reaches farther then.
    pub is_to_scale: bool,
}

impl Chart {
    /// An empty chart.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, right: None, marks: Vec::new(), is_to_scale: false }
    }

    /// A limit all the way up at `x`, if that lies in the chart.
    pub fn limit_at(&mut self, x: f64) {
        let Range { start, end } = self.y.range;
        if self.x.range.contains(&x) || self.x.range.end == x {
            self.marks.push(Mark::limit((x, start), (x, end)));
        }
    }
}

/// A page: a title, a legend, and charts.
pub struct Document {
    /// What it shows.
    pub title: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels with one row in the legend; more of them make it higher. Usually [`HEIGHT`].
    pub height: u32,
    /// What the marks of all charts are.
    pub legend: Vec<Key>,
    /// Charts side by side, and one above the other.
    pub columns: Vec<Vec<Chart>>,
}

impl Document {
    /// The document as SVG.
    ///
    /// # Errors
    /// When something of it cannot be drawn.
    pub fn svg(&self) -> Result<String, Error> {
        let places = self.places();
        let rows = places.last().map_or(1, |(_, row)| row + 1);
        let mut text = String::new();
        let size = (self.width, self.height + (ROW * (rows - 1)) as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let drawn = self.draw(&root, &places, TITLE + ROW * rows).and_then(|()| root.present());
        drawn.map_err(|error| Error(error.to_string()))?;
        drop(root);
        Ok(text)
    }

    /// Left edge and row of each key of the legend.
    fn places(&self) -> Vec<(i32, i32)> {
        let (mut x, mut row) = (LEFT, 0);
        let place = |key: &Key| {
            let width = KEY + LETTER * key.name.chars().count() as i32;
            if x > LEFT && x + width > self.width as i32 {
                (x, row) = (LEFT, row + 1);
            }
            x += width;
            (x - width, row)
        };
        self.legend.iter().map(place).collect()
    }

    fn draw<'a>(&self, root: &Area<'a>, places: &[(i32, i32)], head: i32) -> Drawn<'a> {
        root.draw(&Text::new(self.title.clone(), (LEFT, 12), letters(LARGE)))?;
        for (key, (x, row)) in self.legend.iter().zip(places) {
            let y = TITLE + ROW * row + ROW / 2;
            let ends = match key.stroke {
                Stroke::Dots | Stroke::Circles => vec![(x + 15, y)],
                _ => vec![(*x, y), (x + 30, y)],
            };
            marks(key.stroke, key.colour, &ends).iter().try_for_each(|mark| root.draw(mark))?;
            root.draw(&Text::new(key.name.clone(), (x + 36, y - 7), letters(SMALL)))?;
        }
        let (_, body) = root.split_vertically(head);
        for (area, column) in body.split_evenly((1, self.columns.len())).iter().zip(&self.columns) {
            for (area, chart) in area.split_evenly((column.len(), 1)).iter().zip(column) {
                chart.draw_with_scales(area)?;
            }
        }
        Ok(())
    }
}

impl Chart {
    fn draw_with_scales<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let even = |axis: &Axis| axis.range.clone();
        let log = |axis: &Axis, base| even(axis).log_scale().base(base);
        if self.is_to_scale {
            let [x, y] = self.ranges_to_scale(area.dim_in_pixel());
            return self.draw(area, x, [y.clone(), y]);
        }
        let (x, y, right) = (&self.x, &self.y, self.right.as_ref().unwrap_or(&self.y));
        match (x.log_base, y.log_base) {
            (None, None) => self.draw(area, even(x), [y, right].map(even)),
            (Some(base), None) => self.draw(area, log(x, base), [y, right].map(even)),
            (None, Some(up)) => self.draw(area, even(x), [y, right].map(|y| log(y, up))),
            (Some(base), Some(up)) => self.draw(area, log(x, base), [y, right].map(|y| log(y, up))),
        }
    }

    /// The ranges of both axes, the narrower of them widened so that a unit is as long across as up.
    fn ranges_to_scale(&self, (width, height): (u32, u32)) -> [Range<f64>; 2] {
        let across = f64::from(width as i32 - 2 * MARGIN - BESIDE).max(1.0);
        let up = f64::from(height as i32 - MARGIN - BELOW).max(1.0);
        let length = |range: &Range<f64>| range.end - range.start;
        let (x, y) = (&self.x.range, &self.y.range);
        let unit = (across / length(x)).min(up / length(y));
        let widened = |range: &Range<f64>, pixels: f64| {
            let more = (pixels / unit - length(range)) / 2.0;
            range.start - more..range.end + more
        };
        [widened(x, across), widened(y, up)]
    }

    fn draw<'a, X, Y>(&self, area: &Area<'a>, across: X, [left, right_scale]: [Y; 2]) -> Drawn<'a>
    where
        X: AsRangedCoord<Value = f64> + Clone,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let (up, right) = (&self.y, self.right.as_ref());
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_top(0)
            .x_label_area_size(BELOW)
            .y_label_area_size(BESIDE)
            .right_y_label_area_size(if right.is_some() { BESIDE } else { 0 })
            .build_cartesian_2d(across.clone(), left)?
            .set_secondary_coord(across, right_scale);
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(INK.mix(FAINT))
            .light_line_style(INK.mix(0.0))
            .label_style(letters(SMALL))
            .x_desc(&self.x.name)
            .y_desc(&up.name)
            .x_label_formatter(&self.x.label)
            .y_label_formatter(&up.label)
            .x_labels(8)
            .y_labels(8)
            .draw()?;
        if let Some(right) = right {
            chart
                .configure_secondary_axes()
                .axis_style(INK)
                .label_style(letters(SMALL))
                .y_label_formatter(&right.label)
                .y_desc(&right.name)
                .draw()?;
        }
        let Range { start, end } = self.x.range;
        let place = |x| f64::from(chart.plotting_area().map_coordinate(&(x, up.range.start)).0);
        let unit = (place(end) - place(start)) / (end - start);
        for mark in &self.marks {
            match mark {
                Mark::Line(stroke, colour, points) => {
                    chart.draw_series(marks(*stroke, *colour, points))?;
                }
                Mark::Right(stroke, colour, points) => {
                    chart.draw_secondary_series(marks(*stroke, *colour, points))?;
                }
                Mark::Bar(colour, corners) => {
                    chart.draw_series([Rectangle::new(*corners, colour.filled())])?;
                }
                Mark::Circle(paint, colour, at, radius) => {
                    let pixels = match radius {
                        Radius::Units(units) => (units * unit).round() as i32,
                        Radius::Pixels(pixels) => *pixels as i32,
                    };
                    let style = match paint {
                        Paint::Filled => colour.filled(),
                        Paint::Outline => colour.stroke_width(2),
                        Paint::Faint => colour.mix(FAINT).stroke_width(1),
                    };
                    chart.draw_series([Circle::new(*at, pixels, style)])?;
                }
            }
        }
        Ok(())
    }
}

fn letters(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// A line through `points`, or a dot at each.
fn marks<'a, Coord: Clone + 'static>(
    stroke: Stroke,
    colour: Colour,
    points: &[Coord],
) -> Vec<Element<'a, Coord>> {
    let dashed = |length, gap, style| {
        vec![DashedPathElement::new(points.to_vec(), length, gap, style).into_dyn()]
    };
    let style = colour.stroke_width(2);
    match stroke {
        Stroke::Solid => vec![PathElement::new(points.to_vec(), style).into_dyn()],
        Stroke::Dashed => dashed(9, 6, style),
        Stroke::Dotted => dashed(2, 5, style),
        Stroke::Limit => dashed(5, 4, colour.stroke_width(1)),
        Stroke::Dots => circles(points, colour.filled()),
        Stroke::Circles => circles(points, style),
    }
}

/// A dot, or what `style` makes of one, at each point.
fn circles<'a, Coord: Clone + 'static>(
    points: &[Coord],
    style: ShapeStyle,
) -> Vec<Element<'a, Coord>> {
    points.iter().map(|at| Circle::new(at.clone(), DOT, style).into_dyn()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(log_base: Option<f64>) -> Chart {
        let x = Axis { log_base, ..Axis::new("bytes", 1.0..64.0) };
        let mut chart = Chart::new(x, Axis::up_to("rate, GB/s", [1.0, 2.0]).digits(1));
        chart.marks = vec![
            Mark::curve(BLUE, vec![(1.0, 0.5), (64.0, 2.0)]),
            Mark::Line(Stroke::Dots, BLUE, vec![(1.0, 0.5), (64.0, 2.0)]),
            Mark::Bar(RED, [(1.0, 0.0), (2.0, 1.0)]),
        ];
        chart
    }

    fn document(columns: Vec<Vec<Chart>>, legend: Vec<Key>) -> String {
        let title = "a & b < c".to_owned();
        Document { title, width: 900, height: HEIGHT, legend, columns }.svg().unwrap()
    }

    #[test]
    fn a_page_has_all_that_was_asked_for() {
        let mut right = chart(Some(4.0));
        right.right = Some(Axis::up_to("hits, MHz", [7.0]));
        right.marks.push(Mark::Right(Stroke::Dotted, GREEN, vec![(1.0, 3.0), (64.0, 7.0)]));
        let keys = vec![Key::new(BLUE, "measured"), Key::limit("link")];
        let page = document(vec![vec![chart(None), chart(None)], vec![right]], keys);
        for text in ["a &amp; b &lt; c", "bytes", "rate, GB/s", "hits, MHz", "measured", "link"] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        assert_eq!((page.matches("<circle").count(), page.matches("<rect").count()), (6, 3));
    }

    #[test]
    fn a_long_legend_takes_more_rows_and_a_higher_page() {
        let keys = |count| vec![Key::new(BLUE, "x".repeat(30)); count];
        let height = |count| {
            let page = document(vec![vec![chart(None)]], keys(count));
            page.split('"').nth(3).unwrap().parse::<u32>().unwrap()
        };
        assert_eq!((height(0), height(3), height(4)), (HEIGHT, HEIGHT, HEIGHT + ROW as u32));
    }

    #[test]
    fn equal_factors_are_equal_heights_on_an_axis_of_factors() {
        let mut chart = chart(Some(2.0));
        let axis = Axis::new("us", 1.0..100.0);
        chart.y = Axis { log_base: Some(10.0), label: Box::new(|us| format!("{us} us")), ..axis };
        let dots = vec![(1.0, 1.0), (8.0, 10.0), (64.0, 100.0)];
        chart.marks = vec![Mark::Line(Stroke::Dots, BLUE, dots)];
        let page = document(vec![vec![chart]], Vec::new());
        let heights = of_circles(&page, "cy");
        assert_eq!(heights.len(), 3, "{page}");
        assert!((heights[0] - 2 * heights[1] + heights[2]).abs() <= 1, "{heights:?}");
        assert!(page.contains("10 us") && heights[0] > heights[2]);
    }

    /// Values of an attribute of all circles.
    fn of_circles(page: &str, name: &str) -> Vec<i32> {
        let circles = page.split("<circle").skip(1);
        let value = |circle: &str| {
            let (_, behind) = circle.split_once(&format!(" {name}=\"")).unwrap();
            behind.split('"').next().unwrap().parse().unwrap()
        };
        circles.map(value).collect()
    }

    #[test]
    fn a_circle_to_scale_is_as_large_as_it_says() {
        let mut chart =
            Chart::new(Axis::new("x, mm", -300.0..300.0), Axis::new("y", -300.0..300.0));
        chart.is_to_scale = true;
        let circle = |at, radius| Mark::Circle(Paint::Outline, BLUE, at, radius);
        chart.marks = vec![
            circle((-100.0, 0.0), Radius::Units(100.0)),
            circle((100.0, 0.0), Radius::Pixels(3)),
            circle((-100.0, 200.0), Radius::Pixels(3)),
        ];
        let page = document(vec![vec![chart]], Vec::new());
        let [x, y, r] = ["cx", "cy", "r"].map(|name| of_circles(&page, name));
        assert!((x[1] - x[0] - 2 * r[0]).abs() <= 2, "{x:?} {r:?}");
        assert!((y[0] - y[2] - 2 * r[0]).abs() <= 2, "{y:?} {r:?}");
        assert_eq!((x[0], r[1]), (x[2], 3));
        let circles = page.split("<circle").skip(1).map(|it| it.split('>').next().unwrap());
        assert!(circles.into_iter().all(|circle| circle.contains("fill=\"none\"")), "{page}");
    }

    #[test]
    fn labels_are_short() {
        let axis = Axis::new("", 0.0..1.0);
        assert_eq!([0.1 + 0.2, 2.0, -0.5].map(|it| (axis.label)(&it)), ["0.3", "2", "-0.5"]);
    }

    #[test]
    fn limits_lie_within_the_chart() {
        let mut chart = chart(None);
        [0.5, 64.0, 65.0].into_iter().for_each(|x| chart.limit_at(x));
        assert_eq!(chart.marks.len(), 4);
    }
}
