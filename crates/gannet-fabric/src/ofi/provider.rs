//! Which provider of libfabric carries an endpoint.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;

use super::sys::{CallError, Hints, Info, Lack, Library, LibraryError};

/// The provider that reaches processes of one host only.
const ONE_HOST: &str = "shm";
/// Providers that are not used, whatever they offer.
const DEPRECATED: &str = "sockets";

/// A provider, and why it cannot be used, if so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, with those above it after semicolons.
    pub name: String,
    /// What keeps it from being used.
    pub lack: Option<Lack>,
}

/// The providers of a library, best first as it sees them.
///
/// # Errors
/// When the library refuses to tell.
pub fn providers(library: &Library) -> Result<Vec<Provider>, CallError> {
    let mut providers: Vec<Provider> = Vec::new();
    for info in library.survey()? {
        let name = info.provider();
        let lack = if name == DEPRECATED { Some(Lack::Deprecated) } else { info.lacks() };
        match providers.iter_mut().find(|provider| provider.name == name) {
            // Of several offers the one counts that can be used, or lacks least.
            Some(provider) => {
                provider.lack = match (provider.lack, lack) {
                    (Some(here), Some(there)) => Some(here.max(there)),
                    _ => None,
                }
            }
            None => providers.push(Provider { name, lack }),
        }
    }
    Ok(providers)
}

/// What an endpoint wants of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its name; the best one that can be used without one.
    pub provider: Option<String>,
    /// Address of this side, for providers that have one.
    pub address: Option<IpAddr>,
}

/// Why no provider carries an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChooseError {
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The library refuses.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is no provider of that name.
    #[error("libfabric has no provider {name} here; it has {}", Names(.found))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        found: Vec<Provider>,
    },
    /// The provider cannot be used.
    #[error("provider {name} {lack}; choose among {}", Names(.found))]
    Unfit {
        /// What was asked for.
        name: String,
        /// What keeps it from being used.
        lack: Lack,
        /// What there is.
        found: Vec<Provider>,
    },
    /// None can be used.
    #[error("no provider of libfabric can be used here: {}", Refused(.0))]
    None(Vec<Provider>),
    /// It offers nothing at that address, or not the level that is wanted.
    #[error("provider {name} offers nothing{}", At(.address))]
    Address {
        /// Its name.
        name: String,
        /// Address of this side.
        address: Option<IpAddr>,
    },
}

/// The provider that carries an endpoint, and why.
#[derive(Debug)]
pub struct Choice {
    /// What it offers.
    pub info: Info,
    /// Whether it was named.
    pub is_named: bool,
    /// Those that were refused before it was found.
    pub refused: Vec<Provider>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let library = self.info.library();
        let (major, minor) = library.version();
        write!(f, "provider {} on {}", self.info.provider(), self.info.device())?;
        write!(f, " of libfabric {major}.{minor} ({})", library.path().display())?;
        match (self.is_named, &*self.refused) {
            (true, _) => f.write_str(", as named"),
            (false, []) => f.write_str(", the first that libfabric has"),
            (false, refused) => write!(f, ", the first that can be used: {}", Refused(refused)),
        }
    }
}

/// Finds the provider for an endpoint.
///
/// `tcp` also finds the provider that libfabric 1.17 calls `net`, which later became `tcp`. Without a name one
/// that reaches other hosts is taken.
///
/// # Errors
/// When there is none, with the reason for each.
pub fn choose(library: &Library, wanted: &Wanted, is_placed: bool) -> Result<Choice, ChooseError> {
    let found = providers(library)?;
    let of = |name: &str| found.iter().find(|provider| provider.name == name);
    let (provider, refused) = match &wanted.provider {
        Some(name) => {
            let fit = |name| of(name).filter(|provider| provider.lack.is_none());
            let later = (name == "tcp").then(|| fit("net")).flatten();
            let Some(provider) = fit(name).or(later).or(of(name)) else {
                return Err(ChooseError::Unknown { name: name.clone(), found });
            };
            if let Some(lack) = provider.lack {
                return Err(ChooseError::Unfit { name: name.clone(), lack, found });
            }
            (provider, Vec::new())
        }
        None => {
            let fit = |it: &Provider| it.lack.is_none() && it.name != ONE_HOST;
            let Some(at) = found.iter().position(fit) else { return Err(ChooseError::None(found)) };
            (&found[at], found[..at].to_vec())
        }
    };
    let name = provider.name.clone();
    let address = wanted.address.filter(|_| name != ONE_HOST);
    let hints = Hints { provider: name.clone(), address, is_placed };
    let offers = library.offers(&hints)?;
    let info = offers.into_iter().find(|it| it.provider() == name && it.lacks().is_none());
    let info = info.ok_or(ChooseError::Address { name, address })?;
    Ok(Choice { info, is_named: wanted.provider.is_some(), refused })
}

/// Names of the providers that can be used.
struct Names<'p>(&'p [Provider]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fit: Vec<&str> =
            self.0.iter().filter(|it| it.lack.is_none()).map(|it| &*it.name).collect();
        f.write_str(if fit.is_empty() { "none" } else { "" })?;
        f.write_str(&fit.join(", "))
    }
}

/// Providers with what they lack.
struct Refused<'p>(&'p [Provider]);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Provider { name, lack }) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { "; " } else { "" })?;
            match lack {
                Some(lack) => write!(f, "{name} {lack}")?,
                None => write!(f, "{name} reaches this host only")?,
            }
        }
        Ok(())
    }
}

/// At which address, if one was given.
struct At<'a>(&'a Option<IpAddr>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, " at {address}; choose an address of this host"),
            None => f.write_str(" that tells when bytes are placed"),
        }
    }
}
