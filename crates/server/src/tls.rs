//! TLS: the certificate, configured or made for loopback, and the settings of rustls with ring,
//! HTTP/2 and HTTP/1.1 by ALPN (RFC 7301). Client certificates are not requested, so a client that
//! has one does no harm.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::ListenConfig;
use crate::error::ServerError;

/// The names in a self-made certificate.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The TLS settings, and the file of the certificate, if it is in one.
pub(crate) type Identity = (Arc<ServerConfig>, Option<PathBuf>);

/// The configured certificate; otherwise the one in the data folder, which is made if it is
/// missing; otherwise one made for this run.
pub(crate) fn identity(listen: &ListenConfig, folder: Option<&Path>) -> Result<Identity, ServerError> {
    let pair = match (&listen.tls_cert, &listen.tls_key, folder) {
        (Some(cert), Some(key), _) => KeyPair { cert: cert.clone(), key: key.clone() },
        (_, _, Some(folder)) => KeyPair::in_folder(&folder.join("tls"))?,
        (_, _, None) => return Ok((made_for_this_run()?, None)),
    };
    Ok((pair.server_config()?, Some(pair.cert)))
}

fn made_for_this_run() -> Result<Arc<ServerConfig>, ServerError> {
    let made = self_signed()?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    server_config(vec![made.cert.der().clone()], key, "the certificate made for this run")
}

fn self_signed() -> Result<rcgen::CertifiedKey<rcgen::KeyPair>, ServerError> {
    rcgen::generate_simple_self_signed(LOOPBACK_NAMES.map(str::to_owned))
        .map_err(|error| ServerError::Tls(format!("making a certificate: {error}")))
}

fn server_config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    what: &str,
) -> Result<Arc<ServerConfig>, ServerError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| ServerError::Tls(format!("{what}: {error}")))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPair {
    cert: PathBuf,
    key: PathBuf,
}

impl KeyPair {
    /// The pair in a folder, which is made if it is missing.
    fn in_folder(folder: &Path) -> Result<Self, ServerError> {
        let pair = Self { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
        if !pair.cert.exists() || !pair.key.exists() {
            pair.make(folder)?;
        }
        Ok(pair)
    }

    /// The TLS settings with this pair.
    fn server_config(&self) -> Result<Arc<ServerConfig>, ServerError> {
        let certificates: Vec<_> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|error| ServerError::file("reading the TLS certificate", &self.cert, error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| ServerError::file("reading the TLS key", &self.key, error))?;
        server_config(certificates, key, &self.cert.display().to_string())
    }

    /// Makes a pair for loopback. The certificate is written last, so that a crash leaves no pair
    /// that does not match.
    fn make(&self, folder: &Path) -> Result<(), ServerError> {
        let made = self_signed()?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| ServerError::file("making the folder", folder, error))?;
        if self.cert.exists() {
            fs::remove_file(&self.cert).map_err(|error| ServerError::file("removing", &self.cert, error))?;
        }
        write_private(&self.key, &made.signing_key.serialize_pem())?;
        write_private(&self.cert, &made.cert.pem())
    }
}

/// Writes a file that only its owner may read, whole or not at all.
fn write_private(path: &Path, text: &str) -> Result<(), ServerError> {
    let unfinished = path.with_extension("unfinished");
    fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| ServerError::file("writing", path, error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn identity_in(folder: &Path) -> Result<Identity, ServerError> {
        identity(&ListenConfig::default(), Some(folder))
    }

    #[test]
    fn a_self_made_certificate_is_kept_and_its_key_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let cert = identity_in(folder.path()).unwrap().1.unwrap();
        let first = fs::read(&cert).unwrap();
        assert_eq!(fs::metadata(cert.with_file_name("key.pem")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(identity_in(folder.path()).unwrap().1.unwrap()).unwrap(), first);
    }

    #[test]
    fn half_a_pair_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let cert = identity_in(folder.path()).unwrap().1.unwrap();
        fs::remove_file(cert.with_file_name("key.pem")).unwrap();
        identity_in(folder.path()).unwrap();
    }

    #[test]
    fn without_a_data_folder_a_certificate_is_made_but_no_file() {
        assert_eq!(identity(&ListenConfig::default(), None).unwrap().1, None);
    }

    #[test]
    fn a_given_certificate_that_cannot_be_read_is_named() {
        let file = |name| Some(PathBuf::from("/nowhere").join(name));
        let listen = ListenConfig { tls_cert: file("cert.pem"), tls_key: file("key.pem"), ..ListenConfig::default() };
        let message = identity(&listen, None).unwrap_err().to_string();
        assert!(message.contains("/nowhere/cert.pem"), "{message}");
    }
}
