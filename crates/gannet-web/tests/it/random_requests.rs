//! Requests put together at random: a stand-in for the fuzzer that runs wherever the tests run.

use std::sync::Arc;

use gannet_control::figures::Figures;
use gannet_control::snapshot::Snapshot;
use gannet_measure::random::Random;
use gannet_web::{Access, Content, Site};

/// What requests are made of.
const PARTS: [&[u8]; 30] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"CONNECT ",
    b"OPTIONS *",
    b"/",
    b"/metrics",
    b"/snapshot.json",
    b"/%00..;?#",
    b"http://localhost/metrics",
    b"localhost:80",
    b" HTTP/1.1",
    b" HTTP/1.0",
    b" HTTP/9.9",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"Host: localhost\r\n",
    b"Host: evil.example\r\n",
    b"Host: \xff[::1\r\n",
    b"Content-Length: 7\r\n",
    b"Content-Length: 99999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"Accept: application/openmetrics-text;q=;q=nan,,\r\n",
    b"Authorization: Bearer\r\n",
    b"ffffffffffffffff\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

/// Parts in any order, or a whole request, then some bytes too many.
fn request(random: &mut Random) -> Vec<u8> {
    let mut request = match random.below(4) {
        0 => PARTS[29].to_vec(),
        1 => [PARTS[0], PARTS[6], PARTS[11], PARTS[15], PARTS[18]].concat(),
        _ => Vec::new(),
    };
    for _ in 0..random.below(12) {
        request.extend_from_slice(PARTS[random.below(PARTS.len() as u64) as usize]);
    }
    for _ in 0..random.below(4) {
        let place = random.below(request.len() as u64 + 1) as usize;
        request.insert(place, random.below(256) as u8);
    }
    request
}

#[test]
fn random_requests_are_answered_or_refused() {
    let long = std::env::var_os("GANNET_LONG").is_some();
    let site = || {
        Site::new(
            Arc::new(Figures::new(Arc::new(Snapshot::default))),
            Access::Loopback,
            Content::Pages,
        )
    };
    let (mut random, mut answered) = (Random::new(29), 0);
    for _ in 0..if long { 1_000_000 } else { 5_000 } {
        let request = request(&mut random);
        // A new site each time: the answers of one are paced.
        let answer = site().answer(&request);
        let shown = || (String::from_utf8_lossy(&request), String::from_utf8_lossy(&answer));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{:?}", shown());
        assert!(!answer.starts_with(b"HTTP/1.1 5"), "{:?}", shown());
        answered += u64::from(answer.starts_with(b"HTTP/1.1 200"));
    }
    assert!(answered > 100, "{answered} were good");
}
