//! Accepts connections, and serves a protocol on each. Whatever the protocol: connections are
//! counted, TLS is spoken where the listener speaks it, and all connections end when the server
//! stops.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::announced::{self, Rest};
use super::places::Places;
use crate::config;
use crate::live::Live;
use crate::peer::Peer;
use crate::proxies::Proxies;

/// The pause after the operating system could not accept a connection because a resource is
/// exhausted (such as descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is spoken on connections.
pub(super) trait Protocol: Clone + Send + Sync + 'static {
    /// Serves a connection until it ends, or as `drain` says. `peer` is `None` for the
    /// administrator. How long a client may be silent or stall is the protocol's to bound.
    fn serve<I>(self, io: I, peer: Option<Peer>, drain: Drain) -> impl Future<Output = ()> + Send
    where
        I: AsyncRead + AsyncWrite + Send + 'static;

    /// The same protocol on a connection of a user of this machine, where that matters.
    fn with_user(self, _uid: Option<u32>) -> Self {
        self
    }
}

/// How connections end when the server stops.
#[derive(Clone, Debug, Default)]
pub(super) struct Drain {
    /// Cancelled to let what is under way end, and begin nothing new.
    pub(super) stop: CancellationToken,
    /// Cancelled to end at once.
    pub(super) cut: CancellationToken,
}

/// A source of connections.
pub(super) enum Listener {
    /// Plain TCP.
    Tcp(Port),
    /// TLS over TCP.
    Tls(Port, TlsAcceptor),
    /// A Unix socket for proxies on this machine.
    Unix(UnixListener),
    /// The administrator's socket. It has no limit: a full server must still be reachable.
    Private(UnixListener),
}

/// A port of TCP.
pub(super) struct Port {
    pub(super) listener: TcpListener,
    /// Whether connections begin with the PROXY protocol.
    pub(super) is_announced: bool,
}

/// A connection, perhaps one whose beginning was read.
type Begun = Either<TcpStream, Rest>;

/// The address of those that connect to a Unix socket: they are on this machine.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What listeners share.
pub(super) struct Acceptor {
    /// Places for connections over the network.
    places: Places,
    tasks: TaskTracker,
    drain: Drain,
    /// Has the longest time for a TLS handshake.
    live: Arc<Live>,
    proxies: Arc<Proxies>,
}

impl Acceptor {
    /// Serves at most so many connections over the network at once. Further ones wait, and those of an
    /// address that has too many of them are closed.
    pub(super) fn new(connections: usize, live: Arc<Live>, proxies: Arc<Proxies>) -> Self {
        let places = Places::new(connections);
        Self { places, tasks: TaskTracker::new(), drain: Drain::default(), live, proxies }
    }

    /// Serves `protocol` on each connection of `listener`, until this is dropped; `None`: on none.
    pub(super) async fn accept(&self, listener: Option<Listener>, protocol: impl Protocol) {
        match listener {
            Some(Listener::Tcp(port)) => self.accept_tcp(&port, protocol).await,
            Some(Listener::Tls(port, tls)) => self.accept_tls(&port, tls, protocol).await,
            Some(Listener::Unix(listener)) => self.accept_unix(&listener, protocol).await,
            Some(Listener::Private(listener)) => self.accept_private(&listener, protocol).await,
            None => std::future::pending().await,
        }
    }

    /// Lets connections end within `time`, and then cuts the rest.
    pub(super) async fn end(&self, time: Duration) {
        self.drain.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(time, self.tasks.wait()).await.is_err() {
            tracing::warn!(connections = self.tasks.len(), "cutting connections that have not ended in time");
            self.drain.cut.cancel();
            self.tasks.wait().await;
        }
    }

    /// Accepts first and then takes a place: a listener that held a place while waiting would keep it
    /// from the other listener.
    async fn accept_tcp(&self, port: &Port, protocol: impl Protocol) {
        loop {
            let Some((stream, peer)) = self.next_tcp(&port.listener).await else { continue };
            let Some(place) = self.places.take(&peer).await else { continue };
            let (protocol, drain, began) = (protocol.clone(), self.drain.clone(), self.begin(port, stream, peer));
            self.tasks.spawn(async move {
                if let Some((stream, peer)) = began.await
                    && let Some(_place) = place.for_client(&peer)
                {
                    protocol.serve(stream, Some(peer), drain).await;
                }
            });
        }
    }

