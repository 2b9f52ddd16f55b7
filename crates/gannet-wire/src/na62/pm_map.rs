//! Where the photomultipliers of the NA62 RICH are, and which channel reads which.
//!
//! Two discs of 976 photomultipliers, each of two halves of 61 super-cells of 8, stand on a
//! hexagonal lattice of 18 mm. Positions *in the common plane* are those on the disc less its focal
//! shift: there rings close that share their light between both discs.
//!
//! The experiment tells its cabling by a table of 2560 entries, the *geo id* of each channel:
//!
//! ```text
//! disc * 100000 + half * 10000 + cell * 100 + or * 10 + pm
//! ```
//!
//! where `or` is 1 for the OR of a super-cell, which the channels from 2048 on read, and -1 stands
//! for a channel that reads nothing. [`PmMap::parse`] takes it as one entry a line, in the order of
//! the channels, or as comma-separated values with a line of names, `channel,geo_id`.
//!
//! Source: NA62/na62-trigger-algorithms `RICH.2017.conf`; arXiv:1706.08496.

use std::fmt;

/// Discs of photomultipliers: 0 Jura, 1 Saleve.
pub const DISCS: usize = 2;
/// Halves of a disc: 0 up, 1 down.
pub const HALVES: usize = 2;
/// Super-cells of half a disc.
pub const CELLS: usize = 61;
/// Photomultipliers of a super-cell.
pub const CELL_PMS: usize = 8;
/// Photomultipliers of a disc.
pub const DISC_PMS: usize = HALVES * CELLS * CELL_PMS;
/// Photomultipliers of the detector.
pub const PMS: usize = DISCS * DISC_PMS;
/// Channels of a readout board.
pub const BOARD_CHANNELS: usize = 512;
/// Readout boards whose channels read photomultipliers.
pub const BOARDS: usize = 4;
/// Channels that may read a photomultiplier, from 0.
pub const CHANNELS: usize = BOARDS * BOARD_CHANNELS;
/// Entries of the experiment's table: the channels from [`CHANNELS`] on read super-cells.
pub const TABLE_ENTRIES: usize = CHANNELS + BOARD_CHANNELS;

/// Distance of neighbouring photomultipliers, in mm.
pub const PITCH: f64 = 18.0;
/// Half the distance of neighbouring columns, in mm.
const COLUMN: i32 = 9;
/// Distance of neighbouring rows, in mm: half the height of a triangle of three neighbours.
const ROW: f64 = 15.588_457_268_119_894;
/// Shift of the focus of each disc along x, in mm.
const FOCAL_SHIFT: [f64; DISCS] = [127.0, 177.0];

/// A row of super-cells: x of the first photomultiplier in mm, its y in rows, and the cells.
type CellRow = (i32, i32, usize);
const CELL_ROWS: [[CellRow; 6]; HALVES] = [
    [(-261, 6, 12), (-252, 9, 12), (-198, 11, 11), (-189, 14, 11), (-135, 16, 9), (-36, 17, 6)],
    [(-270, 3, 12), (-279, 0, 12), (-288, -3, 11), (-297, -6, 11), (-261, -10, 9), (-225, -14, 6)],
];
/// From one super-cell of a row to the next, in mm and rows.
const CELL_STEP: (i32, i32) = (45, -1);
/// Photomultipliers of a super-cell from the first, in mm and rows.
const IN_CELL: [(i32, i32); CELL_PMS] =
    [(0, 0), (18, 0), (36, 0), (9, 1), (27, 1), (0, 2), (18, 2), (36, 2)];

/// A photomultiplier, by its number: `disc * 976 + half * 488 + cell * 8 + pm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pm(u16);

