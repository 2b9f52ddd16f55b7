//! Quantities with units, clocks, counters, latency histograms and seeded randomness.
