//! What the TLB, the second DMA engine and the second receive controller are worth, by the engine
//! in virtual time.
//!
//! [`ablations`] runs the same [`Engine`](super::Engine) that moves real data, with the costs that
//! are published of APEnet+, and leaves out one part at a time. No gain is put in; each comes out
//! of times that add up, overlap, or wait for each other:
//!
//! * **TLB**: without it every packet waits 1.9 us for the processor before it is written, with it
//!   124 ns. That shows once messages have several packets, and no more when a buffer has more
//!   pages than the TLB has entries;
//! * **two DMA engines and prefetched commands**: one engine waits for the host before each packet,
//!   two wait at the same time and the bus goes on;
//! * **second receive controller**: one controller asks for the address and sets up its transfer
//!   while the bus rests.
//!
//! # What is published and what is ours
//!
//! | parameter | value | from |
//! | --- | --- | --- |
//! | walk, TLB hit | 1.9 us, 124 ns | FPT 2013 |
//! | entries of the TLB | 128 | APEnet+, new board |
//! | link | 2.2 GB/s of payload | APEnet+ |
//! | PCIe | Gen2 x8, 4.0 GB/s; new board Gen3 x8, 7.9 GB/s | PCIe, APEnet+ |
//! | share of the bus that one DMA engine reaches | 50 % | APEnet+ |
//! | pages | 4 KiB of a host, 64 KiB of a GPU | |
//! | largest PCIe payload | 128 bytes | ours: what most hosts of the time set |
//! | share of the bus for its own packets | 3.5 % | ours: the middle of 2 to 5 % |
//! | set-up of a write | 160 ns | ours: 40 cycles of the published 250 MHz |
//! | hop | 400 ns | ours; shows in latencies only |
//!
//! The time that one DMA engine waits before a packet is not free: it follows from the 50 %. How
//! the gains depend on what is ours is part of the result ([`Sensitivity`]). Two things are idle
//! here that cost time in the published machine: its software, and the events that it writes to
//! host memory. So latencies are those of the hardware alone, and TX_DONE comes with the end-to-end
//! acknowledgement, which the published machine does not have.
//!
//! Source: figures of "APEnet+: a 3D torus network optimized for GPU-based HPC systems" and its
//! successors, and "Virtual-to-Physical Address Translation for an FPGA-based Interconnect with
//! Host and GPU Remote DMA Capabilities", FPT 2013. PCIe: a write of `n` bytes moves `n + 24`, a
//! read `n + 20`.

mod bench;

use gannet_memory::{PageSize, Replacement};
use serde::Serialize;

use super::configuration::{Timing, TranslationCache, UNLIMITED};
use bench::{Bench, Measured};

/// Bytes of data in a packet of the published machine.
const PACKET_BYTES: u64 = 4096;
/// Bytes posted for one figure, at least.
const POSTED_BYTES: u64 = 1 << 20;
/// Most messages posted for one figure.
const MESSAGES_MAX: u64 = 128;
/// Bytes of a message that shows the gain at its fullest: of many packets, and within reach of the
/// TLB.
const LONG_BYTES: u64 = 256 << 10;

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

/// What the model is made from; see the [module](self) for what is published.
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
    fn timing(&self, bus: &Bus, read_engines: usize, write_engines: usize) -> Timing {
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

    fn cache(&self, entries: usize, page_size: PageSize) -> TranslationCache {
        TranslationCache { entries, page_size, replacement: Replacement::LeastRecent }
    }

    /// Two boards on their link.
    fn bench(&self, near: Timing, far: Timing, cache: TranslationCache) -> Bench {
        Bench::new(near, far, cache, self.link_bytes_per_s, self.hop_ns)
    }
}

/// Bandwidth with and without TLB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TlbRow {
    /// Bytes of a message.
    pub bytes: u64,
    /// To host memory with TLB, bytes per second.
    pub host_with: f64,
    /// To host memory without TLB, bytes per second.
    pub host_without: f64,
    /// What the TLB adds, as a part.
    pub host_gain: f64,
    /// To GPU memory with TLB, bytes per second.
    pub gpu_with: f64,
    /// To GPU memory without TLB, bytes per second.
    pub gpu_without: f64,
    /// What the TLB adds, as a part.
    pub gpu_gain: f64,
}

/// Total time with one and two DMA engines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DmaRow {
    /// Bytes of a message.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Time with one engine, ns.
    pub one_engine_ns: u64,
    /// Time with two engines and prefetched commands, ns.
    pub two_engines_ns: u64,
    /// What the second engine saves, as a part of the time.
    pub saving: f64,
    /// The same with the link behind, which is slower than two engines.
    pub saving_through_link: f64,
}

