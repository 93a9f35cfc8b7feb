//! Listeners: HTTP, HTTPS, and the administrator's Unix sockets: one in the data folder, and one
//! that the configuration names. `accept.rs` accepts connections for any protocol, in `places.rs`
//! are the places for them; `connection.rs` has HTTP, `records.rs` the Redis protocol.

mod accept;
mod announced;
mod connection;
mod date;
mod given;
mod places;
mod records;
mod sending;
mod unix;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use door_records::Door;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, ListenAddress};
use crate::descriptors;
use crate::error::ServerError;
use crate::live::Live;
use crate::proxies::Proxies;
use crate::tls::{self, Identity};

use accept::{Acceptor, Listener, Port, local_address};
use connection::Http;
pub(crate) use given::Given;
use given::{HTTP, RECORDS, REDIRECT, TLS};
use records::Resp;

/// The name of the administrator's socket in the data folder. Any process that may open it is the
/// administrator.
pub const SOCKET_NAME: &str = "penates.sock";

/// The mode of the administrator's socket that the configuration names.
const ADMIN_MODE: u32 = 0o600;

/// The addresses of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Plain HTTP over TCP.
    pub http: Option<SocketAddr>,
    /// The Unix socket of plain HTTP.
    pub http_socket: Option<PathBuf>,
    /// Where HTTP is redirected to HTTPS.
    pub redirect: Option<SocketAddr>,
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
    /// The administrator's socket that the configuration names.
    pub admin_socket: Option<PathBuf>,
}

/// The routes of each way in.
pub(crate) struct Ways {
    /// Plain HTTP.
    pub(crate) network: Router,
    /// HTTPS.
    pub(crate) encrypted: Router,
    /// Where HTTP is redirected.
    pub(crate) redirecting: Router,
    /// The administrator's sockets.
    pub(crate) admin: Router,
}

/// Bound listeners that do not accept yet.
pub(crate) struct Listeners {
    http: Option<Listener>,
    tls: Option<(TcpListener, TlsAcceptor)>,
    redirect: Option<TcpListener>,
    socket: Option<UnixListener>,
    admin: Option<UnixListener>,
    records: Option<(TcpListener, Option<TlsAcceptor>)>,
    /// Whether connections begin with the PROXY protocol.
    announced: Announced,
    addresses: Addresses,
    connections: Option<usize>,
    live: Arc<Live>,
    proxies: Arc<Proxies>,
}

