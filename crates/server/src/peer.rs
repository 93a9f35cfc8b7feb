//! The other end of a connection.

use std::net::IpAddr;

/// Where a connection over a network comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether it came to a listener that only this machine can reach.
    pub(crate) on_loopback: bool,
}
