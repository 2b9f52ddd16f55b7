//! Detector files: where the optical modules of KM3NeT are, where their photomultipliers look, and
//! how far their clocks are off.
//!
//! Text, fields separated by white space; blank lines and lines that begin with `#` are skipped:
//!
//! ```text
//! version 1:        detector modules
//! versions 2 to 5:  detector vN
//!                   valid_from valid_until             (seconds since 1970, not used)
//!                   UTM datum zone easting northing z  (not used)
//!                   modules
//! then each module:
//!   versions 1 to 3:  id string floor pmts
//!   version 4:        id string floor x y z q0 qx qy qz t0 pmts
//!   version 5:        id string floor x y z q0 qx qy qz t0 status pmts
//! and below it each of its photomultipliers, in the order of their channels:
//!   versions 1 and 2: id x y z dx dy dz t0
//!   versions 3 to 5:  id x y z dx dy dz t0 [status]
//! ```
//!
//! Positions are in metres, z is up, directions point away from the module, and t0 is in
//! nanoseconds: it is added to the time of a hit. Rotation and t0 of a module are contained in its
//! photomultipliers and not used. Where a version does not state the position of a module, it is
//! where the axes of its photomultipliers meet. Modules without photomultipliers are left out.
//!
//! Source: KM3NeT/km3pipe `hardware.py`; KM3NeT/KM3io.jl `hardware.jl`.

use core::fmt::{self, Display};
use std::collections::BTreeMap;

use gannet_measure::random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CHANNELS;

/// Most modules of a detector: a building block has 2070.
pub const MODULES_MAX: usize = 4096;

/// Distance of the photomultipliers from the centre of their module, in metres.
const MODULE_RADIUS: f64 = 0.2;
/// Rings of photomultipliers of a module: angle from the upward direction and number. Neighbouring
/// rings are turned by half a step.
const RINGS: [(f64, usize); 6] =
    [(56.0, 6), (72.0, 6), (107.0, 6), (123.0, 6), (148.0, 6), (180.0, 1)];

/// A point or direction: x, y, z.
pub type Vector = [f64; 3];

/// A photomultiplier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pmt {
    /// Position, in metres.
    pub position: Vector,
    /// Where it looks, of length 1.
    pub direction: Vector,
    /// What is to be added to the times of its hits, in ns.
    pub t0_ns: f64,
}

/// An optical module.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Its identifier.
    pub id: u32,
    /// String on which it hangs.
    pub string: u32,
    /// Its floor on the string, from 1 at the bottom.
    pub floor: u32,
    /// Position of its centre, in metres.
    pub position: Vector,
    /// Its photomultipliers by channel, at most [`CHANNELS`].
    pub pmts: Vec<Pmt>,
}

/// The optical modules of a detector.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorFile {
    /// Identifier of the detector.
    pub id: u32,
    modules: Vec<Module>,
    /// Place of each module by its identifier.
    places: BTreeMap<u32, usize>,
}

/// Why a text is not a detector file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DetectorFileError {
    /// A line does not hold what it should.
    #[error("detector file line {line}: expected {expected}, found `{got}`")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What was expected.
        expected: String,
        /// What is there.
        got: String,
    },
    /// Two modules have the same identifier.
    #[error("detector file line {line}: module {id} is described twice")]
    Twice {
        /// Line number of the second description, from 1.
        line: usize,
        /// Identifier of the module.
        id: u32,
    },
    /// The file ends before its last module or photomultiplier, or too early for any.
    #[error("detector file line {line}: the file ends, expected {expected}")]
    Ends {
        /// Number of the last line.
        line: usize,
        /// What was expected after it.
        expected: String,
    },
}

/// A detector whose strings stand on a lattice of triangles around its centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lattice {
    /// Strings; modules on all of them are at most 4096.
    pub strings: usize,
    /// Modules on a string, at most 99.
    pub modules: usize,
    /// Distance of neighbouring strings, in metres: 90 for ARCA, 20 for ORCA.
    pub spacing_m: f64,
    /// Distance of neighbouring modules on a string, in metres: 36 for ARCA, 9 for ORCA.
    pub height_m: f64,
    /// Largest t0 of a photomultiplier, in ns.
    pub t0_max_ns: f64,
    /// Seed of the t0.
    pub seed: u64,
}

