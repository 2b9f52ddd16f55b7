//! Events as they are written: the hits that made a trigger, and all hits around them.

use std::sync::Arc;

use gannet_kernels::clusters;
use gannet_wire::km3net::daq::{EventHeader, SnapshotHit, TriggeredHit, emit_event};
use gannet_wire::km3net::{Hit, SLICE_NS};

use crate::geometry::Geometry;
use crate::recent::Recent;
use crate::slices::Slices;

/// Writes events.
pub struct EventWriter {
    geometry: Arc<Geometry>,
    recent: Arc<[Arc<Recent>]>,
    /// Time around the triggered hits in which all hits are of the event, in ns.
    around_ns: u64,
    number: u64,
    triggered: Vec<TriggeredHit>,
    snapshot: Vec<SnapshotHit>,
}

/// An event as it is written.
pub struct Written {
    /// Times of its first and last triggered hit, in ns since 1970.
    pub times: (u64, u64),
    /// The event.
    pub bytes: Vec<u8>,
}

impl EventWriter {
    /// For the hits of these modules.
    pub fn new(geometry: Arc<Geometry>, recent: Arc<[Arc<Recent>]>, around_ns: u64) -> Self {
        let (triggered, snapshot) = (Vec::new(), Vec::new());
        Self { geometry, recent, around_ns, number: 0, triggered, snapshot }
    }

    /// Writes an event. Times of hits are as modules sent them, from the begin of the slice that has
    /// the first triggered one; a hit around them that was before is left out.
    pub fn write(&mut self, event: &clusters::Event<'_>, slices: &mut Slices) -> Option<Written> {
        let Self { geometry, recent, around_ns, number, triggered, snapshot } = self;
        let sent =
            |module: u32, channel, time| geometry.modules[module as usize].sent_time(time, channel);
        let of = |hit: &clusters::ModuleHit| sent(hit.module, hit.channel, hit.time);
        let begin = event.hits.iter().map(|hit| of(&hit.hit)).min()? / SLICE_NS * SLICE_NS;
        let (first, last) = (event.hits.first()?.hit.time, event.hits.last()?.hit.time);
        triggered.clear();
        triggered.extend(event.hits.iter().map(|hit| {
            let clusters::ModuleHit { module, channel, time_over_threshold, .. } = hit.hit;
            let time = (of(&hit.hit) - begin) as u32;
            let module = geometry.modules[module as usize].id;
            let hit_there = Hit { channel, time, time_over_threshold };
            let snapshot = SnapshotHit { module, hit: hit_there };
            TriggeredHit { snapshot, trigger_mask: hit.mask }
        }));
        snapshot.clear();
        for (module, recent) in recent.iter().enumerate() {
            let id = geometry.modules[module].id;
            let around = (first.saturating_sub(*around_ns), last + *around_ns);
            recent.between(around.0, around.1, |time, hit| {
                let time = sent(module as u32, hit.channel(), time);
                if let Some(time) = time.checked_sub(begin) {
                    let (channel, time_over_threshold) = (hit.channel(), hit.time_over_threshold());
                    let hit = Hit { channel, time: time as u32, time_over_threshold };
                    snapshot.push(SnapshotHit { module: id, hit });
                }
            });
        }
        snapshot.sort_by_key(|hit| hit.hit.time);
        *number += 1;
        let header = EventHeader {
            header: slices.header(begin),
            trigger_counter: *number,
            trigger_mask: event.mask,
            overlays: 0,
        };
        let mut bytes = Vec::new();
        emit_event(&header, triggered, snapshot, &mut bytes);
        Some(Written { times: (first, last), bytes })
    }
}
