//! Cables and nodes, with real threads, sockets and time.

mod conformance;
mod drill;
mod host;
mod interfaces;
mod machine;
mod protection;
mod tunnel;
mod users;
