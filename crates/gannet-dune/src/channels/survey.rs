//! From the counters of the streams to figures of each channel.

use std::sync::Arc;
use std::time::Duration;

use crate::tpg::StreamCounters;
use gannet_kernels::tpg::CHANNELS;
use gannet_wire::GeoId;

use super::condition::{Found, mark_noisy};
use gannet_control::channels::{ChannelFigures, ChannelSummary, Condition};
use gannet_control::detector::ChannelSurvey;

/// Time that recent rates cover at least; they cover at most twice as much.
pub const RECENT: Duration = Duration::from_secs(10);

/// A stream to be surveyed.
#[derive(Clone, Debug)]
pub struct StreamSurvey {
    /// Place on the detector.
    pub geo_id: GeoId,
    /// Frames in a second of detector time.
    pub frames_per_s: f64,
    /// What the stream tells.
    pub counters: Arc<StreamCounters>,
}

/// Makes figures of the channels of streams from time to time, and remembers what it needs for
/// recent rates.
#[derive(Debug)]
pub struct TpcSurvey {
    streams: Vec<StreamSurvey>,
    /// Where recent rates begin.
    older: Vec<Mark>,
    /// Where they will begin next.
    newer: Vec<Mark>,
    newer_at: Duration,
}

/// What a stream had counted at some time.
#[derive(Clone, Debug)]
struct Mark {
    frames: u64,
    tps: [u64; CHANNELS],
}

impl Mark {
    const NOTHING: Self = Self { frames: 0, tps: [0; CHANNELS] };

    fn of(stream: &StreamSurvey) -> Self {
        let counters = &stream.counters;
        Self {
            frames: counters.frames.delivered(),
            tps: counters.channel_tps.each_ref().map(|tps| tps.get()),
        }
    }

    /// What channel `index` has made since `earlier`.
    fn since(&self, earlier: &Self, index: usize, frames_per_s: f64) -> Found {
        let tps = self.tps[index].saturating_sub(earlier.tps[index]);
        let frames = self.frames.saturating_sub(earlier.frames);
        Found { tps, rate_hz: tps as f64 * frames_per_s / frames.max(1) as f64 }
    }
}

impl TpcSurvey {
    /// A survey of `streams`, which have counted nothing yet.
    pub fn new(streams: Vec<StreamSurvey>) -> Self {
        let nothing = vec![Mark::NOTHING; streams.len()];
        Self { streams, older: nothing.clone(), newer: nothing, newer_at: Duration::ZERO }
    }
}

impl ChannelSurvey for TpcSurvey {
    /// Channels that read no wire are left out.
    fn look(&mut self, now: Duration) -> Vec<ChannelFigures> {
        let marks: Vec<_> = self.streams.iter().map(Mark::of).collect();
        let (mut channels, mut whole, mut recent) = (Vec::new(), Vec::new(), Vec::new());
        for (place, stream) in self.streams.iter().enumerate() {
            let (mark, rate) = (&marks[place], stream.frames_per_s);
            let name = stream.geo_id.to_string();
            for index in stream.connected() {
                let in_run = mark.since(&Mark::NOTHING, index, rate);
                let of_late = mark.since(&self.older[place], index, rate);
                channels.push(figures(stream, &name, index, in_run, of_late));
                whole.push(in_run);
                recent.push(of_late);
            }
        }
        mark_noisy(&mut channels, &whole);
        mark_noisy(&mut channels, &recent);
        if now.saturating_sub(self.newer_at) >= RECENT {
            self.older = std::mem::replace(&mut self.newer, marks);
            self.newer_at = now;
        }
        channels
    }

    /// # Panics
    /// When `channels` are not those of a look of this survey.
    fn summaries(&self, channels: &[ChannelFigures]) -> Vec<ChannelSummary> {
        let mut rest = channels;
        let summary = |stream: &StreamSurvey| {
            let (own, others) = rest.split_at(stream.connected().count());
            rest = others;
            ChannelSummary::of(own)
        };
        self.streams.iter().map(summary).collect()
    }
}

impl StreamSurvey {
    /// Channels that read a wire.
    fn connected(&self) -> impl Iterator<Item = usize> {
        (0..CHANNELS).filter(|index| self.counters.channels.is_connected(*index))
    }
}

