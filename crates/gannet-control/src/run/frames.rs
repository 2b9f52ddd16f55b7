//! The account of frames: what the streams made by their own time stamps, and what of it was taken.
//!
//! A stream lacks the frames between two that came, and those at the edges of the run: from its
//! begin, which the streams agree on, to the first of the stream, and from its last to the end.
//!
//! * The run **ends** at the time that a quorum of streams had reached [`SETTLE_NS`] before the
//!   stop. Whatever was sent by then has arrived since, or never will.
//! * It **begins** at the first time that a quorum of streams has sent. If these sent already when
//!   it was started, it begins at the time that they had reached `SETTLE_NS` later.
//!
//! Streams that are far from the agreed time prove neither: the quorum is one of the streams that agree
//! with it, and of those that ended while they did. A stream that went on from another time lacks at
//! least the difference between the frames due from begin to end and those that came.
//!
//! Frames before and after are extra: they are taken, and what lacks between them is counted.
//!
//! [`SETTLE_NS`]: gannet_readout::receiver::SETTLE_NS

use gannet_measure::ledger::{Drop, Statement};
use gannet_measure::ticks::DuneTicks;

/// A time that is so far, in ticks, outside of what the quorum saw is no time of this run.
pub(super) const WILD_TICKS: u64 = DuneTicks::HZ;

/// Drops behind the socket that may each be a frame that some stream lacks.
const REFUSED: [(&str, &str); 8] = [
    ("source", "wrong_length"),
    ("source", "fragment"),
    ("source", "malformed"),
    ("frames", "bad_header"),
    ("frames", "unknown_stream"),
    ("frames", "other_socket"),
    ("frames", "bad_timestamp"),
    ("frames", "too_old"),
];

/// Streams that have to agree on a time, of `streams` that have sent: a quarter, so that the others
/// may have lost their last frames, and at least two, so that a single wild clock proves nothing.
fn quorum(streams: usize) -> usize {
    streams.div_ceil(4).max(2).min(streams)
}

/// What a stream tells of its time, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamSpan {
    pub ticks_per_frame: u64,
    pub first: u64,
    pub newest: u64,
    /// Frames that it lacks between the two, and those of them in its last long gap.
    pub missing: u64,
    pub outage: u64,
    /// What it had reached a while after the start, if it had sent anything.
    pub early: Option<u64>,
    /// What it had reached a while ago, or a while before the stop.
    pub settled: Option<u64>,
    /// Frames that it made, as far as they came.
    pub taken: u64,
    /// Whether it went on from another time: then it tells nothing of the end.
    pub restarted: bool,
    /// Whether its time is near the one that most streams agree on.
    pub agrees: bool,
}

/// Frames that one stream lacks: before its first, between that and its newest, and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    pub begin: u64,
    pub between: u64,
    pub end: u64,
}

impl Missing {
    pub fn total(&self) -> u64 {
        self.begin + self.between + self.end
    }
}

/// Detector time in which each stream is to have frames, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edges {
    pub begin: u64,
    pub end: u64,
    /// First time that a quorum has sent, and the newest.
    seen: (u64, u64),
}

impl Edges {
    /// What the streams that have sent agree on; nothing before they have sent for a while.
    pub fn agreed(streams: &[StreamSpan]) -> Option<Self> {
        let streams = &in_time(streams);
        let quorum = quorum(streams.len());
        let nth = |mut times: Vec<u64>, place: usize| {
            times.sort_unstable();
            times.get(place).copied()
        };
        let reached = |times: Vec<u64>| nth(times.clone(), times.len().checked_sub(quorum)?);
        let steady = || streams.iter().filter(|stream| !stream.restarted);
        let first = nth(streams.iter().map(|stream| stream.first).collect(), quorum.max(1) - 1)?;
        let early = reached(streams.iter().filter_map(|stream| stream.early).collect());
        Some(Self {
            begin: early.unwrap_or(first),
            end: reached(steady().filter_map(|stream| stream.settled).collect())?,
            seen: (first, reached(steady().map(|stream| stream.newest).collect())?),
        })
    }