/// Rate of writes to memory with one and two receive controllers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReceiveRow {
    /// Bytes of a message.
    pub bytes: u64,
    /// With one controller, bytes per second.
    pub one: f64,
    /// With two, bytes per second.
    pub two: f64,
    /// What the second one adds, as a part.
    pub gain: f64,
}

/// The three benchmarks of the published test bench, with TLB and two DMA engines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransferRow {
    /// Bytes of a message.
    pub bytes: u64,
    /// One way: all posted at once, to the last TX_DONE and RX_DONE; bytes per second.
    pub one_way: f64,
    /// One way, flush: data are thrown away on arrival, to the last TX_DONE; bytes per second.
    pub flush: f64,
    /// One message, to its TX_DONE and RX_DONE, ns.
    pub round_trip_ns: u64,
}

/// Translations found in the TLB when a buffer is written again and again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReplacementRow {
    /// Pages of the buffer.
    pub pages: u64,
    /// Part found if the least recently used entry makes room.
    pub least_recent: f64,
    /// Part found if a random one does.
    pub random: f64,
}

/// The gains for another value of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Its value.
    pub value: f64,
    /// Gain by the TLB, to host memory.
    pub tlb_gain: f64,
    /// Time saved by the second DMA engine.
    pub dma_saving: f64,
    /// Gain by the second receive controller.
    pub receive_gain: f64,
}

/// All results of [`ablations`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ablations {
    /// What they were made from.
    pub parameters: Parameters,
    /// Time that one DMA engine waits before a packet, ns, as it follows from the parameters.
    pub read_latency_ns: u64,
    /// With and without TLB, by size of message.
    pub tlb: Vec<TlbRow>,
    /// With one and two DMA engines, by size of message.
    pub dma: Vec<DmaRow>,
    /// With one and two receive controllers, by size of message.
    pub receive: Vec<ReceiveRow>,
    /// The published benchmarks, by size of message.
    pub transfers: Vec<TransferRow>,
    /// Ways to replace entries of the TLB, by pages of a buffer.
    pub replacement: Vec<ReplacementRow>,
    /// How the gains depend on what is not published. The first row is that of the parameters.
    pub sensitivity: Vec<Sensitivity>,
}

/// Runs all ablations.
///
/// # Examples
///
/// ```
/// use gannet_torus::rdma::ablation::{Parameters, ablations};
///
/// let ablations = ablations(&Parameters::default());
/// let best = ablations.tlb.iter().map(|row| row.host_gain).fold(0.0, f64::max);
/// assert!(best > 0.5 && best < 0.7);
/// ```
pub fn ablations(parameters: &Parameters) -> Ablations {
    let sizes = || (6..=22).map(|bits| 1u64 << bits);
    Ablations {
        parameters: *parameters,
        read_latency_ns: parameters.read_latency_ns(),
        tlb: sizes().map(|bytes| tlb_row(parameters, bytes)).collect(),
        dma: sizes().map(|bytes| dma_row(parameters, bytes)).collect(),
        receive: sizes().map(|bytes| receive_row(parameters, bytes)).collect(),
        transfers: sizes().map(|bytes| transfer_row(parameters, bytes)).collect(),
        replacement: [64, 128, 136, 160, 192, 256, 512].map(replacement_row).into(),
        sensitivity: sensitivities(parameters),
    }
}

/// Messages posted for one figure.
fn messages(bytes: u64) -> u64 {
    (POSTED_BYTES / bytes).clamp(2, MESSAGES_MAX)
}

/// Bytes per second of a second round over the same buffer, of which the first has filled the TLB.
fn bandwidth(mut bench: Bench, bytes: u64) -> f64 {
    bench.run(messages(bytes), bytes);
    bench.run(messages(bytes), bytes).bytes_per_s()
}

fn tlb_row(parameters: &Parameters, bytes: u64) -> TlbRow {
    let timing = parameters.timing(&parameters.bus, 1, 1);
    let rate = |entries, page_size| {
        bandwidth(parameters.bench(timing, timing, parameters.cache(entries, page_size)), bytes)
    };
    let with = |page_size| rate(parameters.tlb_entries, page_size);
    let (host_with, host_without) = (with(PageSize::KiB4), rate(0, PageSize::KiB4));
    let (gpu_with, gpu_without) = (with(PageSize::KiB64), rate(0, PageSize::KiB64));
    TlbRow {
        bytes,
        host_with,
        host_without,
        host_gain: host_with / host_without - 1.0,
        gpu_with,
        gpu_without,
        gpu_gain: gpu_with / gpu_without - 1.0,
    }
}

