//! Events that recordings hold: merged ones as they were recorded, and hits of boards merged once more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gannet_control::event::{Content, NoEvent, Recording};
use gannet_log::frames::{SIZE_BYTES, frames, sized};
use gannet_log::{Kind, Reader};
use gannet_record::StoredRecord;
use gannet_trigger::{Finder, Item};
use gannet_wire::na62::mgp::{self, MgpFormat};
use gannet_wire::na62::pm_map::BOARDS;
use gannet_wire::na62::{FINE_CLOCK, Time, m2egp};
use gannet_wire::{FrameFormat, Heading, StreamKey};

use crate::event::{EventBuilder, Missing};
use crate::finder::{DatagramAccounts, RichFinder};
use crate::item::{RichItem, What};

/// Items that wait for a link that brings nothing; beyond it half of them go on.
const WAITING_MAX: usize = 1 << 20;

/// Takes the events of a recording, in their order.
pub trait EventSink {
    /// Takes an event of this time, in fine units, laid out as M2EGP.
    fn event(&mut self, time: u64, m2egp: &[u8]);

    /// Whether it wants no more of them.
    fn is_done(&self) -> bool {
        false
    }
}

/// Gives the events of a recording to `sink`. Hits of boards that are no more than `window` fine units after the
/// first are one event.
///
/// Of a log, they are those of the streams that were recorded as they came; where none was, those in the windows of
/// the trigger records, each once.
///
/// # Errors
/// When the recording cannot be read, or is none of the RICH.
pub fn events(recording: &Recording, window: u64, sink: &mut dyn EventSink) -> Result<(), NoEvent> {
    match &recording.content {
        Content::Log => of_log(&recording.path, window, sink)
            .map_err(|error| NoEvent::Unreadable(format!("{}: {error}", recording.path.display()))),
        Content::Datagrams(datagrams) if datagrams.iter().all(|it| heading(it).is_none()) => {
            let file = recording.path.display();
            Err(NoEvent::NotKept(format!("{file}: no datagram has hits or events of the RICH")))
        }
        Content::Datagrams(datagrams) => {
            let mut frames = Frames::new(datagrams.iter().filter_map(|it| link_of(it)), window);
            datagrams.iter().for_each(|datagram| frames.take(datagram, sink));
            frames.finish(sink);
            Ok(())
        }
        Content::Bytes(bytes) if heading(bytes).is_some() => {
            let mut frames = Frames::new(link_of(bytes), window);
            frames.take(bytes, sink);
            frames.finish(sink);
            Ok(())
        }
        Content::Bytes(bytes) => of_bytes(bytes, sink)
            .map_err(|error| NoEvent::NotKept(format!("{}: {error}", recording.path.display()))),
    }
}

/// Events one behind the other.
fn of_bytes(bytes: &[u8], sink: &mut dyn EventSink) -> gannet_wire::Result<()> {
    let mut time = None;
    for event in m2egp::Events::new(bytes) {
        let event = event?;
        let here = event.time();
        // The 40 bits of the format wrap.
        let full = time.map_or(here.fine_units(), |before: u64| {
            before.saturating_add_signed(here.since(Time::from_fine_units(before)))
        });
        time = Some(full);
        sink.event(full, event.as_bytes());
    }
    Ok(())
}

/// The heading of a datagram with events.
fn heading(datagram: &[u8]) -> Option<Heading> {
    let header = mgp::Datagram::with_header_checked(datagram).ok()?.header();
    // Packets of primitives have their source there.
    let is_mgp = header.flags <= mgp::END_OF_BURST;
    is_mgp.then(|| MgpFormat::default().heading(datagram).ok()).flatten()
}

/// The link of a datagram with hits of a board.
fn link_of(datagram: &[u8]) -> Option<u8> {
    let StreamKey(key) = heading(datagram)?.stream;
    ((key >> 16) as u8 == mgp::BOARD_EVENTS).then_some(key as u8)
}

fn of_log(log: &Path, window: u64, sink: &mut dyn EventSink) -> Result<(), gannet_log::Error> {
    let mut reader = Reader::open(log)?;
    let (mut links, mut has_streams) = (BTreeSet::new(), false);
    reader.glance(|header, payload| {
        if header.label.kind == Kind::SIZED_FRAMES
            && let Some((_, frame)) = payload.split_first_chunk::<SIZE_BYTES>()
            && let Ok(header) = mgp::Header::new_checked(frame)
        {
            has_streams |= header.flags() <= mgp::END_OF_BURST;
            if header.format() == mgp::BOARD_EVENTS {
                links.insert(header.sub_id());
            }
        }
    })?;
    let mut of_streams = Frames::new(links, window);
    let mut of_records = Records { window, given: BTreeSet::new() };
    reader.each_sound(|chunk| {
        let label = &chunk.header.label;
        match label.kind {
            Kind::SIZED_FRAMES => {
                let frames = frames(label, chunk.payload).unwrap_or_default();
                frames.iter().for_each(|frame| of_streams.take(frame, sink));
            }
            Kind::TRIGGER_RECORD if !has_streams => of_records.take(chunk.payload, sink),
            _ => {}
        }
        !sink.is_done()
    })?;
    of_streams.finish(sink);
    Ok(())
}

/// Events of trigger records.
struct Records {
    window: u64,
    /// Times of events that were given out, as far as other records may hold them.
    given: BTreeSet<u64>,
}

