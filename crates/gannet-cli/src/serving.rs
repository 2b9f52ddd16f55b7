//! A run on the network: joins it to the HTTP servers.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use gannet_control::config::{Plan, Token};
use gannet_control::notes::Notes;
use gannet_control::station::Station;
use gannet_ingest::interface_addresses;
use gannet_web::{Access, Commands, Content, Listener, Server, Tls};

use crate::display::LiveDisplay;
use crate::exit::Usage;
use crate::log;
use crate::verb::verify::verdict;

/// Address of pages that nobody has named another one for.
pub const PAGES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Addresses for other machines that are told.
const ADDRESSES_MAX: usize = 4;

/// Takes the addresses that arguments name, in the place of those of the configuration: of the metrics, and of the
/// pages, if these are asked for.
///
/// # Errors
/// When the configuration does not allow what an address lets others do.
pub fn take_addresses(
    plan: &mut Plan,
    metrics: Option<SocketAddr>,
    pages: Option<Option<SocketAddr>>,
) -> Result<(), Usage> {
    let settings = &mut plan.settings;
    if let Some(address) = metrics {
        let is_closed = settings.metrics.token_file.is_some() || settings.metrics.plain;
        if !is_closed && !is_loopback(&address) {
            return Err(Usage(format!(
                "--metrics {address}: whoever reaches it could read the run; set `token_file`, or \
                 `plain = true` to allow it, in [metrics]"
            )));
        }
        settings.metrics.listen = Some(address);
    }
    if let Some(address) = pages {
        let address = address.or(settings.web.listen).unwrap_or(PAGES);
        let is_closed = settings.web.plain || settings.web.tls.is_some();
        if !is_closed && !is_loopback(&address) {
            return Err(Usage(format!(
                "--web={address}: who listens on the way could read the token; set `tls`, or \
                 `plain = true` to allow it, in [web]"
            )));
        }
        settings.web.listen = Some(address);
    }
    Ok(())
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Addresses that can be asked where `listened` is listened at: the first from this machine, the others, if all addresses
/// of the machine are, from elsewhere.
fn reachable(listened: SocketAddr) -> Vec<SocketAddr> {
    let loopback: IpAddr = match listened.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        _ => return vec![listened],
    };
    let others = interface_addresses().into_iter().map(|(_, address)| address).filter(|address| {
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !address.is_loopback() && !is_link_local && (address.is_ipv4() || listened.is_ipv6())
    });
    let all = iter::once(loopback).chain(others.take(ADDRESSES_MAX));
    all.map(|address| SocketAddr::new(address, listened.port())).collect()
}

/// What the pages are served by, if not in the clear.
///
/// # Errors
/// When the files that `plan`, read from `file`, names cannot be used.
pub fn secured(plan: &Plan, file: &str) -> anyhow::Result<Option<Tls>> {
    let Some((certificates, key)) = plan.web_tls(file)? else { return Ok(None) };
    let tls = Tls::new(certificates.as_bytes(), key.as_bytes());
    tls.map(Some).map_err(|wrong| plan.problem(file, "web.tls", wrong).into())
}

/// The addresses at which a run is to be seen, listened on.
pub struct Listeners {
    metrics: Option<Listener>,
    pages: Option<Pages>,
    control: bool,
    /// Where notes are written, if anything is.
    notes: Option<Notes>,
}

/// The address of the pages, how it is spoken to, and the token that is told with it.
struct Pages {
    scheme: &'static str,
    listener: Listener,
    token: Token,
}

/// A run that can be seen, until this is dropped.
pub struct Serving {
    _metrics: Option<Server>,
    pages: Option<Server>,
}

impl Listeners {
    /// Whether commands are taken from browsers and programs.
    pub fn control(&self) -> bool {
        self.control && self.pages.is_some()
    }

    /// The addresses that `plan`, read from `file`, asks for.
    pub fn open(plan: &Plan, file: &str) -> anyhow::Result<Self> {
        let (metrics, web) = (&plan.settings.metrics, &plan.settings.web);
        let metrics = metrics.listen.map(|address| {
            let access = match plan.metrics_token(file)? {
                Some(token) => Access::Token(token),
                None if is_loopback(&address) => Access::Loopback,
                None => Access::Anybody,
            };
            anyhow::Ok(Listener::open(address, access)?)
        });
        let pages = web.listen.map(|address| {
            let tokens = plan.web_tokens(file)?;
            let (token, loopback) = (tokens.highest().clone(), is_loopback(&address));
            let tls = secured(plan, file)?;
            let access = Access::Session { tokens, loopback, secure: tls.is_some() };
            let listener = Listener::open(address, access)?.admitting(web.clients_max);
            anyhow::Ok(Pages {
                scheme: if tls.is_some() { "https" } else { "http" },
                listener: tls.into_iter().fold(listener, Listener::secured),
                token,
            })
        });
        let control = web.control.unwrap_or(false);
        let recorder = &plan.settings.recorder;
        let notes = recorder.enabled.then(|| Notes::of(&recorder.directory));
        Ok(Self { metrics: metrics.transpose()?, pages: pages.transpose()?, control, notes })
    }

    /// Lets the runs of `station` be seen, and commanded if the configuration allows it, and says where.
    pub fn serve(
        self,
        station: &Arc<Station>,
        display: &mut LiveDisplay,
    ) -> anyhow::Result<Serving> {
        let commands = Commands {
            station: Some(Arc::clone(station)),
            verifier: Some(verdict),
            notes: self.notes,
            allowed: self.control,
        };
        let present = station.present();
        let metrics = self.metrics.map(|listener| {
            let addresses = reachable(listener.address());
            display.note(&format!("metrics: http://{}/metrics", addresses[0]));
            listener.serve(present.clone(), Content::Metrics)
        });
        let pages = self.pages.map(|Pages { scheme, listener, token }| {
            let (mut addresses, token) = (reachable(listener.address()), token.as_str());
            let here = addresses.remove(0);
            let mut text = format!("see it in a browser: {scheme}://{here}/?token={token}");
            for there in addresses {
                text += &format!("\nfrom other machines: {scheme}://{there}/?token={token}");
            }
            // Without it nobody can see the run, whatever else is to be quiet.
            match display {
                LiveDisplay::Silent => log::say(text),
                _ => display.note(&text),
            }
            let listener = listener.taking(commands).showing(&log::TAIL);
            listener.serve(present.clone(), Content::Pages)
        });
        Ok(Serving { _metrics: metrics.transpose()?, pages: pages.transpose()? })
    }
}

impl Serving {
    /// Whether a browser looks on.
    pub fn is_looked_at(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.onlookers() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_told_that_cannot_be_asked() {
        let named: SocketAddr = "192.0.2.7:80".parse().unwrap();
        assert_eq!(reachable(named), [named]);
        for (all, here) in [("0.0.0.0:81", "127.0.0.1:81"), ("[::]:81", "[::1]:81")] {
            let told = reachable(all.parse().unwrap());
            assert_eq!(told[0], here.parse().unwrap());
            let is_open = |it: &SocketAddr| !it.ip().is_unspecified() && !it.ip().is_loopback();
            assert!(told.len() <= 1 + ADDRESSES_MAX && told[1..].iter().all(is_open), "{told:?}");
        }
    }
}
