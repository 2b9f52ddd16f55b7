//! The receive path beside bare loops, in turn.

use serde::Serialize;

use super::{Error, Setup, receive};

/// Passes of each kind; medians count.
const PASSES: usize = 7;
/// Part of the rate without loss at which they are made.
const RATE: f64 = 0.8;

/// Processor time of the receiving threads for a frame, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Median of the passes.
    pub ns_per_frame: f64,
    /// The lowest of them.
    pub lowest: f64,
    /// The highest of them.
    pub highest: f64,
}

/// What receiving costs beside the least that it can cost, at one rate and in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Rate at which all were measured, in frames per second.
    pub asked_hz: f64,
    /// Passes of each.
    pub passes: usize,
    /// The receive path, with every byte read.
    pub path: Cost,
    /// A bare loop that receives coalesced messages and reads every byte.
    pub reading: Cost,
    /// A bare loop that receives them and looks at nothing.
    pub blind: Cost,
    /// Cost of the path over that of the loop that reads every byte.
    pub path_over_reading: f64,
    /// Cost of the path over that of the loop that looks at nothing.
    pub path_over_blind: f64,
}

impl Cost {
    fn of(mut costs: Vec<f64>) -> Self {
        costs.sort_by(f64::total_cmp);
        let at = |index: usize| costs.get(index).copied().unwrap_or(0.0);
        let last = costs.len().saturating_sub(1);
        Self { ns_per_frame: at(last / 2), lowest: at(0), highest: at(last) }
    }
}

impl Floor {
    /// Measures at a part of the rate `loss_free_hz`.
    pub(super) fn measure(setup: &Setup<'_>, loss_free_hz: f64) -> Result<Self, Error> {
        let (asked_hz, sockets) = (RATE * loss_free_hz, setup.config.sockets);
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..PASSES {
            for (kind, costs) in costs.iter_mut().enumerate() {
                let takers = match kind {
                    0 => receive::path(&setup.udp())?.0,
                    1 => receive::bare(sockets, true)?,
                    _ => receive::bare(sockets, false)?,
                };
                let pass = setup.pass(takers, Some(asked_hz), setup.config.trial)?;
                costs.push(pass.ns_per_frame());
            }
        }
        let [path, reading, blind] = costs.map(Cost::of);
        Ok(Self {
            asked_hz,
            passes: PASSES,
            path,
            reading,
            blind,
            path_over_reading: path.ns_per_frame / reading.ns_per_frame,
            path_over_blind: path.ns_per_frame / blind.ns_per_frame,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_with_its_extremes() {
        let cost = Cost::of(vec![900.0, 1200.0, 1000.0]);
        assert_eq!((cost.lowest, cost.ns_per_frame, cost.highest), (900.0, 1000.0, 1200.0));
    }
}
