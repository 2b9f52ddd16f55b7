//! DMA engines that share one direction of a bus, as a model of time.

/// Most DMA engines of one direction.
pub const ENGINES_MAX: usize = 4;

/// DMA engines, each busy from its claim to the end of its transfer.
///
/// Latencies of several engines overlap; their transfers follow each other on the bus, in the
/// order in which they were claimed.
#[derive(Clone, Debug)]
pub(super) struct Dma {
    /// When each engine has ended what it was given, in nanoseconds.
    free_at: [u64; ENGINES_MAX],
    engines: usize,
    bus_free_at: u64,
    bytes_per_s: u64,
}

/// An engine that was given work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    engine: usize,
    /// When it begins.
    pub start: u64,
}

impl Dma {
    pub fn new(engines: usize, bytes_per_s: u64) -> Self {
        debug_assert!((1..=ENGINES_MAX).contains(&engines) && bytes_per_s > 0);
        Self { free_at: [0; ENGINES_MAX], engines, bus_free_at: 0, bytes_per_s }
    }

    /// When an engine is idle.
    pub fn idle_at(&self) -> u64 {
        self.free_at[..self.engines].iter().copied().min().unwrap_or(0)
    }

    /// The engine that is idle first; it begins not before `now`.
    pub fn claim(&self, now: u64) -> Claim {
        let free_at = &self.free_at[..self.engines];
        let engine = (0..self.engines).min_by_key(|&engine| free_at[engine]).unwrap_or(0);
        Claim { engine, start: free_at[engine].max(now) }
    }

    /// Moves `bytes` as soon as they are `ready` and the bus is free; gives the end.
    pub fn transfer(&mut self, claim: Claim, ready: u64, bytes: usize) -> u64 {
        let end = match bytes {
            0 => ready,
            _ => ready.max(self.bus_free_at) + duration_ns(bytes as u64, self.bytes_per_s),
        };
        if bytes > 0 {
            self.bus_free_at = end;
        }
        self.free_at[claim.engine] = end;
        end
    }
}

/// Time to move `bytes`, to the nearest nanosecond.
pub(super) fn duration_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let scaled = u128::from(bytes) * 1_000_000_000;
    ((scaled + u128::from(bytes_per_s) / 2) / u128::from(bytes_per_s)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::UNLIMITED;

    /// End of the last of `count` transfers of 1000 bytes at 1 byte a nanosecond, each after 500.
    fn last_end(engines: usize, count: usize) -> u64 {
        let mut dma = Dma::new(engines, 1_000_000_000);
        (0..count).fold(0, |_, _| {
            let claim = dma.claim(0);
            dma.transfer(claim, claim.start + 500, 1000)
        })
    }

    #[test]
    fn one_engine_waits_each_time_and_two_hide_it() {
        assert_eq!(last_end(1, 10), 15_000);
        assert_eq!(last_end(2, 10), 10_500);
        assert_eq!(last_end(3, 10), 10_500);
    }

    #[test]
    fn what_has_no_limit_takes_no_time() {
        assert_eq!(duration_ns(4096, UNLIMITED), 0);
        assert_eq!(duration_ns(4096, 4_000_000_000), 1024);
    }
}
