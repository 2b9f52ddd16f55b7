//! What the model is made from.

use gannet_memory::{PageSize, Replacement};
use gannet_rdma::{Timing, TranslationCache};
use serde::Serialize;

use super::PACKET_BYTES;
use super::bench::Bench;

/// A PCIe bus.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bus {
    /// Bytes per second in one direction, after line coding.
    pub bytes_per_s: f64,
    /// Bytes of data that a PCIe packet carries.
    pub payload_bytes: f64,
    /// Time for acknowledgements and credits of the bus, as a part of the time for data.
    pub link_overhead: f64,
}

impl Bus {
    /// Bytes of a memory write beside its data: framing, header and check sum.
    const WRITE_OVERHEAD: f64 = 24.0;
    /// Bytes of the answer to a memory read beside its data.
    const READ_OVERHEAD: f64 = 20.0;

    fn rate(&self, overhead: f64) -> f64 {
        self.bytes_per_s * self.payload_bytes
            / (self.payload_bytes + overhead)
            / (1.0 + self.link_overhead)
    }

    /// Rate at which data are read from memory, bytes per second.
    pub fn read_bytes_per_s(&self) -> f64 {
        self.rate(Self::READ_OVERHEAD)
    }

    /// Rate at which data are written to memory, bytes per second.
    pub fn write_bytes_per_s(&self) -> f64 {
        self.rate(Self::WRITE_OVERHEAD)
    }
}

/// What the model is made from; see the [module](super) for what is published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// A translation by the processor, ns.
    pub walk_ns: u64,
    /// A translation by the TLB, ns.
    pub tlb_ns: u64,
    /// Entries of the TLB.
    pub tlb_entries: usize,
    /// Payload that the link carries in packets of 4096 bytes, bytes per second.
    pub link_bytes_per_s: f64,
    /// From the last byte sent to the packet received, ns.
    pub hop_ns: u64,
    /// The bus of the board with TLB and two DMA engines.
    pub bus: Bus,
    /// The bus of the board with two receive controllers.
    pub new_bus: Bus,
    /// Part of `bus` that one DMA engine reaches.
    pub one_engine_share: f64,
    /// From a translated address to the first byte written, ns.
    pub write_setup_ns: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        let bus = Bus { bytes_per_s: 4.0e9, payload_bytes: 128.0, link_overhead: 0.035 };
        Self {
            walk_ns: 1900,
            tlb_ns: 124,
            tlb_entries: 128,
            link_bytes_per_s: 2.2e9,
            hop_ns: 400,
            bus,
            new_bus: Bus { bytes_per_s: 7.877e9, ..bus },
            one_engine_share: 0.5,
            write_setup_ns: 160,
        }
    }
}

impl Parameters {
    /// How long a DMA engine waits before each packet, ns: what is missing to the share of the bus
    /// that one engine reaches.
    pub fn read_latency_ns(&self) -> u64 {
        let packet = PACKET_BYTES as f64;
        let reached = packet / (self.one_engine_share * self.bus.bytes_per_s);
        ((reached - packet / self.bus.read_bytes_per_s()) * 1e9).round().max(0.0) as u64
    }

    /// Costs of the board on `bus`, with `read_engines` that prefetch if they are several.
    pub(super) fn timing(&self, bus: &Bus, read_engines: usize, write_engines: usize) -> Timing {
        Timing {
            read_engines,
            read_latency_ns: self.read_latency_ns(),
            prefetch: read_engines > 1,
            read_bytes_per_s: bus.read_bytes_per_s() as u64,
            write_engines,
            write_setup_ns: self.write_setup_ns,
            write_bytes_per_s: bus.write_bytes_per_s() as u64,
            tlb_ns: self.tlb_ns,
            walk_ns: self.walk_ns,
        }
    }

    pub(super) fn cache(&self, entries: usize, page_size: PageSize) -> TranslationCache {
        TranslationCache { entries, page_size, replacement: Replacement::LeastRecent }
    }

    /// Two boards on their link.
    pub(super) fn bench(&self, near: Timing, far: Timing, cache: TranslationCache) -> Bench {
        Bench::new(near, far, cache, self.link_bytes_per_s, self.hop_ns)
    }
}
