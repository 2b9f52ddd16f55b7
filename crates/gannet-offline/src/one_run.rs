//! Whether files are of one run, and what they tell of its start. Two runs may have the same number, by
//! a mistake or on two machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gannet_dune::raw_file::RawFileReader;
use gannet_dune::run_start::RunStart;
use gannet_log::{FileHeader, Kind, Reader, name};

/// Why files are not those of one run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotOneRun {
    /// They are of runs with different numbers.
    #[error(
        "{} is of run {got}, and the files before it of run {expected}; name one run at a time",
        path.display()
    )]
    Numbers {
        /// The file.
        path: PathBuf,
        /// Run of the files before.
        expected: u32,
        /// Run of this file.
        got: u32,
    },
    /// They are of several runs with the same number.
    #[error(
        "{} and {} are of two different runs of number {run}: {what}; name the files of one run",
        other.display(),
        path.display()
    )]
    SameNumber {
        /// Number of both runs.
        run: u32,
        /// The file.
        path: PathBuf,
        /// A file before it.
        other: PathBuf,
        /// In what they differ.
        what: String,
    },
}

/// What a file says of its run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
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
        identity.started(header.run_started_unix_ns);
        identity.fact("configuration", header.config_digest.clone());
        identity.fact("recording program", header.application.clone());
        identity.fact("machine", header.host.clone());
        identity.file(header.file_index.into(), header.created_unix_ns);
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
        // Only Gannet's files tell it. Other writers may number the files of a run several times.
        if let Some(start) = start_of_raw_file(reader) {
            identity.started(start.started_unix_ns);
            identity.fact("configuration", gannet_log::digest(&start.configuration));
            let number = |name| reader.number(name).unwrap_or(0);
            identity.file(number("file_index"), number("creation_timestamp"));
        }
        identity
    }

    /// Run number.
    pub fn run(&self) -> u32 {
        self.run
    }

    fn started(&mut self, unix_ns: u64) {
        if unix_ns > 0 {
            self.fact("start, in ns since 1970,", unix_ns.to_string());
        }
    }

    /// Adds when a file of the run was begun, unless that is not known.
    fn file(&mut self, index: u64, created: u64) {
        if created > 0 {
            self.once(format!("file {index}"), created);
        }
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
pub(crate) struct OneRun {
    first: Option<(PathBuf, Identity)>,
    seen: BTreeMap<String, (u64, PathBuf)>,
}

impl OneRun {
    /// Takes a file, and refuses it when it is of another run than those before.
    pub fn admit(&mut self, path: &Path, identity: Identity) -> Result<(), NotOneRun> {
        let Identity { unique, .. } = identity.clone();
        let (first, expected) =
            self.first.get_or_insert_with(|| (path.to_owned(), identity.clone()));
        if expected.run != identity.run {
            let (expected, got) = (expected.run, identity.run);
            return Err(NotOneRun::Numbers { path: path.to_owned(), expected, got });
        }
        let differs = |other: PathBuf, what: String| NotOneRun::SameNumber {
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

/// What another log of the same run beside the log `path` tells of its start, and that log.
pub(crate) fn start_beside(path: &Path, header: &FileHeader) -> Option<(PathBuf, RunStart)> {
    let of_same_run = |sibling: PathBuf| {
        let (its_header, start) = start_of_log(&sibling)?;
        let mut one_run = OneRun::default();
        one_run.admit(path, Identity::of_log(header)).ok()?;
        one_run.admit(&sibling, Identity::of_log(&its_header)).ok()?;
        Some((sibling, start))
    };
    name::siblings(path).into_iter().find_map(of_same_run)
}

/// What the first chunks of a log tell, with its header. Damage is stepped over.
fn start_of_log(log: &Path) -> Option<(FileHeader, RunStart)> {
    const CHUNKS: usize = 16;
    let mut reader = Reader::open(log).ok()?;
    for _ in 0..CHUNKS {
        match reader.next_chunk() {
            Ok(Some(chunk)) if chunk.header.label.kind == Kind::RUN_START => {
                let start = RunStart::decode(chunk.payload).ok()?;
                return Some((reader.file_header()?.clone(), start));
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => _ = reader.resync().ok()??,
        }
    }
    None
}

/// What a raw file tells of the start of its run, if Gannet exported it and the log told it.
pub(crate) fn start_of_raw_file(file: &RawFileReader) -> Option<RunStart> {
    RunStart::decode(file.run_start()?.as_bytes()).ok()
}
