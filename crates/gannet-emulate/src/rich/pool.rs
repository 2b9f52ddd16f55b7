//! Events made beforehand, as the records of each stream, one after the other: a block of events
//! is one piece of it.

use gannet_wire::na62::pm_map::{self, BOARD_CHANNELS};
use gannet_wire::na62::{Time, m2egp, mgp};

use super::config::Packets;
use super::event::{Event, Hit};
use super::generator::Generator;

/// Time of a record.
fn time(kind: Packets, record: &[u8]) -> Time {
    match kind {
        Packets::Boards => {
            let header = mgp::EventHeader::new_unchecked(record);
            Time::new(header.timestamp(), header.fine_time())
        }
        Packets::Merged => {
            let header = m2egp::Header::new_unchecked(record);
            Time::new(header.timestamp(), header.fine_time())
        }
    }
}

fn set_time(kind: Packets, record: &mut [u8], time: Time) {
    match kind {
        Packets::Boards => {
            let mut header = mgp::EventHeader::new_unchecked(record);
            header.set_timestamp(time.timestamp());
            header.set_fine_time(time.fine());
        }
        Packets::Merged => {
            let mut header = m2egp::Header::new_unchecked(record);
            header.set_timestamp(time.timestamp());
            header.set_fine_time(time.fine());
        }
    }
}

/// Records of one stream.
#[derive(Clone, Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    /// Where the record of each event begins; it is empty if the stream has no hit of it.
    begins: Vec<u32>,
}

/// The records of a number of events. After the last event the first ones follow again, so that
/// any block lies in one piece.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    kind: Packets,
    events: usize,
    lanes: Vec<Lane>,
    /// Rings of each event.
    rings: Vec<u8>,
}

impl Pool {
    /// The first `events` events of `generator`, of which blocks have at most `block_max`.
    pub(super) fn new(
        generator: &Generator,
        kind: Packets,
        events: usize,
        block_max: usize,
    ) -> Self {
        let lanes = if kind == Packets::Boards { pm_map::BOARDS } else { 1 };
        let mut pool = Self {
            kind,
            events,
            lanes: vec![Lane::default(); lanes],
            rings: Vec::with_capacity(events + block_max),
        };
        for number in 0..events + block_max {
            pool.push(&generator.event((number % events) as u64));
        }
        let end = |lane: &mut Lane| lane.begins.push(lane.bytes.len() as u32);
        pool.lanes.iter_mut().for_each(end);
        pool
    }

    fn push(&mut self, event: &Event) {
        self.rings.push(event.rings.len() as u8);
        for (board, lane) in self.lanes.iter_mut().enumerate() {
            lane.begins.push(lane.bytes.len() as u32);
            match self.kind {
                Packets::Merged => event.write_m2egp(Time::default(), &mut lane.bytes),
                Packets::Boards => write_board_event(event, board, &mut lane.bytes),
            }
        }
    }

    /// Number of events.
    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// The most events, at most `block_max`, of which every block fits into `bytes`.
    pub(super) fn block_max(&self, bytes: usize, block_max: usize) -> usize {
        let fits = |events: usize| {
            let fits = |lane: &Lane| {
                let begins = &lane.begins[..self.events + events];
                begins.windows(events + 1).all(|block| (block[events] - block[0]) as usize <= bytes)
            };
            self.lanes.iter().all(fits)
        };
        let (mut most, mut too_many) = (0, block_max + 1);
        while most + 1 < too_many {
            let events = usize::midpoint(most, too_many);
            if fits(events) { most = events } else { too_many = events }
        }
        most
    }

    /// Appends the records of a lane for events from number `first` on, which are at `times` in
    /// units of the fine time, to `out`. Returns how many there are.
    pub(super) fn write(
        &self,
        lane: usize,
        first: usize,
        times: impl ExactSizeIterator<Item = u64>,
        out: &mut Vec<u8>,
    ) -> u16 {
        let lane = &self.lanes[lane];
        let begins = &lane.begins[first..=first + times.len()];
        let (from, to) = (begins[0] as usize, begins[times.len()] as usize);
        let place = out.len();
        out.extend_from_slice(&lane.bytes[from..to]);
        let records = &mut out[place..];
        let mut count = 0;
        for (record, time) in begins.windows(2).zip(times) {
            if record[0] == record[1] {
                continue;
            }
            let record = &mut records[record[0] as usize - from..record[1] as usize - from];
            let delay = self::time(self.kind, record).fine_units();
            set_time(self.kind, record, Time::from_fine_units(time + delay));
            count += 1;
        }
        count
    }

    /// Events with 0, 1, 2, 3 and 4 rings among `count` events from number `first` on.
    pub(super) fn rings(&self, first: usize, count: usize) -> [u64; 5] {
        let mut rings = [0; 5];
        self.rings[first..first + count].iter().for_each(|&number| rings[usize::from(number)] += 1);
        rings
    }
}

/// Appends what `board` sends of `event`, with the delay of its first hit as time; nothing if it
/// has no hits.
fn write_board_event(event: &Event, board: usize, out: &mut Vec<u8>) {
    let own = |hit: &&Hit| usize::from(hit.channel) / BOARD_CHANNELS == board;
    let hits: Vec<&Hit> = event.hits.iter().filter(own).collect();
    let Some(first) = hits.first() else {
        return;
    };
    let begin = out.len();
    let head = mgp::EventHeaderRepr {
        fine_time: first.time,
        hits: hits.len() as u8,
        ..mgp::EventHeaderRepr::default()
    };
    out.resize(begin + mgp::EVENT_HEADER_LEN, 0);
    head.emit(&mut mgp::EventHeader::new_unchecked(&mut out[begin..]));
    let in_board = |hit: &&Hit| (hit.channel % BOARD_CHANNELS as u16).to_le_bytes();
    out.extend(hits.iter().flat_map(in_board));
    out.resize(begin + mgp::event_len_of(hits.len()), 0);
}
