//! Content of the frames, read back through the checked views of the formats.

use gannet_emulate::FrontEnd;
use gannet_emulate::tpc::config::{Deposits, Pattern, Tracks};
use gannet_emulate::tpc::{Config, Event, EventKind, Hit, TpcFrontEnd};
use gannet_wire::adc14::{ADC_MAX, CHANNELS, SAMPLES};
use gannet_wire::{ChannelMap, wibeth};

const STREAMS: usize = 8;
const FRAMES: u64 = 400;

fn config() -> Config {
    let mut config = Config::default();
    config.streams.count = STREAMS;
    config.tracks.rate_hz = 0.0;
    config.deposits.rate_hz = 0.0;
    config
}

fn map(config: &Config) -> ChannelMap {
    ChannelMap::synthetic(&config.streams.geo_ids()).unwrap()
}

fn front_end(config: &Config) -> TpcFrontEnd {
    TpcFrontEnd::new(config, &map(config), 1_000_000).unwrap()
}

/// Samples of one stream, `[sample][channel]`, of the first `frames` frames.
fn waveforms(front_end: &mut TpcFrontEnd, stream: usize, frames: u64) -> Vec<[i32; CHANNELS]> {
    let mut rows = Vec::new();
    for index in 0..frames {
        let bytes = front_end.frame(stream, index);
        let frame = wibeth::Frame::new_checked(&bytes).unwrap();
        rows.extend(
            (0..SAMPLES)
                .map(|sample| std::array::from_fn(|channel| i32::from(frame.adc(channel, sample)))),
        );
    }
    rows
}

/// Mean and root mean square of one channel.
fn moments(rows: &[[i32; CHANNELS]], channel: usize) -> (f64, f64) {
    let n = rows.len() as f64;
    let mean = rows.iter().map(|row| f64::from(row[channel])).sum::<f64>() / n;
    let square = rows.iter().map(|row| (f64::from(row[channel]) - mean).powi(2)).sum::<f64>();
    (mean, (square / n).sqrt())
}

#[test]
fn pedestal_and_noise_of_each_channel_are_those_of_its_plane() {
    let config = config();
    let (map, mut front_end) = (map(&config), front_end(&config));
    let planes = map.stream(config.streams.geo_ids()[3]).unwrap().plane;
    let rows = waveforms(&mut front_end, 3, 64);
    for (channel, plane) in planes.into_iter().enumerate() {
        let (mean, rms) = moments(&rows, channel);
        let (low, high, expected) = match plane {
            2 => (698.0, 982.0, 9.0),
            _ => (8148.0, 8252.0, 12.0),
        };
        assert!((low..high).contains(&mean), "channel {channel} of plane {plane}: {mean}");
        assert!((rms / expected - 1.0).abs() < 0.08, "channel {channel} of plane {plane}: {rms}");
    }
}

#[test]
fn noise_alone_never_passes_the_smallest_usual_threshold() {
    let mut front_end = front_end(&config());
    let rows = waveforms(&mut front_end, 0, 200);
    for channel in 0..CHANNELS {
        let (mean, _) = moments(&rows, channel);
        let peak = rows.iter().map(|row| row[channel]).max().unwrap();
        assert!(f64::from(peak) - mean < 56.0, "channel {channel}");
    }
}

/// Events that begin and end in the first frames, with their hits.
fn events(front_end: &mut TpcFrontEnd) -> Vec<(Event, Vec<Hit>)> {
    let mut events = Vec::new();
    let end = front_end.begin(FRAMES);
    front_end.events(0..FRAMES, |event, hits| {
        if event.time_end < end {
            events.push((event.clone(), hits.to_vec()));
        }
    });
    events
}

#[test]
fn tracks_show_on_neighbouring_channels_at_the_times_of_the_truth() {
    let mut config = config();
    config.tracks = Tracks { rate_hz: 400.0, ..Tracks::default() };
    let (map, mut front_end) = (map(&config), front_end(&config));
    let rows: Vec<_> =
        (0..STREAMS).map(|stream| waveforms(&mut front_end, stream, FRAMES)).collect();
    let events = events(&mut front_end);
    assert!(events.len() >= 2, "{}", events.len());
    for (event, hits) in &events {
        assert_eq!(event.kind, EventKind::Track);
        let (first, last) = event.channels[2].unwrap();
        assert!(last - first >= 47, "a track crosses at least 48 collection channels");
        let streams: std::collections::BTreeSet<u32> =
            hits.iter().filter(|hit| hit.plane == 2).map(|hit| hit.stream).collect();
        assert!(streams.len() >= 2, "which lie in more than one stream");
        let mut seen = 0;
        for hit in hits {
            let channels = map.stream(config.streams.geo_ids()[hit.stream as usize]).unwrap();
            let channel = usize::from(hit.stream_channel);
            assert_eq!(channels.offline[channel], hit.channel);
            assert_eq!(hit.time, 1_000_000 + 32 * hit.sample);
            let row = &rows[hit.stream as usize];
            let quiet = f64::from(row[0][channel]);
            let peak = f64::from(row[hit.sample as usize][channel]);
            // 400 (or 240) counts times at least 0.7 * 0.8, noise apart; tracks may overlap.
            seen += usize::from(peak - quiet > 60.0);
        }
        assert!(seen * 100 >= hits.len() * 97, "{seen} of {}", hits.len());
    }
}

#[test]
fn a_deposit_adds_the_charge_that_the_truth_tells() {
    let mut config = config();
    config.deposits = Deposits { rate_hz: 300.0, adc: 1000.0, ..Deposits::default() };
    let mut with = front_end(&config);
    config.deposits.rate_hz = 0.0;
    let mut without = front_end(&config);
    let events = events(&mut with);
    assert!(events.len() >= 2, "{}", events.len());
    let mut found = 0;
    for stream in 0..STREAMS {
        let (signal, noise) =
            (waveforms(&mut with, stream, FRAMES), waveforms(&mut without, stream, FRAMES));
        for (row, base) in signal.iter().zip(&noise) {
            // The collection channels of the synthetic detector are the last 24.
            found += (40..CHANNELS).map(|c| i64::from(row[c] - base[c])).sum::<i64>();
        }
    }
    let mut told = 0;
    with.events(0..FRAMES, |event, _| told += event.adc_integral as i64);
    assert_eq!(found, told);
}

#[test]
fn the_pattern_sets_the_samples_it_tells_and_no_others() {
    for rate_hz in [100.0, 90_000.0] {
        let mut config = config();
        config.pattern = Some(Pattern { rate_hz });
        let mut front_end = front_end(&config);
        let mut total = 0;
        for index in 0..FRAMES {
            let told: Vec<(usize, usize)> = front_end.pattern().unwrap().hits(5, index).collect();
            total += told.len();
            let bytes = front_end.frame(5, index);
            let frame = wibeth::Frame::new_checked(&bytes).unwrap();
            for sample in 0..SAMPLES {
                for channel in 0..CHANNELS {
                    let full = frame.adc(channel, sample) == ADC_MAX;
                    assert_eq!(full, told.contains(&(channel, sample)));
                }
            }
        }
        let expected = rate_hz * CHANNELS as f64 * FRAMES as f64 / 30_517.578;
        assert!((total as f64 - expected).abs() <= 1.0, "{total} {expected}");
    }
}
