//! Whether frames can be taken from network cards by AF_XDP.

use gannet_ingest::xdp::possible;

use super::rights::give_rights;
use super::{Check, Needs, Verdict};

/// Whether this process may, and whether each card that is asked for is there. What a driver can do
/// shows only when it is asked, which may interrupt what others receive.
pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    let mut checks = vec![rights(needs, possible())];
    for xdp in &needs.xdp {
        if let Err(error) = xdp.card() {
            let name = format!("card of {}", xdp.listen);
            let check = Check::new(name, error, Verdict::Bad, "a source with `xdp` has a card");
            checks.push(check.fixed_by("# change `xdp` in the configuration"));
        }
    }
    checks
}

/// `possible` is whether this process may receive so.
fn rights(needs: &Needs, possible: Result<(), gannet_ingest::Error>) -> Check {
    let (value, verdict) = match possible {
        Ok(()) => ("works".to_owned(), Verdict::Ok),
        Err(_) if needs.xdp.is_empty() => ("no, and not needed".to_owned(), Verdict::Ok),
        Err(error) => (error.to_string(), Verdict::Bad),
    };
    let reason = "a source with `xdp` takes frames from the card; zero copy is up to its driver";
    Check::new("AF_XDP", value, verdict, reason).fixed_by(give_rights(needs))
}

#[cfg(test)]
mod tests {
    use gannet_ingest::xdp::XdpConfig;

    use super::*;

    fn asking_for(listen: &str) -> Needs {
        Needs { xdp: vec![XdpConfig::new(listen.parse().unwrap())], ..Needs::default() }
    }

    #[test]
    fn missing_rights_are_bad_only_where_it_is_asked_for() {
        let refusal = || Err(gannet_ingest::Error::NoAddress);
        let asked = asking_for("10.0.0.1:7000");
        assert_eq!(rights(&asked, Ok(())).verdict, Verdict::Ok);
        let check = rights(&asked, refusal());
        assert_eq!(check.verdict, Verdict::Bad);
        assert!(check.remedy.contains("cap_net_raw"), "{check:?}");
        assert_eq!(rights(&Needs::default(), refusal()).value, "no, and not needed");
    }

    #[test]
    fn loopback_and_a_missing_card_are_bad() {
        for (listen, cause) in [("127.0.0.1:7000", "loopback"), ("203.0.113.1:7000", "203.0.113.1")]
        {
            let checks = checks(&asking_for(listen));
            let card = checks.iter().find(|check| check.name.starts_with("card of")).unwrap();
            assert_eq!(card.verdict, Verdict::Bad);
            assert!(card.value.contains(cause), "{card:?}");
        }
    }
}
