//! Options are read from TOML; what is unknown or senseless is refused with a clear message.

use std::sync::Arc;

use gannet_ingest::udp::{self, Engine, UdpConfig, UdpSinkConfig};
use gannet_ingest::{Landing, PcapConfig};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::Bytes;

fn refusal(text: &str) -> String {
    toml::from_str::<UdpConfig>(text).unwrap_err().to_string()
}

/// What `open` says about a configuration and a longest datagram.
fn opening(text: &str, longest: usize) -> String {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let landing = Landing { lengths: 16..=longest, cells: 1 };
    let config = toml::from_str(text).unwrap();
    udp::open(&config, landing, &clock).err().expect("a refusal").to_string()
}

#[test]
fn every_option_can_be_given() {
    let text = r#"
        listen = ["10.73.0.1:17477", "[::]:17478"]
        sockets = 4
        engine = "recvmmsg"
        kernel_buffer = "32 MiB"
        allow = ["10.73.0.0/16", "*:17476"]
        count_before_queue = false
    "#;
    let config: UdpConfig = toml::from_str(text).unwrap();
    assert_eq!((config.listen.len(), config.sockets, config.allow.len()), (2, 4, 2));
    assert_eq!((config.engine, config.kernel_buffer), (Engine::Recvmmsg, Bytes::mib(32)));
    let again: UdpConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
}

#[test]
fn no_option_need_be_given() {
    assert_eq!(toml::from_str::<UdpConfig>("").unwrap(), UdpConfig::default());
    assert_eq!(toml::from_str::<UdpSinkConfig>("").unwrap(), UdpSinkConfig::default());
    assert!(toml::from_str::<PcapConfig>("path = \"a.pcap\"").unwrap().ports.is_empty());
}

#[test]
fn what_is_not_known_is_refused() {
    assert!(refusal("port = 17477").contains("unknown field `port`"));
    assert!(refusal("engine = \"dpdk\"").contains("`recvmmsg`"));
    assert!(refusal("allow = [\"10.73.0.0/40\"]").contains("10.73.0.0/16:17476"));
    assert!(refusal("kernel_buffer = 4").contains("expected"));
    assert!(toml::from_str::<PcapConfig>("").is_err(), "a file must be named");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    assert!(opening("", 7200).contains("listen = ["));
    assert!(opening(&format!("{listen}sockets = 0"), 7200).contains("choose 1 to 256"));
    assert!(opening(&format!("{listen}kernel_buffer = \"2 TiB\""), 7200).contains("kernel_buffer"));
    assert!(opening(listen, 70_000).contains("longest datagram = 70000"));
    assert!(opening(listen, 1).contains("shortest datagram = 16"));
    assert!(opening("listen = [\"192.0.2.1:9\"]", 7200).contains("see `ip address`"));
}

#[test]
fn every_option_is_described_in_the_schema() {
    let schemas = [
        serde_json::to_value(schemars::schema_for!(UdpConfig)).unwrap(),
        serde_json::to_value(schemars::schema_for!(UdpSinkConfig)).unwrap(),
        serde_json::to_value(schemars::schema_for!(PcapConfig)).unwrap(),
    ];
    for schema in schemas {
        assert_eq!(schema["additionalProperties"], false);
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name} has no description");
        }
    }
}