impl Default for Lattice {
    fn default() -> Self {
        Self { strings: 14, modules: 18, spacing_m: 90.0, height_m: 36.0, t0_max_ns: 50.0, seed: 0 }
    }
}

impl Lattice {
    /// What is wrong with these values: key, value, and what is allowed.
    pub fn fault(&self) -> Option<(&'static str, f64, String)> {
        let most = MODULES_MAX / self.modules.max(1);
        [
            ("modules", self.modules as f64, 1.0, 99.0),
            ("strings", self.strings as f64, 1.0, most as f64),
            ("spacing_m", self.spacing_m, 1.0, 1000.0),
            ("height_m", self.height_m, 1.0, 1000.0),
            ("t0_max_ns", self.t0_max_ns, 0.0, 1e6),
        ]
        .into_iter()
        .find(|&(_, value, min, max)| !(min..=max).contains(&value))
        .map(|(key, value, min, max)| {
            (key, value, format!("expected a number from {min} to {max}"))
        })
    }
}

impl DetectorFile {
    /// The detector of these modules; the first of those with the same identifier counts.
    pub fn new(id: u32, modules: Vec<Module>) -> Self {
        let mut detector = Self { id, modules: Vec::new(), places: BTreeMap::new() };
        for module in modules {
            if detector.places.contains_key(&module.id) || detector.modules.len() == MODULES_MAX {
                continue;
            }
            detector.places.insert(module.id, detector.modules.len());
            detector.modules.push(module);
        }
        detector
    }

    /// A detector of strings on a lattice. Module 312 is on floor 12 of string 3.
    pub fn lattice(lattice: &Lattice) -> Self {
        let mut random = Random::new(lattice.seed);
        let mut modules = Vec::new();
        for (index, [x, y]) in triangles(lattice.strings, lattice.spacing_m).into_iter().enumerate()
        {
            for floor in 1..=lattice.modules as u32 {
                let string = index as u32 + 1;
                let position = [x, y, lattice.height_m * f64::from(floor)];
                let pmts = directions().into_iter().map(|direction| Pmt {
                    position: along(position, direction, MODULE_RADIUS),
                    direction,
                    t0_ns: (lattice.t0_max_ns * random.unit() * 1000.0).round() / 1000.0,
                });
                let pmts = pmts.collect();
                modules.push(Module { id: string * 100 + floor, string, floor, position, pmts });
            }
        }
        Self::new(1, modules)
    }

    /// Reads a detector file.
    ///
    /// # Errors
    /// [`DetectorFileError`], with the line and what was expected there.
    pub fn parse(text: &str) -> Result<Self, DetectorFileError> {
        let mut lines = Lines::new(text);
        let mut first = lines.next("`detector modules` or `detector vN`")?;
        let id = first.number("the number of the detector", 0, u32::MAX)?;
        let (version, modules) = if first.peek().starts_with(['v', 'V']) {
            let version = match first.peek().get(1..).and_then(|text| text.parse().ok()) {
                Some(version @ 2..=5) => version,
                _ => return Err(first.refused("a version from v2 to v5")),
            };
            lines.next("the time of validity")?;
            lines.next("the UTM reference")?;
            let mut count = lines.next("the number of modules")?;
            (version, count.modules()?)
        } else {
            (1, first.modules()?)
        };
        let mut all = Vec::new();
        let mut ids = BTreeMap::new();
        for index in 0..modules {
            let mut line = lines.next(format_args!("module {} of {modules}", index + 1))?;
            let (number, (module, pmts)) = (line.number, line.module(version)?);
            if ids.insert(module.id, ()).is_some() {
                return Err(DetectorFileError::Twice { line: number, id: module.id });
            }
            all.push(lines.pmts(version, module, pmts)?);
        }
        if let Ok(line) = lines.next("") {
            return Err(line.refused(format_args!("the end of the file after {modules} modules")));
        }
        all.retain(|module| !module.pmts.is_empty());
        if all.is_empty() {
            return Err(lines.ends("a module with photomultipliers"));
        }
        Ok(Self::new(id, all))
    }

