//! Who may see a run and command it: tokens, roles, and what an address needs.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Document, Problem};
use super::model::{MetricsConfig, TlsConfig, WebConfig};

/// Shortest token, in characters: 64 bits in hexadecimal digits.
const LENGTH_MIN: usize = 16;
/// Longest token, in characters.
const LENGTH_MAX: usize = 512;
/// Most that is read of a file with secrets, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Most connections that may be allowed at a time.
const CLIENTS_MAX: usize = 1024;
/// How to make a token.
const MAKE: &str = "make one by `(umask 077; head -c 24 /dev/urandom | base64 > FILE)`";

/// What is wrong with a file, and what to do about it.
type Wrong = (String, String);

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
    pub(super) fn read(path: &Path) -> Result<Self, Wrong> {
        Self::new(&secret(path, MAKE)?).ok_or_else(|| {
            (format!("{} holds no token: {}", path.display(), wanted()), MAKE.to_owned())
        })
    }
}

fn wanted() -> String {
    format!("one word of {LENGTH_MIN} to {LENGTH_MAX} visible characters")
}

/// What somebody may do; each role may what those before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AccessRole {
    /// See the run.
    View,
    /// Command it.
    Operate,
    /// Change what it is made of, and end the process.
    Admin,
}

impl AccessRole {
    /// Every role, that which may least first.
    pub const ALL: [Self; 3] = [Self::View, Self::Operate, Self::Admin];

    /// Name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for AccessRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The tokens of those who may see a run or command it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens(Vec<(AccessRole, Token)>);

impl From<Token> for Tokens {
    /// The token of an administrator, and no other.
    fn from(token: Token) -> Self {
        Self(vec![(AccessRole::Admin, token)])
    }
}

impl Tokens {
    /// Most tokens: each request is compared with all of them.
    pub const MAX: usize = 64;

    /// The tokens in `text`: a line for each, with its role before it. A token alone is that of an administrator.
    ///
    /// # Errors
    /// Which line is wrong, and how; never what stands in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines: Vec<_> = lines.filter(|(_, line)| !line.is_empty()).collect();
        if lines.len() > Self::MAX {
            return Err(format!("there are more than {} lines", Self::MAX));
        }
        if let &[(_, line)] = &*lines
            && let Some(token) = Token::new(line)
        {
            return Ok(token.into());
        }
        let mut tokens: Vec<(AccessRole, Token)> = Vec::new();
        for (at, line) in lines {
            let wrong = |what: &str| format!("line {}: {what}", at + 1);
            let (role, token) = line.split_once(char::is_whitespace).unwrap_or_default();
            let role = AccessRole::ALL.into_iter().find(|it| it.name() == role);
            let role = role.ok_or_else(|| wrong("no role: write `view`, `operate` or `admin`"))?;
            let token = Token::new(token)
                .ok_or_else(|| wrong(&format!("no token behind the role: {}", wanted())))?;
            if tokens.iter().any(|(_, other)| *other == token) {
                return Err(wrong("this token is there already"));
            }
            tokens.push((role, token));
        }
        if tokens.is_empty() { Err(format!("no token: {}", wanted())) } else { Ok(Self(tokens)) }
    }

    /// Reads the tokens in the file at `path`.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do about it.
    pub(super) fn read(path: &Path) -> Result<Self, Wrong> {
        let text = secret(path, MAKE)?;
        Self::parse(&text).map_err(|wrong| (format!("{}: {wrong}", path.display()), MAKE.into()))
    }

    /// Each with its role.
    pub fn iter(&self) -> impl Iterator<Item = (AccessRole, &Token)> {
        self.0.iter().map(|(role, token)| (*role, token))
    }

    /// The first token of the role that may most.
    pub fn highest(&self) -> &Token {
        let roles = AccessRole::ALL.into_iter().rev();
        let mut of_role = roles.filter_map(|role| self.0.iter().find(|(own, _)| *own == role));
        &of_role.next().expect("there is one token at least").1
    }
}

/// The text of a file that nobody but its owner may read; how to `make` one is said where there is none.
///
/// # Errors
/// What is wrong with the file, and what to do about it.
pub(super) fn secret(path: &Path, make: &str) -> Result<String, Wrong> {
    let shown = path.display();
    let unreadable = |error| (format!("{shown}: {error}"), make.to_owned());
    let metadata = path.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err((format!("{shown} is no regular file"), make.to_owned()));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let cause = format!("{shown} is open to other users");
        let suggestion =
            format!("take that away by `chmod 600 {shown}`, and put another secret there");
        return Err((cause, suggestion));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
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
    if web.plain && web.tls.is_some() {
        let cause = "with `tls` nothing is served in the clear".to_owned();
        return Err(document.problem("web.plain", cause, "remove one of the two".into()));
    }
    if !(1..=CLIENTS_MAX).contains(&web.clients_max) {
        let cause = format!("{} is not 1 to {CLIENTS_MAX}", web.clients_max);
        let suggestion = "let fewer look at a time; a browser needs one or two connections";
        return Err(document.problem("web.clients_max", cause, suggestion.into()));
    }
    match web.listen {
        Some(address) if !is_loopback(address.ip()) && !web.plain && web.tls.is_none() => {
            let cause = format!("who listens on the way to {address} could read the token");
            let suggestion = "add `tls = { certificate = \"FILE\", key = \"FILE\" }`, or listen on \
                              127.0.0.1 and come by `ssh -L`, or set `plain = true` to allow it";
            Err(document.problem("web.listen", cause, suggestion.into()))
        }
        _ => Ok(()),
    }
}

