//! HTTP: serves a run that it is handed.
//!
//! ```text
//! Listener ──serve(present)──▶ Server: one thread with a runtime of its own
//!                                  accept ──▶ connection (at most 64) ──▶ Site ──▶ Forms
//! ```
//!
//! A client can be slow, hostile or many: it must not matter to the run. Everything a client can
//! ask for has a limit in [`limits`]; the run is looked at through one shared snapshot, at most ten
//! times a second; no thread of the data path touches the runtime, and stopping waits for no client.

mod access;
mod api;
mod assets;
mod commands;
mod connection;
mod events;
mod faults;
mod finds;
mod forms;
pub mod limits;
mod negotiation;
mod pace;
mod places;
mod server;
mod site;
mod station;
mod waveform;

pub use access::Access;
pub use commands::Commands;
pub use server::{Error, Listener, Server};
pub use site::{Content, Site};
