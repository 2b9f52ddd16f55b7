//! Arbitrary bytes sent to the HTTP server on one connection.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(http);