    /// All modules, in the order of the file.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Place in [`modules`](Self::modules) of the module with this identifier.
    pub fn place(&self, id: u32) -> Option<usize> {
        self.places.get(&id).copied()
    }

    /// The module with this identifier.
    pub fn module(&self, id: u32) -> Option<&Module> {
        self.place(id).map(|place| &self.modules[place])
    }
}

/// Version 4 of the format.
impl Display for DetectorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} v4\n0 9999999999\nUTM WGS84 33N 0 0 0\n{}", self.id, self.modules.len())?;
        let mut number = 0;
        for module in &self.modules {
            let Module { id, string, floor, position: [x, y, z], pmts } = module;
            writeln!(f, "{id} {string} {floor} {x} {y} {z} 1 0 0 0 0 {}", pmts.len())?;
            for Pmt { position: [x, y, z], direction: [dx, dy, dz], t0_ns } in pmts {
                number += 1;
                writeln!(f, " {number} {x} {y} {z} {dx} {dy} {dz} {t0_ns} 0")?;
            }
        }
        Ok(())
    }
}

/// The lines of a file that are neither blank nor comments.
struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    last: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.trim_start_matches('\u{feff}').lines().enumerate(), last: 0 }
    }

    fn ends(&self, expected: impl Display) -> DetectorFileError {
        DetectorFileError::Ends { line: self.last, expected: expected.to_string() }
    }

    /// The next line, which should hold what is `expected`.
    fn next(&mut self, expected: impl Display) -> Result<Line<'a>, DetectorFileError> {
        for (index, text) in self.lines.by_ref() {
            self.last = index + 1;
            let text = text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Line { number: index + 1, text, rest: text });
            }
        }
        Err(self.ends(expected))
    }

    /// The module with its `count` photomultipliers, which follow.
    fn pmts(
        &mut self,
        version: u32,
        mut module: Module,
        count: usize,
    ) -> Result<Module, DetectorFileError> {
        for channel in 0..count {
            let what = format_args!("channel {channel} of {count} of module {}", module.id);
            let mut line = self.next(what)?;
            let pmt = line.pmt(version)?;
            module.pmts.push(pmt);
        }
        if version < 4 {
            module.position = meeting(&module.pmts);
        }
        Ok(module)
    }
}

/// A line, and what was not read of it.
struct Line<'a> {
    number: usize,
    text: &'a str,
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn refused(&self, expected: impl Display) -> DetectorFileError {
        let (line, expected) = (self.number, expected.to_string());
        DetectorFileError::Line { line, expected, got: self.text.to_owned() }
    }

    /// The next field, empty when there is none.
    fn peek(&self) -> &'a str {
        self.rest.split_whitespace().next().unwrap_or("")
    }

    fn take(&mut self) -> &'a str {
        let field = self.peek();
        self.rest = self.rest.trim_start()[field.len()..].trim_start();
        field
    }

    fn number(&mut self, what: &str, min: u32, max: u32) -> Result<u32, DetectorFileError> {
        match self.take().parse::<u32>() {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            _ => Err(self.refused(format_args!("{what} from {min} to {max}"))),
        }
    }

    fn real(&mut self, what: &str) -> Result<f64, DetectorFileError> {
        let value = self.take().parse::<f64>().ok().filter(|value| value.abs() < 1e12);
        value.ok_or_else(|| self.refused(format_args!("{what}, a number")))
    }

    fn vector(&mut self, names: [&str; 3]) -> Result<Vector, DetectorFileError> {
        let [x, y, z] = names;
        Ok([self.real(x)?, self.real(y)?, self.real(z)?])
    }

    fn end(&self) -> Result<(), DetectorFileError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.refused(format_args!("the end of the line before `{}`", self.rest)))
    }

    fn modules(&mut self) -> Result<u32, DetectorFileError> {
        let modules = self.number("a number of modules", 1, MODULES_MAX as u32)?;
        self.end()?;
        Ok(modules)
    }

    /// The module of this line, and how many photomultipliers follow.
    fn module(&mut self, version: u32) -> Result<(Module, usize), DetectorFileError> {
        // Identifiers are signed in the packets of modules; floor -1 stands for an unknown one.
        let id = self.number("the identifier of a module", 0, i32::MAX as u32)?;
        let string = self.number("its string", 0, u32::MAX)?;
        let floor = match self.peek() {
            "-1" => {
                self.take();
                0
            }
            _ => self.number("its floor", 0, u32::MAX)?,
        };
        let mut position = [0.0; 3];
        if version >= 4 {
            position = self.vector(["x", "y", "z"])?;
            for what in ["q0", "qx", "qy", "qz", "t0"] {
                self.real(what)?;
            }
        }
        if version >= 5 {
            self.real("the status")?;
        }
        let pmts = self.number("a number of photomultipliers", 0, CHANNELS as u32)? as usize;
        self.end()?;
        Ok((Module { id, string, floor, position, pmts: Vec::with_capacity(pmts) }, pmts))
    }

    fn pmt(&mut self, version: u32) -> Result<Pmt, DetectorFileError> {
        self.real("the identifier of a photomultiplier")?;
        let position = self.vector(["x", "y", "z"])?;
        let direction = self.vector(["dx", "dy", "dz"])?;
        let length = dot(direction, direction).sqrt();
        if length < 1e-6 {
            return Err(self.refused("a direction, not 0 0 0"));
        }
        let t0_ns = self.real("t0")?;
        if version >= 3 && !self.rest.is_empty() {
            self.real("the status")?;
        }
        self.end()?;
        Ok(Pmt { position, direction: direction.map(|part| part / length), t0_ns })
    }
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn along(from: Vector, direction: Vector, distance: f64) -> Vector {
    core::array::from_fn(|axis| from[axis] + distance * direction[axis])
}

