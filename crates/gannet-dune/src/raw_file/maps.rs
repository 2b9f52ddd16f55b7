//! The maps that DUNE's tools find their way by, as JSON texts in attributes.

use std::collections::{BTreeMap, BTreeSet};

use gannet_wire::{FragmentType, GeoId, SourceId, Subsystem};
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::info::GeoIdMap;

/// Attribute of a record: the source of its header.
pub const RECORD_HEADER_SOURCE_ID: &str = "record_header_source_id";
/// Attribute of a record: the path of each source's data set.
pub const SOURCE_ID_PATH_MAP: &str = "source_id_path_map";
/// Attribute of a record: the sources of each type of fragment.
pub const FRAGMENT_TYPE_SOURCE_ID_MAP: &str = "fragment_type_source_id_map";
/// Attribute of a record: the sources of each subdetector.
pub const SUBDETECTOR_SOURCE_ID_MAP: &str = "subdetector_source_id_map";
/// Attribute of the file: where on the detector each source is.
pub const SOURCE_ID_GEO_ID_MAP: &str = "source_id_geo_id_map";

/// What the attributes of a record say about its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMaps {
    /// Source of the record header.
    pub header: SourceId,
    /// Path of each data set from the root of the file, the header included.
    pub paths: BTreeMap<SourceId, String>,
    /// Sources of the fragments of each type.
    pub fragment_types: BTreeMap<FragmentType, BTreeSet<SourceId>>,
    /// Sources of the fragments of each subdetector, by the number of the detector.
    pub subdetectors: BTreeMap<u16, BTreeSet<SourceId>>,
}

#[derive(Serialize, Deserialize)]
struct Entries<T> {
    map_entries: Vec<T>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Source {
    subsys: u16,
    id: u32,
}

#[derive(Serialize, Deserialize)]
struct PathOfSource {
    subsys: u16,
    id: u32,
    path: String,
}

#[derive(Serialize, Deserialize)]
struct GeoIdsOfSource {
    subsys: u16,
    id: u32,
    geoids: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct SourcesOfType {
    fragment_type: u32,
    sourceids: Vec<Source>,
}

#[derive(Serialize, Deserialize)]
struct SourcesOfSubdetector {
    subdetector: u16,
    sourceids: Vec<Source>,
}

impl From<SourceId> for Source {
    fn from(source: SourceId) -> Self {
        Self { subsys: source.subsystem.number(), id: source.id }
    }
}

impl From<Source> for SourceId {
    fn from(Source { subsys, id }: Source) -> Self {
        Self::new(Subsystem::from_number(subsys), id)
    }
}

impl RecordMaps {
    /// Maps of a record that has only a header so far.
    pub fn new(header: SourceId, path: String) -> Self {
        Self {
            header,
            paths: [(header, path)].into(),
            fragment_types: BTreeMap::new(),
            subdetectors: BTreeMap::new(),
        }
    }

    /// Adds a fragment; gives false, and changes nothing, if its source is there already.
    pub fn add(
        &mut self,
        source: SourceId,
        fragment_type: FragmentType,
        subdetector: u16,
        path: String,
    ) -> bool {
        if self.paths.contains_key(&source) {
            return false;
        }
        self.paths.insert(source, path);
        self.fragment_types.entry(fragment_type).or_default().insert(source);
        self.subdetectors.entry(subdetector).or_default().insert(source);
        true
    }

