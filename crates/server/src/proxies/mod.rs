//! Proxies between clients and this server. What a trusted proxy says about the client counts;
//! what anybody else says does not.
//!
//! A proxy passes on the fields that it does not know. So a server reads only the kind of fields
//! that its proxies write: a client could send the other kind.

mod fields;
mod forwarded;

use std::net::IpAddr;

use http::HeaderMap;
use http::uri::Authority;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::HttpConfig;
use crate::hosts;
use crate::network::{InvalidNetwork, Network};
use crate::peer::Peer;

use fields::{Hop, Said};

/// The entry that means every connection to a Unix socket.
const UNIX: &str = "unix";

/// The fields by which proxies say for whom they ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The proxies that a server trusts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    networks: Vec<Network>,
    trusts_sockets: bool,
    fields: ProxyFields,
}

/// What a proxy says about the client of a request; `None`: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) address: Option<IpAddr>,
    /// Whether the client's own connection is encrypted.
    pub(crate) encrypted: Option<bool>,
    /// The host that the client asked for.
    pub(crate) host: Option<Authority>,
}

/// Why what a trusted proxy says cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the proxy's field {field} {what}")]
pub(crate) struct Malformed {
    field: &'static str,
    what: String,
}

impl Proxies {
    /// Those of a configuration.
    pub(crate) fn of(config: &HttpConfig) -> Result<Self, InvalidNetwork> {
        let networks = config.trusted_proxies.iter().filter(|entry| *entry != UNIX);
        Ok(Self {
            networks: networks.map(|network| network.parse()).collect::<Result<_, _>>()?,
            trusts_sockets: config.trusted_proxies.iter().any(|entry| entry == UNIX),
            fields: config.proxy_fields,
        })
    }

    /// Whether there are any that connect from an address.
    pub(crate) fn have_addresses(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Whether an address is that of a proxy.
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Whether those that connect to a Unix socket are proxies.
    pub(crate) fn trust_sockets(&self) -> bool {
        self.trusts_sockets
    }

    /// What a request says about its client, if it comes from a proxy.
    pub(crate) fn client(&self, peer: Peer, headers: &HeaderMap) -> Result<Client, Malformed> {
        if !peer.is_proxy {
            return Ok(Client::default());
        }
        let said = fields::read(self.fields, headers)?;
        let (address, at) = self.client_of(&said.hops)?;
        let Said { encrypted, host, .. } = said.seen_at(at)?;
        Ok(Client { address, encrypted, host })
    }

    /// The client's address, and the place of the last hop that was looked at.
    ///
    /// Each proxy adds the address that it got the request from at the end. So the client is the
    /// last address that is no proxy: everything before it, the client may have written. If a proxy
    /// hides the address, what is known is the proxy.
    fn client_of(&self, hops: &[Hop]) -> Result<(Option<IpAddr>, Option<usize>), Malformed> {
        let (mut known, mut place) = (None, None);
        for (at, hop) in hops.iter().enumerate().rev() {
            place = Some(at);
            match hop.address()? {
                None => break,
                Some(address) => known = Some(address),
            }
            if known.is_some_and(|address| !self.trust(address)) {
                break;
            }
        }
        Ok((known, place))
    }
}

impl Malformed {
    fn new(field: &'static str, what: impl Into<String>) -> Self {
        Self { field, what: what.into() }
    }
}

/// A host as a field names it.
fn host(field: &'static str, text: &str) -> Result<Authority, Malformed> {
    hosts::authority(text).ok_or_else(|| Malformed::new(field, "names no host"))
}

/// Whether a scheme is the encrypted one.
fn is_encrypted(field: &'static str, scheme: &str) -> Result<bool, Malformed> {
    match () {
        () if scheme.eq_ignore_ascii_case("https") => Ok(true),
        () if scheme.eq_ignore_ascii_case("http") => Ok(false),
        () => Err(Malformed::new(field, "names a scheme other than http and https")),
    }
}

#[cfg(test)]
mod tests;