/// A channel before it is compared with others.
fn figures(
    stream: &StreamSurvey,
    name: &str,
    index: usize,
    in_run: Found,
    of_late: Found,
) -> ChannelFigures {
    let counters = &stream.counters;
    let rms = counters.noise[index].get();
    let condition = match rms {
        _ if counters.masked[index] => Condition::Masked,
        Some(0.0) => Condition::Dead,
        _ => Condition::Good,
    };
    ChannelFigures {
        channel: counters.channels.offline[index],
        stream: name.to_owned(),
        plane: counters.channels.plane[index],
        pedestal: (counters.frames.delivered() > 0).then(|| counters.pedestals[index].get()),
        rms,
        tps: in_run.tps,
        tp_rate_hz: in_run.rate_hz,
        recent_tp_rate_hz: of_late.rate_hz,
        condition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::{InitialPedestal, StreamTpg, TpgConfig};
    use gannet_control::channels::loudest;
    use gannet_emulate::tpc::{Config, TpcFrontEnd};
    use gannet_emulate::{Emulator, FrontEnd};
    use gannet_wire::TpcFormat;
    use gannet_wire::channel_map::StreamChannels;
    use gannet_wire::{ChannelMap, adc14, tpc_frame, wibeth};

    /// A stream of the emulator and its search. The pedestals begin near the right ones.
    struct Bench {
        emulator: Emulator<TpcFrontEnd>,
        tpg: StreamTpg,
        frames: u64,
    }

    impl Bench {
        fn new(tpg: &TpgConfig) -> Self {
            let mut config = Config::default();
            config.noise.induction_pedestal = 2000.0;
            config.noise.induction_rms = 7.0;
            config.noise.collection_pedestal = 2000.0;
            config.noise.collection_rms = 4.0;
            config.noise.blocks = 1024;
            (config.tracks.rate_hz, config.deposits.rate_hz) = (0.0, 0.0);
            let map = ChannelMap::synthetic(&config.streams.geo_ids()[..1]).unwrap();
            config.streams.count = 1;
            let emulator = config.emulator(&map, 1 << 40).unwrap();
            let channels: &StreamChannels = map.stream(config.streams.geo_ids()[0]).unwrap();
            let tpg = TpgConfig {
                initial_pedestal: InitialPedestal::Counts(2000),
                threshold: [100; 3],
                ..tpg.clone()
            };
            let tpg = StreamTpg::new(&tpg, channels, 3, TpcFormat::WibEth).unwrap();
            Self { emulator, tpg, frames: 0 }
        }

        fn survey(&self) -> TpcSurvey {
            TpcSurvey::new(vec![StreamSurvey {
                geo_id: GeoId::new(3, 0, 0, 0),
                frames_per_s: 30_517.578,
                counters: Arc::clone(self.tpg.counters()),
            }])
        }

        /// Searches `frames` frames, in each of which `change` has changed something.
        fn process(&mut self, frames: u64, change: impl Fn(&mut adc14::Block)) {
            let (mut frame, mut found) = ([0; tpc_frame::FRAME_LEN], Vec::new());
            for _ in 0..frames {
                frame.copy_from_slice(&self.emulator.front_end().frame(0, self.frames));
                let timestamp = wibeth::Frame::new_unchecked(&frame[..]).timestamp();
                let samples = &mut frame[tpc_frame::FRAME_LEN - adc14::BLOCK_LEN..];
                let block: &mut adc14::Block = samples.try_into().unwrap();
                change(block);
                self.tpg.process(block, timestamp, &mut found);
                self.frames += 1;
            }
        }

        fn channel(&self, index: usize) -> u32 {
            self.tpg.counters().channels.offline[index]
        }
    }

    /// Puts a hit into the channel with this index.
    fn hit(block: &mut adc14::Block, index: usize) {
        (20..30).for_each(|sample| adc14::set(block, index, sample, 3000));
    }

    #[test]
    fn pedestal_and_noise_are_those_that_were_put_in() {
        let mut bench = Bench::new(&TpgConfig::default());
        let mut survey = bench.survey();
        bench.process(9000, |_| ());
        let channels = survey.look(Duration::from_secs(1));
        assert_eq!(channels.len(), 64);
        let by_plane = |induction: bool| -> Vec<ChannelFigures> {
            channels.iter().filter(|c| (c.plane < 2) == induction).cloned().collect()
        };
        for (induction, rms) in [(true, 7.0), (false, 4.0)] {
            let summary = ChannelSummary::of(&by_plane(induction));
            let median = summary.rms_median.unwrap();
            assert!((median / rms - 1.0_f64).abs() < 0.05, "{median} for {rms}");
            let pedestal = summary.pedestal_mean.unwrap();
            assert!((1950.0..2050.0).contains(&pedestal), "{pedestal}");
            for channel in by_plane(induction) {
                let found = channel.rms.unwrap();
                assert!((found / rms - 1.0).abs() < 0.15, "{channel:?}");
            }
        }
        assert!(channels.iter().all(|channel| channel.condition == Condition::Good));
    }

    #[test]
    fn a_channel_made_noisy_is_ranked_first_and_one_that_stands_still_is_dead() {
        let mut bench = Bench::new(&TpgConfig::default());
        let mut survey = bench.survey();
        bench.process(2000, |block| {
            hit(block, 17);
            (0..64).for_each(|sample| adc14::set(block, 40, sample, 16383));
        });
        let channels = survey.look(Duration::from_secs(1));
        let first = loudest(&channels, 5)[0].clone();
        assert_eq!((first.channel, first.condition), (bench.channel(17), Condition::Noisy));
        assert_eq!(first.tps, 2000);
        assert!((first.tp_rate_hz / 30_517.578 - 1.0).abs() < 1e-9, "{}", first.tp_rate_hz);
        assert_eq!(first.tp_rate_hz, first.recent_tp_rate_hz);
        let summary = ChannelSummary::of(&channels);
        assert_eq!((summary.noisy, summary.dead), (1, 1));
        let dead = channels.iter().find(|channel| channel.condition == Condition::Dead).unwrap();
        assert_eq!((dead.channel, dead.rms), (bench.channel(40), Some(0.0)));
    }

    #[test]
    fn a_masked_channel_is_told_and_makes_no_rate() {
        let number = Bench::new(&TpgConfig::default()).channel(17);
        let mut bench = Bench::new(&TpgConfig { mask: vec![number], ..TpgConfig::default() });
        let mut survey = bench.survey();
        bench.process(200, |block| hit(block, 17));
        let channels = survey.look(Duration::from_secs(1));
        let masked = channels.iter().find(|c| c.condition == Condition::Masked).unwrap();
        assert_eq!((masked.channel, masked.tps), (number, 0));
    }

    #[test]
    fn recent_rates_forget() {
        let mut bench = Bench::new(&TpgConfig::default());
        let mut survey = bench.survey();
        let mut rates = |bench: &Bench, second| {
            let channels = survey.look(Duration::from_secs(second));
            let channel = channels.iter().find(|c| c.channel == bench.channel(17)).unwrap();
            (channel.tp_rate_hz, channel.recent_tp_rate_hz, channel.condition)
        };
        bench.process(500, |block| hit(block, 17));
        rates(&bench, 10);
        bench.process(500, |_| ());
        let (whole, recent, _) = rates(&bench, 20);
        assert_eq!(whole, recent, "both since the begin");
        let (whole, recent, condition) = rates(&bench, 21);
        assert!((whole / 30_517.578 - 0.5).abs() < 0.01, "{whole}");
        assert_eq!((recent, condition), (0.0, Condition::Noisy), "noisy in the whole run");
    }

    #[test]
    fn a_stream_that_never_came_has_no_figures() {
        let mut survey = Bench::new(&TpgConfig::default()).survey();
        let channels = survey.look(Duration::ZERO);
        assert!(channels.iter().all(|c| c.pedestal.is_none() && c.rms.is_none() && c.tps == 0));
        assert_eq!(survey.summaries(&channels), [ChannelSummary::default()]);
    }

    #[test]
    fn channels_without_a_wire_are_left_out_and_streams_stay_apart() {
        let mut wires =
            StreamChannels { offline: std::array::from_fn(|c| c as u32), plane: [2; CHANNELS] };
        let stream = |wires: &StreamChannels, slot| {
            let config = TpgConfig {
                initial_pedestal: InitialPedestal::Counts(10 * slot),
                ..TpgConfig::default()
            };
            let mut tpg = StreamTpg::new(&config, wires, 3, TpcFormat::WibEth).unwrap();
            tpg.process(&[0; adc14::BLOCK_LEN], 1 << 40, &mut Vec::new());
            let (geo_id, counters) = (GeoId::new(3, 0, slot, 0), Arc::clone(tpg.counters()));
            StreamSurvey { geo_id, frames_per_s: 1.0, counters }
        };
        let whole = stream(&wires, 2);
        wires.offline[8..].fill(StreamChannels::UNCONNECTED);
        let part = stream(&wires, 4);
        wires.offline.fill(StreamChannels::UNCONNECTED);
        let mut survey = TpcSurvey::new(vec![stream(&wires, 1), part, whole]);
        let channels = survey.look(Duration::ZERO);
        assert_eq!(channels.len(), 8 + 64);
        let summaries = survey.summaries(&channels);
        let highest = |summary: &ChannelSummary| summary.pedestal_max.map(|max| max.div_ceil(10));
        assert_eq!(summaries.iter().map(highest).collect::<Vec<_>>(), [None, Some(4), Some(2)]);
    }
}
