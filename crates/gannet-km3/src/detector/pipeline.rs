//! The stages of one run of KM3NeT.

use std::sync::Arc;

use gannet_control::config::Plan;
use gannet_control::detector::{Export, Pipeline, Stages};
use gannet_control::snapshot::{Estimate, Figure, FigureValue, Flow, TriggerSnapshot};
use gannet_kernels::Isa;
use gannet_kernels::clusters::{EventFinder, Triggers};
use gannet_log::Item;
use gannet_measure::ledger::Statement;
use gannet_record::Origin;
use gannet_trigger::merge::{self, MergeCounters, Merger};
use gannet_wire::km3net::clb::ClbFormat;
use gannet_wire::km3net::{CLOCK, SLICE_NS};

use super::planned::PlannedKm3;
use crate::event::EventWriter;
use crate::export::export;
use crate::finder::{self, Km3Finder, Shared, SliceCounters, Sorters};
use crate::geometry::Geometry;
use crate::levels::Levels;
use crate::recent::Recent;
use crate::slices::Slices;
use crate::trigger::{Km3Counters, Km3Trigger, Parts};

/// Modules of a building block: 115 strings of 18 (arXiv:1601.07459).
const BLOCK_MODULES: f64 = 2070.0;

/// Makes the stages of one run.
pub(super) struct Km3Pipeline {
    planned: PlannedKm3,
    isa: Isa,
    geometry: Arc<Geometry>,
    recent: Arc<[Arc<Recent>]>,
    shared: Shared,
}

impl Km3Pipeline {
    pub(super) fn new(planned: PlannedKm3) -> Self {
        let geometry = planned.geometry().expect("the plan has tested the modules");
        // One slice is open beside those that a module may be behind.
        let kept = planned.config.pipeline.merge.hold.ns().div_ceil(SLICE_NS) as usize + 2;
        let recent = geometry.modules.iter().map(|_| Arc::new(Recent::new(kept))).collect();
        let isa = Isa::best();
        let sorters = Sorters::new(isa).expect("the best instruction set is there");
        let shared = Shared { sorters: Arc::new(sorters), counters: Arc::default() };
        Self { planned, isa, geometry: Arc::new(geometry), recent, shared }
    }
}

impl Pipeline for Km3Pipeline {
    type Format = ClbFormat;
    type Finder = Km3Finder;
    type Trigger = Km3Trigger;

    fn format(&self, source: usize) -> ClbFormat {
        self.planned.config.sources[source].streams.format()
    }

    fn finder(&mut self, stream: usize) -> Result<Km3Finder, String> {
        let module = self.geometry.modules.get(stream).ok_or("there is no such stream")?;
        let levels =
            Levels::new(&self.planned.config.pipeline.coincidences, &module.axes, self.isa);
        let module = finder::Module {
            stream: stream as u16,
            status_words: self.planned.status_words(stream),
            calibration: module.calibration(),
            t0_max: self.geometry.t0_max,
            levels: levels.map_err(|error| error.to_string())?,
            recent: Arc::clone(&self.recent[stream]),
        };
        Ok(Km3Finder::new(module, self.shared.clone()))
    }

    fn origin(&self, stream: usize) -> Origin {
        Origin::of_stream(stream as u32)
    }

    fn trigger(
        &mut self,
        run_number: u32,
        _epoch_ns: u64,
    ) -> Result<(Km3Trigger, Arc<dyn Stages>), String> {
        let pipeline = &self.planned.config.pipeline;
        let (geometry, recent) = (&self.geometry, &self.recent);
        let merge = merge::MergeConfig {
            // Beyond the end of a slice its hits are calibrated.
            hold_ticks: u64::from(geometry.t0_max) + 1,
            late_after: pipeline.merge.hold,
            agree_within: pipeline.merge.agree_within,
            waiting_max: pipeline.merge.waiting_max,
            ..merge::MergeConfig::default()
        };
        let merger = Merger::batched(&merge, geometry.modules.len(), CLOCK);
        let mut merger = merger.map_err(|error| format!("pipeline.merge.{error}"))?;
        merger.go_on_after(CLOCK.ticks(pipeline.merge.hold.ns()));
        let positions: Vec<_> = geometry.modules.iter().map(|module| module.position).collect();
        let triggers = Triggers { muon: pipeline.muon.rule(), shower: pipeline.shower.rule() };
        let events = EventFinder::new(&positions, &triggers, self.isa);
        let (modules, all) = (|| Arc::clone(geometry), || Arc::clone(recent));
        let written = &pipeline.written;
        let trigger = Km3Trigger::new(Parts {
            merger,
            geometry: modules(),
            events: events.map_err(|error| error.to_string())?,
            writer: EventWriter::new(modules(), all(), written.around.ns()),
            slices: Slices::new(modules(), all(), written.time_slices.clone(), run_number),
        });
        let slices = Arc::clone(&self.shared.counters);
        let stages = Km3Stages { slices, trigger: trigger.counters() };
        Ok((trigger, Arc::new(stages)))
    }