    async fn accept_tls(&self, port: &Port, tls: TlsAcceptor, protocol: impl Protocol) {
        loop {
            let Some((stream, peer)) = self.next_tcp(&port.listener).await else { continue };
            let Some(place) = self.places.take(&peer).await else { continue };
            let (protocol, drain, tls) = (protocol.clone(), self.drain.clone(), tls.clone());
            let handshake_time = self.live.limits().header_time;
            let began = self.begin(port, stream, peer);
            self.tasks.spawn(async move {
                let Some((stream, peer)) = began.await else { return };
                let Some(_place) = place.for_client(&peer) else { return };
                let handshake = tokio::time::timeout(handshake_time, tls.accept(stream));
                let handshake = tokio::select! {
                    handshake = handshake => handshake,
                    () = drain.stop.cancelled() => return,
                };
                match handshake {
                    Ok(Ok(stream)) => protocol.serve(stream, Some(peer), drain).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            });
        }
    }

    /// Reads for whom a proxy connects, if a port is announced; `None`: the connection is given up.
    fn begin(
        &self,
        port: &Port,
        stream: TcpStream,
        peer: Peer,
    ) -> impl Future<Output = Option<(Begun, Peer)>> + Send + use<> {
        let (is_announced, drain, proxies) = (port.is_announced, self.drain.clone(), self.proxies.clone());
        let time_max = self.live.limits().header_time;
        async move {
            if !is_announced {
                return Some((Either::Left(stream), peer));
            }
            if !peer.is_proxy {
                tracing::debug!(address = %peer.address, "refused: only trusted proxies may connect to this port");
                return None;
            }
            let announced = tokio::select! {
                announced = tokio::time::timeout(time_max, announced::read(stream)) => announced,
                () = drain.stop.cancelled() => return None,
            };
            match announced {
                Ok(Ok((rest, client))) => {
                    let address = client.unwrap_or(peer.address);
                    // What follows is a client's if the proxy does not know its address.
                    let is_proxy = client.is_some_and(|client| proxies.trust(client));
                    let port = if client.is_some() { 0 } else { peer.port };
                    let peer = Peer { address, port, is_proxy, ..peer };
                    Some((Either::Right(rest), peer))
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a connection did not begin with the PROXY protocol");
                    None
                }
                Err(_) => {
                    tracing::debug!("the header of the PROXY protocol took too long");
                    None
                }
            }
        }
    }

    async fn accept_unix(&self, listener: &UnixListener, protocol: impl Protocol) {
        let is_proxy = self.proxies.trust_sockets();
        let peer = Peer { address: LOCAL, port: 0, local: None, on_loopback: false, is_proxy };
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    accept_failed(&error).await;
                    continue;
                }
            };
            let Some(place) = self.places.take(&peer).await else { continue };
            let (protocol, drain) = (protocol.clone(), self.drain.clone());
            self.tasks.spawn(async move {
                protocol.serve(stream, Some(peer), drain).await;
                drop(place);
            });
        }
    }

    async fn accept_private(&self, listener: &UnixListener, protocol: impl Protocol) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let uid = stream.peer_cred().ok().map(|peer| peer.uid());
                    let protocol = protocol.clone().with_user(uid);
                    self.tasks.spawn(protocol.serve(stream, None, self.drain.clone()));
                }
                Err(error) => accept_failed(&error).await,
            }
        }
    }

    async fn next_tcp(&self, listener: &TcpListener) -> Option<(TcpStream, Peer)> {
        let on_loopback = local_address(listener).is_some_and(config::is_loopback);
        match listener.accept().await {
            Ok((stream, address)) => {
                // A page is small and should not wait for more data.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY was refused");
                }
                let (address, port) = (address.ip().to_canonical(), address.port());
                let (local, is_proxy) = (stream.local_addr().ok(), self.proxies.trust(address));
                Some((stream, Peer { address, port, local, on_loopback, is_proxy }))
            }
            Err(error) => {
                accept_failed(&error).await;
                None
            }
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

impl From<TcpListener> for Port {
    fn from(listener: TcpListener) -> Self {
        Self { listener, is_announced: false }
    }
}

/// The address of a listener; `None` if the operating system does not say.
pub(super) fn local_address(listener: &TcpListener) -> Option<SocketAddr> {
    listener.local_addr().ok()
}
