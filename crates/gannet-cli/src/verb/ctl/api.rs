//! A client of the interface that the pages use.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

use anyhow::Context;
use gannet_control::config::Token;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;
use ureq::{Body, RequestBuilder};

use crate::exit::{Unreachable, Usage};

/// Name of the variable with the token.
const TOKEN: &str = "GANNET_TOKEN";
/// Longest answer that is read, in bytes: the snapshot of a large run.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Where it asks, and who it is.
pub struct Api {
    agent: Agent,
    /// `http://HOST:PORT`.
    base: String,
    token: Option<String>,
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// What it is, which stays.
    pub code: String,
    /// A sentence.
    pub detail: String,
}

impl Api {
    /// Asks at `address`, which may have the token at its end as it was printed, and waits for no answer longer than
    /// `patience`.
    ///
    /// # Errors
    /// When the address is none, or there is no token in the file that is named.
    pub fn new(
        address: &str,
        token_file: Option<&Path>,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let (scheme, rest) = address.split_once("://").unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, query) = rest.split_at(end);
        if scheme == "https" {
            let text = "gannet ctl speaks no TLS; command this station from a browser, or by a program \
                        that does, such as curl";
            return Err(Usage(text.into()).into());
        }
        if scheme != "http" || host.is_empty() {
            return Err(Usage(format!("{address} is no address of pages: http://HOST:PORT")).into());
        }
        let printed = query.split(['?', '&']).find_map(|pair| pair.strip_prefix("token="));
        let from_file = |path: &Path| -> anyhow::Result<String> {
            let text = fs::read_to_string(path);
            Ok(text.with_context(|| format!("cannot read {}", path.display()))?.trim().to_owned())
        };
        let token = match (printed, token_file) {
            (Some(token), _) => Some(token.to_owned()),
            (None, Some(path)) => Some(from_file(path)?),
            (None, None) => env::var(TOKEN).ok(),
        };
        if token.as_deref().is_some_and(|token| Token::new(token).is_none()) {
            return Err(
                Usage(
                    "this is no token: one has 16 to 512 characters and no space; the file has the token of one \
                     role alone"
                        .into(),
                )
                .into()
            );
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Ok(Self { agent: agent.into(), base: format!("http://{host}"), token })
    }

    /// What `path` tells.
    ///
    /// # Errors
    /// When nobody answers, or it is refused.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let request = self.agent.get(self.url(path));
        let (status, answer) = self.read(self.authorized(request).call())?;
        self.judge(status, &answer)
    }

    /// Gives a command, once.
    ///
    /// # Errors
    /// When nobody answers; [`Problem`] when it is refused.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let key = format!("ctl-{}-{}", process::id(), since_1970.as_nanos());
        let request = self.agent.post(self.url(path));
        let request = self.authorized(request).header("Idempotency-Key", key);
        let request = request.header("Content-Type", "application/json");
        let (status, answer) = self.read(request.send(body.to_string()))?;
        self.judge(status, &answer)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.base)
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn read(&self, answer: Result<Response<Body>, ureq::Error>) -> anyhow::Result<(u16, Vec<u8>)> {
        let read = answer.and_then(|mut answer| {
            let status = answer.status().as_u16();
            let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
            Ok((status, body))
        });
        read.map_err(|error| {
            let place = self.base.clone();
            let cause = match error {
                ureq::Error::Io(cause) => cause,
                other => io::Error::other(other.to_string()),
            };
            Unreachable { place, cause }.into()
        })
    }

    fn judge<T: DeserializeOwned>(&self, status: u16, answer: &[u8]) -> anyhow::Result<T> {
        match status {
            200..300 => Ok(serde_json::from_slice(answer)?),
            401 => anyhow::bail!(
                "{} asks for a token: paste the whole address that was printed, or set {TOKEN}, or name --token-file",
                self.base
            ),
            _ => {
                let told = serde_json::from_slice::<Value>(answer).unwrap_or_default();
                let text = |key: &str| told[key].as_str().map(str::to_owned);
                let plain = || String::from_utf8_lossy(answer).trim().to_owned();
                let (code, detail) =
                    (text("code").unwrap_or_default(), text("detail").unwrap_or_else(plain));
                Err(Problem { code, detail }.into())
            }
        }
    }
}
