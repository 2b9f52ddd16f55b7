//! The RICH of NA62, as the program knows detectors.

mod comparison;
mod config;
mod expected;
mod level0;
mod pipeline;
mod planned;

use std::path::Path;

use gannet_control::config::{Config, Document, Plan, Problem, schema};
use gannet_control::detector::Detector;
use gannet_control::event::{EventView, NoEvent, Recording};
use gannet_control::export::{ExportConfig, ExportError, Exported};
use gannet_wire::AnyFormat;
use gannet_wire::na62::mgp::{self, MgpFormat};

use crate::{export, shown};

pub use config::{
    AnswerConfig, BufferConfig, ConditionConfig, Level0Config, MaskConfig, MatchedConfig,
    MergeConfig, PipelineConfig, RichStreams, RichTables, StreamPackets,
};
pub use planned::PlannedRich;

/// The RICH of NA62.
pub const NA62_RICH: Rich = Rich;

/// The RICH of NA62: events of four boards, rings, primitives for the level-0 trigger.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rich;

impl Detector for Rich {
    fn name(&self) -> &'static str {
        "na62-rich"
    }

    fn schema(&self) -> schemars::Schema {
        schema::<RichTables>()
    }

    fn demonstration(&self) -> &'static str {
        include_str!("demo.toml")
    }

    fn format_of(&self, _: &[u8]) -> &'static dyn AnyFormat {
        static FORMAT: MgpFormat = MgpFormat { len_max: mgp::LEN_MAX, step_max: mgp::STEP_MAX };
        &FORMAT
    }

    fn plan(&self, document: &Document<'_>, directory: &Path) -> Result<Plan, Problem> {
        let mut config: Config<RichTables> = document.read()?;
        config.absolve_paths(directory);
        config.expand_links(document)?;
        config.pipeline.detector = self.name().to_owned();
        config.pipeline.cabling.iter_mut().for_each(|path| *path = directory.join(&*path));
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
        export::export(log, config, progress)
    }
}