impl Records {
    /// Gives out the events in the window of a record. What cannot be read is left out.
    fn take(&mut self, record: &[u8], sink: &mut dyn EventSink) {
        let Ok(record) = StoredRecord::trigger_record(record) else { return };
        let parts: Vec<_> = record.fragments().map_while(Result::ok).collect();
        let Some(window) = parts.first().map(|part| {
            let header = part.header();
            header.window_begin..header.window_end
        }) else {
            return;
        };
        let all: Vec<&[u8]> =
            parts.iter().filter_map(|part| sized(part.payload())).flatten().collect();
        let mut frames = Frames::new(all.iter().filter_map(|frame| link_of(frame)), self.window);
        let long_ago = window.start.saturating_sub(FINE_CLOCK.per_s());
        self.given = self.given.split_off(&long_ago);
        let given = &mut self.given;
        let mut within = Within { window, given, sink };
        all.iter().for_each(|frame| frames.take(frame, &mut within));
        frames.finish(&mut within);
    }
}

/// Passes on events of a window that were not given out before.
struct Within<'a> {
    window: Range<u64>,
    given: &'a mut BTreeSet<u64>,
    sink: &'a mut dyn EventSink,
}

impl EventSink for Within<'_> {
    fn event(&mut self, time: u64, m2egp: &[u8]) {
        if self.window.contains(&time) && self.given.insert(time) {
            self.sink.event(time, m2egp);
        }
    }
}

/// Events of datagrams of any links.
struct Frames {
    /// Who finds hits in those of each link with hits of a board.
    links: BTreeMap<u8, RichFinder>,
    /// Hits and gaps that those of other links may still come before.
    waiting: Vec<RichItem>,
    builder: EventBuilder,
    missing: Missing,
    laid_out: Box<[u8; m2egp::EVENT_LEN_MAX]>,
}

impl Frames {
    /// For datagrams in which these links bring hits of boards.
    fn new(links: impl IntoIterator<Item = u8>, window: u64) -> Self {
        let accounts = Arc::<DatagramAccounts>::default();
        let finder = |link| (link, RichFinder::of_hits(link % BOARDS as u8, Arc::clone(&accounts)));
        Self {
            links: links.into_iter().map(finder).collect(),
            waiting: Vec::new(),
            builder: EventBuilder::new(window),
            missing: Missing::default(),
            laid_out: Box::new([0; m2egp::EVENT_LEN_MAX]),
        }
    }

    /// Takes a datagram; one that has no events is left out.
    fn take(&mut self, datagram: &[u8], sink: &mut dyn EventSink) {
        let Some(heading) = heading(datagram) else { return };
        let Some(finder) = link_of(datagram).and_then(|link| self.links.get_mut(&link)) else {
            return merged(&heading, datagram, sink);
        };
        let is_anew = heading.begin.saturating_add(FINE_CLOCK.per_s()) < finder.searched_to();
        if is_anew {
            self.finish(sink);
            self.links.values_mut().for_each(Finder::begin_anew);
            return self.take(datagram, sink);
        }
        finder.frame(&heading, datagram, &mut self.waiting);
        let searched = || self.links.values().map(Finder::searched_to);
        let mut searched_to = [u64::MAX; BOARDS];
        for (link, finder) in &self.links {
            let to = &mut searched_to[usize::from(*link) % BOARDS];
            *to = finder.searched_to().min(*to);
        }
        self.missing.searched_to = searched_to;
        let complete_to = searched().min().unwrap_or(0);
        self.release(complete_to, sink);
        if self.waiting.len() > WAITING_MAX {
            let middle = self.waiting[WAITING_MAX / 2].time;
            self.release(middle, sink);
        }
    }

    /// Gives out all that waits.
    fn finish(&mut self, sink: &mut dyn EventSink) {
        self.release(u64::MAX, sink);
        self.close(sink);
    }

    /// Makes events of what was before `to`.
    fn release(&mut self, to: u64, sink: &mut dyn EventSink) {
        if self.waiting.iter().all(|item| item.time >= to) {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|item| (item.time, item.place()));
        let complete = waiting.partition_point(|item| item.time < to);
        for item in waiting.drain(..complete) {
            if self.builder.is_over(item.time) {
                self.close(sink);
            }
            match item.what() {
                What::Hits(hits) => self.builder.take(item.time, hits),
                What::Gap { board, until } => {
                    self.missing.gaps[usize::from(board) % BOARDS] = (item.time, until);
                }
                What::Event(_) | What::Primitive { .. } => {}
            }
        }
        self.waiting = waiting;
        if self.builder.is_over(to) {
            self.close(sink);
        }
    }

    fn close(&mut self, sink: &mut dyn EventSink) {
        let missing = &self.missing;
        let Some(event) = self.builder.close(|time| missing.at(time)) else { return };
        let len = event.lay_out(&mut self.laid_out);
        sink.event(event.time, &self.laid_out[..len]);
    }
}

/// Gives out the events of a datagram with merged ones. What is damaged ends them.
fn merged(heading: &Heading, datagram: &[u8], sink: &mut dyn EventSink) {
    let Ok(datagram) = mgp::Datagram::with_header_checked(datagram) else { return };
    for event in datagram.events().map_while(Result::ok) {
        if let mgp::Event::Merged(event) = event {
            let since = event.time().since(Time::from_fine_units(heading.begin));
            sink.event(heading.begin.saturating_add_signed(since), event.as_bytes());
        }
    }
}
