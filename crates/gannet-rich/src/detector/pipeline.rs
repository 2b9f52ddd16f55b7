//! The stages of one run of the RICH.

use std::sync::Arc;

use gannet_control::config::Plan;
use gannet_control::detector::{Answering, Pipeline, Stages, Worker};
use gannet_control::snapshot::{Figure, FigureValue, Flow, Times, TriggerSnapshot};
use gannet_kernels::Isa;
use gannet_log::Item;
use gannet_measure::ledger::Statement;
use gannet_memory::receive_list::{Overflow, Rules};
use gannet_record::Origin;
use gannet_trigger::merge::{self, MergeCounters, Merger};
use gannet_wire::na62::pm_map::BOARDS;
use gannet_wire::na62::{FINE_CLOCK, Source};

use super::config::{Level0Config, StreamPackets};
use super::planned::PlannedRich;
use crate::answer::Answerer;
use crate::buffers::{Buffering, Buffers};
use crate::decide::{DecisionCounters, Decisions, Readout};
use crate::event::EventBuilder;
use crate::finder::{DatagramAccounts, RichFinder};
use crate::format::RichFormat;
use crate::matching::{self, Matched};
use crate::primitive::RadiusClasses;
use crate::search::Search;
use crate::trigger::{Parts, RichCounters, RichTrigger};

/// Makes the stages of one run.
pub(super) struct RichPipeline {
    planned: PlannedRich,
    isa: Isa,
    datagrams: Arc<DatagramAccounts>,
    workers: Vec<Worker>,
}

impl RichPipeline {
    pub(super) fn new(planned: PlannedRich) -> Self {
        Self { planned, isa: Isa::best(), datagrams: Arc::default(), workers: Vec::new() }
    }

    /// The sources, as configured.
    fn links(&self) -> impl Iterator<Item = (StreamPackets, u8)> {
        let sources = self.planned.config.sources.iter();
        sources.flat_map(|source| {
            let packets = source.streams.packets;
            source.streams.links.iter().map(move |link| (packets, *link))
        })
    }

    fn search(&self) -> Search {
        let pipeline = &self.planned.config.pipeline;
        let (muon_mm, electron_mm) = (pipeline.answer.muon_mm, pipeline.answer.electron_mm);
        let classes = RadiusClasses { muon_mm, electron_mm };
        let search = Search::new(&pipeline.rings, classes, &self.planned.map, self.isa);
        search.expect("the best instruction set is there")
    }
}

impl Pipeline for RichPipeline {
    type Format = RichFormat;
    type Finder = RichFinder;
    type Trigger = RichTrigger;

    fn format(&self, source: usize) -> RichFormat {
        self.planned.config.sources[source].streams.format()
    }

    fn finder(&mut self, stream: usize) -> Result<RichFinder, String> {
        let accounts = Arc::clone(&self.datagrams);
        Ok(match self.links().nth(stream) {
            Some((StreamPackets::Merged, _)) => RichFinder::of_events(self.search(), accounts),
            Some((StreamPackets::Boards, link)) => {
                RichFinder::of_hits(link % BOARDS as u8, accounts)
            }
            Some((StreamPackets::Primitives, _)) => RichFinder::of_primitives(accounts),
            None => return Err("there is no such stream".into()),
        })
    }

    fn origin(&self, stream: usize) -> Origin {
        Origin::of_stream(stream as u32)
    }

    fn trigger(
        &mut self,
        run_number: u32,
        _epoch_ns: u64,
    ) -> Result<(RichTrigger, Arc<dyn Stages>), String> {
        let pipeline = &self.planned.config.pipeline;
        let boards: Vec<_> = self
            .links()
            .map(|(packets, link)| {
                (packets == StreamPackets::Boards).then_some(link % BOARDS as u8)
            })
            .collect();
        let merge = merge::MergeConfig {
            hold_ticks: 0,
            agree_within: pipeline.merge.agree_within,
            waiting_max: pipeline.merge.waiting_max,
            ..merge::MergeConfig::default()
        };
        let merger = Merger::in_order(&merge, boards.len(), FINE_CLOCK);
        let mut merger = merger.map_err(|error| format!("pipeline.merge.{error}"))?;
        merger.go_on_after(FINE_CLOCK.ticks(pipeline.merge.hold.ns()));
        let (buffers, answer) = (&pipeline.buffers, &pipeline.answer);
        let buffering = Buffering {
            count: buffers.count as usize,
            bytes: buffers.size.bytes() as usize,
            rules: Rules {
                units_max: buffers.events,
                timeout_ns: buffers.timeout.ns(),
                overflow: Overflow::DropNewest,
            },
            workers: buffers.workers as usize,
        };
        let (buffers, workers) = Buffers::new(&buffering, || self.search());
        self.workers = workers;
        let own = Source::from_number(answer.source);
        let decisions = pipeline.level0.as_ref().map(|level0| {
            let readout = Readout {
                run_number,
                before: FINE_CLOCK.ticks(level0.before.ns()),
                after: FINE_CLOCK.ticks(level0.after.ns()),
                in_flight_max: level0.records_in_flight_max as usize,
            };
            Decisions::new(level0.rules(), own, readout)
        });
        let trigger = RichTrigger::new(Parts {
            merger,
            boards,
            builder: EventBuilder::new(pipeline.merge.window_fine),
            buffers,
            answerer: Answerer::new(own, answer.sub_source, answer.budget.ns()),
            decisions,
        });
        let stages = RichStages {
            datagrams: Arc::clone(&self.datagrams),
            trigger: trigger.counters(),
            level0: pipeline.level0.as_ref().map(Level0Config::rules),
        };
        Ok((trigger, Arc::new(stages)))
    }

