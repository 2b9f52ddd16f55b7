//! A run on the network: joins it to the HTTP server.

use gannet_control::config::Plan;
use gannet_web::{Access, Listener};

/// The address that `plan`, read from `file`, wants to be served at, listened on.
pub fn listen(plan: &Plan, file: &str) -> anyhow::Result<Option<Listener>> {
    let Some(address) = plan.settings.metrics.listen else { return Ok(None) };
    let access = match plan.metrics_token(file)? {
        Some(token) => Access::Token(token),
        None if address.ip().to_canonical().is_loopback() => Access::Loopback,
        None => Access::Anybody,
    };
    Ok(Some(Listener::open(address, access)?))
}
