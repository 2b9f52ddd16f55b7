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
            (true, _) => f.write_str(", as named")?,
            (false, []) => f.write_str(", the first that libfabric has")?,
            (false, refused) => write!(f, ", the first that can be used: {}", Refused(refused))?,
        }
        if may_hang(&self.info) {
            f.write_str("; it has a thread for each endpoint, since a process that is killed ")?;
            f.write_str("may leave it waiting for ever: the backend shm does without")?;
        }
        Ok(())
    }
}

/// Finds the provider for an endpoint.
///
/// `tcp` also finds the provider that libfabric 1.17 calls `net`, which later became `tcp`. Without a name one
/// that reaches other hosts is taken.
///
/// # Errors
/// When there is none, with the reason for each.
pub fn choose(library: &Library, wanted: &Wanted) -> Result<Choice, ChooseError> {
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
    let info = offer(library, &name, address)?;
    Ok(Choice { info, is_named: wanted.provider.is_some(), refused })
}

/// What a provider offers at an address of this side.
fn offer(library: &Library, name: &str, address: Option<IpAddr>) -> Result<Info, ChooseError> {
    let offers = library.offers(&Hints { provider: name.to_owned(), address })?;
    let info = offers.into_iter().find(|it| it.provider() == name && it.lacks().is_none());
    info.ok_or_else(|| ChooseError::Address { name: name.to_owned(), address })
}

impl Choice {
    /// What the provider offers at the address of this host by which another one is met, or, if it knows
    /// nothing of such addresses, anywhere.
    pub(super) fn met_at(&self, address: IpAddr) -> Result<Info, ChooseError> {
        let (library, name) = (self.info.library(), self.info.provider());
        let address = Some(address).filter(|_| name != ONE_HOST);
        offer(library, &name, address).or_else(|_| offer(library, &name, None))
    }
}

/// Whether a call of the provider may never return. Processes share spin locks in the memory of this one, and who is killed
/// with such a lock never gives it back. Until 1.17 there is one for all transfers; later versions, but for 2.5, still have it
/// for those that are neither very short nor long.
pub(super) fn may_hang(info: &Info) -> bool {
    info.provider() == ONE_HOST
}

/// The file in `/dev/shm` and the process of an endpoint of this host, by its name.
fn shared(name: &[u8]) -> Option<(&str, u32)> {
    // `fi_shm://`, process, and numbers behind colons: what follows the slashes is a file.
    let file = name.strip_prefix(b"fi_shm://")?;
    let file = std::str::from_utf8(file.split(|&byte| byte == 0).next()?).ok()?;
    let is_such = file.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let process = file.split(':').next().filter(|_| is_such)?;
    Some((file, process.parse().ok()?))
}

/// Whether an endpoint of this process, by its name, cannot be joined by another one: with libfabric 2.x the one that is
/// answered first crashes.
pub(super) fn is_too_near(library: &Library, name: &[u8]) -> bool {
    let is_own = shared(name).is_some_and(|(_, process)| process == std::process::id());
    is_own && library.version().0 >= 2
}

/// Name of the endpoint of another process. With it goes the memory of that endpoint which the provider could not remove, since
/// the process was killed.
#[derive(Debug)]
pub(super) struct FarName(pub Vec<u8>);

impl Drop for FarName {
    fn drop(&mut self) {
        let Some((_, process)) = shared(&self.0) else { return };
        // A process that is gone has no program any more, whether or not its parent knows.
        let program = std::fs::read_link(format!("/proc/{process}/exe"));
        if program.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            remove_memory(&self.0);
        }
    }
}

/// Removes the memory of an endpoint of this host, by its name, if it has some, for a provider that does not.
pub(super) fn remove_memory(name: &[u8]) {
    if let Some((file, _)) = shared(name) {
        let _ = std::fs::remove_file(std::path::Path::new("/dev/shm").join(file));
    }
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