/// Certificates and key of a server, as they are in the files, or which key of the table is wrong and how.
pub(super) fn read_tls(tls: &TlsConfig) -> Result<(String, String), (&'static str, Wrong)> {
    let path = &tls.certificate;
    let certificates = fs::read_to_string(path).map_err(|error| {
        let suggestion = "name a file with a certificate as PEM".to_owned();
        ("certificate", (format!("{}: {error}", path.display()), suggestion))
    })?;
    let key = secret(&tls.key, "name a file with a private key as PEM");
    Ok((certificates, key.map_err(|wrong| ("key", wrong))?))
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
    fn pages_that_others_reach_need_tls_or_a_word() {
        let source = "[[source]]\nudp = { listen = [\"127.0.0.1:0\"] }\n";
        let plan = |web: &str| parse(&format!("{source}[web]\n{web}"));
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate", "key"].map(|name| directory.path().join(name));
        let tls = format!("tls = {{ certificate = {certificate:?}, key = {key:?} }}");
        let listen = "listen = \"0.0.0.0:1\"\n";
        let refused = plan(listen).unwrap_err();
        assert_eq!((refused.line, refused.column), (4, 10), "{refused}");
        assert!(refused.suggestion.contains("tls = {"), "{refused}");
        assert!(plan(&format!("{listen}plain = true")).is_ok());
        let both = plan(&format!("{listen}{tls}\nplain = true")).unwrap_err();
        assert_eq!((both.line, both.column), (6, 9), "{both}");
        let unknown = plan("tls = { certificate = \"a\", key = \"b\", keys = \"c\" }").unwrap_err();
        assert_eq!(unknown.line, 4, "{unknown}");
        for many in [0, 1025] {
            let refused = plan(&format!("clients_max = {many}")).unwrap_err();
            assert_eq!((refused.line, refused.column), (4, 15), "{refused}");
        }
        let secured = plan(&format!("{listen}{tls}")).unwrap();
        let read = |mode: u32| {
            fs::write(&certificate, "c").unwrap();
            fs::write(&key, "k").unwrap();
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            secured.web_tls("a.toml")
        };
        assert!(secured.web_tls("a.toml").unwrap_err().cause.contains("No such file"));
        assert_eq!(read(0o600).unwrap(), Some(("c".into(), "k".into())));
        let open = read(0o644).unwrap_err();
        assert!(open.suggestion.contains("chmod 600"), "{open}");
        assert_eq!(open.line, 5, "{open}");
        assert_eq!(plan("").unwrap().web_tls("a.toml"), Ok(None));
    }

    #[test]
    fn tokens_have_roles_and_one_alone_is_of_an_administrator() {
        let roles = |text: &str| -> Result<Vec<_>, String> {
            let tokens = Tokens::parse(text)?;
            Ok(tokens.iter().map(|(role, token)| (role, token.as_str().to_owned())).collect())
        };
        let [a, b, c] = ["0123456789abcdef", "123456789abcdef0", "23456789abcdef01"];
        assert_eq!(roles(&format!(" {a}\n")).unwrap(), [(AccessRole::Admin, a.to_owned())]);
        let text = format!("view {a}\n\noperate\t{b}\nview   {c}\n");
        let expected = [(AccessRole::View, a), (AccessRole::Operate, b), (AccessRole::View, c)];
        assert_eq!(roles(&text).unwrap(), expected.map(|(role, text)| (role, text.to_owned())));
        assert_eq!(Tokens::parse(&text).unwrap().highest().as_str(), b);
        for (wrong, told) in [
            (String::new(), "no token"),
            (format!("{a}\n{b}"), "line 1: no role"),
            (format!("view {a}\nroot {b}"), "line 2: no role"),
            (format!("view {a}\noperate short"), "line 2: no token"),
            (format!("view {a} {b}"), "line 1: no token"),
            (format!("view {a}\nadmin {a}"), "line 2: this token is there already"),
            (format!("view {a}\n").repeat(Tokens::MAX + 1), "more than 64 lines"),
        ] {
            let refused = roles(&wrong).unwrap_err();
            assert!(refused.contains(told), "{wrong}: {refused}");
            assert!(!refused.contains("0123"), "{refused}");
        }
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
