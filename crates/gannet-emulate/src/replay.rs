//! Replay of recorded packets at their own pace, once or in a loop that looks like one long run.

mod rewrite;

use std::sync::Arc;

use gannet_measure::histogram::Histogram;
use gannet_wire::{FrameFormat, StreamKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, within};
use rewrite::Rewriter;

/// A recorded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it was recorded, in nanoseconds since any origin.
    pub time_ns: u64,
    /// The payload: one frame.
    pub bytes: &'a [u8],
}

/// Recorded packets in order of time, which can be read again from the start.
pub trait Recording {
    /// The packet at the present place; none after the last.
    fn packet(&self) -> Option<Packet<'_>>;

    /// Goes to the next packet.
    fn advance(&mut self);

    /// Goes back to the first packet.
    fn rewind(&mut self);
}

/// A recording in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryRecording {
    packets: Vec<(u64, Vec<u8>)>,
    place: usize,
}

impl MemoryRecording {
    /// Recording of packets, each with its time in nanoseconds.
    pub fn new(packets: Vec<(u64, Vec<u8>)>) -> Self {
        Self { packets, place: 0 }
    }
}

impl Recording for MemoryRecording {
    fn packet(&self) -> Option<Packet<'_>> {
        let (time_ns, bytes) = self.packets.get(self.place)?;
        Some(Packet { time_ns: *time_ns, bytes })
    }

    fn advance(&mut self) {
        self.place += 1;
    }

    fn rewind(&mut self) {
        self.place = 0;
    }
}

/// How a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayPace {
    /// Factor on the recorded rate: 2 replays in half the time.
    pub rate_scale: f64,
    /// Replay as fast as the receiver takes the packets; `rate_scale` is then not used.
    pub unpaced: bool,
    /// Times that the recording is replayed; 0 for ever.
    pub passes: u64,
}

impl Default for ReplayPace {
    fn default() -> Self {
        Self { rate_scale: 1.0, unpaced: false, passes: 1 }
    }
}

impl ReplayPace {
    /// Refuses a rate that cannot be kept.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the key.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("rate_scale", self.rate_scale, 1e-6, 1e3)
    }
}

/// What a [`Replay`] did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayCounts {
    /// Datagrams handed to the sender.
    pub datagrams: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Passes begun.
    pub passes: u64,
    /// Datagrams whose time stamp and sequence number were rewritten.
    pub rewritten: u64,
    /// Datagrams that are no frames, which are replayed as they are.
    pub no_frames: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// Send this datagram.
    Send {
        /// Its bytes.
        bytes: &'a [u8],
        /// The stream that it is of, if it is a frame.
        stream: Option<StreamKey>,
    },
    /// Nothing is due before this time, in nanoseconds.
    Wait(u64),
    /// The last pass has ended.
    Done,
}

/// Replays a recording.
///
/// In the second and later passes timestamps and sequence numbers are rewritten so that every
/// stream goes on where it ended: a receiver sees one run without an end. The first pass is
/// replayed as recorded, with all its faults. A recording may hold frames of several formats,
/// which `F` tells apart.
#[derive(Debug)]
pub struct Replay<R, F> {
    recording: R,
    format_of: F,
    pace: ReplayPace,
    start_ns: u64,
    /// Recorded time of the first packet, and of the last one seen in the first pass.
    first_ns: Option<u64>,
    last_ns: u64,
    rewriter: Rewriter,
    rewritten: Vec<u8>,
    counts: ReplayCounts,
    lateness: Arc<Histogram>,
    /// The packet at the present place was handed out.
    sent: bool,
    done: bool,
}

