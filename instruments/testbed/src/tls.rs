//! TLS on connections to a candidate: whom they trust, and how they begin.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::plan::{Http, PlanError, invalid};

/// TLS, as the author of a plan or a candidate describes it. Without it connections trust the
/// authorities that the system trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSpec {
    /// A file with certificates (PEM) to trust instead: of an authority, or of the server itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Trust any certificate. The record says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// Whom connections trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// Whom the system trusts.
    #[default]
    System,
    /// These certificates (PEM), which a file of this name had.
    Certificates {
        /// The file.
        name: String,
        /// Its content.
        pem: String,
    },
    /// Anybody.
    Anybody,
}

impl TlsSpec {
    /// Whether it says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the file. `path` is where it is.
    ///
    /// # Errors
    /// It cannot be read, has no certificate, or something else contradicts it.
    pub(crate) fn trust(&self, place: &str, path: impl FnOnce(&str) -> std::path::PathBuf) -> Result<Trust, PlanError> {
        match &self.ca {
            Some(_) if self.insecure => Err(invalid(format!("{place}: insecure"), "either `ca` or `insecure`")),
            Some(name) => {
                let refuse = |message: String| invalid(format!("{place}: ca"), format!("{name}: {message}"));
                let pem = read(&path(name)).map_err(|error| refuse(error.to_string()))?;
                roots(&pem).map_err(refuse)?;
                Ok(Trust::Certificates { name: name.clone(), pem })
            }
            None if self.insecure => Ok(Trust::Anybody),
            None => Ok(Trust::System),
        }
    }
}

/// The most bytes of a file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(CERTIFICATES_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(roots) }
}

impl Trust {
    /// For the record.
    pub fn fact(&self) -> String {
        match self {
            Self::System => "the certificate is checked by what the system trusts".to_owned(),
            Self::Certificates { name, pem } => {
                let sha256 = hex::encode(Sha256::digest(pem));
                format!("the certificate is checked by {name} (SHA-256 {sha256})")
            }
            Self::Anybody => "the certificate is not checked".to_owned(),
        }
    }
}

/// How connections to one server begin with TLS. It negotiates one version of HTTP by ALPN.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl Tls {
    /// TLS with a server.
    ///
    /// # Errors
    /// The trusted certificates cannot be read.
    pub fn new(trust: &Trust, server: ServerName<'static>, version: Http) -> io::Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = match trust {
            Trust::System => builder.with_native_roots()?.with_no_client_auth(),
            Trust::Certificates { pem, .. } => {
                builder.with_root_certificates(roots(pem).map_err(io::Error::other)?).with_no_client_auth()
            }
            Trust::Anybody => {
                let verifier = Arc::new(NoCheck(provider));
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![
            match version {
                Http::One => b"http/1.1".as_slice(),
                Http::Two => b"h2".as_slice(),
            }
            .to_vec(),
        ];
        // Users are different clients: none goes on where another has begun.
        config.resumption = Resumption::disabled();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server })
    }

    /// Begins TLS on a connection.
    ///
    /// # Errors
    /// The server does not speak it, does not agree on the version of HTTP, or is not trusted.
    pub async fn begin(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.server.clone(), stream).await
    }
}

/// What was negotiated, for the record.
pub fn negotiated(stream: &TlsStream<TcpStream>) -> String {
    let session = stream.get_ref().1;
    let version = session.protocol_version().and_then(|version| version.as_str()).unwrap_or("TLS");
    let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or("unknown suite");
    format!("{version}, {suite}")
}

/// Why TLS has not begun, by kind.
pub fn failure(error: &io::Error) -> Option<&'static str> {
    Some(match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(_) => "TLS: certificate not trusted",
        rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => "TLS: another version of HTTP",
        _ => "TLS",
    })
}

/// Trusts every certificate, if the server has its key.
#[derive(Debug)]
struct NoCheck(Arc<CryptoProvider>);

impl ServerCertVerifier for NoCheck {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
