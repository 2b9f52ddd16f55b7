//! One hop of a path, and what it carries.

use gannet_measure::quantity::{Bytes, Span};

use crate::path::Limit;
use crate::rate::{PcieLink, Wire, memory_port_gbyte_per_s};

/// Bytes that wait before a hop where nothing else is said.
const QUEUE: Bytes = Bytes::mib(1);

/// What a hop is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HopKind {
    /// A PCI Express link, or what packets on one pass through: a switch, a root complex.
    Pcie(PcieLink),
    /// A wire between machines.
    Wire(Wire),
    /// A port of a memory, one word a cycle.
    Memory {
        /// Width of the port.
        bits: u32,
        /// Its clock.
        clock_mhz: f64,
    },
    /// Something of which the rate is not known.
    Unknown,
}

/// On whose side of the path a hop is. Whoever asks for a PUT reads its own memory, and writes it for a GET; at
/// the other side it is the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of the one that asks for PUT and GET.
    Requester,
    /// Of the one whose memory is meant.
    Responder,
}

/// Bytes asked for and not come yet: reads carry no more than these in a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many bytes are under way at most: reads times their size (MRRS).
    pub in_flight: Bytes,
    /// From the request to its completion.
    pub round_trip: Span,
}

impl Window {
    fn gbyte_per_s(&self) -> f64 {
        self.in_flight.bytes() as f64 / self.round_trip.ns().max(1) as f64
    }
}

/// A hop of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// What people call it.
    pub name: String,
    /// What it is.
    pub kind: HopKind,
    /// On whose side it is.
    pub side: Side,
    /// The share of its rate that it passes on.
    pub factor: f64,
    /// What bounds reads through it.
    pub window: Option<Window>,
    /// Time from one end of it to the other. No rate follows from it.
    pub latency: Span,
    /// Bytes that wait before it at most, those that are passing included. No rate follows from it.
    pub queue: Bytes,
    /// To what factor and window were fitted, if they were.
    pub calibrated: Option<String>,
}

impl Hop {
    /// A hop that passes on all that it could, on the side whose memory is meant.
    pub fn new(name: impl Into<String>, kind: HopKind) -> Self {
        Self {
            name: name.into(),
            kind,
            side: Side::Responder,
            factor: 1.0,
            window: None,
            latency: Span(0),
            queue: QUEUE,
            calibrated: None,
        }
    }

    /// What limits PUTs here; nothing where the rate is not known.
    pub fn put_limits(&self) -> impl Iterator<Item = Limit> {
        self.limits(self.side == Side::Requester)
    }

    /// What limits GETs here.
    pub fn get_limits(&self) -> impl Iterator<Item = Limit> {
        self.limits(self.side == Side::Responder)
    }

    /// Limits of packets with the data of reads, or of writes.
    fn limits(&self, of_reads: bool) -> impl Iterator<Item = Limit> {
        let (peak, what) = match &self.kind {
            HopKind::Pcie(link) if of_reads => (Some(link.read_gbyte_per_s()), link.to_string()),
            HopKind::Pcie(link) => (Some(link.write_gbyte_per_s()), link.to_string()),
            HopKind::Wire(wire) => (Some(wire.gbyte_per_s()), wire.to_string()),
            HopKind::Memory { bits, clock_mhz } => {
                let rate = memory_port_gbyte_per_s(*bits, *clock_mhz);
                (Some(rate), format!("{bits} bits at {clock_mhz} MHz"))
            }
            HopKind::Unknown => (None, String::new()),
        };
        let what = match self.factor {
            1.0 => what,
            factor => format!("{:.1} % of {what}", 100.0 * factor),
        };
        let is_fitted = self.factor != 1.0;
        let limit = |what: String, gbyte_per_s, is_fitted: bool| Limit {
            hop: format!("{} ({what})", self.name),
            gbyte_per_s,
            calibrated: self.calibrated.clone().filter(|_| is_fitted),
        };
        let own = peak.map(|peak| limit(what, peak * self.factor, is_fitted));
        let window = self.window.filter(|_| of_reads).map(|window| {
            let what = format!("{} in flight, {} round trip", window.in_flight, window.round_trip);
            limit(what, window.gbyte_per_s(), true)
        });
        own.into_iter().chain(window)
    }
}
