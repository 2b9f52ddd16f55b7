//! libfabric where it is, and where it is not.

use std::ffi::OsStr;

use gannet_fabric::ofi::provider::{ChooseError, Wanted, choose, providers};
use gannet_fabric::ofi::{Library, LibraryError};
use gannet_measure::testing::skipped;

/// The library, if it is here.
pub fn library(what: &str) -> Option<Library> {
    Library::open().inspect_err(|error| skipped(what, error)).ok()
}

#[test]
fn without_the_library_it_is_said_what_is_missing() {
    let name = "/nowhere/libfabric.so.1";
    let error = Library::open_named(OsStr::new(name)).unwrap_err();
    assert!(matches!(&error, LibraryError::Open { name: it, .. } if it == name), "{error}");
    let text = error.to_string();
    assert!(text.contains(name) && text.contains("libfabric1"), "{text}");
    let error = Library::open_named(OsStr::new("a\0b")).unwrap_err();
    assert!(matches!(error, LibraryError::Open { .. }), "{error}");
}

#[test]
fn what_is_another_library_is_refused() {
    let error = Library::open_named(OsStr::new("libc.so.6")).unwrap_err();
    assert!(matches!(error, LibraryError::Symbol { symbol: "fi_version", .. }), "{error}");
}

#[test]
fn providers_are_found_by_name_and_refused_with_a_reason() {
    let Some(library) = library("providers of libfabric") else { return };
    assert!(library.version() >= (1, 17) && library.path().is_file(), "{library:?}");
    let found = providers(&library).unwrap();
    let choice = |name: Option<&str>| {
        let provider = name.map(str::to_owned);
        choose(&library, &Wanted { provider, ..Wanted::default() }, true)
    };
    for provider in &found {
        match (choice(Some(&provider.name)), provider.lack) {
            (Ok(choice), None) => assert_eq!(choice.info.provider(), provider.name),
            // Not every provider tells when bytes are placed.
            (Err(ChooseError::Address { name, .. }), None) => assert_eq!(name, provider.name),
            (Err(ChooseError::Unfit { lack, .. }), Some(expected)) => assert_eq!(lack, expected),
            // 1.17 has another provider for what `tcp` is meant to be.
            (Ok(choice), Some(_)) if provider.name == "tcp" => {
                assert_eq!(choice.info.provider(), "net");
            }
            (other, _) => panic!("{provider:?}: {other:?}"),
        }
    }
    let tcp = choice(Some("tcp")).unwrap();
    assert!(["tcp", "net"].contains(&&*tcp.info.provider()), "{tcp}");
    assert!(tcp.to_string().ends_with(", as named"), "{tcp}");
    let first = choice(None).unwrap();
    assert_ne!(first.info.provider(), "shm", "it reaches one host only: {first}");
    let error = choice(Some("gannet")).unwrap_err();
    let expected = ChooseError::Unknown { name: "gannet".to_owned(), found };
    assert_eq!(error, expected);
}
