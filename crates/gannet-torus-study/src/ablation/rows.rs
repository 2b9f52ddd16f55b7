//! The figures of one message size, one buffer size or one set of parameters, and how they come
//! about.

use gannet_memory::{PageSize, Replacement};
use gannet_rdma::{Timing, TranslationCache, UNLIMITED};
use serde::Serialize;

use super::bench::{Bench, Measured};
use super::parameters::{Bus, Parameters};
use super::{LONG_BYTES, PACKET_BYTES};

/// Bytes posted for one figure, at least.
const POSTED_BYTES: u64 = 1 << 20;
/// Most messages posted for one figure.
const MESSAGES_MAX: u64 = 128;

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

/// Messages posted for one figure.
fn messages(bytes: u64) -> u64 {
    (POSTED_BYTES / bytes).clamp(2, MESSAGES_MAX)
}

/// Bytes per second of a second round over the same buffer, of which the first has filled the TLB.
fn bandwidth(mut bench: Bench, bytes: u64) -> f64 {
    bench.run(messages(bytes), bytes);
    bench.run(messages(bytes), bytes).bytes_per_s()
}

pub(super) fn tlb_row(parameters: &Parameters, bytes: u64) -> TlbRow {
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

pub(super) fn dma_row(parameters: &Parameters, bytes: u64) -> DmaRow {
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

pub(super) fn receive_row(parameters: &Parameters, bytes: u64) -> ReceiveRow {
    let rate = |controllers| {
        let far = parameters.timing(&parameters.new_bus, 2, controllers);
        let cache = parameters.cache(parameters.tlb_entries, PageSize::KiB4);
        let link = f64::INFINITY;
        bandwidth(Bench::new(Timing::IMMEDIATE, far, cache, link, parameters.hop_ns), bytes)
    };
    let (one, two) = (rate(1), rate(2));
    ReceiveRow { bytes, one, two, gain: two / one - 1.0 }
}

pub(super) fn transfer_row(parameters: &Parameters, bytes: u64) -> TransferRow {
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

pub(super) fn replacement_row(pages: u64) -> ReplacementRow {
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

pub(super) fn sensitivities(parameters: &Parameters) -> Vec<Sensitivity> {
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
