//! Requests put together at random: a stand-in for the fuzzer that runs wherever the tests run.

use std::sync::Arc;

use gannet_control::config::Tokens;
use gannet_control::emulation::{Breakable, Faults};
use gannet_control::figures::Figures;
use gannet_control::run::Views;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;
use gannet_measure::random::Random;
use gannet_web::{Access, Commands, Content, Site};

/// What requests are made of.
const PARTS: [&[u8]; 46] = [
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
    b"/api/v1/",
    b"state",
    b"streams?stream=",
    b"records/",
    b"waveform?channel=1&frames=",
    b"primitives?from=",
    b"log?last=",
    b"faults",
    b"openapi.json",
    b"18446744073709551615",
    b"-1e999&",
    b"Authorization: Bearer operate-012345678\r\n",
    b"Content-Type: application/json\r\nIdempotency-Key: k\r\n",
    b"{\"fault\":\"loss\",\"seconds\":",
    b"Accept: application/vnd.apache.arrow.stream;q=,\r\n",
    b"POST /api/v1/faults HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer operate-012345678\r\n\
      Content-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: 16\r\n\r\n{\"fault\":\"loss\"}",
];

/// Parts in any order, or a whole request, then some bytes too many.
fn request(random: &mut Random) -> Vec<u8> {
    let mut request = match random.below(6) {
        0 => PARTS[29].to_vec(),
        1 => [PARTS[0], PARTS[6], PARTS[11], PARTS[15], PARTS[18]].concat(),
        2 => PARTS[45].to_vec(),
        3 => {
            let call = PARTS[31 + random.below(8) as usize];
            [PARTS[0], PARTS[30], call, b"1", PARTS[11], PARTS[15], PARTS[18], PARTS[41]].concat()
        }
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
    let site = |takes_commands: bool| {
        let running = || Snapshot { state: State::Running, ..Snapshot::default() };
        let figures = Arc::new(Figures::new(Arc::new(running)));
        let tokens = Tokens::parse("operate operate-012345678").unwrap();
        let access = match takes_commands {
            true => Access::Session { tokens, loopback: true, secure: false },
            false => Access::Loopback,
        };
        let faults = Some(Arc::new(Faults::new(vec!["0".into()], Breakable::default())));
        let views = Views { faults, ..figures.into() };
        let commands = Commands { allowed: takes_commands, ..Commands::default() };
        Site::with_commands(views, access, Content::Pages, commands, None)
    };
    let (mut random, mut answered, mut carried_out) = (Random::new(29), 0, 0);
    for _ in 0..if long { 1_000_000 } else { 5_000 } {
        let request = request(&mut random);
        // A new site each time: the answers of one are paced.
        let answer = site(random.below(2) == 0).answer(&request);
        let shown = || (String::from_utf8_lossy(&request), String::from_utf8_lossy(&answer));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{:?}", shown());
        assert!(!answer.starts_with(b"HTTP/1.1 5"), "{:?}", shown());
        carried_out += u64::from(answer.starts_with(b"HTTP/1.1 201"));
        answered += u64::from(answer.starts_with(b"HTTP/1.1 200"));
    }
    assert!(answered > 100, "{answered} were good");
    assert!(carried_out > 10, "{carried_out} were carried out");
}
