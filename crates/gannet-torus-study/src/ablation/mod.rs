//! What the TLB, the second DMA engine and the second receive controller are worth, by the engine
//! in virtual time.
//!
//! [`Ablations`] run the same [`Engine`](gannet_rdma::Engine) that moves real data, with the costs that
//! are published of APEnet+, and leave out one part at a time. No gain is put in; each comes out
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
mod parameters;
mod rows;

pub use parameters::{Bus, Parameters};
pub use rows::{DmaRow, ReceiveRow, ReplacementRow, Sensitivity, TlbRow, TransferRow};

use rows::{dma_row, receive_row, replacement_row, sensitivities, tlb_row, transfer_row};
use serde::Serialize;

/// Bytes of data in a packet of the published machine.
const PACKET_BYTES: u64 = 4096;
/// Bytes of a message that shows the gain at its fullest: of many packets, and within reach of the
/// TLB.
const LONG_BYTES: u64 = 256 << 10;

/// The gain of each part.
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

impl Ablations {
    /// Runs all ablations.
    ///
    /// # Examples
    ///
    /// ```
    /// use gannet_torus_study::ablation::{Ablations, Parameters};
    ///
    /// let ablations = Ablations::run(&Parameters::default());
    /// let best = ablations.tlb.iter().map(|row| row.host_gain).fold(0.0, f64::max);
    /// assert!(best > 0.5 && best < 0.7);
    /// ```
    pub fn run(parameters: &Parameters) -> Self {
        let sizes = || (6..=22).map(|bits| 1u64 << bits);
        Self {
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
}

/// A published gain and ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The part that is left out.
    pub part: &'static str,
    /// What it changes.
    pub what: &'static str,
    /// The published figure, as a part of 1.
    pub published: f64,
    /// Whether the figure is published as the most that was seen.
    pub published_is_most: bool,
    /// Where it is published.
    pub source: &'static str,
    /// Our figure, as a part of 1: the greatest, or that of long messages.
    pub ours: f64,
    /// Bytes of the messages that it belongs to.
    pub bytes: u64,
}

/// All ablations, with the published figures at the top.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AblationReport {
    /// Published figures beside ours.
    pub comparisons: Vec<Comparison>,
    /// What they come from.
    #[serde(flatten)]
    pub ablations: Ablations,
}

impl AblationReport {
    /// Runs all ablations with these parameters.
    pub fn new(parameters: &Parameters) -> Self {
        let ablations = Ablations::run(parameters);
        Self { comparisons: comparisons(&ablations), ablations }
    }
}

fn comparisons(ablations: &Ablations) -> Vec<Comparison> {
    let (tlb, dma, receive) = (&ablations.tlb, &ablations.dma, &ablations.receive);
    let fpt = "APEnet+; FPT 2013";
    let apenet = "APEnet+";
    let board = "APEnet+, new board";
    let comparison = |part, what, (published, published_is_most), source, (ours, bytes)| {
        Comparison { part, what, published, published_is_most, source, ours, bytes }
    };
    let host = greatest(tlb.iter().map(|row| (row.host_gain, row.bytes)));
    let gpu = greatest(tlb.iter().map(|row| (row.gpu_gain, row.bytes)));
    let saved = long(dma.iter().map(|row| (row.saving, row.bytes)));
    let faster = long(receive.iter().map(|row| (row.gain, row.bytes)));
    vec![
        comparison("TLB", "bandwidth to host memory", (0.60, true), fpt, host),
        comparison("TLB", "bandwidth to GPU memory", (0.60, true), fpt, gpu),
        comparison("second DMA engine", "total time saved", (0.40, false), apenet, saved),
        comparison("second receive controller", "memory write rate", (0.45, false), board, faster),
    ]
}

fn greatest(rows: impl Iterator<Item = (f64, u64)>) -> (f64, u64) {
    rows.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

/// The row of messages of many packets, where the waits of a single message do not count.
fn long(mut rows: impl Iterator<Item = (f64, u64)>) -> (f64, u64) {
    rows.find(|row| row.1 == LONG_BYTES).unwrap_or_default()
}

#[cfg(test)]
mod tests;
