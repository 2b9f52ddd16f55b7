//! KM3NeT, as the program knows detectors.

mod comparison;
mod config;
mod expected;
mod pipeline;
mod planned;

use std::path::Path;

use gannet_control::config::{Config, Document, Plan, Problem, schema};
use gannet_control::detector::Detector;
use gannet_control::event::{EventView, NoEvent, Recording};
use gannet_control::export::{ExportConfig, ExportError, Exported};
use gannet_wire::AnyFormat;
use gannet_wire::km3net::SLICE_NS;
use gannet_wire::km3net::clb::{ClbFormat, OPTICAL_STATUS_WORDS};

use crate::{hits_table, shown};

pub use config::{
    Km3Streams, Km3Tables, MergeConfig, MuonConfig, PipelineConfig, ShowerConfig, WrittenConfig,
};
pub use planned::PlannedKm3;

pub use crate::levels::{Level, LevelConfig};

/// KM3NeT.
pub const KM3NET: Km3Net = Km3Net;

/// KM3NeT: slices of optical modules, coincidences, muons and showers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Km3Net;

impl Detector for Km3Net {
    fn name(&self) -> &'static str {
        "km3net"
    }

    fn schema(&self) -> schemars::Schema {
        schema::<Km3Tables>()
    }

    fn demonstration(&self) -> &'static str {
        include_str!("demo.toml")
    }

    fn format_of(&self, _: &[u8]) -> &'static dyn AnyFormat {
        static FORMAT: ClbFormat =
            ClbFormat { status_words: OPTICAL_STATUS_WORDS, len_max: 8972, slice_ns: SLICE_NS };
        &FORMAT
    }

    fn plan(&self, document: &Document<'_>, directory: &Path) -> Result<Plan, Problem> {
        let mut config: Config<Km3Tables> = document.read()?;
        config.absolve_paths(directory);
        config.expand_links(document)?;
        let pipeline = &mut config.pipeline;
        pipeline.detector = self.name().to_owned();
        pipeline.detector_file.iter_mut().for_each(|path| *path = directory.join(&*path));
        planned::resolve(config, document)
    }

    fn event(&self, recording: &Recording, number: u64) -> Result<EventView, NoEvent> {
        shown::event(recording, number)
    }

    fn export(
        &self,
        log: &Path,
        config: &ExportConfig,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportError> {
        hits_table::export(log, config, progress)
    }
}
