//! The wires of the detector in the order in which they lie, found from a channel map.

use gannet_measure::random::Random;
use gannet_wire::StreamChannels;
use gannet_wire::adc14::CHANNELS;
use gannet_wire::channel_map::{COLLECTION, PLANES};

/// A wire and where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Offline channel number.
    pub offline: u32,
    /// Stream, by its number in the emulator.
    pub stream: u32,
    /// Channel in the stream.
    pub channel: u8,
}

/// One module of the detector: three planes of neighbouring wires, of which some may be empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// Wires of planes 0, 1 and 2 with consecutive offline numbers.
    pub planes: [Vec<Wire>; PLANES],
}

impl Module {
    /// Wires of the plane that tracks are measured by: collection, else the largest plane.
    pub(crate) fn reference_len(&self) -> usize {
        match self.planes[usize::from(COLLECTION)].len() {
            0 => self.planes.iter().map(Vec::len).max().unwrap_or(0),
            len => len,
        }
    }
}

/// All modules that the configured streams read.
#[derive(Clone, Debug)]
pub(crate) struct Wires {
    modules: Vec<Module>,
}

impl Wires {
    /// Groups the wires of `streams` into planes without gaps, and these into modules.
    ///
    /// A gap in the offline numbers of a plane ends a module, so that wires which are neighbours
    /// here are neighbours in the detector.
    pub(crate) fn new(streams: &[StreamChannels]) -> Self {
        let runs: [Vec<Vec<Wire>>; PLANES] =
            std::array::from_fn(|plane| runs(wires_of_plane(streams, plane as u8)));
        let counts = [0, 1, 2].map(|plane| runs[plane].len());
        let modules = match counts[usize::from(COLLECTION)] {
            0 => counts.into_iter().max().unwrap_or(0),
            count => count,
        };
        let module = |number: usize| Module {
            planes: std::array::from_fn(|plane| {
                let place = number * counts[plane] / modules;
                runs[plane].get(place).cloned().unwrap_or_default()
            }),
        };
        Self { modules: (0..modules).map(module).collect() }
    }

    /// Draws a module, each as often as it has wires; none if no channel is connected.
    pub(crate) fn choose(&self, random: &mut Random) -> Option<&Module> {
        let total: usize = self.modules.iter().map(Module::reference_len).sum();
        let mut place = random.below(total as u64) as usize;
        self.modules.iter().find(|module| {
            let inside = place < module.reference_len();
            place = place.saturating_sub(module.reference_len());
            inside
        })
    }
}

/// All connected wires of one plane by offline number.
fn wires_of_plane(streams: &[StreamChannels], plane: u8) -> Vec<Wire> {
    let mut wires = Vec::new();
    for (stream, channels) in streams.iter().enumerate() {
        for channel in 0..CHANNELS {
            if channels.is_connected(channel) && channels.plane[channel] == plane {
                let offline = channels.offline[channel];
                wires.push(Wire { offline, stream: stream as u32, channel: channel as u8 });
            }
        }
    }
    wires.sort_unstable_by_key(|wire| wire.offline);
    wires
}

/// Cuts sorted wires where a number is missing.
fn runs(wires: Vec<Wire>) -> Vec<Vec<Wire>> {
    wires.chunk_by(|one, next| next.offline == one.offline + 1).map(<[Wire]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::{ChannelMap, GeoId};

    fn synthetic(streams: u16) -> Wires {
        let geo_ids: Vec<GeoId> = (0..streams).map(|n| GeoId::new(3, n, 0, 0)).collect();
        let map = ChannelMap::synthetic(&geo_ids).unwrap();
        Wires::new(&geo_ids.iter().map(|geo| *map.stream(*geo).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn neighbouring_streams_make_one_module() {
        let wires = synthetic(16);
        assert_eq!(wires.modules.len(), 1);
        assert_eq!([0, 1, 2].map(|plane| wires.modules[0].planes[plane].len()), [320, 320, 384]);
        let collection = &wires.modules[0].planes[2];
        assert_eq!((collection[0].offline, collection[383].offline), (1600, 1983));
        assert_eq!((collection[24].stream, collection[24].channel), (1, 40));
    }

    #[test]
    fn a_gap_in_the_offline_numbers_begins_a_new_module() {
        let wires = synthetic(50);
        assert_eq!(wires.modules.len(), 2);
        assert_eq!([0, 1, 2].map(|plane| wires.modules[1].planes[plane].len()), [200, 200, 240]);
        let mut random = Random::new(1);
        let second =
            (0..6000).filter(|_| wires.choose(&mut random).unwrap().reference_len() == 240).count();
        assert!((1000..1400).contains(&second), "a fifth of the wires: {second}");
    }

    #[test]
    fn without_wires_there_is_no_module() {
        let none = StreamChannels {
            offline: [StreamChannels::UNCONNECTED; CHANNELS],
            plane: [0; CHANNELS],
        };
        assert!(Wires::new(&[none]).choose(&mut Random::new(1)).is_none());
    }
}
