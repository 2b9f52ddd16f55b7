//! Cables and nodes, with real threads, sockets and time.

mod conformance;
mod drill;
mod endpoint;
#[path = "../../../gannet-fabric/tests/it/conformance.rs"]
#[expect(dead_code, reason = "time is virtual where the suite is at home")]
mod fabric_conformance;
mod host;
mod interfaces;
mod machine;
mod protection;
mod tunnel;
mod users;
