//! Readouts and builder of a run in processes of their own.

use std::fmt;
use std::path::PathBuf;

use gannet_fabric::clop::{self, Backend, FabricConfig};
use gannet_measure::quantity::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Document, Problem};

/// Shortest time after which one side may give the other up.
const DEADLINE_MIN: Span = Span::ms(100);

/// Which part of a run a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// All of it.
    #[default]
    All,
    /// Takes the frames of some sources or all, searches them, and keeps the last seconds of them for the builder.
    Readout,
    /// Decides on what the readouts find, builds records and writes them.
    Builder,
}

/// Where readouts and builder meet when they are processes of their own, which `gannet run --role` starts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BuilderConfig {
    /// Where the builder waits for readouts: the path of a socket for `shm`, an address and port of TCP for
    /// `udp`, `ofi` and `torus`. Empty: a run is one process.
    pub listen: String,
    /// What carries their data: `shm` on one host, `udp` between hosts, `ofi`, a provider of libfabric, or `torus`, the nodes
    /// of the hosts (`gannet torus node`).
    pub backend: Backend,
    /// Provider of libfabric, for `ofi`; absent: the best one that can be used.
    pub provider: Option<String>,
    /// File with the secret by which they know each other. Without one, which `shm` allows, both have to be of the
    /// same user.
    pub secret_file: Option<PathBuf>,
    /// Time without a sign of life after which one gives the other up.
    pub deadline: Span,
    /// At the begin of a run: how long readouts that have come wait for those of the other sources, so that all begin
    /// together. After it the run begins with those that are there; the others may come at any time. One that ends
    /// before the others, because it is stopped or its file is read, stays for as long: its last frames may be asked for.
    pub gather: Span,
}

impl Default for BuilderConfig {
    fn default() -> Self {
        Self {
            listen: String::new(),
            backend: Backend::Shm,
            provider: None,
            secret_file: None,
            deadline: Span::s(2),
            gather: Span::s(10),
        }
    }
}

impl fmt::Display for BuilderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {} at {}", self.backend, self.listen)
    }
}

impl BuilderConfig {
    /// The place, as the fabric knows places.
    pub(crate) fn place(&self) -> FabricConfig {
        let place = FabricConfig::new(self.backend, self.listen.clone());
        let Self { provider, secret_file, .. } = self.clone();
        FabricConfig { provider, secret_file, ..place }
    }

    /// Refuses a place that cannot be.
    pub(super) fn check(&self, document: &Document<'_>) -> Result<(), Problem> {
        if self.deadline < DEADLINE_MIN {
            let cause = format!("{} is shorter than {DEADLINE_MIN}", self.deadline);
            let suggestion = "give the other side more time";
            return Err(document.problem("builder.deadline", cause, suggestion.into()));
        }
        if self.listen.is_empty() {
            return Ok(());
        }
        self.place().check().map_err(|error| {
            let suggestion = "see `gannet check --schema` for what is allowed";
            let key = match error {
                clop::Error::Provider { .. } => "builder.provider",
                clop::Error::NoSecretFile(_) => "builder",
                _ => "builder.listen",
            };
            document.problem(key, error.to_string(), suggestion.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::parse;

    #[test]
    fn a_provider_is_for_libfabric_alone() {
        let builder = "[builder]\nlisten = \"127.0.0.1:7000\"\nsecret_file = \"secret\"\n\
                       provider = \"tcp\"\nbackend = ";
        for backend in ["shm", "udp", "torus"] {
            let wrong = parse(&format!("{builder}{backend:?}\n")).unwrap_err();
            assert_eq!((wrong.line, wrong.column), (4, 12), "{wrong}");
        }
        assert!(parse(&format!("{builder}\"ofi\"\n")).is_ok());
    }
}
