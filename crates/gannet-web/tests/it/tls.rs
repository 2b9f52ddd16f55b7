//! What is served by TLS: to whom, and that the handshake keeps the limits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::Tokens;
use gannet_control::figures::Figures;
use gannet_control::snapshot::Snapshot;
use gannet_web::limits::{CONNECTIONS_MAX, NEWCOMERS_SHARE, REQUEST_TIME};
use gannet_web::{Access, Content, Listener, Server, Tls};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream, version};

const SECRET: &str = "0123456789abcdef";

/// A server for `localhost`, and a client's way to know it.
struct Secured {
    server: Server,
    client: Arc<ClientConfig>,
}

impl Secured {
    fn start() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
        let tls = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap();
        let tokens = Tokens::parse(SECRET).unwrap();
        let access = Access::Session { tokens, loopback: true, secure: true };
        let listener = Listener::open("127.0.0.1:0".parse().unwrap(), access).unwrap();
        let figures = Arc::new(Figures::new(Arc::new(Snapshot::default)));
        let server = listener.secured(tls).serve(figures, Content::Pages).unwrap();
        Self { server, client: trusting(cert.der()) }
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client
    }

    /// The answer to `line`, or why there is none.
    fn ask(&self, config: &Arc<ClientConfig>, line: &str) -> std::io::Result<String> {
        let mut socket = self.connect();
        let mut session =
            ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
        let mut stream = Stream::new(&mut session, &mut socket);
        let port = self.address().port();
        let request =
            format!("{line} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn trusting(certificate: &CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

#[test]
fn who_knows_the_certificate_is_served_in_secret_with_a_cookie_for_nothing_else() {
    let secured = Secured::start();
    let refused = secured.ask(&secured.client, "GET /").unwrap();
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let entered = secured.ask(&secured.client, &format!("GET /?token={SECRET}")).unwrap();
    assert!(entered.starts_with("HTTP/1.1 303 "), "{entered}");
    let cookie = entered.lines().find(|line| line.starts_with("set-cookie: ")).unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    let stranger = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    assert!(secured.ask(&trusting(stranger.cert.der()), "GET /").is_err());
    // Nothing is said in the clear.
    let mut plain = secured.connect();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _closed = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn who_does_not_agree_in_time_loses_its_place() {
    let secured = Secured::start();
    let begin = Instant::now();
    let count = CONNECTIONS_MAX - CONNECTIONS_MAX / NEWCOMERS_SHARE;
    let mut idle: Vec<_> = (0..count).map(|_| secured.connect()).collect();
    // Who is one too many is told nothing in the clear.
    let mut answer = Vec::new();
    let _closed = secured.connect().read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    // The beginning of a hello that says it is long, and no more of it.
    idle.iter_mut().step_by(2).for_each(|client| client.write_all(&[22, 3, 1, 2, 0, 1]).unwrap());
    for client in &mut idle {
        let _closed = client.read_to_end(&mut Vec::new());
    }
    assert!(begin.elapsed() >= REQUEST_TIME, "{:?}", begin.elapsed());
    while secured.ask(&secured.client, "GET /").is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "their places are not given again");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_no_certificate_or_key_is_told() {
    let one = generate_simple_self_signed(["a".to_owned()]).unwrap();
    let other = generate_simple_self_signed(["b".to_owned()]).unwrap();
    let (certificate, key) = (one.cert.pem(), one.signing_key.serialize_pem());
    let wrong = |certificate: &str, key: &str| {
        Tls::new(certificate.as_bytes(), key.as_bytes()).map(drop).unwrap_err()
    };
    assert!(wrong("", &key).contains("no certificate"));
    assert!(wrong(&certificate, "").contains("the key is no PEM"));
    assert!(wrong(&certificate, &certificate).contains("the key is no PEM"));
    let unlike = wrong(&certificate, &other.signing_key.serialize_pem());
    assert!(unlike.contains("do not fit"), "{unlike}");
}
