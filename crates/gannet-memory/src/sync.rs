//! What threads agree by: of the standard library, or of loom, which tries what the memory model allows
//! (`cargo xtask test` runs the models with `--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::{Arc, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, atomic};
