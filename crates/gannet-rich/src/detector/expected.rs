//! What front ends are expected to send, and what is made of it.

use std::collections::BTreeMap;

use gannet_control::config::{Config, Document, Load, Problem, SourceStreams};
use gannet_emulate::Traffic;
use gannet_emulate::rich::{self, Packets};
use gannet_measure::quantity::Span;
use gannet_wire::FrameFormat;
use gannet_wire::na62::{PmMap, mtp};

use super::config::{RichStreams, RichTables, StreamPackets};

/// Events in a second for which the trigger of the experiment is made (arXiv 1802.06548).
const USUAL_HZ: f64 = 1e7;
/// Time of a core that a datagram of 1472 bytes takes, from the socket to its hits, in seconds, as
/// measured by `gannet doctor` on a virtual machine of 2 cores of an AMD EPYC.
const RECEIVE_S_PER_FRAME: f64 = 5e-6;

/// What front ends are expected to send.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    emulate: rich::Config,
    /// Datagrams of a stream of the RICH.
    traffic: Traffic,
    events_per_s: f64,
    /// Hits of an event.
    hits: f64,
    /// Events of a datagram.
    block: usize,
    /// Whether `[emulate]` says so.
    is_emulated: bool,
}

impl Expected {
    /// What the front end of `[emulate]` sends; without one, or with one of other packets, what the
    /// trigger is made for.
    pub fn of(
        config: &Config<RichTables>,
        map: &PmMap,
        document: &Document<'_>,
    ) -> Result<Self, Problem> {
        let streams = config.sources.first().map(|source| source.streams.clone());
        let streams = streams.unwrap_or_default();
        let is_emulated = document.has("emulate")
            && StreamPackets::from(config.emulate.packets) == streams.packets;
        let emulate = if is_emulated { config.emulate.clone() } else { usual(&streams) };
        let sample = emulate.sample(map).map_err(|error| {
            let cause = format!("{} is not allowed", error.value);
            document.problem(&format!("emulate.{}", error.key), cause, error.expected)
        });
        let mut sample = sample?;
        let (hits, traffic) = sample.means();
        let (events_per_s, block) = (sample.events_per_s(), sample.block_events());
        Ok(Self { emulate, traffic, events_per_s, hits, block, is_emulated })
    }

    /// What a stream of these sends. What other sources send comes once in 6.4 us, and mostly says that
    /// there is nothing.
    pub fn traffic(&self, streams: &RichStreams) -> Traffic {
        match streams.packets {
            StreamPackets::Boards | StreamPackets::Merged => self.traffic,
            StreamPackets::Primitives => {
                let lengths = mtp::HEADER_LEN..=mtp::HEADER_LEN;
                SourceStreams::traffic_of(&lengths, &streams.format().rhythm())
            }
        }
    }

    /// What comes, and what is recorded of it.
    pub fn load(&self, config: &Config<RichTables>) -> Load {
        let level0 = config.pipeline.level0.as_ref();
        let window_s = level0.map_or(0.0, |it| (it.before.ns() + it.after.ns()) as f64 * 1e-9);
        let written = match level0 {
            None => "no level-0 trigger, so nothing is recorded but how the run began and ended",
            Some(_) => "records come on top, as many as primitives match: nobody can foresee them",
        };
        let all = self.events_per_s;
        Load {
            front_end: self.words(),
            per_s: BTreeMap::from([("events", all), ("hits", all * self.hits)]),
            receive_s_per_frame: RECEIVE_S_PER_FRAME,
            written: written.into(),
            window_s,
            longest_window_s: window_s,
            ..Load::default()
        }
    }

    fn words(&self) -> String {
        let Self { emulate, traffic, events_per_s, hits, block, .. } = self;
        let who = match self.is_emulated {
            true => "as [emulate] says",
            false => "no [emulate] has such packets; expected of the experiment",
        };
        let million = events_per_s * 1e-6;
        let streams = match emulate.packets {
            Packets::Boards => format!("pieces of {block} events from {} boards", emulate.boards),
            Packets::Merged => format!("{block} events from one of {} links", emulate.lanes),
        };
        let padded = if emulate.pad { ", padded" } else { "" };
        let burst = match emulate.pace.burst {
            1 => "sent one by one".to_owned(),
            burst => format!("sent {burst} at once"),
        };
        format!(
            "{who}: {million:.3} million events/s of {hits:.1} hits; a datagram has {streams} and \
             {:.0} B{padded}, {burst}",
            traffic.frame_bytes,
        )
    }
}

/// The front end that the experiment has, with such streams.
fn usual(streams: &RichStreams) -> rich::Config {
    let packets = match streams.packets {
        StreamPackets::Merged => Packets::Merged,
        StreamPackets::Boards | StreamPackets::Primitives => Packets::Boards,
    };
    let links = streams.links.len();
    let usual = rich::Config { packets, rate_hz: USUAL_HZ, ..rich::Config::default() };
    rich::Config {
        lanes: links.clamp(1, 64),
        gap: Span(25),
        bytes_max: (streams.longest.bytes() as usize).max(600),
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gannet_control::config::{Forecast, parse};

    use crate::detector::NA62_RICH;

    fn forecast(text: &str) -> Forecast {
        let text = format!(
            "{text}\n[pipeline]\ndetector = \"na62-rich\"\n[[source]]\ndepth = \"20 ms\"\n\
             udp = {{ listen = [\"127.0.0.1:7560\"] }}\n"
        );
        parse("test.toml", &text, Path::new("."), &[&NA62_RICH]).unwrap().forecast
    }

    #[test]
    fn what_emulate_sends_is_forecast() {
        let told = forecast("emulate = { rate_hz = 2e6, pad = true, pace = { burst = 7 } }");
        assert!((told.per_s["events"] / 2e6 - 1.0).abs() < 0.01, "{told:?}");
        assert!(told.front_end.starts_with("as [emulate] says: 2.00"), "{}", told.front_end);
        assert!(told.front_end.ends_with("from 4 boards and 1472 B, padded, sent 7 at once"));
        let slower = forecast("emulate = { rate_hz = 1e6, pad = true }");
        assert!((told.frames_per_s / slower.frames_per_s - 2.0).abs() < 0.05);
        assert!((told.gbit_per_s - told.frames_per_s * 1472.0 * 8e-9).abs() < 1e-9);
        // Bits of padding are no hits: without, less is sent.
        let bare = forecast("emulate = { rate_hz = 2e6 }");
        assert!(bare.gbit_per_s < 0.9 * told.gbit_per_s);
        // The buffer is as deep in time as is asked for, at that rate.
        assert!((told.depth_s - 0.02).abs() < 1e-3 && (slower.depth_s - 0.02).abs() < 1e-3);
        assert!(told.memory_bytes > 3 * slower.memory_bytes / 2);
        assert_eq!((told.disk_bytes_per_s, told.record_bytes), (0.0, 0));
    }

    #[test]
    fn without_a_front_end_the_experiment_is_expected() {
        let told = forecast("");
        assert!((told.per_s["events"] / 1e7 - 1.0).abs() < 0.01);
        assert!(told.front_end.contains("expected of the experiment: 10.0"), "{}", told.front_end);
        let merged = forecast("emulate = { packets = \"merged\" }");
        assert!(merged.front_end.starts_with("no [emulate] has such packets"));
    }
}