fn dma_row(parameters: &Parameters, bytes: u64) -> DmaRow {
    let time = |engines, link| {
        let near = parameters.timing(&parameters.bus, engines, 1);
        let cache = parameters.cache(0, PageSize::KiB4);
        let mut bench = Bench::new(near, Timing::IMMEDIATE, cache, link, 0);
        bench.run(messages(bytes), bytes).tx_ns
    };
    let saving = |link| 1.0 - time(2, link) as f64 / time(1, link) as f64;
    DmaRow {
        bytes,
        messages: messages(bytes),
        one_engine_ns: time(1, f64::INFINITY),
        two_engines_ns: time(2, f64::INFINITY),
        saving: saving(f64::INFINITY),
        saving_through_link: saving(parameters.link_bytes_per_s),
    }
}

fn receive_row(parameters: &Parameters, bytes: u64) -> ReceiveRow {
    let rate = |controllers| {
        let far = parameters.timing(&parameters.new_bus, 2, controllers);
        let cache = parameters.cache(parameters.tlb_entries, PageSize::KiB4);
        let link = f64::INFINITY;
        bandwidth(Bench::new(Timing::IMMEDIATE, far, cache, link, parameters.hop_ns), bytes)
    };
    let (one, two) = (rate(1), rate(2));
    ReceiveRow { bytes, one, two, gain: two / one - 1.0 }
}

fn transfer_row(parameters: &Parameters, bytes: u64) -> TransferRow {
    let timing = parameters.timing(&parameters.bus, 2, 1);
    let cache = parameters.cache(parameters.tlb_entries, PageSize::KiB4);
    let one_way = bandwidth(parameters.bench(timing, timing, cache), bytes);
    let thrown_away =
        Timing { write_setup_ns: 0, write_bytes_per_s: UNLIMITED, tlb_ns: 0, walk_ns: 0, ..timing };
    let mut flush = parameters.bench(timing, thrown_away, cache);
    let flushed = flush.run(messages(bytes), bytes);
    let mut round_trip = parameters.bench(timing, timing, cache);
    round_trip.run(1, bytes);
    let Measured { tx_ns, rx_ns, .. } = round_trip.run(1, bytes);
    TransferRow {
        bytes,
        one_way,
        flush: flushed.bytes as f64 / flushed.tx_ns as f64 * 1e9,
        round_trip_ns: tx_ns.max(rx_ns),
    }
}

fn replacement_row(pages: u64) -> ReplacementRow {
    let found = |replacement| {
        let cache = TranslationCache { replacement, ..TranslationCache::default() };
        let mut bench = Bench::new(Timing::IMMEDIATE, Timing::IMMEDIATE, cache, f64::INFINITY, 0);
        bench.run(10, pages * PACKET_BYTES);
        bench.run(20, pages * PACKET_BYTES).tlb_hits
    };
    ReplacementRow {
        pages,
        least_recent: found(Replacement::LeastRecent),
        random: found(Replacement::Random { seed: 1 }),
    }
}

fn sensitivities(parameters: &Parameters) -> Vec<Sensitivity> {
    let with_bus = |change: &dyn Fn(&mut Bus)| {
        let mut changed = *parameters;
        change(&mut changed.bus);
        change(&mut changed.new_bus);
        changed
    };
    let gains = |parameter, value, changed: &Parameters| Sensitivity {
        parameter,
        value,
        tlb_gain: tlb_row(changed, LONG_BYTES).host_gain,
        dma_saving: dma_row(changed, LONG_BYTES).saving,
        receive_gain: receive_row(changed, LONG_BYTES).gain,
    };
    let mut rows = vec![gains("as given", 0.0, parameters)];
    for payload_bytes in [64.0, 128.0, 256.0, 512.0] {
        let changed = with_bus(&|bus| bus.payload_bytes = payload_bytes);
        rows.push(gains("payload_bytes", payload_bytes, &changed));
    }
    for link_overhead in [0.02, 0.05] {
        let changed = with_bus(&|bus| bus.link_overhead = link_overhead);
        rows.push(gains("link_overhead", link_overhead, &changed));
    }
    for write_setup_ns in [0, 80, 160, 320] {
        let changed = Parameters { write_setup_ns, ..*parameters };
        rows.push(gains("write_setup_ns", write_setup_ns as f64, &changed));
    }
    for one_engine_share in [0.4, 0.5, 0.6] {
        let changed = Parameters { one_engine_share, ..*parameters };
        rows.push(gains("one_engine_share", one_engine_share, &changed));
    }
    rows
}

#[cfg(test)]
mod tests;
