//! Endpoints over libfabric, which speaks with RDMA cards and also over TCP.
//!
//! The library is opened at run time: the file that `GANNET_LIBFABRIC` names, or the `libfabric.so.1` that the loader
//! finds. Nothing of it is needed to build, and one program runs with 1.17 and with 2.x.
//!
//! A PUT is a write of the provider; what tells of it is an event that is written into a ring of the other side, in
//! the same transfer where the provider keeps writes in order. Endpoints meet over TCP, and try the provider
//! both ways before they are joined. The library is called by who has the endpoint, but for a provider that may not
//! return: there each pair has a thread for it.

mod apart;
mod drive;
mod endpoint;
mod pair;
pub mod provider;
mod ring;
mod sys;

pub use endpoint::Ofi;
pub use sys::{
    Cable, CallError, Event, Info, Lack, Lent, Library, LibraryError, Mapped, Piece, Reach,
    VARIABLE,
};
