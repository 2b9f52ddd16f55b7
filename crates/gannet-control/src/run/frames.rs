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
//! with it, and of those that ended while they did. Neither does one that went on
//! from another time. A stream that went on from another time lacks the
//! frames due until it came back, or until the end: at most all, at least those but for as many as came
//! from another time.
//!
//! Frames before and after are extra: they are taken, and what lacks between them is counted.
//!
//! [`SETTLE_NS`]: gannet_readout::receiver::SETTLE_NS

use gannet_measure::ledger::{Drop, Statement};

gannet_measure::drop_reasons! {
    /// Why a frame that a stream made was not taken.
    pub enum SentDrop {
        /// The kernel dropped it: its queue was full.
        KernelQueue => "kernel_queue",
        /// It was refused when it came; the stages behind tell why.
        Refused => "refused",
        /// No readout was there to take it.
        NoReadout => "no_readout",
        /// It was lost before the socket was read; where, nobody here can know.
        BeforeSocket => "before_socket",
    }
}

/// Drops behind the socket, or for want of leave to write to it, that may each be a frame that some stream lacks.
const REFUSED: [(&str, &str); 15] = [
    ("source", "wrong_length"),
    ("source", "fragment"),
    ("source", "malformed"),
    ("source", "other_path"),
    ("source", "bad_check_sum"),
    ("source", "outside_window"),
    ("source", "unfinished"),
    ("source", "taken_queue_pair"),
    ("source", "no_leave"),
    ("source", "given_up"),
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
    /// A time that is so far outside of what the quorum saw is no time of this run: a second.
    pub wild_ticks: u64,
    pub first: u64,
    pub newest: u64,
    /// Frames that it lacks between the two, those of them in its last long gap, and those that it
    /// may lack beyond them.
    pub missing: u64,
    pub outage: u64,
    pub unsure: u64,
    /// What it had reached a while after the start, if it had sent anything.
    pub early: Option<u64>,
    /// What it had reached a while ago, or a while before the stop.
    pub settled: Option<u64>,
    /// Frames that came: all, those before it went on elsewhere, and those before its last restart.
    pub taken: u64,
    pub home: u64,
    pub earlier_series: u64,
    /// Whether it went on from another time and has not come back: then it proves nothing of the edges.
    pub away: bool,
    /// Whether its time is near the one that most streams agree on.
    pub agrees: bool,
}

/// Frames that one stream lacks: before its first, between that and its newest, and after it; and
/// those that it may lack beyond them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    pub begin: u64,
    pub between: u64,
    pub end: u64,
    pub unsure: u64,
}

