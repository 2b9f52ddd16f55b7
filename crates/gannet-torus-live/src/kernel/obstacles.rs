//! Settings of the system that would make packets vanish without a word.

use std::fs;
use std::path::Path;

/// Where the system has its settings.
const SETTINGS: &str = "/proc/sys/net/ipv4/conf";

/// What stands in the way of packets between these interfaces, each in words, with the command that mends it. Nothing is changed.
pub fn obstacles<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    at_interfaces(Path::new(SETTINGS), interfaces)
}

fn at_interfaces<'a>(
    settings: &Path,
    interfaces: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let setting = |interface: &str, what: &str| -> Option<u8> {
        let text = fs::read_to_string(settings.join(interface).join(what)).ok()?;
        text.trim().parse().ok()
    };
    let filter_of_all = setting("all", "rp_filter").unwrap_or(0);
    let mut found = Vec::new();
    for interface in interfaces {
        // As sysctl writes a dot within a name.
        let name = interface.replace('.', "/");
        if setting(interface, "forwarding") == Some(0) {
            found.push(format!(
                "{interface} does not forward packets: `sysctl -w net.ipv4.conf.{name}.forwarding=1`, or for all interfaces \
                 `sysctl -w net.ipv4.ip_forward=1`"
            ));
        }
        // The kernel takes the greater of the two.
        if setting(interface, "rp_filter").map(|own| own.max(filter_of_all)) == Some(1) {
            found.push(format!(
                "{interface} drops packets whose way back is by another interface: `sysctl -w \
                 net.ipv4.conf.{name}.rp_filter=2`"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_drop_packets_are_told_with_what_mends_them() {
        let directory = tempfile::tempdir().unwrap();
        let set = |interface: &str, what: &str, value: u8| {
            let place = directory.path().join(interface);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(what), format!("{value}\n")).unwrap();
        };
        let found = || at_interfaces(directory.path(), ["eth1.5"]).join("; ");
        set("all", "rp_filter", 0);
        set("eth1.5", "rp_filter", 0);
        set("eth1.5", "forwarding", 1);
        assert_eq!(found(), "");
        set("eth1.5", "forwarding", 0);
        assert!(found().contains("net.ipv4.conf.eth1/5.forwarding=1"), "{}", found());
        set("eth1.5", "forwarding", 1);
        // The stricter of the two counts, and a loose one of an interface outweighs it.
        set("all", "rp_filter", 1);
        assert!(found().contains("net.ipv4.conf.eth1/5.rp_filter=2"), "{}", found());
        set("eth1.5", "rp_filter", 2);
        assert_eq!(found(), "");
        // Who is not there has no settings; that is told elsewhere.
        assert!(at_interfaces(directory.path(), ["eth9"]).is_empty());
    }
}