impl<R, F, T> Replay<R, F>
where
    R: Recording,
    F: Fn(&[u8]) -> T,
    T: FrameFormat,
{
    /// Replay of `recording` that begins at `now_ns`. The format of each datagram is told by
    /// `format_of`.
    pub fn new(recording: R, format_of: F, pace: ReplayPace, now_ns: u64) -> Self {
        Self {
            recording,
            format_of,
            pace,
            start_ns: now_ns,
            first_ns: None,
            last_ns: 0,
            rewriter: Rewriter::default(),
            rewritten: Vec::new(),
            counts: ReplayCounts { passes: 1, ..ReplayCounts::default() },
            lateness: Arc::default(),
            sent: false,
            done: false,
        }
    }

    /// What was done so far.
    pub fn counts(&self) -> ReplayCounts {
        self.counts
    }

    /// The recording, as it was given.
    pub fn recording(&self) -> &R {
        &self.recording
    }

    /// How long after they were due datagrams were handed out, in nanoseconds; empty if unpaced.
    pub fn lateness(&self) -> Arc<Histogram> {
        Arc::clone(&self.lateness)
    }

    /// What to do at `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Next<'_> {
        if std::mem::take(&mut self.sent) {
            self.recording.advance();
        }
        if !self.settle() {
            return Next::Done;
        }
        let due_ns = self.due_ns();
        if now_ns < due_ns {
            return Next::Wait(due_ns);
        }
        if !self.pace.unpaced {
            self.lateness.record(now_ns - due_ns);
        }
        self.send()
    }

    /// Goes to a packet that is to be sent, over the end of a pass; false after the last pass.
    fn settle(&mut self) -> bool {
        if self.recording.packet().is_none() && !self.done {
            // A pass that sent nothing would be repeated without end.
            self.done = self.counts.passes == self.pace.passes || self.counts.datagrams == 0;
            if !self.done {
                self.recording.rewind();
                self.rewriter.begin_pass();
                self.counts.passes += 1;
            }
        }
        // A recording may not give its packets twice: then it has ended too.
        self.done |= self.recording.packet().is_none();
        !self.done
    }

    /// When the present packet is due.
    fn due_ns(&mut self) -> u64 {
        let Some(packet) = self.recording.packet() else { return 0 };
        if self.pace.unpaced {
            return 0;
        }
        let first_ns = *self.first_ns.get_or_insert(packet.time_ns);
        if self.counts.passes == 1 {
            self.last_ns = self.last_ns.max(packet.time_ns);
        }
        let pass_ns = match self.rewriter.pass_ns() {
            0 => self.last_ns - first_ns,
            ns => ns,
        };
        let passed_ns = pass_ns as f64 * (self.counts.passes - 1) as f64;
        let recorded_ns = passed_ns + packet.time_ns.saturating_sub(first_ns) as f64;
        self.start_ns.saturating_add((recorded_ns / self.pace.rate_scale) as u64)
    }

    fn send(&mut self) -> Next<'_> {
        let Some(Packet { bytes, .. }) = self.recording.packet() else { return Next::Done };
        self.counts.datagrams += 1;
        self.counts.bytes += bytes.len() as u64;
        self.sent = true;
        let format = (self.format_of)(bytes);
        let Ok(heading) = format.heading(bytes) else {
            self.counts.no_frames += 1;
            return Next::Send { bytes, stream: None };
        };
        let stream = Some(heading.stream);
        if self.counts.passes == 1 {
            self.rewriter.learn(&heading, &format.rhythm());
            return Next::Send { bytes, stream };
        }
        self.counts.rewritten += 1;
        self.rewritten.clear();
        self.rewritten.extend_from_slice(bytes);
        format.set_heading(&mut self.rewritten, &self.rewriter.rewritten(&heading));
        Next::Send { bytes: &self.rewritten, stream }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrontEnd;
    use crate::tpc::{Config, TpcFrontEnd};
    use gannet_wire::{ChannelMap, GeoId, TpcFormat, wibeth};

    const PERIOD_NS: u64 = 32_768;

    /// `count` frames of two streams; those of the second begin and end one frame earlier.
    fn recording(count: u64) -> MemoryRecording {
        let mut config = Config::default();
        config.streams.count = 2;
        config.noise.blocks = 2;
        let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
        let mut front_end = TpcFrontEnd::new(&config, &map, 1_000_000_000).unwrap();
        let mut packets = Vec::new();
        for index in 0..count {
            for (stream, index) in [(0, index + 1), (1, index)] {
                let frame = front_end.frame(stream, 4000 + index);
                packets.push((5_000 + index * PERIOD_NS, frame));
            }
        }
        packets.sort_by_key(|(time_ns, _)| *time_ns);
        MemoryRecording::new(packets)
    }

    fn replay(recording: MemoryRecording, pace: ReplayPace) -> TpcReplay {
        Replay::new(recording, |_| TpcFormat::WibEth, pace, 0)
    }

    type TpcReplay = Replay<MemoryRecording, fn(&[u8]) -> TpcFormat>;

    /// Replays to the end on a clock that jumps to whatever is waited for.
    fn run(mut replay: TpcReplay, datagrams: usize) -> Vec<(u64, Vec<u8>)> {
        let (mut sent, mut now) = (Vec::new(), 0);
        while sent.len() < datagrams {
            match replay.next(now) {
                Next::Send { bytes, .. } => sent.push((now, bytes.to_vec())),
                Next::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Next::Done => break,
            }
        }
        sent
    }

    #[test]
    fn one_pass_repeats_the_packets_at_their_times() {
        let recording = recording(10);
        let replay = replay(recording.clone(), ReplayPace::default());
        let sent = run(replay, 1000);
        assert_eq!(sent.len(), 20);
        for ((now, bytes), (time_ns, recorded)) in sent.iter().zip(&recording.packets) {
            assert_eq!(*now, time_ns - 5_000);
            assert!(bytes == recorded);
        }
    }

    #[test]
    fn loops_look_like_one_long_run() {
        let pace = ReplayPace { passes: 0, ..ReplayPace::default() };
        let sent = run(replay(recording(100), pace), 1000);
        for stream in 0..2 {
            let geo = GeoId::new(3, 1, 0, stream);
            let frames: Vec<_> = sent
                .iter()
                .map(|(now, bytes)| (now, wibeth::Frame::new_checked(bytes).unwrap()))
                .filter(|(_, frame)| frame.geo_id() == geo)
                .collect();
            assert_eq!(frames.len(), 500);
            for pair in frames.windows(2) {
                let ((now, one), (later, next)) = (&pair[0], &pair[1]);
                let frames = (next.timestamp() - one.timestamp()) / 2048;
                // The recording begins with one stream and ends with the other, so each lacks a
                // frame where the passes meet, and its sequence numbers say so.
                assert!(frames == 1 || frames == 2, "{frames}");
                let sequence = (next.daq().seq_id() + 4096 - one.daq().seq_id()) % 4096;
                assert_eq!(u64::from(sequence), frames);
                assert_eq!(*later - *now, frames * PERIOD_NS);
                assert_eq!(next.wib().colddata_timestamp_0(), (next.timestamp() & 0x7fff) as u16);
            }
            let missing = frames
                .windows(2)
                .filter(|pair| pair[1].1.timestamp() - pair[0].1.timestamp() == 2 * 2048);
            assert_eq!(missing.count(), 4);
        }
    }

    #[test]
    fn a_scaled_replay_takes_less_time_and_an_unpaced_one_none() {
        let pace = ReplayPace { rate_scale: 4.0, ..ReplayPace::default() };
        let sent = run(replay(recording(101), pace), 1000);
        assert_eq!(sent.last().unwrap().0, 101 * PERIOD_NS / 4);
        let pace = ReplayPace { unpaced: true, passes: 3, ..ReplayPace::default() };
        let sent = run(replay(recording(10), pace), 1000);
        assert_eq!((sent.len(), sent.last().unwrap().0), (60, 0));
    }

    #[test]
    fn odd_packets_are_replayed_as_they_are() {
        let packets = vec![(0, vec![]), (10, vec![7; 3]), (20, vec![9; 20])];
        let pace = ReplayPace { passes: 2, ..ReplayPace::default() };
        let mut replay = replay(MemoryRecording::new(packets), pace);
        let mut lengths = Vec::new();
        while let Next::Send { bytes, stream: None } = replay.next(u64::MAX) {
            lengths.push(bytes.len());
        }
        assert_eq!(lengths, [0, 3, 20, 0, 3, 20]);
        let counts = replay.counts();
        assert_eq!((counts.datagrams, counts.bytes), (6, 46));
        assert_eq!((counts.passes, counts.no_frames, counts.rewritten), (2, 6, 0));
    }

    #[test]
    fn a_rate_of_nothing_is_refused() {
        let pace = ReplayPace { rate_scale: 0.0, ..ReplayPace::default() };
        assert_eq!(pace.check().unwrap_err().key, "rate_scale");
        ReplayPace::default().check().unwrap();
    }

    #[test]
    fn an_empty_recording_ends_at_once_even_when_looped() {
        let pace = ReplayPace { passes: 0, ..ReplayPace::default() };
        assert_eq!(replay(MemoryRecording::default(), pace).next(0), Next::Done);
    }
}
