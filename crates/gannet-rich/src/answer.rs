//! The answers to the level-0 trigger: a packet of primitives for each 6.4 us, and when it leaves.

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::drop_reasons;
use gannet_measure::histogram::Histogram;
use gannet_measure::ledger::Account;
use gannet_readout::trigger::Answers;
use gannet_wire::na62::{FINE_CLOCK, FRAME_FINE_BITS, Source, Time, mtp};

use crate::host_time::HostTime;
use crate::primitive::PrimitiveId;

/// Frames that are passed over without packets at most; more are a leap of the detector's time: 1 s.
const LEAP_FRAMES: u64 = 156_250;

/// Nanoseconds of a fine unit, times 2^16: exact to half a nanosecond within a frame.
const NS_PER_FINE_Q16: u64 = (1_000_000_000 << 16) / FINE_CLOCK.per_s();

/// Fine units of 6.4 us.
const FRAME_FINE: u64 = 1 << FRAME_FINE_BITS;

drop_reasons! {
    /// Why an event was not answered.
    pub enum AnswerLoss {
        /// The packet of its 6.4 us had no room.
        PacketFull => "packet_full",
        /// It came after the packet of its 6.4 us had left.
        PacketGone => "packet_gone",
    }
}

/// Figures of the answers, which any thread may read.
#[derive(Debug, Default)]
pub struct AnswerCounters {
    /// Events that were answered or not.
    pub events: Account<AnswerLoss>,
    /// Events whose answer was late.
    pub late: Counter,
    /// Packets, one for each 6.4 us.
    pub packets: Counter,
    /// Times that the detector's time leapt, and no packets were sent for what lay between.
    pub leaps: Counter,
    /// From an event to the departure of its answer, in nanoseconds.
    pub age_ns: Arc<Histogram>,
}

/// Makes the packets.
#[derive(Debug)]
pub struct Answerer {
    source: Source,
    sub_source: u8,
    budget_ns: u64,
    /// A packet.
    packet: Box<[u8; mtp::LEN_MAX]>,
    /// The first 6.4 us for which no packet was made yet.
    next: Option<u64>,
    /// Primitives in the order of time.
    waiting: Vec<(u64, PrimitiveId)>,
    host_time: HostTime,
    counters: Arc<AnswerCounters>,
}

impl Answerer {
    /// Answers in the name of `source`, which are late `budget_ns` after their events.
    pub fn new(source: Source, sub_source: u8, budget_ns: u64) -> Self {
        Self {
            source,
            sub_source,
            budget_ns,
            packet: Box::new([0; mtp::LEN_MAX]),
            next: None,
            waiting: Vec::new(),
            host_time: HostTime::default(),
            counters: Arc::default(),
        }
    }

    /// Its figures.
    pub fn counters(&self) -> Arc<AnswerCounters> {
        Arc::clone(&self.counters)
    }

    /// Takes note that data of the time before `tick` arrived at `arrival_ns`.
    pub fn observe(&mut self, tick: u64, arrival_ns: u64) {
        self.host_time.observe(FINE_CLOCK.ns(tick), arrival_ns);
    }

    /// Takes what is told of an event, no earlier than those before.
    #[inline]
    pub fn push(&mut self, time: u64, id: PrimitiveId) {
        self.waiting.push((time, id));
    }

    /// Makes the packets for all that lies before `complete_to`, at `now_ns`.
    pub fn advance(&mut self, complete_to: u64, now_ns: u64, out: &mut Answers) {
        let end = complete_to / FRAME_FINE;
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.as_slice();
        let first = |rest: &[(u64, PrimitiveId)]| {
            rest.first().map_or(end, |(time, _)| (time / FRAME_FINE).min(end))
        };
        let mut next = self.next.unwrap_or_else(|| first(rest));
        while next < end {
            if end - next > LEAP_FRAMES && first(rest) > next {
                next = first(rest);
                self.counters.leaps.add(1);
                continue;
            }
            let here = rest.partition_point(|(time, _)| time / FRAME_FINE <= next);
            let (own, later) = rest.split_at(here);
            rest = later;
            self.packet(next, own, now_ns, out);
            next += 1;
        }
        self.next = Some(next);
        let done = waiting.len() - rest.len();
        waiting.drain(..done);
        self.waiting = waiting;
    }

    /// Makes packets of all that waits, at the end of a run or when time begins anew.
    pub fn finish(&mut self, now_ns: u64, out: &mut Answers) {
        if let Some((last, _)) = self.waiting.last() {
            self.advance((last / FRAME_FINE + 1) * FRAME_FINE, now_ns, out);
        }
    }

    /// Goes on at another time.
    pub fn begin_anew(&mut self) {
        self.next = None;
        self.host_time.begin_anew();
    }

    /// The packet of one 6.4 us.
    fn packet(
        &mut self,
        frame: u64,
        primitives: &[(u64, PrimitiveId)],
        now_ns: u64,
        out: &mut Answers,
    ) {
        let counters = Arc::clone(&self.counters);
        counters.events.offer(primitives.len() as u64);
        let begin = frame * FRAME_FINE;
        let gone = primitives.partition_point(|(time, _)| *time < begin);
        counters.events.discard(AnswerLoss::PacketGone, gone as u64);
        let primitives = &primitives[gone..];
        let (sent, full) = primitives.split_at(primitives.len().min(mtp::PRIMITIVES_MAX));
        counters.events.discard(AnswerLoss::PacketFull, full.len() as u64);
        counters.events.deliver(sent.len() as u64);
        let frame_age_ns = self.host_time.age_ns(FINE_CLOCK.ns(begin), now_ns);
        let mut late = 0;
        let mut packet =
            mtp::Writer::new(self.source, self.sub_source, frame as u32, &mut self.packet);
        for (time, id) in sent {
            let after_ns = ((time - begin) * NS_PER_FINE_Q16) >> 16;
            let age_ns = frame_age_ns.saturating_sub(after_ns);
            counters.age_ns.record(age_ns);
            let is_late = age_ns > self.budget_ns;
            late += u64::from(is_late);
            let PrimitiveId(id) = if is_late { id.late() } else { *id };
            // All are of one frame, and no more than a packet has room for.
            let _has_room =
                packet.primitive(mtp::Primitive { id, time: Time::from_fine_units(*time) });
        }
        let len = packet.finish();
        out.push(|bytes| bytes.extend_from_slice(&self.packet[..len]));
        counters.late.add(late);
        counters.packets.add(1);
    }
}
