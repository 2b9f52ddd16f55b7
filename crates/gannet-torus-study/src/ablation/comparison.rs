//! What parts of the RDMA engine are worth, beside what is published of them.

use serde::Serialize;

use super::{Ablations, LONG_BYTES, Parameters};

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
mod tests {
    use super::*;

    #[test]
    fn ours_are_near_what_is_published() {
        let report = AblationReport::new(&Parameters::default());
        for it in &report.comparisons {
            assert!((it.ours - it.published).abs() < 0.05, "{it:?}");
        }
        let host = &report.comparisons[0];
        let row = report.ablations.tlb.iter().find(|row| row.bytes == host.bytes).unwrap();
        assert_eq!(row.host_gain, host.ours);
    }
}
