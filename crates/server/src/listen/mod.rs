//! Listeners: HTTP, HTTPS, and the administrator's Unix socket in the data folder.

mod connection;
mod sending;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::config::{self, Config};
use crate::descriptors;
use crate::error::ServerError;
use crate::tls;

use connection::Connections;
pub(crate) use connection::Peer;

/// The name of the administrator's socket in the data folder. Any process that may open it is the
/// administrator.
pub const SOCKET_NAME: &str = "penates.sock";

/// The pause after the operating system could not accept a connection because a resource is
/// exhausted (such as descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The addresses of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Plain HTTP.
    pub http: Option<SocketAddr>,
    /// HTTPS.
    pub tls: Option<SocketAddr>,
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
    addresses: Addresses,
    connections: Connections,
}

impl Listeners {
    /// Binds all of them or none. This process must hold `folder`, the data folder, if there is
    /// one: an old socket in it is replaced.
    pub(crate) async fn bind(config: &Config, folder: Option<&Path>) -> Result<Self, ServerError> {
        let http = match config.listen.http {
            Some(address) => Some(bind_tcp(address).await?),
            None => None,
        };
        let (mut tls, mut tls_cert) = (None, None);
        if let Some(address) = config.listen.tls {
            let (spoken, shown) = tls::identity(&config.listen, folder)?;
            tls = Some((bind_tcp(address).await?, TlsAcceptor::from(spoken)));
            tls_cert = shown;
        }
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
            http: local_address(http.as_ref()),
            tls: local_address(tls.as_ref().map(|(listener, _)| listener)),
            tls_cert,
            socket: socket_path,
        };
        Ok(Self { http, tls, socket, addresses, connections: Connections::new(config.limits.clone()) })
    }

    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Accepts until `shutdown`. Then it stops accepting, lets responses end within the limits, and
    /// cuts the rest.
    pub(crate) async fn serve(self, network: Router, admin: Router, shutdown: impl Future<Output = ()>) {
        let Self { http, tls, socket, addresses, connections } = self;
        let places = Arc::new(Semaphore::new(descriptors::connections(connections.limits().connections)));
        let tasks = TaskTracker::new();
        let accepting = async {
            tokio::join!(
                accept_http(http, &connections, &places, &tasks, &network),
                accept_tls(tls, &connections, &places, &tasks, &network),
                accept_socket(socket, &connections, &tasks, &admin),
            )
        };
        tokio::select! {
            _ = accepting => {}
            () = shutdown => {}
        }
        // The listeners are closed now, since the future that owned them is gone.
        connections.stop.cancel();
        tasks.close();
        if tokio::time::timeout(connections.limits().shutdown_time, tasks.wait()).await.is_err() {
            tracing::warn!(connections = tasks.len(), "cutting connections that have not ended in time");
            connections.cut.cancel();
            tasks.wait().await;
        }
        if let Some(Err(error)) = addresses.socket.map(fs::remove_file) {
            tracing::debug!(%error, "the socket was gone already");
        }
    }
}

/// Accepts first and then takes a permit: a listener that held a permit while waiting would keep it
/// from the other listener.
async fn accept_http(
    listener: Option<TcpListener>,
    connections: &Connections,
    places: &Arc<Semaphore>,
    tasks: &TaskTracker,
    router: &Router,
) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        let Some((stream, peer)) = accept_tcp(&listener).await else { continue };
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (connections, router) = (connections.clone(), router.clone());
        tasks.spawn(async move {
            connections.serve(stream, Some(peer), router).await;
            drop(place);
        });
    }
}

async fn accept_tls(
    listener: Option<(TcpListener, TlsAcceptor)>,
    connections: &Connections,
    places: &Arc<Semaphore>,
    tasks: &TaskTracker,
    router: &Router,
) {
    let Some((listener, acceptor)) = listener else { return std::future::pending().await };
    let router = router.clone().layer(axum::Extension(door_ldp::Encrypted));
    loop {
        let Some((stream, peer)) = accept_tcp(&listener).await else { continue };
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (connections, router, acceptor) = (connections.clone(), router.clone(), acceptor.clone());
        tasks.spawn(async move {
            let handshake = tokio::time::timeout(connections.limits().header_time, acceptor.accept(stream));
            let handshake = tokio::select! {
                handshake = handshake => handshake,
                () = connections.stop.cancelled() => return,
            };
            match handshake {
                Ok(Ok(stream)) => connections.serve(stream, Some(peer), router).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
            drop(place);
        });
    }
}

/// The administrator has no limit: a full server must still be reachable.
async fn accept_socket(
    listener: Option<UnixListener>,
    connections: &Connections,
    tasks: &TaskTracker,
    router: &Router,
) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                accept_failed(&error).await;
                continue;
            }
        };
        let (connections, router) = (connections.clone(), router.clone());
        tasks.spawn(async move { connections.serve(stream, None, router).await });
    }
}

async fn accept_tcp(listener: &TcpListener) -> Option<(TcpStream, Peer)> {
    let on_loopback = local_address(Some(listener)).is_some_and(config::is_loopback);
    match listener.accept().await {
        Ok((stream, address)) => {
            // A page is small and should not wait for more data.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY was refused");
            }
            Some((stream, Peer { address: address.ip().to_canonical(), on_loopback }))
        }
        Err(error) => {
            accept_failed(&error).await;
            None
        }
    }
}

/// A client that left before it was accepted is no error. Exhausted descriptors need a pause, or
/// the loop would use all of a core.
async fn accept_failed(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "accepting a connection failed");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError::Bind { address: address.to_string(), source })
}

fn local_address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
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
