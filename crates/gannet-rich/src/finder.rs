//! What the receiving threads find in datagrams: hits of a board, events with their rings, or primitives of
//! other sources.

use std::array;
use std::ops::RangeInclusive;
use std::sync::Arc;

use gannet_measure::drop_reasons;
use gannet_measure::ledger::Account;
use gannet_trigger::Finder;
use gannet_wire::Heading;
use gannet_wire::na62::pm_map::BOARD_CHANNELS;
use gannet_wire::na62::{FRAME_FINE_BITS, Time, m2egp, mgp, mtp};

use crate::item::{HITS_MAX, RichItem};
use crate::primitive::PrimitiveId;
use crate::search::Search;

/// Most items of a datagram: one for a gap before it, one for each event of the shortest kind, and one for
/// every 10 hits more.
const ITEMS_MAX: usize = 1 + mgp::LEN_MAX / mgp::EVENT_HEADER_LEN;

drop_reasons! {
    /// Why an event that a datagram should have was not taken.
    pub enum EventDrop {
        /// The datagram says that it has more events than are there, or one of them is damaged.
        Damaged => "damaged",
        /// Its time is before that of its datagram, or longer after it than a datagram lasts.
        OutOfTime => "out_of_time",
    }
}

drop_reasons! {
    /// Why a primitive of another source was not taken.
    pub enum PrimitiveDrop {
        /// Its packet has not the words that it says, or goes back in time.
        Damaged => "damaged",
        /// Its time is before that of its packet, or longer after it than may be.
        OutOfTime => "out_of_time",
    }
}

drop_reasons! {
    /// Why a hit was not taken.
    pub enum HitDrop {
        /// No board has such a channel.
        UnknownChannel => "unknown_channel",
    }
}

/// What became of events and hits in datagrams, which any thread may read.
#[derive(Debug, Default)]
pub struct DatagramAccounts {
    /// Events.
    pub events: Account<EventDrop>,
    /// Hits of events of single boards.
    pub hits: Account<HitDrop>,
    /// Primitives of other sources.
    pub primitives: Account<PrimitiveDrop>,
}

/// Finds what is in the datagrams of one link.
#[derive(Debug)]
pub struct RichFinder {
    kind: Kind,
    /// Every event before this time was found.
    searched_to: u64,
    /// Number that the next datagram should have.
    next: Option<u32>,
    accounts: Arc<DatagramAccounts>,
}

#[derive(Debug)]
enum Kind {
    /// Hits of a board.
    Hits { board: u8 },
    /// Events.
    Events { search: Box<Search>, found: Vec<(u64, PrimitiveId)> },
    /// Primitives of another source.
    Primitives,
}

impl RichFinder {
    /// For datagrams with hits of `board`.
    pub fn of_hits(board: u8, accounts: Arc<DatagramAccounts>) -> Self {
        Self { kind: Kind::Hits { board }, searched_to: 0, next: None, accounts }
    }

    /// For datagrams with merged events, in which `search` finds rings.
    pub fn of_events(search: Search, accounts: Arc<DatagramAccounts>) -> Self {
        let found = Vec::with_capacity(mgp::LEN_MAX / m2egp::WORD_LEN);
        let kind = Kind::Events { search: Box::new(search), found };
        Self { kind, searched_to: 0, next: None, accounts }
    }

    /// For packets of primitives of another source.
    pub fn of_primitives(accounts: Arc<DatagramAccounts>) -> Self {
        Self { kind: Kind::Primitives, searched_to: 0, next: None, accounts }
    }

    /// Takes the primitives of a packet, and that there are no more of its 6.4 us.
    fn primitives(&mut self, begin: u64, packet: &[u8], out: &mut Vec<RichItem>) -> bool {
        let Ok(header) = mtp::Header::new_checked(packet) else { return false };
        let (source, all) = (header.source(), u64::from(header.primitives()));
        let account = &self.accounts.primitives;
        account.offer(all);
        let (first, mut seen) = (out.len(), 0);
        if let Ok(packet) = mtp::Packet::new_checked(packet) {
            for mtp::Primitive { id, time } in packet.primitives() {
                seen += 1;
                out.extend(time_in(begin, time).map(|time| RichItem::primitive(time, source, id)));
            }
        }
        let own = &mut out[first..];
        own.sort_by_key(|item| item.time);
        let taken = own.len() as u64;
        account.deliver(taken);
        account.discard(PrimitiveDrop::OutOfTime, seen - taken);
        account.discard(PrimitiveDrop::Damaged, all - seen);
        let after = own.last().map_or(0, |last| last.time + 1).max(begin + (1 << FRAME_FINE_BITS));
        self.searched_to = self.searched_to.max(after);
        true
    }
}

