//! Which frames hold signals, prepared one slot of time ahead of the frames.
//!
//! Most frames hold none, and for these a look at one bit is all.

use gannet_wire::StreamChannels;
use gannet_wire::adc14::{Block, SAMPLES};

use super::config::Config;
use super::event::{Event, Hit};
use super::events::{Events, SLOT_FRAMES, SLOT_SAMPLES};
use super::pulse::{LEAD, Shapes, TAIL};

/// The part of a pulse that lies in one frame.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    /// Stream and frame of the slot: `stream * SLOT_FRAMES + frame`.
    place: u32,
    /// Sample of the peak in the frame; the peak itself may lie in a frame next to it.
    at: i16,
    peak: u16,
    channel: u8,
    plane: u8,
}

/// The signals of all streams in one slot.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Number of the slot; none before first use.
    number: Option<u64>,
    /// Per stream one bit for each frame that holds a signal.
    touched: Vec<u64>,
    /// Sorted by place.
    pulses: Vec<Pulse>,
}

/// Signals of tracks and deposits by stream and frame.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    events: Events,
    shapes: Shapes,
    /// Streams are sent in bursts, so some are already in the next slot: two are kept.
    slots: [Slot; 2],
    hits: Vec<Hit>,
}

impl Signals {
    /// Signals for the detector that `streams` read.
    pub(crate) fn new(config: &Config, streams: &[StreamChannels], start_timestamp: u64) -> Self {
        let slot = Slot { touched: vec![0; streams.len()], ..Slot::default() };
        Self {
            events: Events::new(config, streams, start_timestamp),
            shapes: Shapes::default(),
            slots: [slot.clone(), slot],
            hits: Vec::new(),
        }
    }

    /// True if frame `index` of `stream` holds a signal.
    #[inline]
    pub(crate) fn touch(&mut self, stream: usize, index: u64) -> bool {
        self.prepare(index / SLOT_FRAMES);
        self.slot(index / SLOT_FRAMES).touched[stream] >> (index % SLOT_FRAMES) & 1 != 0
    }

    /// Adds the signals of frame `index` of `stream` to its block.
    pub(crate) fn apply(&mut self, stream: usize, index: u64, block: &mut Block) {
        self.prepare(index / SLOT_FRAMES);
        let slot = self.slot(index / SLOT_FRAMES);
        let place = place(stream, index % SLOT_FRAMES);
        let first = slot.pulses.partition_point(|pulse| pulse.place < place);
        for pulse in slot.pulses[first..].iter().take_while(|pulse| pulse.place == place) {
            let channel = usize::from(pulse.channel);
            self.shapes.apply(block, channel, pulse.plane, i32::from(pulse.at), pulse.peak);
        }
    }

    /// Passes all events whose earliest peak lies in `samples` to `event`, in order.
    pub(crate) fn report(
        &mut self,
        samples: std::ops::Range<u64>,
        mut event: impl FnMut(&Event, &[Hit]),
    ) {
        if samples.is_empty() {
            return;
        }
        // A first peak may lie LEAD samples beyond the end of the slot in which it was drawn.
        let first_slot = samples.start.saturating_sub(LEAD) / SLOT_SAMPLES;
        for slot in first_slot..=(samples.end - 1) / SLOT_SAMPLES {
            self.events.in_slot(slot, &mut self.hits, |what, hits| {
                let earliest = hits.iter().map(|hit| hit.sample).min();
                if earliest.is_some_and(|sample| samples.contains(&sample)) {
                    event(what, hits);
                }
            });
        }
    }

    /// The slot of this number, which has been prepared.
    #[inline]
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % 2) as usize]
    }

    /// Makes the slot of this number, if it is not there.
    #[inline]
    fn prepare(&mut self, number: u64) {
        if self.slot(number).number != Some(number) {
            self.make(number);
        }
    }

    fn make(&mut self, number: u64) {
        let slot = &mut self.slots[(number % 2) as usize];
        slot.number = Some(number);
        slot.touched.fill(0);
        slot.pulses.clear();
        for begun in number.saturating_sub(1)..=number {
            self.events.in_slot(begun, &mut self.hits, |_, hits| {
                hits.iter().for_each(|hit| slot.add(number, hit));
            });
        }
        slot.pulses.sort_unstable_by_key(|pulse| pulse.place);
    }
}

