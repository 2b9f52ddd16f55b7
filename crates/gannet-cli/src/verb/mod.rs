//! One file a verb.

pub mod bench;
pub mod channels;
pub mod check;
pub mod completions;
pub mod ctl;
pub mod demo;
pub mod doctor;
pub mod emulate;
pub mod export;
pub mod find;
pub mod inspect;
pub mod man;
pub mod predict;
pub mod recover;
pub mod replay;
pub mod run;
pub mod torus;
pub mod trigger;
pub mod verify;
