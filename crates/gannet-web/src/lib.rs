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
mod alarms;
mod api;
mod arrow;
mod assets;
mod basis;
mod calls;
mod commands;
mod connection;
mod document;
mod events;
mod faults;
mod files;
mod finds;
mod forms;
mod history;
pub mod limits;
mod log;
mod negotiation;
mod notes;
mod pace;
mod places;
mod problem;
mod server;
mod site;
mod station;
mod status;
mod tls;
mod waveform;

pub use access::Access;
pub use api::description;
pub use commands::Commands;
pub use files::{Verdict, Verifier};
pub use log::LogTail;
pub use server::{Error, Listener, Server};
pub use site::{Content, Site};
pub use tls::Tls;