impl Slot {
    /// Notes the parts of a hit that lie in frames of slot `number`.
    fn add(&mut self, number: u64, hit: &Hit) {
        let frames = SAMPLES as u64;
        let first = (hit.sample - LEAD) / frames;
        let last = (hit.sample + TAIL) / frames;
        for index in first..=last {
            if index / SLOT_FRAMES != number {
                continue;
            }
            let frame = index % SLOT_FRAMES;
            self.touched[hit.stream as usize] |= 1 << frame;
            self.pulses.push(Pulse {
                place: place(hit.stream as usize, frame),
                at: (hit.sample as i64 - (index * frames) as i64) as i16,
                peak: hit.adc_peak,
                channel: hit.stream_channel,
                plane: hit.plane,
            });
        }
    }
}

fn place(stream: usize, frame: u64) -> u32 {
    stream as u32 * SLOT_FRAMES as u32 + frame as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::ChannelMap;
    use gannet_wire::adc14::{BLOCK_LEN, CHANNELS, get, pack};

    fn signals() -> Signals {
        let mut config = Config::default();
        config.streams.count = 4;
        config.tracks.rate_hz = 1000.0;
        config.deposits.rate_hz = 2000.0;
        let geo_ids = config.streams.geo_ids();
        let map = ChannelMap::synthetic(&geo_ids).unwrap();
        let streams: Vec<_> = geo_ids.iter().map(|geo| *map.stream(*geo).unwrap()).collect();
        Signals::new(&config, &streams, 0)
    }

    #[test]
    fn every_hit_shows_in_its_frame_and_untouched_frames_stay_flat() {
        let mut signals = signals();
        let mut flat = [0; BLOCK_LEN];
        pack(&[[3000; CHANNELS]; SAMPLES], &mut flat);
        let mut hits = Vec::new();
        signals.report(0..200 * 64, |_, of_event| hits.extend_from_slice(of_event));
        assert!(hits.len() > 500, "{}", hits.len());
        let mut touched = 0;
        for stream in 0..4 {
            for index in 0..200 {
                let mut block = flat;
                signals.apply(stream, index, &mut block);
                // The outermost samples of a pulse may be below one count.
                assert!(signals.touch(stream, index) || block == flat, "{stream} {index}");
                touched += usize::from(block != flat);
                for hit in &hits {
                    if hit.stream as usize == stream && hit.sample / 64 == index {
                        let sample = (hit.sample % 64) as usize;
                        let adc = get(&block, usize::from(hit.stream_channel), sample);
                        // Another pulse may overlap with its negative lobe; most do not.
                        assert!(adc != 3000, "{hit:?}");
                    }
                }
            }
        }
        assert!((10..790).contains(&touched), "{touched}");
    }

    #[test]
    fn slots_can_be_asked_for_in_any_order() {
        let (mut forward, mut random_access) = (signals(), signals());
        let order = [200u64, 3, 64, 63, 640, 4];
        let bits = |signals: &mut Signals, index| [0, 1, 2, 3].map(|s| signals.touch(s, index));
        let expected: Vec<_> = (0..700).map(|index| bits(&mut forward, index)).collect();
        for index in order {
            assert_eq!(bits(&mut random_access, index), expected[index as usize]);
        }
    }

    #[test]
    fn reports_in_pieces_are_the_same_as_one_report() {
        let mut signals = signals();
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        signals.report(0..20_000, |event, _| whole.push(event.clone()));
        for start in (0..20_000).step_by(1000) {
            signals.report(start..start + 1000, |event, _| pieces.push(event.clone()));
        }
        assert_eq!(whole, pieces);
    }
}
