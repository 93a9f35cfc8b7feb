//! Whom a server trusts when it connects to others over TLS: to webhooks, brokers and collectors, and
//! to servers of content stored elsewhere.

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use thiserror::Error;

/// The system has no certificate of an authority that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the certificates that the system trusts cannot be read (Debian package ca-certificates): {0}")]
pub struct NoRoots(String);

/// The certificates that the system trusts. It reads files.
pub fn system_roots() -> Result<RootCertStore, NoRoots> {
    roots_of(rustls_native_certs::load_native_certs())
}

fn roots_of(found: CertificateResult) -> Result<RootCertStore, NoRoots> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let error = found.errors.first().map_or_else(|| io::ErrorKind::NotFound.to_string(), ToString::to_string);
    Err(NoRoots(error))
}

/// TLS for connections to servers whose certificates must come from one of `roots`.
pub fn trusting(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// The same for those that the system trusts. A small image has no certificates, and without TLS
/// none is needed: they are read only if a connection `is_encrypted`.
///
/// Errors: they cannot be read.
pub fn client_config(is_encrypted: bool) -> io::Result<ClientConfig> {
    let roots = match is_encrypted {
        true => system_roots().map_err(io::Error::other)?,
        false => RootCertStore::empty(),
    };
    trusting(roots).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    #[test]
    fn a_system_without_certificates_is_reported_with_the_package_that_has_them() {
        for found in [
            CertificateResult::default(),
            rustls_native_certs::load_certs_from_paths(Some(Path::new("/nowhere/ca.pem")), None),
        ] {
            let refused = roots_of(found).unwrap_err().to_string();
            assert!(refused.contains("Debian package ca-certificates"), "{refused}");
        }
        let named = rustls_native_certs::load_certs_from_paths(Some(Path::new("/nowhere/ca.pem")), None);
        let refused = roots_of(named).unwrap_err().to_string();
        assert!(refused.contains("/nowhere/ca.pem"), "{refused}");
    }

    #[test]
    fn without_tls_no_certificates_are_read() {
        client_config(false).unwrap();
    }
}
