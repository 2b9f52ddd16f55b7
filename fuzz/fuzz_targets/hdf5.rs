//! Arbitrary bytes read as an HDF5 file.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(hdf5);
