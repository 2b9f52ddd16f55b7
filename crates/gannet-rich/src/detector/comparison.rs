//! Events and rings that a front end put in, and what was found of them.

use gannet_control::detector::Comparison;
use gannet_control::emulation::EmulationReport;
use gannet_control::snapshot::{Figure, FigureValue, Snapshot};
use gannet_emulate::InjectedEvent;
use gannet_emulate::rich::KINDS;
use gannet_kernels::rings::RINGS_MAX;

use super::pipeline::events_with;

/// Compares numbers: events are too many to be followed one by one.
#[derive(Debug, Default)]
pub(super) struct Rings;

impl Comparison for Rings {
    fn wants_events(&self) -> bool {
        false
    }

    fn put_in(&mut self, _: &dyn InjectedEvent) {}

    fn compare(&self, sent: &EmulationReport, found: &Snapshot) -> Result<Vec<Figure>, String> {
        let made = KINDS.map(|kind| sent.truth.events.get(kind).copied().unwrap_or(0));
        let events: u64 = made.iter().sum();
        let answered = found.ledger.iter().filter(|statement| statement.stage == "answered");
        let answered: u64 = answered.map(|statement| statement.delivered).sum();
        let with = |rings: usize| {
            let name = events_with(rings);
            let own = found.specific.iter().find(|figure| figure.name == name);
            own.map_or(0, |figure| match figure.value {
                FigureValue::Count(count) => count,
                _ => 0,
            })
        };
        let rings = |events: &dyn Fn(usize) -> u64, most: usize| -> u64 {
            (1..=most).map(|rings| rings as u64 * events(rings)).sum()
        };
        let (made_rings, found_rings) =
            (rings(&|rings| made[rings], KINDS.len() - 1), rings(&with, RINGS_MAX));
        Ok(vec![
            Figure::count("events", events),
            Figure::share("  answered", answered, events),
            Figure::count("rings", made_rings),
            Figure::share("  found, true or not", found_rings, made_rings),
        ])
    }
}