impl Finder for RichFinder {
    type Item = RichItem;
    const ITEMS_MAX: usize = ITEMS_MAX;

    fn frame(&mut self, heading: &Heading, frame: &[u8], out: &mut Vec<RichItem>) -> bool {
        if matches!(self.kind, Kind::Primitives) {
            return self.primitives(heading.begin, frame, out);
        }
        let Ok(datagram) = mgp::Datagram::with_header_checked(frame) else {
            return false;
        };
        let accounts = &*self.accounts;
        // A header that lies may say more than there is room for, which nobody can have sent.
        let room = datagram.event_bytes().len() / mgp::EVENT_HEADER_LEN;
        let events = u64::from(datagram.header().events).min(room as u64);
        let (mut last, mut seen, mut taken) = (heading.begin, 0, 0);
        match &mut self.kind {
            Kind::Primitives => {}
            Kind::Hits { board } => {
                if self.next.is_some_and(|next| next != heading.sequence) {
                    let since = self.searched_to.min(heading.begin);
                    out.push(RichItem::gap(since, *board, heading.begin));
                }
                self.next = Some(heading.sequence.wrapping_add(1) % SEQUENCES);
                let (mut rest, mut hits, mut unknown) = (datagram.event_bytes(), 0, 0);
                while seen < events
                    && let Ok((event, behind)) = mgp::BoardEvent::new_checked(rest)
                {
                    let bytes = rest;
                    (rest, seen) = (behind, seen + 1);
                    if let Some(time) = time_in(heading.begin, event.time()) {
                        (last, taken) = (time, taken + 1);
                        let own = event.hits().len();
                        hits += own as u64;
                        // Hits, and whatever is behind them.
                        let bytes = &bytes[mgp::EVENT_HEADER_LEN..];
                        unknown += append(*board, time, own, bytes, out);
                    }
                }
                accounts.hits.offer(hits);
                accounts.hits.deliver(hits - unknown);
                accounts.hits.discard(HitDrop::UnknownChannel, unknown);
            }
            Kind::Events { search, found } => {
                found.clear();
                search.events(datagram.event_bytes(), heading.begin, found);
                for (time, id) in found.iter().take(events as usize) {
                    seen += 1;
                    if lasts(heading.begin).contains(time) {
                        (last, taken) = (*time, taken + 1);
                        out.push(RichItem::event(*time, *id));
                    }
                }
            }
        }
        accounts.events.offer(events);
        accounts.events.deliver(taken);
        accounts.events.discard(EventDrop::OutOfTime, seen - taken);
        accounts.events.discard(EventDrop::Damaged, events - seen);
        let after = if taken > 0 { last + 1 } else { last };
        self.searched_to = self.searched_to.max(after);
        true
    }

    fn searched_to(&self) -> u64 {
        self.searched_to
    }

    fn begin_anew(&mut self) {
        (self.searched_to, self.next) = (0, None);
    }
}

/// Numbers of datagrams before they begin anew.
const SEQUENCES: u32 = 1 << 31;

/// The times that events of a datagram can have that begins at `begin`. One wrong time must not
/// carry the stream away.
#[inline]
fn lasts(begin: u64) -> RangeInclusive<u64> {
    begin..=begin.saturating_add(mgp::STEP_MAX + (1 << FRAME_FINE_BITS))
}

/// The time of an event with all its bits, if it can be of a datagram that begins at `begin`.
#[inline]
fn time_in(begin: u64, time: Time) -> Option<u64> {
    let since = time.since(Time::from_fine_units(begin));
    begin.checked_add_signed(since).filter(|time| lasts(begin).contains(time))
}