    /// Names and texts of the attributes.
    pub(super) fn to_attributes(&self) -> [(&'static str, String); 4] {
        let paths = self.paths.iter().map(|(source, path)| {
            let Source { subsys, id } = (*source).into();
            PathOfSource { subsys, id, path: path.clone() }
        });
        let fragment_types = self.fragment_types.iter().map(|(kind, sources)| SourcesOfType {
            fragment_type: kind.number(),
            sourceids: stored(sources),
        });
        let subdetectors = self.subdetectors.iter().map(|(subdetector, sources)| {
            SourcesOfSubdetector { subdetector: *subdetector, sourceids: stored(sources) }
        });
        [
            (RECORD_HEADER_SOURCE_ID, json(&Source::from(self.header))),
            (SOURCE_ID_PATH_MAP, json(&Entries { map_entries: paths.collect() })),
            (FRAGMENT_TYPE_SOURCE_ID_MAP, json(&Entries { map_entries: fragment_types.collect() })),
            (SUBDETECTOR_SOURCE_ID_MAP, json(&Entries { map_entries: subdetectors.collect() })),
        ]
    }

    /// Maps from the texts of the attributes, which `text` gives by name.
    pub(super) fn from_attributes<'a>(
        place: &str,
        text: impl Fn(&'static str) -> Result<&'a str>,
    ) -> Result<Self> {
        let header: Source = parse(place, RECORD_HEADER_SOURCE_ID, &text)?;
        let paths: Entries<PathOfSource> = parse(place, SOURCE_ID_PATH_MAP, &text)?;
        let types: Entries<SourcesOfType> = parse(place, FRAGMENT_TYPE_SOURCE_ID_MAP, &text)?;
        let subdetectors: Entries<SourcesOfSubdetector> =
            parse(place, SUBDETECTOR_SOURCE_ID_MAP, &text)?;
        let path = |PathOfSource { subsys, id, path }| (Source { subsys, id }.into(), path);
        let of_type = |entry: SourcesOfType| {
            (FragmentType::from_number(entry.fragment_type), read(entry.sourceids))
        };
        let of_subdetector =
            |entry: SourcesOfSubdetector| (entry.subdetector, read(entry.sourceids));
        Ok(Self {
            header: header.into(),
            paths: paths.map_entries.into_iter().map(path).collect(),
            fragment_types: types.map_entries.into_iter().map(of_type).collect(),
            subdetectors: subdetectors.map_entries.into_iter().map(of_subdetector).collect(),
        })
    }
}

/// Text of the map of sources to places on the detector.
pub fn geo_ids_to_json(geo_ids: &GeoIdMap) -> String {
    let entries = geo_ids.iter().map(|(source, places)| {
        let Source { subsys, id } = (*source).into();
        GeoIdsOfSource { subsys, id, geoids: places.iter().map(|place| place.to_bits()).collect() }
    });
    json(&Entries { map_entries: entries.collect() })
}

/// The map of sources to places on the detector from its text.
pub fn geo_ids_from_json(place: &str, text: &str) -> Result<GeoIdMap> {
    let entries: Entries<GeoIdsOfSource> = parse(place, SOURCE_ID_GEO_ID_MAP, |_| Ok(text))?;
    let entry = |GeoIdsOfSource { subsys, id, geoids }| {
        (Source { subsys, id }.into(), geoids.into_iter().map(GeoId::from_bits).collect())
    };
    Ok(entries.map_entries.into_iter().map(entry).collect())
}

/// Reads the JSON text of an attribute.
pub fn parse<'a, T: Deserialize<'a>>(
    place: &str,
    name: &'static str,
    text: impl Fn(&'static str) -> Result<&'a str>,
) -> Result<T> {
    let parsed = serde_json::from_str(text(name)?);
    parsed.map_err(|source| Error::Json { place: place.to_owned(), name, source })
}

/// JSON text of a value of this module.
///
/// # Panics
/// Never: the values have text keys and no failing parts.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain structs have a JSON form")
}

fn stored(sources: &BTreeSet<SourceId>) -> Vec<Source> {
    sources.iter().map(|source| (*source).into()).collect()
}

fn read(sources: Vec<Source>) -> BTreeSet<SourceId> {
    sources.into_iter().map(SourceId::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILDER: SourceId = SourceId::new(Subsystem::TrBuilder, 0);
    const READOUT: SourceId = SourceId::new(Subsystem::DetectorReadout, 100);

    fn maps() -> RecordMaps {
        let mut maps = RecordMaps::new(BUILDER, "/r/RawData/h".into());
        assert!(maps.add(READOUT, FragmentType::WibEth, 3, "/r/RawData/f".into()));
        maps
    }

    #[test]
    fn texts_are_those_of_dune_files() {
        let texts = maps().to_attributes().map(|(_, text)| text);
        assert_eq!(texts[0], r#"{"subsys":4,"id":0}"#);
        assert_eq!(
            texts[1],
            r#"{"map_entries":[{"subsys":1,"id":100,"path":"/r/RawData/f"},{"subsys":4,"id":0,"path":"/r/RawData/h"}]}"#
        );
        assert_eq!(
            texts[2],
            r#"{"map_entries":[{"fragment_type":12,"sourceids":[{"subsys":1,"id":100}]}]}"#
        );
        assert_eq!(
            texts[3],
            r#"{"map_entries":[{"subdetector":3,"sourceids":[{"subsys":1,"id":100}]}]}"#
        );
        let geo_ids = [(READOUT, vec![GeoId::new(3, 1, 0, 64)])].into();
        let text = geo_ids_to_json(&geo_ids);
        assert_eq!(text, r#"{"map_entries":[{"subsys":1,"id":100,"geoids":[18014398509547523]}]}"#);
        assert_eq!(geo_ids_from_json("file", &text).unwrap(), geo_ids);
    }

    #[test]
    fn a_source_has_one_place() {
        let mut maps = maps();
        assert!(!maps.add(BUILDER, FragmentType::WibEth, 3, "/r/RawData/g".into()));
        assert!(!maps.add(READOUT, FragmentType::TriggerPrimitive, 3, "/r/RawData/g".into()));
        assert_eq!(maps, self::maps());
    }

    #[test]
    fn maps_come_back_from_their_texts_and_bad_texts_are_named() {
        let attributes: BTreeMap<_, _> = maps().to_attributes().into();
        let text = |name: &'static str| Ok(&attributes[name][..]);
        assert_eq!(RecordMaps::from_attributes("record", text).unwrap(), maps());
        let error = RecordMaps::from_attributes("record 7", |_| Ok("{\"id\":")).unwrap_err();
        assert!(error.to_string().starts_with("record 7: attribute \"record_header_source_id\""));
    }
}
