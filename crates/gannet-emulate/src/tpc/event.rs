//! The truth about one event: what charge was put where, and when.

use std::io;

use gannet_wire::channel_map::PLANES;
use serde::{Deserialize, Serialize};

use crate::front_end::InjectedEvent;

/// What made the charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A cosmic track.
    Track,
    /// A point-like deposit.
    Deposit,
}

/// One track or deposit that was put into the frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// Time of its earliest peak, in ticks of 16 ns.
    pub time_start: u64,
    /// Time of its latest peak, in ticks of 16 ns.
    pub time_end: u64,
    /// First and last offline channel hit in planes 0, 1 and 2.
    pub channels: [Option<(u32, u32)>; PLANES],
    /// Sum of all samples above the pedestal on the collection plane, in ADC counts.
    pub adc_integral: u64,
    /// Number of hits on all planes.
    pub hits: usize,
}

/// One pulse on one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// Time of the positive peak, in ticks of 16 ns, rounded down.
    pub time: u64,
    /// Offline channel.
    pub channel: u32,
    /// Plane: 0 or 1 induction, 2 collection.
    pub plane: u8,
    /// Positive peak above the pedestal, in ADC counts.
    pub adc_peak: u16,
    /// Stream, by its number in the emulator.
    pub stream: u32,
    /// Channel in the stream.
    pub stream_channel: u8,
    /// Sample of the positive peak, counted from the first sample of the first frame.
    pub sample: u64,
}

/// An event with its hits, as it is reported.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Reported<'a> {
    pub event: &'a Event,
    pub hits: &'a [Hit],
}

impl InjectedEvent for Reported<'_> {
    fn kind(&self) -> &'static str {
        match self.event.kind {
            EventKind::Track => "track",
            EventKind::Deposit => "deposit",
        }
    }

    fn time(&self) -> u64 {
        self.event.time_start
    }

    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        Ok(serde_json::to_writer(out, self)?)
    }
}
