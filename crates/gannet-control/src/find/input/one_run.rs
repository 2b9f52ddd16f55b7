//! Whether files are of one run. Two runs may have the same number, by a mistake or on two machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gannet_readout::log::FileHeader;
use gannet_readout::raw_file::RawFileReader;

use crate::find::error::FindError;

/// What a file says of its run.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    run: u32,
    /// What is the same in all files of a run, by name; what a file does not know is left out.
    facts: BTreeMap<String, String>,
    /// Things that are in the run once, by name, each with what tells it from another of its name.
    unique: BTreeMap<String, u64>,
}

impl Identity {
    /// What the header of a log says.
    pub fn of_log(header: &FileHeader) -> Self {
        let mut identity = Self { run: header.run, ..Self::default() };
        // What recovery writes in the place of a damaged header knows the number only.
        if header.rebuilt {
            return identity;
        }
        if header.run_started_unix_ns > 0 {
            identity.fact("start, in ns since 1970,", header.run_started_unix_ns.to_string());
        }
        identity.fact("configuration", header.config_digest.clone());
        identity.fact("recording program", header.application.clone());
        identity.fact("machine", header.host.clone());
        identity.once(format!("file {}", header.file_index), header.created_unix_ns);
        identity
    }

    /// What the attributes of a raw file of run `run` say; its records are to be added.
    pub fn of_raw_file(run: u32, reader: &RawFileReader) -> Self {
        let mut identity = Self { run, ..Self::default() };
        let environment = reader.text("operational_environment").unwrap_or_default();
        identity.fact("operational environment", environment.to_owned());
        for (source, places) in reader.geo_ids().unwrap_or_default() {
            let places: Vec<_> = places.iter().map(ToString::to_string).collect();
            identity.fact(&format!("place of source {source}"), places.join(" "));
        }
        identity
    }

    fn fact(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.facts.insert(name.to_owned(), value);
        }
    }

    /// Adds something that the run has once.
    pub fn once(&mut self, name: String, value: u64) {
        self.unique.insert(name, value);
    }
}

/// The files of one run, as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct OneRun {
    first: Option<(PathBuf, Identity)>,
    seen: BTreeMap<String, (u64, PathBuf)>,
}

impl OneRun {
    /// Takes a file, and refuses it when it is of another run than those before.
    pub fn admit(&mut self, path: &Path, identity: Identity) -> Result<(), FindError> {
        let Identity { unique, .. } = identity.clone();
        let (first, expected) =
            self.first.get_or_insert_with(|| (path.to_owned(), identity.clone()));
        if expected.run != identity.run {
            let (expected, got) = (expected.run, identity.run);
            return Err(FindError::Runs { path: path.to_owned(), expected, got });
        }
        let differs = |other: PathBuf, what: String| FindError::SameNumber {
            run: identity.run,
            path: path.to_owned(),
            other,
            what,
        };
        for (name, value) in &identity.facts {
            match expected.facts.get(name) {
                Some(before) if before != value => {
                    return Err(differs(
                        first.clone(),
                        format!("the {name} is {value}, not {before}"),
                    ));
                }
                Some(_) => {}
                None => drop(expected.facts.insert(name.clone(), value.clone())),
            }
        }
        for (name, value) in unique {
            let (before, other) = self.seen.entry(name.clone()).or_insert((value, path.to_owned()));
            if *before != value {
                return Err(differs(
                    other.clone(),
                    format!("both have a {name}, and not the same"),
                ));
            }
        }
        Ok(())
    }
}
