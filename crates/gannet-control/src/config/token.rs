//! Who may read the metrics: the token, and what an address needs.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};

use super::document::{Document, Problem};
use super::model::{MetricsConfig, WebConfig};

/// Shortest token, in characters: 64 bits in hexadecimal digits.
const LENGTH_MIN: usize = 16;
/// Longest token, in characters.
const LENGTH_MAX: usize = 512;
/// How to make a token.
const MAKE: &str = "make one by `(umask 077; head -c 24 /dev/urandom | base64 > FILE)`";

/// A secret that clients have to send. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

impl Token {
    /// The token that `text` is, without the space around it; absent unless it is one word of 16 to
    /// 512 visible ASCII characters.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.to_owned()))
    }

    /// A new token: 128 random bits in hexadecimal digits.
    ///
    /// # Panics
    /// When the system has no random numbers.
    pub fn drawn() -> Self {
        let mut bytes = [0u8; 16];
        getrandom(&mut bytes, GetRandomFlags::empty()).expect("random numbers");
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The token as people read it in an address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The token as clients send it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Reads the token in the file at `path`.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do about it.
    pub(super) fn read(path: &Path) -> Result<Self, (String, String)> {
        let shown = path.display();
        let unreadable = |error| (format!("{shown}: {error}"), MAKE.to_owned());
        let metadata = path.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err((format!("{shown} is no regular file"), MAKE.to_owned()));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            let cause = format!("{shown} is open to other users");
            return Err((
                cause,
                format!("take that away by `chmod 600 {shown}`, and change the token"),
            ));
        }
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(2 * LENGTH_MAX as u64).read_to_string(&mut text).map_err(unreadable)?;
        Self::new(&text).ok_or_else(|| {
            let wanted = format!("one word of {LENGTH_MIN} to {LENGTH_MAX} visible characters");
            (format!("{shown} holds no token: {wanted}"), MAKE.to_owned())
        })
    }
}

/// Refuses to show a run to a whole network by oversight.
pub(super) fn check_access(
    metrics: &MetricsConfig,
    document: &Document<'_>,
) -> Result<(), Problem> {
    if metrics.plain && metrics.token_file.is_some() {
        let cause = "with a token_file nothing is served without a token".to_owned();
        return Err(document.problem("metrics.plain", cause, "remove one of the two".into()));
    }
    match metrics.listen {
        Some(address) if is_open(metrics) && !metrics.plain => {
            let cause = format!("whoever reaches {address} could read the run");
            let suggestion = "listen on 127.0.0.1, or set `token_file` to a file with a token, or \
                              `plain = true` to allow it";
            Err(document.problem("metrics.listen", cause, suggestion.into()))
        }
        _ => Ok(()),
    }
}

/// Refuses pages for a whole network in the clear, unless that is meant.
pub(super) fn check_pages(web: &WebConfig, document: &Document<'_>) -> Result<(), Problem> {
    match web.listen {
        Some(address) if !is_loopback(address.ip()) && !web.plain => {
            let cause = format!("who listens on the way to {address} could read the token");
            let suggestion = "listen on 127.0.0.1 and come by `ssh -L`, or set `plain = true` to \
                              allow it";
            Err(document.problem("web.listen", cause, suggestion.into()))
        }
        _ => Ok(()),
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Whether other machines could read without a token.
fn is_open(metrics: &MetricsConfig) -> bool {
    metrics.token_file.is_none() && metrics.listen.is_some_and(|at| !is_loopback(at.ip()))
}

/// What every start says of metrics that anybody may read.
pub(super) fn doubt(metrics: &MetricsConfig) -> Option<String> {
    let address = metrics.listen.filter(|_| metrics.plain && is_open(metrics))?;
    Some(format!(
        "metrics: whoever reaches {address} can read the run (`plain = true`); set `token_file` to \
         ask for a token"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixture::parse;

    fn plan(metrics: &str) -> Result<crate::config::Plan, Problem> {
        let source = "[[source]]\nudp = { listen = [\"127.0.0.1:0\"] }\n";
        parse(&format!("{source}[metrics]\n{metrics}"))
    }

    #[test]
    fn an_address_that_others_reach_needs_a_token_or_a_word() {
        for open in ["0.0.0.0:1", "192.168.1.2:1", "[::]:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"] {
            let listen = format!("listen = \"{open}\"\n");
            let refused = plan(&listen).unwrap_err();
            assert_eq!((refused.line, refused.column), (4, 10), "{refused}");
            assert!(refused.suggestion.contains("token_file"), "{refused}");
            let plain = plan(&format!("{listen}plain = true")).unwrap();
            let doubts = plain.doubts();
            assert!(doubts.iter().any(|doubt| doubt.contains("can read the run")), "{doubts:?}");
            let secured = plan(&format!("{listen}token_file = \"t\"")).unwrap();
            assert!(secured.doubts().iter().all(|doubt| !doubt.contains("metrics")));
        }
        for loopback in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(plan(&format!("listen = \"{loopback}\"")).is_ok(), "{loopback}");
        }
        let both = plan("listen = \"0.0.0.0:1\"\nplain = true\ntoken_file = \"t\"").unwrap_err();
        assert_eq!((both.line, both.column), (5, 9), "{both}");
    }

    #[test]
    fn a_token_is_read_from_a_file_of_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let plan = plan(&format!("listen = \"0.0.0.0:1\"\ntoken_file = {file:?}")).unwrap();
        let read = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            plan.metrics_token("a.toml")
        };
        assert!(plan.metrics_token("a.toml").unwrap_err().cause.contains("No such file"));
        let token = read("  0123456789abcdef\n", 0o600).unwrap().unwrap();
        assert_eq!(token.as_bytes(), b"0123456789abcdef");
        let open = read("0123456789abcdef", 0o640).unwrap_err();
        assert!(open.suggestion.contains("chmod 600"), "{open}");
        assert_eq!((open.line, open.column), (5, 14));
        for bad in ["", "short", "two words in a token", "0123456789abcde\u{e9}", &"x".repeat(600)]
        {
            let refused = read(bad, 0o600).unwrap_err();
            assert!(refused.cause.contains("holds no token"), "{refused}");
            assert!(!refused.to_string().contains("words"), "{refused}");
        }
    }
}
