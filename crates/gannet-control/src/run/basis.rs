//! What a run rests on, as it may be shown: its configuration, and the machine.

use crate::config::Plan;
use crate::doctor::{Check, Needs, System, examine_running};
use crate::snapshot::Snapshot;

/// Parts of keys whose values are secrets, or may hold some, unless they are names of files.
const SECRETS: [&str; 5] = ["token", "secret", "password", "credential", "command"];
/// What stands in the place of a secret.
const WITHHELD: &str = "(withheld)";

/// What a run rests on.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Its configuration as TOML, with every default filled in and no secret.
    pub configuration: String,
    needs: Needs,
}

impl Basis {
    /// That of a run of `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self { configuration: without_secrets(&plan.filled), needs: Needs::of(plan) }
    }

    /// How the machine suits the run, as the run has used it so far. It takes some milliseconds and should not be asked
    /// for often.
    pub fn examine(&self, snapshot: &Snapshot) -> Vec<Check> {
        examine_running(&System::default(), &self.needs, snapshot)
    }
}

/// A configuration without what nobody else should know. Comments are gone already, as it was written anew.
fn without_secrets(filled: &str) -> String {
    let Ok(mut table) = toml::from_str::<toml::Table>(filled) else { return WITHHELD.to_owned() };
    table.iter_mut().for_each(|(key, value)| withhold(key, value));
    toml::to_string_pretty(&table).unwrap_or_else(|_| WITHHELD.to_owned())
}

/// Takes secrets out of the value of a key: all of it where the key says so, and of an address on the network what is
/// behind the host.
fn withhold(key: &str, value: &mut toml::Value) {
    let is_secret = SECRETS.iter().any(|part| key.contains(part)) && !key.ends_with("_file");
    match value {
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(key, value)| withhold(key, value));
        }
        toml::Value::Array(values) => values.iter_mut().for_each(|value| withhold(key, value)),
        toml::Value::String(text) if is_secret && !text.is_empty() => *text = WITHHELD.to_owned(),
        toml::Value::String(text) => {
            if let Some((scheme, rest)) = text.split_once("://") {
                let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
                *text = if host == rest {
                    text.clone()
                } else {
                    format!("{scheme}://{host}/{WITHHELD}")
                };
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_withheld_wherever_they_stand() {
        let shown = without_secrets(
            r#"
            token_file = "/etc/gannet/token"
            [web]
            token = "0123456789abcdef"
            [[alarm]]
            name = "loss"
            webhook = "https://user:word@hooks.example/services/T0/B0/k3y"
            command = ["mail", "-s", "k3y"]
            [alarm.more]
            smtp_password = "k3y"
            see = "http://host.example"
            "#,
        );
        assert!(
            !shown.contains("k3y") && !shown.contains("word@") && !shown.contains("0123"),
            "{shown}"
        );
        for kept in [
            "token_file = \"/etc/gannet/token\"",
            "https://hooks.example/(withheld)",
            "see = \"http://host.example\"",
            "name = \"loss\"",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }
}