    fn may_be_apart(&self) -> Result<(), String> {
        Err("an event has all hits around it, which only the readout keeps".into())
    }

    fn records_in_flight_max(&self) -> usize {
        1
    }

    fn run_start(&self, plan: &Plan, started_unix_ns: u64) -> Vec<u8> {
        let start = serde_json::json!({
            "run": plan.run_number(),
            "started_unix_ns": started_unix_ns,
            "application": plan.settings.run.application,
            "version": env!("CARGO_PKG_VERSION"),
            "detector": self.planned.config.pipeline.detector,
            // What the configuration refers to, for who shows the events.
            "modules": self.planned.config.pipeline.detector_file.as_ref().map(|_| self.geometry.stored()),
            "configuration": plan.text,
        });
        start.to_string().into_bytes()
    }

    fn export(&self) -> Option<Export> {
        let wanted = self.planned.config.pipeline.written.export;
        wanted.then(|| Box::new(export) as Export)
    }
}

/// The cores that a building block would take, if `cpu_s` seconds of a core went into so many slices of
/// modules; none if there were none.
fn cores_of_block(cpu_s: f64, slices: u64) -> Option<Figure> {
    let slices_per_s = BLOCK_MODULES * 1e9 / SLICE_NS as f64;
    let value = FigureValue::Estimate(Estimate {
        value: cpu_s / slices as f64 * slices_per_s,
        assumes: "to receive and decide, if each of 2070 modules takes what one took here; chance in \
                  the muon trigger grows faster",
    });
    (slices > 0 && cpu_s > 0.0).then(|| Figure::new("cores of a whole block", value))
}

/// The figure that says what a run has come to.
const HEADLINE: &str = "events";

/// What can be seen of the stages while they work.
struct Km3Stages {
    slices: Arc<SliceCounters>,
    trigger: Km3Counters,
}

impl Stages for Km3Stages {
    fn statements(&self) -> Vec<Statement> {
        let SliceCounters { datagrams, hits, confirmed, .. } = &*self.slices;
        vec![
            datagrams.statement("datagrams"),
            hits.statement("hits"),
            confirmed.statement("confirmed"),
            self.trigger.merge.statement(),
        ]
    }

    fn flows(&self) -> Vec<Flow> {
        let ways = [
            ("frames", "datagrams"),
            ("datagrams", "hits"),
            ("hits", "confirmed"),
            ("confirmed", "primitives"),
            ("primitives", "merge"),
            ("merge", "daq_objects"),
        ];
        ways.map(|(from, to)| Flow::new(from, to)).into()
    }

    fn asks_for_records(&self) -> bool {
        false
    }

    fn recorded(&self) -> Vec<(Item, Statement)> {
        vec![(Item::DaqObject, self.trigger.objects.statement("objects"))]
    }

    fn times(&self) -> &Arc<MergeCounters> {
        &self.trigger.merge
    }

    fn specific(&self, cpu_s: f64) -> Vec<Figure> {
        let (slices, found) = (&self.slices, &self.trigger.found);
        let (first, last) = (found.first.get(), found.last.get());
        // Since the first slice.
        let seconds = last.saturating_sub(first).max(1) as f64 / 1e9;
        let rate = |count: u64| (count as f64 / seconds) as u64;
        let figures = [
            ("slices of modules, complete", slices.complete.get()),
            ("  incomplete", slices.incomplete.get()),
            ("  datagrams missing", slices.missing.get()),
            ("  photomultipliers under veto", slices.vetoed.get()),
            ("  photomultipliers with a full FIFO", slices.fifo_almost_full.get()),
            ("slices written", found.slices.get()),
            ("  modules missing", found.silent.get()),
            ("hits (L0) a second", rate(slices.hits.delivered())),
            ("confirmed hits (L1) a second", rate(slices.confirmed.delivered())),
            (HEADLINE, found.events.get()),
            ("  with a muon", found.muons.get()),
            ("  with a shower", found.showers.get()),
            ("  with more hits than are asked about", found.limited.get()),
        ];
        let figures = figures.into_iter().map(|(name, count)| Figure {
            headline: name == HEADLINE,
            ..Figure::count(name, count)
        });
        let of_modules = slices.complete.get() + slices.incomplete.get();
        figures.chain(cores_of_block(cpu_s, of_modules)).collect()
    }

    fn figures(&self) -> TriggerSnapshot {
        TriggerSnapshot {
            first_tick: self.trigger.found.first.get(),
            last_tick: self.trigger.found.last.get(),
            ..TriggerSnapshot::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_what_its_modules_take() {
        // 259 modules that kept 0.84 of a core busy for 30 s.
        let figure = cores_of_block(0.84 * 30.0, 259 * 300).unwrap();
        let FigureValue::Estimate(Estimate { value, assumes }) = figure.value else {
            panic!("{figure:?}")
        };
        assert!((value - 6.71).abs() < 0.01 && assumes.contains("2070 modules"), "{value}");
        assert!(cores_of_block(0.0, 1).is_none() && cores_of_block(1.0, 0).is_none());
    }
}
