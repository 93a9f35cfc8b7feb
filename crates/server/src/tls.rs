//! TLS: the certificate, configured or made for loopback, and the settings of rustls with
//! aws-lc-rs, HTTP/2 and HTTP/1.1 by ALPN (RFC 7301). Client certificates are not requested, so a
//! client that has one does no harm.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;

use crate::config::ListenConfig;
use crate::error::ServerError;
use crate::{certificate, telemetry};

/// The names in a self-made certificate.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What a server is known by.
pub(crate) struct Identity {
    /// The TLS settings.
    pub(crate) spoken: Arc<ServerConfig>,
    /// The file of the certificate, if it is in one.
    pub(crate) shown: Option<PathBuf>,
    /// The certificate in use.
    pub(crate) served: Arc<Served>,
}

/// The certificate that new connections get. It can be replaced while others go on.
#[derive(Debug)]
pub(crate) struct Served {
    key: ArcSwap<CertifiedKey>,
    /// Where it is; `None`: it was made for this run.
    files: Mutex<Option<KeyPair>>,
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.load_full())
    }
}

impl Served {
    /// Reads the certificate again, from other files if others are configured now.
    pub(crate) fn reload(&self, listen: &ListenConfig) -> Result<(), ServerError> {
        let mut files = self.files.lock();
        let pair = KeyPair::configured(listen).or_else(|| files.clone());
        if let Some(pair) = pair {
            self.key.store(Arc::new(pair.read()?));
            *files = Some(pair);
        }
        Ok(())
    }
}

/// The configured certificate; otherwise the one in the data folder, which is made if it is
/// missing; otherwise one made for this run.
pub(crate) fn identity(listen: &ListenConfig, folder: Option<&Path>) -> Result<Identity, ServerError> {
    let pair = match (KeyPair::configured(listen), folder) {
        (Some(pair), _) => Some(pair),
        (None, Some(folder)) => Some(KeyPair::in_folder(&folder.join("tls"))?),
        (None, None) => None,
    };
    let key = pair.as_ref().map_or_else(made_for_this_run, KeyPair::read)?;
    let shown = pair.as_ref().map(|pair| pair.cert.clone());
    let served = Arc::new(Served { key: ArcSwap::from_pointee(key), files: Mutex::new(pair) });
    Ok(Identity { spoken: server_config(served.clone())?, shown, served })
}

fn made_for_this_run() -> Result<CertifiedKey, ServerError> {
    let made = self_signed()?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    CertifiedKey::from_der(vec![made.cert.der().clone()], key, &aws_lc_rs::default_provider())
        .map_err(|error| ServerError::Tls(format!("the certificate made for this run: {error}")))
}

fn self_signed() -> Result<rcgen::CertifiedKey<rcgen::KeyPair>, ServerError> {
    rcgen::generate_simple_self_signed(LOOPBACK_NAMES.map(str::to_owned))
        .map_err(|error| ServerError::Tls(format!("making a certificate: {error}")))
}

fn server_config(served: Arc<Served>) -> Result<Arc<ServerConfig>, ServerError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ServerError::Tls(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(served);
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

    /// The configured pair.
    fn configured(listen: &ListenConfig) -> Option<Self> {
        Some(Self { cert: listen.tls_cert.clone()?, key: listen.tls_key.clone()? })
    }

    /// Reads it. What is doubtful about it is logged: an expired certificate is better than none.
    fn read(&self) -> Result<CertifiedKey, ServerError> {
        let read = certificate::read(&self.cert, &self.key, Timestamp::now())?;
        for finding in &read.findings {
            tracing::warn!("{}", finding.what);
        }
        if let Some(not_after) = read.not_after {
            telemetry::record_certificate(not_after);
        }
        Ok(read.key)
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
        let cert = identity_in(folder.path()).unwrap().shown.unwrap();
        let first = fs::read(&cert).unwrap();
        assert_eq!(fs::metadata(cert.with_file_name("key.pem")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(identity_in(folder.path()).unwrap().shown.unwrap()).unwrap(), first);
    }

    #[test]
    fn half_a_pair_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let cert = identity_in(folder.path()).unwrap().shown.unwrap();
        fs::remove_file(cert.with_file_name("key.pem")).unwrap();
        identity_in(folder.path()).unwrap();
    }

    #[test]
    fn without_a_data_folder_a_certificate_is_made_but_no_file() {
        assert_eq!(identity(&ListenConfig::default(), None).unwrap().shown, None);
    }

    #[test]
    fn a_given_certificate_that_cannot_be_read_is_named() {
        let file = |name| Some(PathBuf::from("/nowhere").join(name));
        let listen = ListenConfig { tls_cert: file("cert.pem"), tls_key: file("key.pem"), ..ListenConfig::default() };
        let message = identity(&listen, None).err().unwrap().to_string();
        assert!(message.contains("/nowhere/cert.pem"), "{message}");
    }
}
