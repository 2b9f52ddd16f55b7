//! Arbitrary bytes read as a channel map.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(channel_map);
