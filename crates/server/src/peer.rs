//! The other end of a connection, or the client for whom a proxy asks.

use std::net::{IpAddr, SocketAddr};

/// Where a request over a network comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The port there; 0 if it is not known.
    pub(crate) port: u16,
    /// The address that it came to, if it is one of TCP.
    pub(crate) local: Option<SocketAddr>,
    /// Whether it came to a listener that only this machine can reach.
    pub(crate) on_loopback: bool,
    /// Whether it is a proxy, which may say for whom it asks.
    pub(crate) is_proxy: bool,
}