    fn answering(&self) -> Option<Answering> {
        let answer = &self.planned.config.pipeline.answer;
        Some(Answering { to: answer.to, at_once: true })
    }

    fn workers(&mut self) -> Vec<Worker> {
        std::mem::take(&mut self.workers)
    }

    fn records_in_flight_max(&self) -> usize {
        let level0 = &self.planned.config.pipeline.level0;
        level0.as_ref().map_or(1, |level0| level0.records_in_flight_max as usize)
    }

    fn run_start(&self, plan: &Plan, started_unix_ns: u64) -> Vec<u8> {
        let start = serde_json::json!({
            "run": plan.run_number(),
            "started_unix_ns": started_unix_ns,
            "application": plan.settings.run.application,
            "version": env!("CARGO_PKG_VERSION"),
            "detector": self.planned.config.pipeline.detector,
            // What the configuration refers to, for who finds the rings again.
            "cabling": self.planned.config.pipeline.cabling.as_ref().map(|_| self.planned.map.table()),
            "configuration": plan.text,
        });
        start.to_string().into_bytes()
    }
}

/// What events with so many rings are called.
pub(super) fn events_with(rings: usize) -> String {
    format!("events with {rings} ring{}", if rings == 1 { "" } else { "s" })
}

/// What can be seen of the stages while they work.
struct RichStages {
    datagrams: Arc<DatagramAccounts>,
    trigger: RichCounters,
    /// What is matched, if anything is.
    level0: Option<matching::Rules>,
}

impl RichStages {
    /// What was matched, by source and by mask.
    fn matched(&self) -> Vec<(String, u64)> {
        let (Some(rules), Some(DecisionCounters { matched, .. })) =
            (&self.level0, &self.trigger.decisions)
        else {
            return Vec::new();
        };
        let mut counts = Vec::new();
        for (place, Matched { source, .. }) in rules.sources.iter().enumerate() {
            counts.push((format!("primitives of {source}"), matched.primitives[place].get()));
            if place > 0 {
                counts.push(("  with a reference".to_owned(), matched.matched[place].get()));
            }
        }
        for mask in 0..rules.masks.len() {
            counts.push((format!("passed by mask {mask}"), matched.passed[mask].get()));
            counts.push((format!("triggers of mask {mask}"), matched.triggers[mask].get()));
        }
        counts
    }
}

impl Stages for RichStages {
    fn statements(&self) -> Vec<Statement> {
        let counters = &self.trigger;
        let mut statements = vec![
            self.datagrams.events.statement("events"),
            self.datagrams.hits.statement("hits"),
            counters.merge.statement(),
            counters.searched.statement("search"),
            counters.answers.events.statement("answered"),
        ];
        if let Some(DecisionCounters { triggers, .. }) = &counters.decisions {
            statements.insert(2, self.datagrams.primitives.statement("other_primitives"));
            statements.push(triggers.statement("level0"));
        }
        statements
    }

    fn flows(&self) -> Vec<Flow> {
        let age = self.trigger.answers.age_ns.summary();
        let mut flows = vec![
            Flow::new("frames", "events"),
            Flow::new("events", "hits"),
            Flow::new("events", "primitives"),
            Flow::new("frames", "other_primitives"),
            Flow::new("primitives", "merge"),
            Flow::new("merge", "search"),
            Flow::new("search", "answered").aged("the event", &age),
            Flow::new("answered", "answers"),
        ];
        if self.asks_for_records() {
            flows.extend([Flow::new("search", "level0"), Flow::new("level0", "records")]);
        }
        flows
    }

    fn asks_for_records(&self) -> bool {
        self.level0.is_some()
    }

    fn recorded(&self) -> Vec<(Item, Statement)> {
        Vec::new()
    }

    fn times(&self) -> &Arc<MergeCounters> {
        &self.trigger.merge
    }

    fn specific(&self, _: f64) -> Vec<Figure> {
        let RichCounters { events, answers, rings, .. } = &self.trigger;
        let count = |name: &str, count| Figure::count(name, count);
        let mut figures = vec![
            count("events merged here", events.events.get()).headline(),
            count("  without some board", events.incomplete.get()),
            count("  hits cut", events.hits_cut.get()),
        ];
        let of_rings = (0..).zip(rings.iter());
        figures.extend(of_rings.map(|(rings, events)| count(&events_with(rings), events.get())));
        let late = answers.late.get();
        let in_time = answers.events.delivered().saturating_sub(late);
        figures.push(count("answered in time", in_time).headline());
        figures.push(count("answered late", late));
        let age = FigureValue::Ns(Times::of(&answers.age_ns));
        figures.push(Figure::new("event to answer", age));
        figures.extend(self.matched().into_iter().map(|(name, number)| count(&name, number)));
        figures
    }

    fn figures(&self) -> TriggerSnapshot {
        let decisions = self.trigger.decisions.as_ref();
        TriggerSnapshot {
            decisions: decisions.map_or(0, |decisions| decisions.triggers.delivered()),
            first_tick: self.trigger.first.get(),
            last_tick: self.trigger.last.get(),
            ..TriggerSnapshot::default()
        }
    }
}
