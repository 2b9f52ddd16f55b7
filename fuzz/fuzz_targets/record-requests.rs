//! Arbitrary decisions, frames and times shown to the builder of records.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(record_requests);
