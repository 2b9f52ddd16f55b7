//! What KM3NeT sends and describes: formats of its optical modules, and where these are.
//!
//! Source: KM3NeT/km3pipe, KM3NeT/KM3io.jl.

pub mod detector_file;

pub use detector_file::DetectorFile;