impl Missing {
    /// Frames lacking at least.
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
        let steady = || streams.iter().filter(|stream| !stream.away);
        let first = nth(steady().map(|stream| stream.first).collect(), quorum.max(1) - 1)?;
        let early = reached(steady().filter_map(|stream| stream.early).collect());
        Some(Self {
            begin: early.unwrap_or(first),
            end: reached(steady().filter_map(|stream| stream.settled).collect())?,
            seen: (first, reached(steady().map(|stream| stream.newest).collect())?),
        })
    }

    /// What a stream lacks.
    pub fn missing(&self, stream: &StreamSpan) -> Missing {
        let is_ahead = |time: u64| time > self.seen.1.saturating_add(stream.wild_ticks);
        let is_behind = |time: u64| time.saturating_add(stream.wild_ticks) < self.seen.0;
        let is_in_sight = |time: u64| !is_behind(time) && !is_ahead(time);
        let &StreamSpan { first, newest, .. } = stream;
        // Were it in sight without its last long gap, that was a leap of its clock.
        let leap = stream.outage * stream.ticks_per_frame;
        let is_leap = if is_ahead(newest) {
            is_in_sight(newest.wrapping_sub(leap))
        } else {
            is_behind(first) && is_in_sight(first.wrapping_add(leap))
        };
        let leapt = if is_leap { stream.outage } else { 0 };
        let known = stream.missing.saturating_sub(leapt);
        if stream.away || is_leap {
            // One frame alone is no begin of a stream.
            let begins_in_sight = is_in_sight(first) && stream.home > 1;
            match (begins_in_sight, is_in_sight(newest)) {
                (true, newest) => return self.missing_elsewhere(stream, known, newest),
                (false, true) => return self.missing_before(stream, known),
                (false, false) => {}
            }
        }
        if is_behind(first) || is_ahead(newest) {
            return Missing { between: known, unsure: stream.unsure, ..Missing::default() };
        }
        Missing { between: known, unsure: stream.unsure, ..self.outside(stream) }
    }

    /// What a stream lacks that began at the time of the others and went on elsewhere: the frames
    /// from its first to where the others are, but for those that came. Frames of a time that is out
    /// of sight may be its own or somebody else's; if they are as many as it lacks otherwise, they
    /// are its own. So may those be lost or a leap by which it is ahead of the others.
    fn missing_elsewhere(&self, stream: &StreamSpan, known: u64, is_in_sight: bool) -> Missing {
        let frames = |from: u64, to: u64| to.saturating_sub(from) / stream.ticks_per_frame;
        let (to, elsewhere, ahead) = if is_in_sight {
            let to = stream.newest.min(self.seen.1).max(self.end);
            (to, stream.earlier_series.saturating_sub(stream.home), frames(to, stream.newest))
        } else {
            (self.end, stream.taken.saturating_sub(stream.home), 0)
        };
        let came = stream.taken.saturating_sub(elsewhere);
        let most = (frames(stream.first, to) + 1).saturating_sub(came);
        let between = most.saturating_sub(elsewhere).max(known.min(most));
        let are_its_own = most <= elsewhere.saturating_add(known);
        let unsure = if are_its_own { 0 } else { most - between + ahead };
        let begin = frames(self.begin, stream.first);
        Missing { begin, between, end: 0, unsure: stream.unsure + unsure }
    }

    /// What a stream lacks that began elsewhere and came to where the others are: the frames from the
    /// begin of the run on, but for those that came since. Those before may be its own or somebody
    /// else's.
    fn missing_before(&self, stream: &StreamSpan, known: u64) -> Missing {
        let elsewhere = if stream.away { stream.earlier_series } else { stream.home };
        let came = stream.taken.saturating_sub(elsewhere);
        let to = stream.newest.min(self.seen.1).max(self.end);
        let frames = |from: u64| to.saturating_sub(from) / stream.ticks_per_frame + 1;
        let lacks = |from| frames(from).saturating_sub(came);
        let most = lacks(self.seen.0);
        let between = lacks(self.begin).saturating_sub(elsewhere).max(known.min(most));
        let are_its_own = most <= elsewhere.saturating_add(known);
        let unsure = if are_its_own { 0 } else { most - between };
        Missing { between, unsure: stream.unsure + unsure, ..Missing::default() }
    }

    /// Frames that it lacks before its first and after its newest.
    fn outside(&self, stream: &StreamSpan) -> Missing {
        let frames = |from: u64, to: u64| to.saturating_sub(from) / stream.ticks_per_frame;
        Missing {
            begin: frames(self.begin, stream.first),
            end: frames(stream.newest, self.end),
            ..Missing::default()
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
        let begins = stream.first.saturating_add(stream.wild_ticks) >= first;
        stream.agrees || begins && stream.newest <= newest.saturating_add(stream.wild_ticks)
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
    /// Of the lost ones, those that came due while no readout was there.
    pub unattended: u64,
    /// Frames that may be lost beyond these.
    pub unsure: u64,
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
        let no_readout = self.unattended.min(lost - kernel_queue - refused);
        source.offered -= kernel_queue;
        let drops = source.dropped.iter_mut().filter(|drop| drop.reason == "kernel_queue");
        drops.for_each(|drop| drop.count -= kernel_queue);
        Statement {
            stage: "sent".into(),
            offered: self.made,
            delivered: frames.delivered,
            dropped: vec![
                Drop::of(SentDrop::KernelQueue, kernel_queue),
                Drop::of(SentDrop::Refused, refused),
                Drop::of(SentDrop::NoReadout, no_readout),
                Drop::of(SentDrop::BeforeSocket, lost - kernel_queue - refused - no_readout),
            ],
            under_way: 0,
        }
    }
}

