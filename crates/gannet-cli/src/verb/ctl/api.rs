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

use super::tls;
use crate::exit::{Unreachable, Usage};

/// Name of the variable with the token.
const TOKEN: &str = "GANNET_TOKEN";
/// Longest answer that is read, in bytes: the snapshot of a large run.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Where it asks, and who it is.
pub struct Api {
    agent: Agent,
    /// `http://HOST:PORT`, or the same by TLS.
    base: String,
    token: Option<String>,
    patience: Duration,
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
    /// `patience`. By TLS, it asks whom the certificates in the file `ca` speak for.
    ///
    /// # Errors
    /// When the address is none, there is no token in the file that is named, or no certificate in the other.
    pub fn new(
        address: &str,
        token_file: Option<&Path>,
        ca: Option<&Path>,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let (scheme, rest) = address.split_once("://").unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, query) = rest.split_at(end);
        if host.is_empty() || !matches!(scheme, "http" | "https") {
            let text =
                format!("{address} is no address of pages: http://HOST:PORT or https://HOST:PORT");
            return Err(Usage(text).into());
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
            .proxy(None);
        let agent = match (scheme, ca) {
            ("https", Some(file)) => agent.tls_config(tls::trusting(file)?),
            ("https", None) => {
                let text = "this address has TLS: name by --ca the file with the certificate by which the station is \
                            to be known, which is `certificate` of `tls` in [web], or that of whoever signed it";
                return Err(Usage(text.into()).into());
            }
            (_, Some(_)) => {
                return Err(Usage("--ca is for addresses that begin with https://".into()).into());
            }
            (_, None) => agent,
        };
        let (agent, base) = (agent.build().into(), format!("{scheme}://{host}"));
        Ok(Self { agent, base, token, patience })
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
        read.map_err(|error| self.unanswered(error))
    }

    /// Why there is no answer, or none that can be used.
    fn unanswered(&self, error: ureq::Error) -> anyhow::Error {
        let place = self.base.clone();
        if let Some(objection) = tls::objection(&error) {
            return anyhow::anyhow!("the answer of {place} is not taken: {objection}");
        }
        let cause = match error {
            // What a server that expects a client to begin with TLS does.
            ureq::Error::Protocol(_) if place.starts_with("http://") => {
                let secure = place.replacen("http", "https", 1);
                return anyhow::anyhow!(
                    "what answers at {place} is no HTTP; if the station has `tls`, ask at {secure} with --ca FILE"
                );
            }
            ureq::Error::Timeout(_) => {
                let seconds = self.patience.as_secs_f64();
                let text = format!("no answer within {seconds} s; --timeout waits for longer");
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
            ureq::Error::Io(cause) => cause,
            other => io::Error::other(other.to_string()),
        };
        Unreachable { place, cause }.into()
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
