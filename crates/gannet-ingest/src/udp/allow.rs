//! Which senders are listened to.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Rules that one list may have.
pub(crate) const RULES_MAX: usize = 1024;

/// Senders that are listened to: an address or network, and a port or any.
///
/// Written `10.73.139.16`, `10.73.0.0/16`, `10.73.139.16:17476`, `10.73.0.0/16:17476`,
/// `fd00::/8`, `[fd00::1]:17476`, `[fd00::/8]:17476` or `*:17476`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderRule {
    /// Network address and number of leading bits that count; `None` for any address.
    network: Option<(IpAddr, u8)>,
    /// `None` for any port.
    port: Option<u16>,
}

/// A text is not a rule for senders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" is not a sender; write an address, a network or *, and perhaps a port, \
     for example \"10.73.0.0/16:17476\""
)]
pub struct ParseSenderError {
    text: String,
}

/// The address as a number whose leading bits are those of the address, and how many it has.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

/// The leading `prefix` bits of a number, the others zero.
fn leading(number: u128, prefix: u8) -> u128 {
    number & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl SenderRule {
    /// Whether `sender` is listened to. IPv4 senders of an IPv6 socket count as IPv4.
    pub fn matches(&self, sender: &SocketAddr) -> bool {
        let in_network = self.network.is_none_or(|(network, prefix)| {
            let ((network, width), (address, sender_width)) =
                (bits(network), bits(sender.ip().to_canonical()));
            width == sender_width && leading(network ^ address, prefix) == 0
        });
        in_network && self.port.is_none_or(|port| port == sender.port())
    }

    /// Splits a port from an address, and says what is in brackets.
    fn split(text: &str) -> Option<(&str, Option<&str>)> {
        if let Some(rest) = text.strip_prefix('[') {
            let (network, port) = rest.split_once(']')?;
            return match port {
                "" => Some((network, None)),
                port => Some((network, Some(port.strip_prefix(':')?))),
            };
        }
        match text.rsplit_once(':') {
            Some((network, port)) if !network.contains(':') => Some((network, Some(port))),
            _ => Some((text, None)),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (network, port) = Self::split(text)?;
        let port = port.map(str::parse).transpose().ok()?;
        if network == "*" {
            return Some(Self { network: None, port });
        }
        let (address, prefix) = match network.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
            None => (network, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (number, width) = bits(address);
        let prefix = prefix.unwrap_or(width);
        // Bits behind the prefix are more likely a mistake than a wish.
        let is_clean = prefix <= width && leading(number, prefix) == number;
        is_clean.then_some(Self { network: Some((address, prefix)), port })
    }
}

impl FromStr for SenderRule {
    type Err = ParseSenderError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text.trim()).ok_or_else(|| ParseSenderError { text: text.to_owned() })
    }
}

impl fmt::Display for SenderRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, self.port) {
            (None, _) => f.write_str("*")?,
            (Some((address, prefix)), port) => {
                let brackets = address.is_ipv6() && port.is_some();
                let (open, close) = if brackets { ("[", "]") } else { ("", "") };
                if prefix == bits(address).1 {
                    write!(f, "{open}{address}{close}")?;
                } else {
                    write!(f, "{open}{address}/{prefix}{close}")?;
                }
            }
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl<'de> Deserialize<'de> for SenderRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for SenderRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for SenderRule {
    fn schema_name() -> Cow<'static, str> {
        "SenderRule".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["10.73.0.0/16:17476", "10.73.139.16", "*"] })
    }
}

/// The senders that are listened to.
#[derive(Clone, Debug)]
pub(crate) struct AllowList {
    /// Empty for everybody.
    rules: Box<[SenderRule]>,
    /// The last sender judged, as messages of one sender tend to come together.
    last: Option<(SocketAddr, bool)>,
}

impl AllowList {
    pub(crate) fn new(rules: &[SenderRule]) -> Self {
        Self { rules: rules.into(), last: None }
    }

    /// Whether everybody is listened to, so that senders need not be asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a message of this sender may be used.
    #[inline]
    pub(crate) fn allows(&mut self, sender: Option<SocketAddr>) -> bool {
        if self.is_open() {
            return true;
        }
        let Some(sender) = sender else { return false };
        match self.last {
            Some((last, allowed)) if last == sender => allowed,
            _ => {
                let allowed = self.rules.iter().any(|rule| rule.matches(&sender));
                self.last = Some((sender, allowed));
                allowed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(rule: &str, sender: &str) -> bool {
        rule.parse::<SenderRule>().unwrap().matches(&sender.parse().unwrap())
    }

    #[test]
    fn networks_and_ports_are_matched() {
        assert!(matches("10.73.0.0/16", "10.73.255.1:5"));
        assert!(!matches("10.73.0.0/16", "10.74.0.1:5"));
        assert!(matches("10.73.139.16:17476", "10.73.139.16:17476"));
        assert!(!matches("10.73.139.16:17476", "10.73.139.16:17477"));
        assert!(!matches("10.73.139.16", "10.73.139.17:1"));
        assert!(matches("*:7", "[fd00::1]:7") && matches("*", "1.2.3.4:5"));
        assert!(matches("[fd00::/8]:7", "[fdff::1]:7") && !matches("fd00::/8", "[fe00::1]:7"));
        assert!(matches("0.0.0.0/0", "255.1.2.3:4") && !matches("0.0.0.0/0", "[fd00::1]:4"));
    }

    #[test]
    fn an_ipv4_sender_of_an_ipv6_socket_counts_as_ipv4() {
        assert!(matches("10.0.0.1", "[::ffff:10.0.0.1]:5"));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "10.0.0.1/33", "10.0.0.1/8", "host", "10.0.0.1:70000", "[::1", "::1]:5"] {
            let error = text.parse::<SenderRule>().unwrap_err().to_string();
            assert!(error.contains("10.73.0.0/16:17476"), "{text}: {error}");
        }
    }

    #[test]
    fn the_list_allows_what_any_rule_allows() {
        let mut open = AllowList::new(&[]);
        assert!(open.is_open() && open.allows(None));
        let rules = ["10.0.0.1".parse().unwrap(), "*:7".parse().unwrap()];
        let mut list = AllowList::new(&rules);
        let sender = |text: &str| Some(text.parse().unwrap());
        for _ in 0..2 {
            assert!(list.allows(sender("10.0.0.1:1")) && list.allows(sender("9.9.9.9:7")));
            assert!(!list.allows(sender("9.9.9.9:8")) && !list.allows(None));
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(v6: bool, raw: u128, prefix in 0u8..=128, port: Option<u16>) {
            let (address, prefix) = if v6 {
                (IpAddr::V6(leading(raw, prefix).into()), prefix)
            } else {
                let prefix = prefix.min(32);
                (IpAddr::V4(((leading(raw, prefix) >> 96) as u32).into()), prefix)
            };
            let rule = SenderRule { network: Some((address, prefix)), port };
            prop_assert_eq!(rule.to_string().parse(), Ok(rule));
        }
    }
}
