//! Rates of links, in GB/s of 10^9 bytes, from their standards.

mod pcie;
mod wire;

pub use pcie::{Generation, PcieLink};
pub use wire::{InfinibandRate, Wire};

/// What a memory port of `bits` carries at `clock_mhz`, one word a cycle, in GB/s: 14.4 for 256 bits at 450 MHz.
pub fn memory_port_gbyte_per_s(bits: u32, clock_mhz: f64) -> f64 {
    f64::from(bits) / 8.0 * clock_mhz * 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_256_bits_carries_32_bytes_a_cycle() {
        assert!((memory_port_gbyte_per_s(256, 450.0) - 14.4).abs() < 1e-9);
        assert!((memory_port_gbyte_per_s(256, 250.0) - 8.0).abs() < 1e-9);
    }
}