/// Where the axes of photomultipliers meet, by least squares: the mean of their positions where
/// they do not.
fn meeting(pmts: &[Pmt]) -> Vector {
    // Of the projector I - d d' across each axis d: the sum, and the sum of its products with the
    // positions.
    let mut matrix = [[0.0; 3]; 3];
    let mut sum = [0.0; 3];
    let mut mean = [0.0; 3];
    for Pmt { position, direction, .. } in pmts {
        let forward = dot(*position, *direction);
        for row in 0..3 {
            for column in 0..3 {
                let one = f64::from(u8::from(row == column));
                matrix[row][column] += one - direction[row] * direction[column];
            }
            sum[row] += position[row] - forward * direction[row];
            mean[row] += position[row] / pmts.len() as f64;
        }
    }
    let whole = determinant(matrix);
    if whole < 1e-6 {
        return mean;
    }
    core::array::from_fn(|axis| {
        let mut replaced = matrix;
        (0..3).for_each(|row| replaced[row][axis] = sum[row]);
        determinant(replaced) / whole
    })
}

fn determinant([a, b, c]: [Vector; 3]) -> f64 {
    let across = [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]];
    dot(a, across)
}

/// The directions of the 31 photomultipliers of a module, by channel.
///
/// Source: arXiv:1601.07459 (five rings of six, and one that looks down).
pub fn directions() -> Vec<Vector> {
    let ring = |(ring, (zenith, count)): (usize, (f64, usize))| {
        (0..count).map(move |step| {
            let (sin, cos) = zenith.to_radians().sin_cos();
            let turn = (60.0 * step as f64 + 30.0 * (ring % 2) as f64).to_radians();
            [sin * turn.cos(), sin * turn.sin(), cos]
        })
    };
    RINGS.into_iter().enumerate().flat_map(ring).collect()
}

