//! TLS to a station: whom a client takes for it, and what goes wrong with that in words.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use anyhow::Context;
use rustls::crypto::ring::default_provider;
use rustls::{CertificateError, Error, InvalidMessage};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::exit::Usage;

/// Takes whoever has one of the certificates in `file`, or one that rests on them, for the station.
///
/// # Errors
/// When there are none in the file.
pub fn trusting(file: &Path) -> anyhow::Result<TlsConfig> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let certificates = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    let certificates: Vec<_> = certificates
        .collect::<Result<_, _>>()
        .with_context(|| format!("--ca {}: this is no PEM", file.display()))?;
    if certificates.is_empty() {
        let text = format!("--ca {}: there is no certificate in the file", file.display());
        return Err(Usage(text).into());
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
        .build())
}

/// What TLS has against a station, if `error` is of TLS.
pub fn objection(error: &ureq::Error) -> Option<String> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Io(error) => inner(error)?,
        _ => return None,
    };
    Some(match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it answers without TLS; ask at http:// if it is on this machine".into()
        }
        Error::InvalidCertificate(wrong) => certificate(wrong),
        other => format!("TLS failed: {other}"),
    })
}

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// What is wrong with the certificate of a station.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate does not rest on those in the file of --ca: this may be another server, or it \
             has a new certificate since"
                .into()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority (CA:TRUE), which may sign others but not serve; make one \
             with `-addext basicConstraints=critical,CA:FALSE`"
                .into()
        }
        other => format!("its certificate cannot be trusted: {other}"),
    }
}
