//! Arbitrary bytes read as an HDF5 file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::hdf5(bytes));
