//! Connects to a broker: its name is resolved for each connection, only addresses that are allowed
//! are connected to, and TLS is checked against the roots of the system or of the operator.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::broker::{Address, Connection, SendError, Settings};
use door_http::trust;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;

use crate::delivery::Allowed;
use crate::network::Network;

/// The setting that allows networks.
pub(crate) const SETTING: &str = "feed.bridges_networks";

/// How often a broker and a server show each other that they are there.
pub(super) const HEART_BEAT: Duration = Duration::from_secs(15);

/// How a broker is connected to.
pub(super) struct Dialling {
    pub(super) address: Address,
    allowed: Allowed,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialling {
    /// Reads the certificates of the operator, or of the system. Returns what is wrong.
    pub(super) fn new(address: Address, networks: Arc<[Network]>, ca_file: Option<&Path>) -> Result<Self, String> {
        let allowed = allowed(&address, networks)?;
        let tls = address.tls.then(|| connector(&address, ca_file)).transpose()?;
        Ok(Self { address, allowed, tls })
    }

    /// Connects and logs in.
    pub(super) async fn connect(&self, settings: Settings) -> Result<Connection, SendError> {
        let stream = self.allowed.connect(&self.address.host, self.address.port).await?;
        match &self.tls {
            None => Connection::open(stream, settings).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await?;
                Connection::open(stream, settings).await
            }
        }
    }
}

/// Where a broker may be. Returns what is wrong with an address that is no name.
pub(crate) fn allowed(address: &Address, networks: Arc<[Network]>) -> Result<Allowed, String> {
    let allowed = Allowed { networks, public: address.tls, setting: SETTING };
    let ip: Option<IpAddr> = address.host.parse().ok();
    match ip.is_none_or(|ip| allowed.allows(ip)) {
        true => Ok(allowed),
        false if address.tls => Err(format!("`url` has an address that is not public: allow its network by {SETTING}")),
        false => Err(format!("`url` has no TLS: that is only for networks that {SETTING} names")),
    }
}

fn connector(address: &Address, ca_file: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = ServerName::try_from(address.host.clone())
        .map_err(|_| format!("`url` has a host that no certificate can name: {}", address.host))?;
    let config = trust::trusting(roots(ca_file)?).map_err(|error| error.to_string())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// The certificates that a broker's must come from: those of a file (PEM), or of the system. Returns
/// what is wrong.
pub(crate) fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let Some(file) = ca_file else {
        return trust::system_roots().map_err(|error| format!("{error}; name others by `ca_file`"));
    };
    let wrong = |error: String| format!("`ca_file` {} cannot be read: {error}", file.display());
    let found: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in found {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is no certificate in it (PEM)".to_owned())),
        false => Ok(roots),
    }
}
