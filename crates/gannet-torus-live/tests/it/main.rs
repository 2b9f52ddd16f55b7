//! Cables and nodes, with real threads, sockets and time.

mod conformance;
mod host;
mod interfaces;
mod machine;
mod tunnel;
mod users;
