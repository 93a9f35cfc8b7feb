//! The same TLS for all servers: one certificate, one cipher suite, one client.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{self, Client};

/// The only cipher suite that the client offers, so that every server uses it.
pub const CIPHER_SUITE: &str = "TLS_AES_128_GCM_SHA256";
/// Bytes of ciphertext per receive; rustls by itself requests 4 KiB at a time.
const RECEIVE_BYTES: usize = 256 << 10;

/// A key and a certificate for `localhost`, in files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate_file: PathBuf,
    /// Its key, PEM.
    pub key_file: PathBuf,
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// Makes a pair in `folder`.
    pub fn make(folder: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let (certificate_file, key_file) = (folder.join("certificate.pem"), folder.join("key.pem"));
        fs::write(&certificate_file, made.cert.pem())?;
        fs::write(&key_file, made.signing_key.serialize_pem())?;
        Ok(Self { certificate_file, key_file, certificate: made.cert.der().clone() })
    }

    /// Connects with TLS 1.3 to a server with this identity.
    pub fn connect(&self, address: SocketAddr) -> Result<Client<StreamOwned<ClientConnection, Received>>> {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let config = config(provider, self.certificate.clone())?;
        let session = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
        Ok(Client::new(StreamOwned::new(session, Received::new(client::open(address)?))))
    }
}

fn config(provider: CryptoProvider, trusted: CertificateDer<'static>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).context("a certificate that cannot be trusted")?;
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A connection that is read in large pieces.
pub struct Received(BufReader<TcpStream>);

impl Received {
    fn new(stream: TcpStream) -> Self {
        Self(BufReader::with_capacity(RECEIVE_BYTES, stream))
    }
}

impl Read for Received {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Received {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}