    /// What a stream lacks.
    pub fn missing(&self, stream: &StreamSpan) -> Missing {
        let is_ahead = |newest: u64| newest > self.seen.1.saturating_add(WILD_TICKS);
        let is_behind = |first: u64| first.saturating_add(WILD_TICKS) < self.seen.0;
        let (first, newest) = (stream.first, stream.newest);
        let frames = |from: u64, to: u64| to.saturating_sub(from) / stream.ticks_per_frame;
        if stream.restarted && !is_behind(first) && !is_ahead(first) {
            let begin = frames(self.begin, first);
            let made = frames(self.begin, self.end);
            let gone = made.saturating_sub(begin + stream.taken);
            return Missing { begin, between: stream.missing.max(gone), end: 0 };
        }
        if is_behind(first) || is_ahead(newest) {
            // Were it in sight without its last long gap, that was a leap of its clock.
            let leap = stream.outage * stream.ticks_per_frame;
            let without =
                if is_ahead(newest) { newest.wrapping_sub(leap) } else { first.wrapping_add(leap) };
            let has_leapt = !is_behind(without) && !is_ahead(without);
            let leapt = if has_leapt { stream.outage } else { 0 };
            return Missing { between: stream.missing.saturating_sub(leapt), ..Missing::default() };
        }
        let end = if stream.restarted { 0 } else { self.end };
        Missing {
            begin: frames(self.begin, stream.first),
            between: stream.missing,
            end: frames(stream.newest, end),
        }
    }
}

/// The streams that agree on the time, and those whose frames lie within the time of these, such as
/// a stream that has ended; all streams where none agrees.
fn in_time(streams: &[StreamSpan]) -> Vec<StreamSpan> {
    let agreeing = || streams.iter().filter(|stream| stream.agrees);
    let first = agreeing().map(|stream| stream.first).min();
    let newest = agreeing().map(|stream| stream.newest).max();
    let Some((first, newest)) = first.zip(newest) else { return streams.to_vec() };
    let is_in_time = |stream: &&StreamSpan| {
        let begins = stream.first.saturating_add(WILD_TICKS) >= first;
        stream.agrees || begins && stream.newest <= newest.saturating_add(WILD_TICKS)
    };
    streams.iter().filter(is_in_time).copied().collect()
}

/// Frames of all streams.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameAccount {
    /// Made by the streams, by their time stamps.
    pub made: u64,
    /// Not taken: missing, or of no use when they came.
    pub lost: u64,
    /// Of these, those that a silent stream may still send.
    pub open: u64,
}