impl Pm {
    /// The photomultiplier of this number, below [`PMS`].
    pub const fn new(number: usize) -> Option<Self> {
        if number < PMS { Some(Self(number as u16)) } else { None }
    }

    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..PMS as u16).map(Self)
    }

    /// The photomultiplier with this geo id.
    pub fn from_geo_id(geo_id: u32) -> Option<Self> {
        let (disc, half) = (geo_id / 100_000, geo_id / 10_000 % 10);
        let (cell, or, pm) = (geo_id / 100 % 100, geo_id / 10 % 10, geo_id % 10);
        let below = [(disc, DISCS), (half, HALVES), (cell, CELLS), (or, 1), (pm, CELL_PMS)];
        if below.iter().any(|&(value, end)| value as usize >= end) {
            return None;
        }
        Some(Self((((disc * 2 + half) * CELLS as u32 + cell) * CELL_PMS as u32 + pm) as u16))
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Its disc: 0 Jura, 1 Saleve.
    pub const fn disc(self) -> usize {
        self.number() / DISC_PMS
    }

    /// Its half of the disc: 0 up, 1 down.
    pub const fn half(self) -> usize {
        self.number() / (CELLS * CELL_PMS) % HALVES
    }

    /// Its super-cell in the half disc.
    pub const fn cell(self) -> usize {
        self.number() / CELL_PMS % CELLS
    }

    /// Its place in the super-cell.
    pub const fn in_cell(self) -> usize {
        self.number() % CELL_PMS
    }

    /// Its geo id.
    pub const fn geo_id(self) -> u32 {
        let (disc, half, cell) = (self.disc() as u32, self.half() as u32, self.cell() as u32);
        disc * 100_000 + half * 10_000 + cell * 100 + self.in_cell() as u32
    }

    /// Its place on the lattice of its disc: x in halves of [`PITCH`], y in rows of the lattice.
    pub fn lattice(self) -> (i32, i32) {
        let mut cell = self.cell();
        let mut place = (0, 0);
        for (x, y, cells) in CELL_ROWS[self.half()] {
            if cell < cells {
                let (dx, dy) = IN_CELL[self.in_cell()];
                let along = cell as i32;
                place = (x + CELL_STEP.0 * along + dx, y + CELL_STEP.1 * along + dy);
                break;
            }
            cell -= cells;
        }
        (place.0 / COLUMN, place.1)
    }

    /// Its position on its disc, x and y in mm.
    pub fn on_disc(self) -> [f64; 2] {
        let (x, y) = self.lattice();
        [f64::from(x * COLUMN), f64::from(y) * ROW]
    }

    /// Its position in the common plane, x and y in mm.
    pub fn position(self) -> [f64; 2] {
        let [x, y] = self.on_disc();
        [x - FOCAL_SHIFT[self.disc()], y]
    }
}

impl fmt::Display for Pm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disc = ["Jura", "Saleve"][self.disc()];
        let half = ["up", "down"][self.half()];
        write!(f, "{disc} {half}, super-cell {}, photomultiplier {}", self.cell(), self.in_cell())
    }
}

/// The point of the common plane that is at `x`, `y` (mm) there, as seen on `disc`, x and y in mm.
///
/// # Panics
/// If there is no such disc.
pub fn onto_disc(disc: usize, [x, y]: [f64; 2]) -> [f64; 2] {
    [x + FOCAL_SHIFT[disc], y]
}

/// Place on the lattice of a disc, as [`Pm::lattice`] tells it, that is nearest to `x`, `y` (mm).
pub fn nearest_on_lattice([x, y]: [f64; 2]) -> (i32, i32) {
    let row = (y / ROW).floor();
    let place = |row: f64| {
        // Columns of a row are 2 apart, and odd where the row is even.
        let odd = 1.0 - row.rem_euclid(2.0);
        let column = ((x / f64::from(COLUMN) - odd) / 2.0).round() * 2.0 + odd;
        let (dx, dy) = (x - column * f64::from(COLUMN), y - row * ROW);
        (dx * dx + dy * dy, (column as i32, row as i32))
    };
    let (below, above) = (place(row), place(row + 1.0));
    if above.0 < below.0 { above.1 } else { below.1 }
}

