//! Endpoints over libfabric, which speaks with RDMA cards and also over TCP.
//!
//! The library is opened at run time: the file that `GANNET_LIBFABRIC` names, or the `libfabric.so.1` that the loader
//! finds. Nothing of it is needed to build, and one program runs with 1.17 and with 2.x.

pub mod provider;
mod sys;

pub use sys::{CallError, Lack, Library, LibraryError, VARIABLE};