impl FrameAccount {
    /// The stage `sent`: frames made and frames taken, and why others were not. Drops of the kernel
    /// that explain what streams lack are taken out of the statement of the `source`.
    pub fn statement(self, source: &mut Statement, frames: &Statement) -> Statement {
        let too_old = frames.count("too_old");
        let lost = self.lost + too_old;
        let kernel_queue = source.count("kernel_queue").min(lost);
        let refused: u64 = REFUSED
            .iter()
            .map(
                |(stage, reason)| {
                    if *stage == "source" { source.count(reason) } else { frames.count(reason) }
                },
            )
            .sum();
        let refused = refused.min(lost - kernel_queue);
        source.offered -= kernel_queue;
        let drops = source.dropped.iter_mut().filter(|drop| drop.reason == "kernel_queue");
        drops.for_each(|drop| drop.count -= kernel_queue);
        let drop = |reason: &str, count| Drop { reason: reason.into(), count };
        Statement {
            stage: "sent".into(),
            offered: self.made,
            delivered: frames.delivered,
            dropped: vec![
                drop("kernel_queue", kernel_queue),
                drop("refused", refused),
                drop("before_socket", lost - kernel_queue - refused),
            ],
            under_way: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 2048;
    const START: u64 = 107_544_625_968_523_275;

    /// A stream that sent frames `first` to `newest` long after the start and long before the stop.
    fn stream(first: u64, newest: u64) -> StreamSpan {
        let [first, newest] =
            [first, newest].map(|frame| START.wrapping_add(STEP.wrapping_mul(frame)));
        StreamSpan {
            ticks_per_frame: STEP,
            first,
            newest,
            missing: 0,
            outage: 0,
            early: None,
            settled: Some(newest),
            taken: 400,
            restarted: false,
            agrees: true,
        }
    }

    fn missing(streams: &[StreamSpan]) -> Vec<(u64, u64)> {
        let edges = Edges::agreed(streams).unwrap();
        let missing = streams.iter().map(|stream| edges.missing(stream));
        missing.map(|Missing { begin, end, .. }| (begin, end)).collect()
    }

    #[test]
    fn frames_at_the_edges_are_missing_where_two_other_streams_have_them() {
        let streams = [stream(0, 99), stream(0, 99), stream(7, 99), stream(0, 40), stream(3, 98)];
        assert_eq!(missing(&streams), [(0, 0), (0, 0), (7, 0), (0, 59), (3, 1)]);
        assert_eq!(missing(&[stream(0, 99), stream(4, 90)]), [(0, 0), (0, 0)]);
        assert_eq!(missing(&[stream(4, 90)]), [(0, 0)]);
        assert_eq!(Edges::agreed(&[]), None);
    }

    #[test]
    fn a_quarter_of_the_streams_may_have_wild_clocks_and_three_quarters_may_end_early() {
        for clock in [1u64 << 40, 5_000_000, 0u64.wrapping_sub(1 << 40), 0u64.wrapping_sub(99)] {
            let wild = |frame: u64| frame.wrapping_add(clock);
            let mut streams = vec![stream(0, 400); 13];
            streams.extend([stream(wild(0), wild(400)); 3]);
            assert_eq!(missing(&streams)[..13], [(0, 0); 13], "{clock}");
            if clock.wrapping_add(30_000) > 60_000 {
                assert_eq!(missing(&streams)[13..], [(0, 0); 3], "{clock}");
            }
        }
        let mut streams = vec![stream(0, 400); 4];
        streams.extend([stream(0, 100); 12]);
        assert_eq!(missing(&streams)[4..], [(0, 300); 12]);
    }

    #[test]
    fn a_stop_amid_traffic_and_a_start_amid_traffic_lose_nothing() {
        // Streams are cut at one moment, each at some place in its bursts.
        let cut = |skew: u64| StreamSpan {
            early: Some(START + STEP * (3000 + skew)),
            settled: Some(START + STEP * (9000 + skew)),
            ..stream(skew, 12_000 + skew)
        };
        let mut streams: Vec<_> = (0..16).map(cut).collect();
        assert_eq!(missing(&streams), [(0, 0); 16]);
        let starting = streams.iter().map(|stream| StreamSpan { settled: None, ..*stream });
        assert_eq!(Edges::agreed(&starting.collect::<Vec<_>>()), None);
        // One that comes later, and goes before the end.
        streams[3] = stream(5000, 8000);
        assert_eq!(missing(&streams)[3], (5000 - 3012, 9012 - 8000));
    }

    #[test]
    fn a_stream_that_restarted_neither_tells_the_end_nor_is_held_to_it() {
        let restarted = StreamSpan { restarted: true, ..stream(0, 400) };
        let streams = [stream(0, 99), stream(0, 98), restarted, restarted];
        assert_eq!(missing(&streams), [(0, 0), (0, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn streams_that_most_do_not_agree_with_prove_nothing() {
        let days = |days: u64| days * 24 * 3600 * 30_518;
        for wild in [
            (days(1), days(1) + 1),
            (0u64.wrapping_sub(days(1)), 5),
            (days(100_000), days(100_000)),
        ] {
            let apart = StreamSpan { agrees: false, ..stream(wild.0, wild.1) };
            let ended = StreamSpan { agrees: false, ..stream(0, 30) };
            let mut streams = vec![stream(0, 99); 4];
            streams.extend([ended, apart, apart]);
            let missing = missing(&streams);
            assert_eq!(missing[..4], [(0, 0); 4], "{wild:?}");
            assert_eq!(missing[4..], [(0, 69), (0, 0), (0, 0)], "{wild:?}");
        }
    }

    #[test]
    fn what_a_stream_lost_before_it_went_on_from_another_time_is_missing() {
        let lacks = |odd: StreamSpan| {
            let streams = [stream(0, 90_000), stream(0, 90_000), odd];
            Edges::agreed(&streams).unwrap().missing(&odd).total()
        };
        let odd = StreamSpan { restarted: true, taken: 88_002, ..stream(0, 90_000) };
        assert_eq!(lacks(odd), 1998, "of 2000, of which two frames of another time took the place");
        let gone = StreamSpan { agrees: false, ..stream(0, 90_000 + (1 << 30)) };
        assert_eq!(lacks(StreamSpan { restarted: true, taken: 60_000, ..gone }), 30_000);
        assert_eq!(lacks(StreamSpan { taken: 90_010, ..odd }), 0);
    }

    #[test]
    fn a_gap_to_where_no_quorum_is_is_a_leap_of_the_clock() {
        let leap = 4096 * 1000;
        let lacks = |first: u64, newest: u64, outage: u64| {
            let odd = StreamSpan { missing: outage + 3, outage, ..stream(first, newest) };
            let streams = [stream(0, 90_000), stream(0, 90_000), odd];
            Edges::agreed(&streams).unwrap().missing(&odd).total()
        };
        assert_eq!(lacks(0, 90_000 + leap, leap), 3, "ahead");
        assert_eq!(lacks(0, 90_000, 70_000), 70_003, "an outage that ends where the others are");
        let behind = 0u64.wrapping_sub(leap);
        assert_eq!(lacks(behind, 90_000, leap), 3, "its first frame was behind");
        assert_eq!(lacks(0, 90_000 + leap, 4095), 4098, "a gap before it leapt");
    }

    fn statement(stage: &str, offered: u64, delivered: u64, drops: &[(&str, u64)]) -> Statement {
        let drop = |(reason, count): &(&str, u64)| Drop { reason: (*reason).into(), count: *count };
        let dropped = drops.iter().map(drop).collect();
        Statement { stage: stage.into(), offered, delivered, dropped, under_way: 0 }
    }

    #[test]
    fn every_frame_is_lost_in_one_place_for_one_cause() {
        let drops = [("kernel_queue", 20), ("wrong_length", 5), ("foreign_address", 9)];
        let mut source = statement("source", 1034, 1000, &drops);
        let frames = statement("frames", 1000, 990, &[("bad_timestamp", 2), ("duplicate", 8)]);
        let account = FrameAccount { made: 1030, lost: 40, open: 0 };
        let sent = account.statement(&mut source, &frames);
        let dropped = [("kernel_queue", 20), ("refused", 7), ("before_socket", 13)];
        assert_eq!(sent, statement("sent", 1030, 990, &dropped));
        assert!(sent.closes() && source.closes());
        assert_eq!((source.offered, source.count("kernel_queue")), (1014, 0));
    }

    #[test]
    fn drops_that_no_stream_lacks_stay_with_the_source() {
        let mut source = statement("source", 120, 100, &[("kernel_queue", 20)]);
        let frames = statement("frames", 100, 100, &[]);
        let account = FrameAccount { made: 104, lost: 4, open: 0 };
        let sent = account.statement(&mut source, &frames);
        assert_eq!((sent.count("kernel_queue"), source.count("kernel_queue")), (4, 16));
        assert!(sent.closes() && source.closes());
    }
}
