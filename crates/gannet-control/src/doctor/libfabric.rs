//! Whether libfabric is there, and what it offers.

use std::path::PathBuf;

use gannet_fabric::ofi::Library;
use gannet_fabric::ofi::provider::{Provider, providers};
use serde_json::json;

use super::{Check, Verdict};

/// The library as it was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    version: (u16, u16),
    path: PathBuf,
    providers: Vec<Provider>,
}

impl Found {
    /// Opens the library; if that cannot be, says why.
    pub fn look() -> Result<Self, String> {
        let library = Library::open().map_err(|error| error.to_string())?;
        let providers = providers(&library).map_err(|error| error.to_string())?;
        Ok(Self { version: library.version(), path: library.path().to_owned(), providers })
    }
}

/// Its version, its file, and which of its providers can be used.
pub(super) fn check(found: &Result<Found, String>, has_rdma: bool) -> Check {
    let reason = "RDMA cards are spoken with through it";
    let name = "libfabric";
    match found {
        Ok(Found { version: (major, minor), path, providers }) => {
            let fit = providers.iter().filter(|it| it.lack.is_none()).map(|it| &*it.name);
            let fit: Vec<&str> = fit.collect();
            let list = if fit.is_empty() { "no provider".to_owned() } else { fit.join(", ") };
            let value = format!("{major}.{minor} at {}: {list}", path.display());
            let facts = providers.iter().map(|Provider { name, lack }| {
                json!({ "name": name, "lack": lack.map(|lack| lack.to_string()) })
            });
            let facts = json!({
                "version": format!("{major}.{minor}"),
                "path": path,
                "providers": facts.collect::<Vec<_>>(),
            });
            Check { facts: Some(facts), ..Check::new(name, value, Verdict::Ok, reason) }
        }
        Err(cause) if has_rdma => Check::new(name, format!("none: {cause}"), Verdict::Slow, reason)
            .fixed_by("sudo apt install libfabric1"),
        Err(cause) => {
            let value = format!("none, and not needed without RDMA cards: {cause}");
            Check::new(name, value, Verdict::Ok, reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use gannet_fabric::ofi::Lack;

    use super::*;

    #[test]
    fn providers_that_can_be_used_are_named_and_the_others_have_their_reasons() {
        let provider = |name: &str, lack| Provider { name: name.to_owned(), lack };
        let found = Found {
            version: (1, 17),
            path: "/lib/libfabric.so.1".into(),
            providers: vec![provider("net", None), provider("tcp", Some(Lack::Endpoint))],
        };
        let check = check(&Ok(found), true);
        assert_eq!(&*check.value, "1.17 at /lib/libfabric.so.1: net");
        let facts = check.facts.unwrap();
        assert_eq!(facts["providers"][0]["lack"], serde_json::Value::Null);
        assert_eq!(facts["providers"][1]["lack"], Lack::Endpoint.to_string());
    }
}