/// The `count` points of a lattice of triangles that are nearest to its centre.
fn triangles(count: usize, spacing: f64) -> Vec<[f64; 2]> {
    // A circle around so many points has a radius of 0.53 times this, in units of the spacing.
    let rings = (count as f64).sqrt().ceil() as i32;
    let mut points = Vec::new();
    for row in -rings..=rings {
        for column in -rings..=rings {
            // The square of the distance in units of the spacing is whole.
            let far = column * column + column * row + row * row;
            points.push((far, row, column));
        }
    }
    points.sort_unstable();
    let place = |&(_, row, column): &(i32, i32, i32)| {
        let (row, column) = (f64::from(row), f64::from(column));
        [spacing * (column + row / 2.0), spacing * row * 0.75f64.sqrt()]
    };
    points.iter().take(count).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "\
# two modules
7 2
10 1 1 3
 1 1.0 0 0 1 0 0 10
 2 0 1.0 0 0 2 0 20.5
 3 0 0 -1.0 0 0 -1 -30

11 1 -1 1
 4 5 6 7 0 0 1 0
";

    #[test]
    fn a_file_of_the_first_version_is_read() {
        let detector = DetectorFile::parse(VERSION_1).unwrap();
        assert_eq!((detector.id, detector.modules().len()), (7, 2));
        let module = detector.module(10).unwrap();
        assert_eq!((module.string, module.floor, module.pmts.len()), (1, 1, 3));
        assert!(module.position.iter().all(|part| part.abs() < 1e-12));
        let second = Pmt { position: [0.0, 1.0, 0.0], direction: [0.0, 1.0, 0.0], t0_ns: 20.5 };
        assert_eq!(module.pmts[1], second);
        assert_eq!(detector.modules()[1].position, [5.0, 6.0, 7.0]);
        assert_eq!((detector.place(11), detector.module(12)), (Some(1), None));
    }

    #[test]
    fn later_versions_state_validity_position_and_status() {
        let pmt = "1 1 2 3.2 0 0 1 5";
        let head = "0 9999999999\nUTM WGS84 32N 587600 4016800 -3450\n";
        let base = "9 1 0 0 0 0 1 0 0 0 0 0 0\n";
        for (version, count, module, status) in [
            (2, 1, "10 1 1 1".to_owned(), ""),
            (3, 1, "10 1 1 1".to_owned(), " 0"),
            (4, 1, "10 1 1 1 2 3 1 0 0 0 0 1".to_owned(), " 0"),
            (5, 2, format!("{base}10 1 1 1 2 3 1 0 0 0 0 0 1"), " 0"),
        ] {
            let text = format!("7 v{version}\n{head}{count}\n{module}\n{pmt}{status}\n");
            let detector = DetectorFile::parse(&text).unwrap();
            let [module] = detector.modules() else { panic!("{version}") };
            assert_eq!(module.pmts[0].t0_ns, 5.0);
            let z = if version < 4 { 3.2 } else { 3.0 };
            assert_eq!((module.id, module.position), (10, [1.0, 2.0, z]), "{version}");
        }
    }

    #[test]
    fn a_lattice_has_strings_and_modules_at_their_distances() {
        let lattice = Lattice { strings: 115, ..Lattice::default() };
        assert_eq!(lattice.fault(), None);
        let detector = DetectorFile::lattice(&lattice);
        assert_eq!(detector.modules().len(), 2070);
        let at = |id| detector.module(id).unwrap().position;
        assert_eq!(at(101), [0.0, 0.0, 36.0]);
        assert_eq!(at(118), [0.0, 0.0, 648.0]);
        let distance = |a: Vector, b: Vector| (a[0] - b[0]).hypot(a[1] - b[1]);
        for string in 2..=115 {
            let others = (1..=115).filter(|&other| other != string);
            let near = others.map(|other| distance(at(string * 100 + 1), at(other * 100 + 1)));
            let near = near.fold(f64::MAX, f64::min);
            assert!((near - 90.0).abs() < 1e-9, "string {string}: {near}");
            assert!(distance(at(string * 100 + 1), at(101)) < 560.0);
        }
        let t0: Vec<f64> =
            detector.modules().iter().flat_map(|it| &it.pmts).map(|it| it.t0_ns).collect();
        assert!(t0.iter().all(|t0| (0.0..=50.0).contains(t0)));
        let mean = t0.iter().sum::<f64>() / t0.len() as f64;
        assert!((mean - 25.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn a_module_looks_down_with_19_of_31_photomultipliers() {
        let directions = directions();
        assert_eq!(directions.len(), CHANNELS);
        assert_eq!(directions.iter().filter(|direction| direction[2] < 0.0).count(), 19);
        for (index, a) in directions.iter().enumerate() {
            assert!((dot(*a, *a) - 1.0).abs() < 1e-12);
            let others = directions[index + 1..].iter();
            assert!(others.clone().all(|b| dot(*a, *b) < 30f64.to_radians().cos()), "{index}");
        }
        let module = DetectorFile::lattice(&Lattice::default()).modules()[5].clone();
        let centre = meeting(&module.pmts);
        assert!(centre.iter().zip(module.position).all(|(a, b)| (a - b).abs() < 1e-9));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let detector = DetectorFile::lattice(&Lattice { strings: 7, ..Lattice::default() });
        let again = DetectorFile::parse(&detector.to_string()).unwrap();
        for (a, b) in detector.modules().iter().zip(again.modules()) {
            assert_eq!(
                (a.id, a.string, a.floor, a.position),
                (b.id, b.string, b.floor, b.position)
            );
            for (a, b) in a.pmts.iter().zip(&b.pmts) {
                assert_eq!((a.position, a.t0_ns), (b.position, b.t0_ns));
                assert!(dot(a.direction, b.direction) > 1.0 - 1e-12);
            }
        }
        assert_eq!(detector.modules().len(), again.modules().len());
    }

    #[test]
    fn a_lattice_that_cannot_be_is_told_by_its_key() {
        let fault = |edit: fn(&mut Lattice)| {
            let mut lattice = Lattice::default();
            edit(&mut lattice);
            lattice.fault().map(|fault| fault.0)
        };
        assert_eq!(fault(|lattice| lattice.strings = 228), Some("strings"));
        assert_eq!(fault(|lattice| lattice.modules = 0), Some("modules"));
        assert_eq!(fault(|lattice| lattice.spacing_m = f64::NAN), Some("spacing_m"));
        assert_eq!(fault(|lattice| lattice.height_m = 0.5), Some("height_m"));
        assert_eq!(fault(|lattice| lattice.t0_max_ns = -1.0), Some("t0_max_ns"));
    }

    #[test]
    fn a_file_is_refused_with_line_and_cause() {
        for (from, to, cause) in [
            (
                "7 2",
                "x 2",
                "2: expected the number of the detector from 0 to 4294967295, found `x 2`",
            ),
            ("7 2", "7 4097", "2: expected a number of modules from 1 to 4096, found `7 4097`"),
            ("7 2", "7 2 3", "2: expected the end of the line before `3`, found `7 2 3`"),
            ("7 2", "7 v9", "2: expected a version from v2 to v5, found `7 v9`"),
            (
                "10 1 1 3",
                "10 1 1 32",
                "3: expected a number of photomultipliers from 0 to 31, found `10 1 1 32`",
            ),
            (
                "10 1 1 3",
                "10 1 1",
                "3: expected a number of photomultipliers from 0 to 31, found `10 1 1`",
            ),
            (
                "2 0 1.0 0 0 2 0 20.5",
                "2 0 1.0 0 0 2 0",
                "5: expected t0, a number, found `2 0 1.0 0 0 2 0`",
            ),
            (
                "0 0 -1 -30",
                "0 0 0 -30",
                "6: expected a direction, not 0 0 0, found `3 0 0 -1.0 0 0 0 -30`",
            ),
            (
                "0 0 -1 -30",
                "0 0 nan -30",
                "6: expected dz, a number, found `3 0 0 -1.0 0 0 nan -30`",
            ),
            (
                "-30",
                "-30 0",
                "6: expected the end of the line before `0`, found `3 0 0 -1.0 0 0 -1 -30 0`",
            ),
            ("11 1 -1 1", "10 1 -1 1", "8: module 10 is described twice"),
            ("7 2", "7 3", "9: the file ends, expected module 3 of 3"),
            ("11 1 -1 1", "11 1 -1 2", "9: the file ends, expected channel 1 of 2 of module 11"),
            ("7 2", "7 1", "8: expected the end of the file after 1 modules, found `11 1 -1 1`"),
        ] {
            assert!(VERSION_1.contains(from), "{from}");
            let error = DetectorFile::parse(&VERSION_1.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.to_string(), format!("detector file line {cause}"), "{to}");
        }
        let error = DetectorFile::parse("# nothing\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "detector file line 1: the file ends, expected `detector modules` or `detector vN`"
        );
        let error = DetectorFile::parse("1 1\n5 1 1 0\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "detector file line 2: the file ends, expected a module with photomultipliers"
        );
    }
}