/// Appends the `hits` hits of an event of `board`, which lie at the begin of `bytes`; says how many are of
/// no channel of it.
#[inline]
fn append(board: u8, time: u64, hits: usize, bytes: &[u8], out: &mut Vec<RichItem>) -> u64 {
    let first = u16::from(board) * BOARD_CHANNELS as u16;
    let (mut left, mut rest, mut part, mut unknown) = (hits, bytes, 0, 0);
    while left > 0 {
        let mut count = left.min(HITS_MAX);
        let (words, behind) = words(rest);
        let of_board: [u16; HITS_MAX] =
            array::from_fn(|hit| if hit < count { words[hit] } else { 0 });
        let mut channels = of_board.map(|channel| first.wrapping_add(channel));
        (left, rest) = (left - count, behind);
        if usize::from(of_board.iter().fold(0, |bits, channel| bits | channel)) >= BOARD_CHANNELS {
            unknown += leave_out_unknown(first, &mut count, &mut channels);
        }
        if count > 0 {
            out.push(RichItem::hits(time, board, part, count as u8, channels));
        }
        part += 1;
    }
    unknown
}

/// The words at the begin of `bytes`, zeros where it ends, and what is behind them. Always as many of them:
/// a copy of unknown length would cost more than all that is done with it.
#[inline]
fn words(bytes: &[u8]) -> ([u16; HITS_MAX], &[u8]) {
    let (block, behind) = bytes.split_first_chunk().map_or_else(
        || {
            let mut block = [0; 2 * HITS_MAX];
            block[..bytes.len()].copy_from_slice(bytes);
            (block, &[][..])
        },
        |(block, behind)| (*block, behind),
    );
    (array::from_fn(|word| u16::from_le_bytes([block[2 * word], block[2 * word + 1]])), behind)
}

/// Leaves out hits of channels that the board has not, which begin with `first`; says how many.
#[cold]
fn leave_out_unknown(first: u16, count: &mut usize, channels: &mut [u16; HITS_MAX]) -> u64 {
    let (all, offered) = (*channels, *count);
    *count = 0;
    for channel in &all[..offered] {
        if usize::from(channel.wrapping_sub(first)) < BOARD_CHANNELS {
            channels[*count] = *channel;
            *count += 1;
        }
    }
    (offered - *count) as u64
}

#[cfg(test)]
mod tests {
    use gannet_trigger::Item;

    use super::*;
    use crate::item::What;

    #[test]
    fn hits_of_no_channel_of_the_board_are_left_out_and_counted() {
        let mut buffer = [0; 1472];
        let header = mgp::HeaderRepr::default();
        let mut writer = mgp::Writer::new(header, &mut buffer);
        let channels: Vec<u16> =
            (0..60).map(|hit| if hit % 7 == 3 { 512 + hit } else { hit }).collect();
        assert!(writer.board_event(Time::new(5, 6), channels.iter().copied()));
        let len = writer.finish(0);
        let accounts = Arc::<DatagramAccounts>::default();
        let mut finder = RichFinder::of_hits(2, Arc::clone(&accounts));
        let heading = Heading { stream: Default::default(), begin: 0, sequence: 1 };
        let mut found = Vec::new();
        assert!(finder.frame(&heading, &buffer[..len], &mut found));
        let mut taken = Vec::new();
        for (part, item) in (0..).zip(&found) {
            let What::Hits(hits) = item.what() else { panic!("{item:?}") };
            let place = (1, 2, part);
            assert_eq!((item.time, hits.board, item.place()), (5 << 8 | 6, 2, place));
            taken.extend(hits.channels().iter().map(|channel| channel - 1024));
        }
        let known: Vec<u16> = channels.into_iter().filter(|channel| *channel < 512).collect();
        assert_eq!(taken, known);
        assert_eq!(accounts.hits.dropped(HitDrop::UnknownChannel), 60 - known.len() as u64);
        assert_eq!(finder.searched_to(), (5 << 8 | 6) + 1);
    }
    #[test]
    fn a_header_that_lies_about_its_events_is_not_believed() {
        let mut buffer = [0; 1472];
        let mut writer = mgp::Writer::new(mgp::HeaderRepr::default(), &mut buffer);
        assert!(writer.board_event(Time::new(5, 6), [1, 2, 3].into_iter()));
        let len = writer.finish(1472);
        buffer[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
        let accounts = Arc::<DatagramAccounts>::default();
        let mut finder = RichFinder::of_hits(0, Arc::clone(&accounts));
        let heading = Heading { stream: Default::default(), begin: 0, sequence: 1 };
        assert!(finder.frame(&heading, &buffer[..len], &mut Vec::new()));
        // The event of 16 bytes is there, and one without hits could be.
        assert_eq!((accounts.events.statement("").offered, accounts.events.delivered()), (2, 1));
        assert_eq!(accounts.events.dropped(EventDrop::Damaged), 1);
    }
}
