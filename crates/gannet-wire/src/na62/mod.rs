//! What the NA62 experiment sends: formats and geometry of its RICH.
//!
//! Source: dariosol/na62l0tpfw, NA62/na62-farm-lib, NA62/na62-trigger-algorithms.

pub mod pm_map;

pub use pm_map::{Pm, PmMap};
