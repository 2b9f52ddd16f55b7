//! What only trying tells: a socket is opened as a run would open it, and asked what it got.
//!
//! The socket is on the loopback address, is never started, and so refuses every datagram.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use gannet_ingest::udp::{self, UdpConfig};
use gannet_ingest::{Facts, Landing, Source};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::Bytes;

use super::{Check, Needs, Verdict};

/// Bytes of a frame; what a socket is given does not depend on it.
const MESSAGE_LEN: usize = 1472;
/// What a source writes before the reason of a refusal.
const COALESCING: &str = "coalescing (UDP_GRO): ";

pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    match open(needs) {
        Ok(facts) => judge(&facts),
        Err(error) => {
            let check = Check::new("UDP socket", error, Verdict::Bad, "frames come by UDP");
            vec![check.fixed_by("# run outside the sandbox or firewall that forbids sockets")]
        }
    }
}

/// Opens a socket with all that may be asked for, and returns what it was given.
fn open(needs: &Needs) -> Result<Facts, gannet_ingest::Error> {
    let config = UdpConfig {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        kernel_buffer: Bytes(needs.kernel_buffer.max(1)),
        ..UdpConfig::default()
    };
    let landing = Landing { lengths: MESSAGE_LEN..=MESSAGE_LEN, cells: 1 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let sources = udp::open(&config, landing, &clock)?;
    let facts = sources.first().map(|source| source.landed().facts().clone());
    facts.ok_or(gannet_ingest::Error::NoAddress)
}

fn judge(facts: &Facts) -> Vec<Check> {
    vec![obtained_buffer(facts), coalescing(facts)]
}

fn obtained_buffer(facts: &Facts) -> Check {
    let asked = facts.kernel_buffer.map_or(0, |buffer| buffer.asked);
    let obtained = facts.kernel_buffer.map(|buffer| buffer.obtained);
    let reason = "what a socket really gets, by the limit and the rights together";
    Check::bytes("socket buffer as tried", obtained, asked, Verdict::Slow, reason)
        .fixed_by(format!("sudo sysctl -w net.core.rmem_max={asked}"))
}

fn coalescing(facts: &Facts) -> Check {
    let refusal = refusal(facts, COALESCING);
    let verdict = if refusal.is_none() { Verdict::Ok } else { Verdict::Slow };
    let reason = "many datagrams come by one system call (UDP_GRO)";
    Check::new("coalesced receiving", outcome(refusal), verdict, reason)
        .fixed_by("# run on Linux 5.0 or later")
}

fn refusal<'a>(facts: &'a Facts, what: &str) -> Option<&'a str> {
    facts.refusals.iter().find_map(|refusal| refusal.strip_prefix(what))
}

fn outcome(refusal: Option<&str>) -> String {
    refusal.map_or_else(|| "works".into(), |cause| format!("refused: {cause}"))
}

#[cfg(test)]
mod tests {
    use gannet_ingest::KernelBuffer;

    use super::*;

    #[test]
    fn every_refusal_of_the_source_is_told_or_has_its_own_check() {
        let facts = open(&Needs::default()).unwrap();
        let checks = judge(&facts);
        let told = checks.iter().filter(|check| check.value.starts_with("refused: ")).count();
        // The counter before the queue is told by the right that it needs.
        let expected = facts.refusals.iter().filter(|refusal| !refusal.contains("BPF")).count();
        assert_eq!(told, expected, "{facts:?}");
    }

    #[test]
    fn less_buffer_than_asked_for_is_slow() {
        let mut facts = open(&Needs::default()).unwrap();
        facts.kernel_buffer = Some(KernelBuffer { asked: 64 << 20, obtained: 208 << 10 });
        let check = obtained_buffer(&facts);
        assert_eq!((check.verdict, &check.value[..]), (Verdict::Slow, "208 KiB, 64 MiB wanted"));
        assert_eq!(check.remedy, "sudo sysctl -w net.core.rmem_max=67108864");
    }

    #[test]
    fn refused_coalescing_is_slow() {
        let mut facts = open(&Needs::default()).unwrap();
        facts.refusals = vec!["coalescing (UDP_GRO): no".into()];
        assert_eq!(coalescing(&facts).verdict, Verdict::Slow);
    }
}