/// Why a text is not a table of channels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PmMapError {
    /// A line does not hold what it should.
    #[error("channel table line {line}: {expected}, found `{got}`")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What was expected.
        expected: &'static str,
        /// What is there.
        got: String,
    },
    /// Two channels read the same photomultiplier, or a channel is described twice.
    #[error("channel table line {line}: {what} is described twice, first in line {first}")]
    Twice {
        /// Line number of the second description, from 1.
        line: usize,
        /// What is described.
        what: String,
        /// Line number of the first description, from 1.
        first: usize,
    },
    /// The table has too few or too many entries.
    #[error("channel table: {got} entries, expected {TABLE_ENTRIES}, one a line")]
    Entries {
        /// Entries found.
        got: usize,
    },
}

/// Which photomultiplier each channel of the RICH reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmMap {
    /// By channel.
    pms: Box<[Option<Pm>; CHANNELS]>,
    /// By number of the photomultiplier.
    channels: Box<[Option<u16>; PMS]>,
}

impl PmMap {
    fn empty() -> Self {
        Self { pms: Box::new([None; CHANNELS]), channels: Box::new([None; PMS]) }
    }

    fn connect(&mut self, channel: u16, pm: Pm) {
        self.pms[usize::from(channel)] = Some(pm);
        self.channels[pm.number()] = Some(channel);
    }

    /// A map of our own: each half disc is read by a board, photomultiplier after photomultiplier.
    pub fn numbered() -> Self {
        let mut map = Self::empty();
        for pm in Pm::all() {
            let board = pm.disc() * HALVES + pm.half();
            let in_board = pm.cell() * CELL_PMS + pm.in_cell();
            map.connect((board * BOARD_CHANNELS + in_board) as u16, pm);
        }
        map
    }

    /// Reads the experiment's table; blank lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`PmMapError`], with the line number and what was expected there.
    pub fn parse(text: &str) -> Result<Self, PmMapError> {
        let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        let lines = lines.map(|(index, line)| (index + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut table =
            Table { map: Self::empty(), of_channel: vec![0; TABLE_ENTRIES], entries: 0 };
        let mut first = lines.next();
        let named = first.is_some_and(|(_, line)| line.starts_with(|c: char| c.is_alphabetic()));
        if named && let Some((line, names)) = first.take() {
            let got = names.split(',').map(str::trim);
            if !got.eq(["channel", "geo_id"]) {
                let expected = "expected the names `channel,geo_id`";
                return Err(PmMapError::Line { line, expected, got: names.to_owned() });
            }
        }
        for (line, entry) in first.into_iter().chain(lines) {
            if named { table.named(line, entry)? } else { table.next(line, entry)? }
        }
        if named || table.entries == TABLE_ENTRIES {
            return Ok(table.map);
        }
        Err(PmMapError::Entries { got: table.entries })
    }

    /// The photomultiplier that `channel` reads, if it reads one.
    pub fn pm(&self, channel: u16) -> Option<Pm> {
        self.pms.get(usize::from(channel)).copied().flatten()
    }

    /// Position in the common plane of what `channel` reads, x and y in mm.
    pub fn position(&self, channel: u16) -> Option<[f64; 2]> {
        self.pm(channel).map(Pm::position)
    }

    /// The channel that reads `pm`, if one does.
    pub fn channel(&self, pm: Pm) -> Option<u16> {
        self.channels[pm.number()]
    }

    /// All channels that read a photomultiplier, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Pm)> {
        self.pms.iter().enumerate().filter_map(|(channel, &pm)| Some((channel as u16, pm?)))
    }

    /// The table of this map, one entry a line, as [`PmMap::parse`] reads it.
    pub fn table(&self) -> String {
        let entry = |channel| match self.pm(channel) {
            Some(pm) => format!("{}\n", pm.geo_id()),
            None => String::from("-1\n"),
        };
        (0..TABLE_ENTRIES as u16).map(entry).collect()
    }
}

/// A table as far as it was read.
struct Table {
    map: PmMap,
    /// Line of each channel, 0 where there was none.
    of_channel: Vec<usize>,
    entries: usize,
}

impl Table {
    /// Takes a line `channel,geo_id`.
    fn named(&mut self, line: usize, entry: &str) -> Result<(), PmMapError> {
        let refused = |expected| PmMapError::Line { line, expected, got: entry.to_owned() };
        let cells = entry.split_once(',').filter(|(_, rest)| !rest.contains(','));
        let (channel, geo_id) = cells.ok_or(refused("expected `channel,geo_id`"))?;
        let channel = channel.trim().parse().ok().filter(|&channel| channel < TABLE_ENTRIES);
        let channel = channel.ok_or(refused("expected a channel from 0 to 2559"))?;
        if self.of_channel[channel] != 0 {
            let what = format!("channel {channel}");
            return Err(PmMapError::Twice { line, what, first: self.of_channel[channel] });
        }
        self.put(line, channel, geo_id.trim())
    }