/// At which ports connections begin with the PROXY protocol.
#[derive(Clone, Copy)]
struct Announced {
    tls: bool,
    records: bool,
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
        let is_announced = config.listen.http_proxy_protocol;
        let over_tcp =
            |listener: TcpListener| (local_address(&listener), Listener::Tcp(Port { listener, is_announced }));
        // Before the others: none of them may take its path, which gives all rights.
        let (socket, socket_path) = match folder {
            Some(folder) => {
                let path = folder.join(SOCKET_NAME);
                let socket = unix::bind_private(folder, &path)
                    .map_err(|source| ServerError::Bind { address: path.display().to_string(), source })?;
                (Some(socket), Some(path))
            }
            // Any process may open the store itself.
            None => (None, None),
        };
        let admin_socket = match &config.listen.admin {
            Some(ListenAddress::Unix(path)) => Some(path.clone()),
            Some(ListenAddress::Tcp(_)) | None => None,
        };
        let admin = admin_socket.as_deref().map(|path| bind_unix(path, ADMIN_MODE)).transpose()?;
        let mut http_socket = None;
        let (http_address, http) = match (http_given, &config.listen.http) {
            (Some(given), _) => Some(over_tcp(given)),
            (None, Some(ListenAddress::Tcp(address))) => Some(over_tcp(bind_tcp(*address)?)),
            (None, Some(ListenAddress::Unix(path))) => {
                let listener = bind_unix(path, config.listen.http_mode)?;
                http_socket = Some(path.clone());
                Some((None, Listener::Unix(listener)))
            }
            (None, None) => None,
        }
        .unzip();
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
        let redirect = match (given.take(REDIRECT)?, config.listen.redirect) {
            (Some(_), _) if tls.is_none() => {
                let why = "there is no HTTPS to redirect to: give a socket `tls` too, or set listen.tls";
                return Err(given::refused(REDIRECT, io::Error::new(io::ErrorKind::InvalidInput, why)));
            }
            (Some(given), _) => Some(given),
            (None, address) => address.map(bind_tcp).transpose()?,
        };
        let addresses = Addresses {
            http: http_address.flatten(),
            http_socket,
            redirect: redirect.as_ref().and_then(local_address),
            tls: tls.as_ref().and_then(|(listener, _)| local_address(listener)),
            records: records.as_ref().and_then(|(listener, _)| local_address(listener)),
            records_tls: records.as_ref().is_some_and(|(_, tls)| tls.is_some()),
            tls_cert,
            socket: socket_path,
            admin_socket,
        };
        let (connections, proxies) = (config.limits.connections, Arc::new(config.proxies()?));
        let announced = Announced { tls: config.listen.tls_proxy_protocol, records: config.records.proxy_protocol };
        Ok(Self { http, tls, redirect, socket, admin, records, announced, addresses, connections, live, proxies })
    }

    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Accepts until `shutdown`. Then it stops accepting, lets responses end within the limits, and
    /// cuts the rest.
    pub(crate) async fn serve(self, ways: Ways, door: Option<Arc<Door>>, shutdown: impl Future<Output = ()>) {
        let Self { http, tls, redirect, socket, admin, records, announced, addresses, connections, live, proxies } =
            self;
        let Ways { network, encrypted, redirecting, admin: of_admin } = ways;
        // Each kind has places of its own, so that neither of them takes those of the other.
        let connections = descriptors::connections(connections, 1 + usize::from(records.is_some()));
        let [acceptor, of_records] = [(); 2].map(|()| Acceptor::new(connections, live.clone(), proxies.clone()));
        let over = Http::new(live.clone(), proxies);
        let port = |listener| Port { listener, is_announced: announced.tls };
        let accepting = async {
            tokio::join!(
                acceptor.accept(http, over.with(network)),
                acceptor.accept(tls.map(|(tcp, tls)| Listener::Tls(port(tcp), tls)), over.encrypted_with(encrypted)),
                acceptor.accept(redirect.map(|tcp| Listener::Tcp(port(tcp))), over.with(redirecting)),
                acceptor.accept(socket.map(Listener::Private), over.with(of_admin.clone())),
                acceptor.accept(admin.map(Listener::Private), over.with(of_admin)),
                async {
                    match door {
                        Some(door) => {
                            let listener = records.map(|(listener, tls)| {
                                let port = Port { listener, is_announced: announced.records };
                                match tls {
                                    Some(tls) => Listener::Tls(port, tls),
                                    None => Listener::Tcp(port),
                                }
                            });
                            of_records.accept(listener, Resp(door)).await;
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
        let time = live.limits().shutdown_time;
        tokio::join!(acceptor.end(time), of_records.end(time));
        if let Some(Err(error)) = addresses.socket.map(fs::remove_file) {
            tracing::debug!(%error, "the socket was gone already");
        }
        for path in [addresses.http_socket, addresses.admin_socket].into_iter().flatten() {
            if let Err(error) = unix::remove_dead(&path) {
                tracing::warn!(%error, path = %path.display(), "the socket could not be removed");
            }
        }
    }
}

/// Connections that may wait to be accepted. Thousands of clients may connect at once, after a
/// failure of the network or a restart. One that does not fit tries again after a second. The system
/// may allow fewer (`net.core.somaxconn`).
const WAITING_MAX: u32 = 4_096;

fn bind_unix(path: &Path, mode: u32) -> Result<UnixListener, ServerError> {
    unix::bind_shared(path, mode).map_err(|source| ServerError::Bind { address: path.display().to_string(), source })
}

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

#[cfg(test)]
mod tests;
