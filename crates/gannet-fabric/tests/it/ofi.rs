//! libfabric where it is, and where it is not.

use std::ffi::OsStr;
use std::thread;

use gannet_fabric::ofi::provider::{ChooseError, Wanted, choose, providers};
use gannet_fabric::ofi::{Library, LibraryError, Ofi};
use gannet_fabric::tcp::{Joins, Listener};
use gannet_fabric::{Level, Peer};
use gannet_measure::testing::skipped;

use crate::conformance::{Clock, Pair, SUITE};
use crate::shm::patient;
use crate::udp::secret;

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
        choose(&library, &Wanted { provider, ..Wanted::default() })
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

/// An endpoint over a provider that can be used here.
pub fn endpoint(library: &Library, provider: &str, level: Level) -> Ofi {
    let wanted = Wanted { provider: Some(provider.to_owned()), ..Wanted::default() };
    Ofi::new(choose(library, &wanted).unwrap(), level, patient())
}

/// Two endpoints of this process.
fn joined(library: &Library, provider: &'static str, level: Level) -> ((Ofi, Peer), (Ofi, Peer)) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let there = library.clone();
    let far = thread::spawn(move || {
        let mut far = endpoint(&there, provider, level);
        let peer = far.accept(&listener, &secret()).unwrap();
        (far, peer)
    });
    let mut near = endpoint(library, provider, level);
    let peer = near.connect(address, &secret()).unwrap();
    ((near, peer), far.join().unwrap())
}

fn conforms(provider: &'static str, level: Level) {
    let Some(library) = library(&format!("the suite over {provider} of libfabric")) else { return };
    for (name, test) in SUITE {
        println!("{name}");
        let ((near, far_peer), (far, near_peer)) = joined(&library, provider, level);
        test(Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer), Clock::real()));
    }
}

#[test]
fn conforms_over_tcp() {
    conforms("tcp", Level::Placed);
}

#[test]
fn conforms_over_tcp_when_done_is_sent() {
    conforms("tcp", Level::Sent);
}

#[test]
fn conforms_over_shared_memory() {
    // With 2.x endpoints of one process cannot be joined.
    if let Some(version) =
        Library::open().ok().map(|library| library.version()).filter(|it| it.0 > 1)
    {
        let why =
            format!("shm of {}.{} fails between endpoints of one process", version.0, version.1);
        return skipped("the suite over shm of libfabric", &why);
    }
    conforms("shm", Level::Placed);
}