    /// Takes a line with the geo id of the next channel.
    fn next(&mut self, line: usize, entry: &str) -> Result<(), PmMapError> {
        if self.entries == TABLE_ENTRIES {
            return Err(PmMapError::Entries { got: TABLE_ENTRIES + 1 });
        }
        self.put(line, self.entries, entry)
    }

    fn put(&mut self, line: usize, channel: usize, text: &str) -> Result<(), PmMapError> {
        let refused = |expected| PmMapError::Line { line, expected, got: text.to_owned() };
        self.of_channel[channel] = line;
        self.entries += 1;
        let geo_id: i32 = text.parse().map_err(|_| refused("expected a geo id, or -1"))?;
        let Ok(geo_id) = u32::try_from(geo_id) else {
            let expected = "expected a geo id, or -1 for a channel that reads nothing";
            return if geo_id == -1 { Ok(()) } else { Err(refused(expected)) };
        };
        if channel >= CHANNELS {
            // The OR of a super-cell; its last digit is of no account.
            let or = geo_id / 10 % 10 == 1 && Pm::from_geo_id(geo_id / 100 * 100).is_some();
            let expected = "expected the geo id of the OR of a super-cell";
            return if or { Ok(()) } else { Err(refused(expected)) };
        }
        let pm = Pm::from_geo_id(geo_id);
        let pm = pm.ok_or(refused("expected the geo id of a photomultiplier"))?;
        if let Some(other) = self.map.channel(pm) {
            let first = self.of_channel[usize::from(other)];
            return Err(PmMapError::Twice { line, what: pm.to_string(), first });
        }
        self.map.connect(channel as u16, pm);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn each_disc_is_a_lattice_of_976() {
        for disc in 0..DISCS {
            let places: BTreeSet<_> =
                Pm::all().filter(|pm| pm.disc() == disc).map(Pm::lattice).collect();
            assert_eq!(places.len(), 976);
            let mut rows = BTreeMap::new();
            for &(x, y) in &places {
                *rows.entry(y).or_insert(0) += 1;
                let around = [(2, 0), (-2, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)];
                let near = |&(dx, dy): &(i32, i32)| places.contains(&(x + dx, y + dy));
                assert!(around.iter().filter(|step| near(step)).count() >= 2);
            }
            assert_eq!(rows.len(), 39);
            assert!(rows.values().all(|row| (3..=32).contains(row)));
        }
    }

    #[test]
    fn neighbours_are_18_mm_apart_and_all_lie_within_313_5_mm() {
        let distance = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
        let disc: Vec<[f64; 2]> = Pm::all().take(DISC_PMS).map(Pm::on_disc).collect();
        for (index, &a) in disc.iter().enumerate() {
            let others = disc.iter().enumerate().filter(|&(other, _)| other != index);
            let nearest = others.map(|(_, &b)| distance(a, b)).fold(f64::MAX, f64::min);
            assert!((nearest - PITCH).abs() < 1e-9, "{index}: {nearest}");
        }
        let radius = disc.iter().map(|&at| distance(at, [0.0; 2])).fold(0.0, f64::max);
        assert!((radius - 313.5).abs() < 0.05, "{radius}");
    }

    #[test]
    fn the_common_plane_is_shifted_by_the_focus_of_each_disc() {
        let [jura, saleve] = [Pm(0), Pm(976)].map(Pm::position);
        assert_eq!(jura, [-261.0 - 127.0, 6.0 * ROW]);
        assert_eq!(saleve, [-261.0 - 177.0, 6.0 * ROW]);
        assert_eq!(onto_disc(1, saleve), Pm(976).on_disc());
    }

    #[test]
    fn the_nearest_place_is_found_from_anywhere_around_it() {
        for pm in Pm::all() {
            let [x, y] = pm.on_disc();
            for (dx, dy) in [(0.0, 0.0), (8.9, 0.0), (-8.9, 0.0), (4.0, 7.8), (-4.0, -7.8)] {
                assert_eq!(nearest_on_lattice([x + dx, y + dy]), pm.lattice(), "{pm}");
            }
        }
    }

    #[test]
    fn our_own_map_reads_a_half_disc_by_a_board() {
        let map = PmMap::numbered();
        assert_eq!(map.iter().count(), PMS);
        for (channel, pm) in map.iter() {
            assert_eq!(usize::from(channel) / BOARD_CHANNELS, pm.disc() * 2 + pm.half());
            assert_eq!(map.channel(pm), Some(channel));
            assert_eq!(Pm::from_geo_id(pm.geo_id()), Some(pm));
        }
        assert_eq!(map.pm(488), None);
        assert_eq!((map.pm(2048), map.position(u16::MAX)), (None, None));
        let last = map.pm(3 * 512 + 487).unwrap();
        assert_eq!((last.number(), last.geo_id()), (1951, 116_007));
    }

    #[test]
    fn the_table_is_read_in_both_forms() {
        let map = PmMap::numbered();
        assert_eq!(PmMap::parse(&map.table()).unwrap(), map);
        let mut named = String::from("# cabling\n\nchannel, geo_id\n2048,10010\n");
        for (channel, pm) in map.iter() {
            named += &format!("{channel}, {}\r\n", pm.geo_id());
        }
        assert_eq!(PmMap::parse(&named).unwrap(), map);
    }

    #[test]
    fn a_table_is_refused_with_line_and_cause() {
        let text = PmMap::numbered().table();
        let with = |line: usize, entry: &str| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines[line - 1] = entry;
            PmMap::parse(&lines.join("\n")).unwrap_err().to_string()
        };
        let table = "channel table line";
        for (line, entry, cause) in [
            (3, "two", "expected a geo id, or -1, found `two`"),
            (3, "-2", "expected a geo id, or -1 for a channel that reads nothing, found `-2`"),
            (3, "6100", "expected the geo id of a photomultiplier, found `6100`"),
            (3, "10", "expected the geo id of a photomultiplier, found `10`"),
            (3, "200000", "expected the geo id of a photomultiplier, found `200000`"),
            (2100, "101", "expected the geo id of the OR of a super-cell, found `101`"),
        ] {
            assert_eq!(with(line, entry), format!("{table} {line}: {cause}"));
        }
        let cause = "Jura up, super-cell 0, photomultiplier 0 is described twice, first in line 1";
        assert_eq!(with(2, "0"), format!("{table} 2: {cause}"));
        assert_eq!(PmMap::parse("0\n1\n").unwrap_err(), PmMapError::Entries { got: 2 });
        assert_eq!(
            PmMap::parse(&format!("{text}-1\n")).unwrap_err(),
            PmMapError::Entries { got: 2561 }
        );
        for (named, cause) in [
            ("channel\n", "1: expected the names `channel,geo_id`, found `channel`"),
            ("channel,geo_id\n7\n", "2: expected `channel,geo_id`, found `7`"),
            ("channel,geo_id\n7,1,2\n", "2: expected `channel,geo_id`, found `7,1,2`"),
            ("channel,geo_id\n2560,1\n", "2: expected a channel from 0 to 2559, found `2560,1`"),
            ("channel,geo_id\n7,1\n7,2\n", "3: channel 7 is described twice, first in line 2"),
        ] {
            let error = PmMap::parse(named).unwrap_err().to_string();
            assert_eq!(error, format!("{table} {cause}"));
        }
    }
}
