//! Streams of TPC front ends, numbered as on the real boards.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GeoId, TpcFormat};

/// Most streams of one table: 68 vertical-drift or 102 horizontal-drift modules.
pub const STREAMS_MAX: usize = 4096;

/// A number of a stream, or of its place, that the boards do not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {expected}")]
pub struct StreamsError {
    /// Path of the key, for example `streams.count`.
    pub key: &'static str,
    /// The value found.
    pub value: String,
    /// What is allowed.
    pub expected: String,
}

/// Refuses a value outside `min..=max`.
fn within(key: &'static str, value: usize, min: usize, max: usize) -> Result<(), StreamsError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let expected = format!("expected a number from {min} to {max}");
    Err(StreamsError { key, value: value.to_string(), expected })
}

/// Front-end streams, numbered as on the real boards.
///
/// A WIB has eight streams, 0 to 3 on its first link and 64 to 67 on its second; a crate has five
/// WIBs, or six on the bottom of a vertical-drift detector. A TDE card has the one stream 0; a
/// crate has ten cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TpcStreams {
    /// Number of streams, 1 to 4096.
    pub count: usize,
    /// Format of the frames.
    pub format: TpcFormat,
    /// Detector number; when absent 3 (HD_TPC) for `wibeth` and 11 (VD top TPC) for `tdeeth`.
    pub detector: Option<u16>,
    /// Crate of the first stream.
    #[serde(rename = "crate")]
    pub crate_id: u16,
    /// Slot of the first stream.
    pub slot: u16,
    /// The streams one by one, as detector/crate/slot/stream, in the place of a count from a crate and
    /// a slot on.
    pub list: Vec<String>,
}

impl Default for TpcStreams {
    fn default() -> Self {
        let (count, format, detector, list) = (4, TpcFormat::WibEth, None, Vec::new());
        Self { count, format, detector, crate_id: 1, slot: 0, list }
    }
}

/// Detector number of the bottom of a vertical-drift detector, whose crates have six WIBs.
const VD_BOTTOM: u16 = 10;

impl TpcStreams {
    /// Detector number of every stream.
    pub fn detector(&self) -> u16 {
        self.detector.unwrap_or(self.format.detector().number())
    }

    /// Streams of a board and boards of a crate.
    fn layout(&self) -> (usize, usize) {
        match (self.format, self.detector()) {
            (TpcFormat::WibEth, VD_BOTTOM) => (8, 6),
            (TpcFormat::WibEth, _) => (8, 5),
            (TpcFormat::TdeEth, _) => (1, 10),
        }
    }

    /// Identifiers of all streams in their order.
    pub fn geo_ids(&self) -> Vec<GeoId> {
        if !self.list.is_empty() {
            return self.list.iter().filter_map(|name| name.parse().ok()).collect();
        }
        let (per_board, per_crate) = self.layout();
        let first_board = usize::from(self.crate_id) * per_crate + usize::from(self.slot);
        let geo_id = |index: usize| {
            let board = first_board + index / per_board;
            let (link, block) = (index % per_board / 4, index % per_board % 4);
            GeoId::new(
                self.detector(),
                (board / per_crate) as u16,
                (board % per_crate) as u16,
                (link << 6 | block) as u16,
            )
        };
        (0..self.count.min(STREAMS_MAX)).map(geo_id).collect()
    }

    /// Refuses streams that the format of the identifiers has no room for.
    ///
    /// # Errors
    /// The first [`StreamsError`] found.
    pub fn check(&self) -> Result<(), StreamsError> {
        if !self.list.is_empty() {
            return self.check_list();
        }
        within("streams.count", self.count, 1, STREAMS_MAX)?;
        within("streams.detector", self.detector().into(), 0, 63)?;
        let (_, per_crate) = self.layout();
        within("streams.slot", self.slot.into(), 0, per_crate - 1)?;
        let last_crate = self.geo_ids().last().map_or(0, |geo| geo.crate_id);
        if self.crate_id > 1023 || last_crate > 1023 {
            let expected = format!("{} streams from here go beyond crate 1023", self.count);
            return Err(StreamsError {
                key: "streams.crate",
                value: self.crate_id.to_string(),
                expected,
            });
        }
        Ok(())
    }

