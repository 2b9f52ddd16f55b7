//! The 64 events of the NA62 RICH that the APE group published, where a file of them is at hand.
//!
//! They are not kept here for their licence. `GANNET_M2EGP_EVENTS` names a file of their words of 16
//! bytes, as they lie in memory.

use std::fs;

use gannet_measure::testing::skipped;
use gannet_wire::na62::m2egp::{Event, Events};

#[test]
fn recorded_events_decode_without_violation() {
    let Some(path) = std::env::var_os("GANNET_M2EGP_EVENTS") else {
        return skipped("recorded M2EGP events", "GANNET_M2EGP_EVENTS names no file");
    };
    let file = fs::read(path).unwrap();
    let events: Vec<Event<'_>> = Events::new(&file).collect::<Result<_, _>>().unwrap();
    let hits: Vec<usize> = events.iter().map(|event| event.hits().len()).collect();
    assert_eq!((events.len(), hits.iter().max()), (64, Some(&79)));
    let mean = hits.iter().sum::<usize>() as f64 / 64.0;
    assert!((mean - 24.8).abs() < 0.05, "{mean}");
    let is_in_order = events.is_sorted_by(|a, b| b.time().since(a.time()) >= 0);
    assert!(is_in_order && events.iter().all(|event| event.hits().all(|channel| channel < 2048)));
}
