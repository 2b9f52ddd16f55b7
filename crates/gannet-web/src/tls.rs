//! TLS, by which addresses that others reach are served.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};
use tokio_rustls::server::TlsStream;

use crate::limits::REQUEST_TIME;

/// A certificate with its key, by which clients know who serves.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// The `certificates`, that of this server first and then those it rests on, with the `key` of the first; each as
    /// PEM.
    ///
    /// # Errors
    /// What is wrong with them, in a sentence.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| format!("the certificate is no PEM: {error}"))?;
        if chain.is_empty() {
            return Err("there is no certificate in the file".into());
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("the key is no PEM of a private key: {error}"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| format!("certificate and key do not fit: {error}"))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Agrees with a client on how to go on.
    ///
    /// # Errors
    /// When it sends something else, or takes too long for it.
    pub(crate) async fn accept<I>(&self, io: I) -> io::Result<TlsStream<I>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        timeout(REQUEST_TIME, self.0.accept(io)).await?
    }
}