    fn check_list(&self) -> Result<(), StreamsError> {
        let counted = Self { format: self.format, list: self.list.clone(), ..Self::default() };
        if *self != counted {
            let (value, expected) = ("with other keys".into(), "keep `list`, or the others".into());
            return Err(StreamsError { key: "streams.list", value, expected });
        }
        geo_ids_of(&self.list).map(drop)
    }
}

/// Identifiers of the streams that `list` names as detector/crate/slot/stream.
///
/// # Errors
/// The first name that is none, or has a number that frames have no room for.
pub fn geo_ids_of(list: &[String]) -> Result<Vec<GeoId>, StreamsError> {
    let has_room =
        |geo: &GeoId| geo.detector < 64 && geo.crate_id < 1024 && geo.slot < 16 && geo.stream < 256;
    let geo_id = |name: &String| {
        let geo_id = name.parse().ok().filter(has_room);
        geo_id.ok_or_else(|| StreamsError {
            key: "streams.list",
            value: format!("{name:?}"),
            expected: "expected detector/crate/slot/stream, below 64/1024/16/256".into(),
        })
    };
    within("streams.list", list.len(), 1, STREAMS_MAX)?;
    list.iter().map(geo_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_can_be_listed_one_by_one() {
        let listed = |list: &[&str]| TpcStreams {
            list: list.iter().map(ToString::to_string).collect(),
            ..TpcStreams::default()
        };
        assert_eq!(names(listed(&["3/7/4/67", "3/1/0/0"])), ["3/7/4/67", "3/1/0/0"]);
        for (streams, value) in [
            (listed(&["3/7/4/67", "3/1/0"]), "\"3/1/0\""),
            (listed(&["3/7/16/0"]), "\"3/7/16/0\""),
            (TpcStreams { slot: 1, ..listed(&["3/1/0/0"]) }, "with other keys"),
        ] {
            let error = streams.check().unwrap_err();
            assert_eq!((error.key, error.value.as_str()), ("streams.list", value));
        }
    }

    fn names(streams: TpcStreams) -> Vec<String> {
        streams.check().unwrap();
        streams.geo_ids().iter().map(GeoId::to_string).collect()
    }

    #[test]
    fn streams_are_numbered_as_on_the_boards() {
        let horizontal = TpcStreams { count: 9, crate_id: 1, slot: 4, ..TpcStreams::default() };
        assert_eq!(
            names(horizontal),
            ["3/1/4/0", "3/1/4/1", "3/1/4/2", "3/1/4/3", "3/1/4/64", "3/1/4/65", "3/1/4/66"]
                .into_iter()
                .chain(["3/1/4/67", "3/2/0/0"])
                .collect::<Vec<_>>()
        );
        let top =
            TpcStreams { count: 11, format: TpcFormat::TdeEth, crate_id: 0, ..Default::default() };
        let top = names(top);
        assert_eq!((top[0].as_str(), top[10].as_str()), ("11/0/0/0", "11/1/0/0"));
        let bottom =
            TpcStreams { count: 48, detector: Some(10), crate_id: 10, ..Default::default() };
        assert_eq!(names(bottom)[47], "10/10/5/67");
    }

    #[test]
    fn numbers_that_the_boards_do_not_have_are_refused_by_key() {
        let good = TpcStreams::default;
        for (streams, key) in [
            (TpcStreams { count: 0, ..good() }, "streams.count"),
            (TpcStreams { count: STREAMS_MAX + 1, ..good() }, "streams.count"),
            (TpcStreams { detector: Some(64), ..good() }, "streams.detector"),
            (TpcStreams { slot: 5, ..good() }, "streams.slot"),
            (TpcStreams { crate_id: 1023, count: 41, ..good() }, "streams.crate"),
        ] {
            assert_eq!(streams.check().unwrap_err().key, key);
        }
    }
}
