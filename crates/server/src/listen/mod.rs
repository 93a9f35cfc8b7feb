//! Listeners: HTTP, HTTPS, and the administrator's Unix socket in the data folder. `accept.rs`
//! accepts connections for any protocol; `connection.rs` has HTTP, the one that is served.

mod accept;
mod connection;
mod date;
mod given;
mod records;
mod sending;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use door_records::Door;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::config::Config;
use crate::descriptors;
use crate::error::ServerError;
use crate::live::Live;
use crate::tls::{self, Identity};

use accept::{Acceptor, Listener, local_address};
use connection::Http;
pub(crate) use given::Given;
use given::{HTTP, RECORDS, TLS};
use records::Resp;

/// The name of the administrator's socket in the data folder. Any process that may open it is the
/// administrator.
pub const SOCKET_NAME: &str = "penates.sock";

/// The addresses of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Plain HTTP.
    pub http: Option<SocketAddr>,
    /// HTTPS.
    pub tls: Option<SocketAddr>,
    /// The Redis protocol.
    pub records: Option<SocketAddr>,
    /// Whether the Redis protocol is spoken over TLS.
    pub records_tls: bool,
    /// The file of the HTTPS certificate.
    pub tls_cert: Option<PathBuf>,
    /// The administrator's socket, if there is a data folder.
    pub socket: Option<PathBuf>,
}

/// Bound listeners that do not accept yet.
pub(crate) struct Listeners {
    http: Option<TcpListener>,
    tls: Option<(TcpListener, TlsAcceptor)>,
    socket: Option<UnixListener>,
    records: Option<(TcpListener, Option<TlsAcceptor>)>,
    addresses: Addresses,
    connections: usize,
    live: Arc<Live>,
}

impl Listeners {
    /// Binds all of them or none, besides those that were given. This process must hold `folder`,
    /// the data folder, if there is one: an old socket in it is replaced.
    pub(crate) fn bind(
        config: &Config,
        mut given: Given,
        folder: Option<&Path>,
        live: Arc<Live>,
    ) -> Result<Self, ServerError> {
        let given_addresses = given.addresses();
        config.check_addresses(given_addresses.into_iter())?;
        let (http_given, tls_given, records_given) = (given.take(HTTP)?, given.take(TLS)?, given.take(RECORDS)?);
        let http = match (http_given, config.listen.http) {
            (Some(given), _) => Some(given),
            (None, Some(address)) => Some(bind_tcp(address)?),
            (None, None) => None,
        };
        let needs_tls = tls_given.is_some()
            || config.listen.tls.is_some()
            || (records_given.is_some() || config.records.listen.is_some()) && config.records.tls;
        let identity = if needs_tls { Some(tls::identity(&config.listen, folder)?) } else { None };
        let (acceptor, tls_cert) = match identity {
            Some(Identity { spoken, shown, served }) => {
                live.set_certificate(served);
                (Some(TlsAcceptor::from(spoken)), shown)
            }
            None => (None, None),
        };
        let records_acceptor = acceptor.clone().filter(|_| config.records.tls);
        let records = match (records_given, config.records.listen) {
            (Some(given), _) => Some((given, records_acceptor)),
            (None, Some(address)) => match bind_tcp(address) {
                Err(ServerError::Bind { source, .. })
                    if config.records.gives_way && source.kind() == io::ErrorKind::AddrInUse =>
                {
                    None
                }
                bound => Some((bound?, records_acceptor)),
            },
            (None, None) => None,
        };
        let tls = match (tls_given, config.listen.tls, acceptor) {
            (Some(given), _, Some(acceptor)) => Some((given, acceptor)),
            (None, Some(address), Some(acceptor)) => Some((bind_tcp(address)?, acceptor)),
            _ => None,
        };
        let (socket, socket_path) = match folder {
            Some(folder) => {
                let path = folder.join(SOCKET_NAME);
                let socket = bind_private_socket(folder, &path)
                    .map_err(|source| ServerError::Bind { address: path.display().to_string(), source })?;
                (Some(socket), Some(path))
            }
            // No server is needed: any process may open the store itself.
            None => (None, None),
        };
        let addresses = Addresses {
            http: http.as_ref().and_then(local_address),
            tls: tls.as_ref().and_then(|(listener, _)| local_address(listener)),
            records: records.as_ref().and_then(|(listener, _)| local_address(listener)),
            records_tls: records.as_ref().is_some_and(|(_, tls)| tls.is_some()),
            tls_cert,
            socket: socket_path,
        };
        Ok(Self { http, tls, socket, records, addresses, connections: config.limits.connections, live })
    }

    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Accepts until `shutdown`. Then it stops accepting, lets responses end within the limits, and
    /// cuts the rest.
    pub(crate) async fn serve(
        self,
        network: Router,
        admin: Router,
        door: Option<Arc<Door>>,
        shutdown: impl Future<Output = ()>,
    ) {
        let Self { http, tls, socket, records, addresses, connections, live } = self;
        let acceptor = Acceptor::new(descriptors::connections(connections), live.clone());
        let over = Http::new(live.clone());
        let encrypted = network.clone().layer(axum::Extension(door_ldp::Encrypted));
        let accepting = async {
            tokio::join!(
                acceptor.accept(http.map(Listener::Tcp), over.with(network)),
                acceptor.accept(tls.map(|(tcp, tls)| Listener::Tls(tcp, tls)), over.with(encrypted)),
                acceptor.accept(socket.map(Listener::Private), over.with(admin)),
                async {
                    match door {
                        Some(door) => {
                            let listener = records.map(|(tcp, tls)| match tls {
                                Some(tls) => Listener::Tls(tcp, tls),
                                None => Listener::Tcp(tcp),
                            });
                            acceptor.accept(listener, Resp(door)).await;
                        }
                        None => std::future::pending().await,
                    }
                },
            )
        };
        tokio::select! {
            _ = accepting => {}
            () = shutdown => {}
        }
        // The listeners are closed now, since the future that owned them is gone.
        acceptor.end(live.limits().shutdown_time).await;
        if let Some(Err(error)) = addresses.socket.map(fs::remove_file) {
            tracing::debug!(%error, "the socket was gone already");
        }
    }
}

/// Connections that may wait to be accepted. Thousands of clients may connect at once, after a
/// failure of the network or a restart. One that does not fit tries again after a second. The system
/// may allow fewer (`net.core.somaxconn`).
const WAITING_MAX: u32 = 4_096;

fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A server that starts again does not wait for the connections of the one before.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(WAITING_MAX)
    };
    bind().map_err(|source| ServerError::Bind { address: address.to_string(), source })
}

/// Binds a socket that only its owner may open, from the first moment on. It is made in a private
/// folder and moved into place, which also replaces the socket of a killed process.
fn bind_private_socket(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    // The path where it is bound is shorter than its final one, which is checked here: clients must
    // be able to connect to it.
    std::os::unix::net::SocketAddr::from_pathname(path).map_err(|_| {
        let reason = "the path is too long for a socket; name the data folder by a shorter or a relative path";
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })?;
    let private = folder.join(".sock");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&private)?;
    let fresh = private.join("s");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
    fs::rename(&fresh, path)?;
    fs::remove_dir(&private)?;
    Ok(listener)
}

#[cfg(test)]
mod tests;