/// Frames at most that the kernel dropped, which are `kernel_drops_max` of all, or that their sender
/// could not write, beyond those that streams lack: none if streams lack as many.
pub(super) fn lost_unseen(ledger: &[Statement], kernel_drops_max: u64) -> u64 {
    let count = |stage: &str, reason: &str| -> u64 {
        ledger.iter().filter(|s| s.stage == stage).map(|s| s.count(reason)).sum()
    };
    let known = count("sent", "kernel_queue");
    let is_short = count("source", "kernel_queue") > 0;
    let dropped = if is_short { kernel_drops_max.saturating_sub(known) } else { 0 };
    let unwritten = count("source", "no_leave") + count("source", "given_up");
    dropped + unwritten.saturating_sub(count("sent", "refused"))
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
            wild_ticks: 62_500_000,
            first,
            newest,
            missing: 0,
            outage: 0,
            unsure: 0,
            early: None,
            settled: Some(newest),
            taken: 400,
            home: 0,
            earlier_series: 0,
            away: false,
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
        let restarted = StreamSpan { away: true, ..stream(0, 400) };
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

    /// What `odd` lacks at least and at most, beside two streams of 90,001 frames.
    fn lacks(odd: StreamSpan) -> (u64, u64) {
        let streams = [stream(0, 90_000), stream(0, 90_000), odd];
        let missing = Edges::agreed(&streams).unwrap().missing(&odd);
        (missing.total(), missing.total() + missing.unsure)
    }

    #[test]
    fn frames_of_another_time_may_stand_for_those_that_a_stream_lacks() {
        let gone =
            StreamSpan { away: true, agrees: false, home: 30_001, ..stream(0, 90_000 + (1 << 30)) };
        assert_eq!(lacks(StreamSpan { taken: 30_003, ..gone }), (59_998, 60_000), "two strays");
        assert_eq!(lacks(StreamSpan { taken: 70_001, ..gone }), (20_000, 60_000));
        assert_eq!(lacks(StreamSpan { taken: 90_001, ..gone }), (0, 0), "all of them");
        assert_eq!(lacks(StreamSpan { taken: 90_801, ..gone }), (0, 0), "a stop amid traffic");
        assert_eq!(
            lacks(StreamSpan { taken: 90_001, home: 29_001, missing: 1000, ..gone }),
            (1000, 1000)
        );
    }

    #[test]
    fn a_stream_that_starts_again_in_time_lacks_what_lies_between() {
        let again =
            StreamSpan { away: true, home: 30_001, earlier_series: 30_001, ..stream(0, 89_990) };
        assert_eq!(lacks(StreamSpan { taken: 88_002, ..again }), (1999, 1999), "its end too");
        let strays = StreamSpan { earlier_series: 30_003, ..again };
        assert_eq!(lacks(StreamSpan { taken: 88_004, ..strays }), (1997, 1999));
    }

    #[test]
    fn a_stray_frame_before_the_first_neither_invents_nor_hides_a_loss() {
        for wild in [1 << 30, 0u64.wrapping_sub(1 << 30), 20_000, 0u64.wrapping_sub(20_000)] {
            let stray =
                StreamSpan { away: true, home: 1, earlier_series: 1, ..stream(wild, 90_000) };
            assert_eq!(lacks(StreamSpan { taken: 90_002, ..stray }), (0, 0), "{wild}");
            let lossy = StreamSpan { missing: 3, taken: 89_999, ..stray };
            assert_eq!(lacks(lossy), (3, 3), "{wild}");
            let newest = START + STEP * 60_000;
            let ended = StreamSpan { newest, settled: Some(newest), taken: 60_002, ..stray };
            assert_eq!(lacks(ended), (29_999, 30_000), "{wild}");
            // As many of them as would be a quorum.
            let streams = [stream(0, 90_000), stream(0, 90_000), stray, stray];
            assert_eq!(missing(&streams)[..2], [(0, 0); 2], "{wild}");
            let early = Some(stray.first);
            let streams = streams.map(|it| StreamSpan { early: early.filter(|_| it.away), ..it });
            assert_eq!(missing(&streams)[..2], [(0, 0); 2], "{wild}");
        }
    }

    #[test]
    fn a_small_leap_is_no_lost_frame() {
        let leapt = |by: i64| StreamSpan {
            away: true,
            taken: 90_001,
            home: 30_001,
            earlier_series: 30_001,
            ..stream(0, 90_000u64.wrapping_add_signed(by))
        };
        for by in [15_000, -15_000] {
            assert_eq!(lacks(leapt(by)), (0, 0), "{by}");
        }
        let out = StreamSpan { taken: 80_001, ..leapt(15_000) };
        assert_eq!(lacks(out), (10_000, 25_000), "out for a while, and then ahead");
    }

    #[test]
    fn a_gap_to_where_no_quorum_is_is_a_leap_of_the_clock() {
        let leap = 4096 * 1000;
        let odd = |first: u64, newest: u64, outage: u64| StreamSpan {
            missing: outage + 3,
            outage,
            taken: 89_998,
            home: 50_000,
            ..stream(first, newest)
        };
        assert_eq!(lacks(odd(0, 90_000 + leap, leap)), (3, 3), "ahead");
        let out = odd(0, 90_000 + leap, leap + 5000);
        assert_eq!(lacks(StreamSpan { taken: 84_998, ..out }), (5003, 40_001), "ahead while out");
        let within = "an outage that ends where the others are";
        assert_eq!(lacks(odd(0, 90_000, 70_000)), (70_003, 70_003), "{within}");
        let behind = 0u64.wrapping_sub(leap);
        assert_eq!(lacks(odd(behind, 90_000, leap)), (3, 3), "its first frame was behind");
        let before = odd(0, 90_000 + leap, 4095);
        assert_eq!(lacks(before), (4098, 4098), "a gap before it leapt");
    }

    fn statement(stage: &str, offered: u64, delivered: u64, drops: &[(&str, u64)]) -> Statement {
        let drop = |(reason, count): &(&str, u64)| Drop::named(*reason, *count);
        let dropped = drops.iter().map(drop).collect();
        Statement { stage: stage.into(), offered, delivered, dropped, under_way: 0 }
    }

    #[test]
    fn every_frame_is_lost_in_one_place_for_one_cause() {
        let drops = [("kernel_queue", 20), ("wrong_length", 5), ("foreign_address", 9)];
        let mut source = statement("source", 1034, 1000, &drops);
        let frames = statement("frames", 1000, 990, &[("bad_timestamp", 2), ("duplicate", 8)]);
        let account = FrameAccount { made: 1030, lost: 40, ..FrameAccount::default() };
        let sent = account.statement(&mut source, &frames);
        let dropped =
            [("kernel_queue", 20), ("refused", 7), ("no_readout", 0), ("before_socket", 13)];
        assert_eq!(sent.to_string(), statement("sent", 1030, 990, &dropped).to_string());
        assert!(sent.closes() && source.closes());
        assert_eq!((source.offered, source.count("kernel_queue")), (1014, 0));
    }

    #[test]
    fn what_came_due_while_no_readout_was_there_is_lost_for_that_cause() {
        let (mut source, frames) =
            (statement("source", 0, 0, &[]), statement("frames", 0, 60, &[]));
        let account =
            FrameAccount { made: 100, lost: 40, unattended: 31, ..FrameAccount::default() };
        let sent = account.statement(&mut source, &frames);
        assert_eq!((sent.count("no_readout"), sent.count("before_socket")), (31, 9));
        assert!(sent.closes());
        let more = FrameAccount { made: 100, lost: 40, unattended: 50, ..FrameAccount::default() };
        assert_eq!(more.statement(&mut source, &frames).count("no_readout"), 40);
    }

    #[test]
    fn drops_that_no_stream_lacks_stay_with_the_source() {
        let mut source = statement("source", 120, 100, &[("kernel_queue", 20)]);
        let frames = statement("frames", 100, 100, &[]);
        let account = FrameAccount { made: 104, lost: 4, ..FrameAccount::default() };
        let sent = account.statement(&mut source, &frames);
        assert_eq!((sent.count("kernel_queue"), source.count("kernel_queue")), (4, 16));
        assert!(sent.closes() && source.closes());
        assert_eq!(lost_unseen(&[sent, source], 21), 17);
    }

    #[test]
    fn frames_that_their_sender_could_not_write_may_be_the_last_of_all_streams() {
        let mut source = statement("source", 120, 100, &[("no_leave", 13), ("given_up", 7)]);
        let frames = statement("frames", 100, 100, &[]);
        let lost = |source: &mut Statement, lost| {
            let account = FrameAccount { made: 100 + lost, lost, ..FrameAccount::default() };
            let sent = account.statement(source, &frames);
            lost_unseen(&[sent, source.clone()], 0)
        };
        assert_eq!(lost(&mut source, 20), 0, "the streams lack them all");
        assert_eq!(lost(&mut source, 16), 4);
    }
}
