//! Arbitrary bytes as the registers and diagnostics of LO|FA|MO.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(lofamo);
