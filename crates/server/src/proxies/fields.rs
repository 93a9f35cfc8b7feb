//! The fields of proxies, of either kind, as hops from the client to this server.

use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, HeaderName};

use super::forwarded::{self, Element};
use super::{Malformed, ProxyFields, host, is_encrypted};

const FORWARDED: HeaderName = http::header::FORWARDED;
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Bytes of all values of one field. Each proxy adds some 50.
const FIELD_BYTES_MAX: usize = 8 << 10;

/// A word for an address that a proxy does not know (RFC 7239, section 6.2).
const UNKNOWN: &str = "unknown";

/// What nginx writes for a client at a Unix socket.
const SOCKET: &str = "unix:";

/// Where a proxy got a request from.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    field: &'static str,
    /// The address as text; `None`: it is not said.
    node: Option<String>,
    /// What else this hop says.
    seen: Seen,
}

/// What a hop says about the request that it got.
#[derive(Clone, Debug, Default)]
struct Seen {
    proto: Option<String>,
    host: Option<String>,
}

/// What the fields of a request say.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The hops, beginning with the one that is nearest to the client.
    pub(super) hops: Vec<Hop>,
    pub(super) encrypted: Option<bool>,
    pub(super) host: Option<Authority>,
}

/// Reads the fields of a kind.
pub(super) fn read(kind: ProxyFields, headers: &HeaderMap) -> Result<Said, Malformed> {
    match kind {
        ProxyFields::XForwarded => x_forwarded(headers),
        ProxyFields::Forwarded => forwarded(headers),
    }
}

impl Said {
    /// The same with what the hop at a place says. `X-Forwarded-*` has that apart from the hops.
    pub(super) fn seen_at(mut self, place: Option<usize>) -> Result<Self, Malformed> {
        let Some(Hop { field, seen, .. }) = place.and_then(|place| self.hops.get(place)) else { return Ok(self) };
        if let Some(proto) = &seen.proto {
            self.encrypted = Some(is_encrypted(field, proto)?);
        }
        if let Some(name) = &seen.host {
            self.host = Some(host(field, name)?);
        }
        Ok(self)
    }
}

impl Hop {
    /// The address, with or without a port; `None` if a proxy hides it or does not know it.
    pub(super) fn address(&self) -> Result<Option<IpAddr>, Malformed> {
        let Some(node) = &self.node else { return Ok(None) };
        let name = node.split_once(':').map_or(node.as_str(), |(name, _port)| name);
        if name.eq_ignore_ascii_case(UNKNOWN) || name.starts_with('_') || node == SOCKET {
            return Ok(None);
        }
        match address(node) {
            Some(address) => Ok(Some(address.to_canonical())),
            None => Err(Malformed::new(self.field, "has no address where the proxy names its client")),
        }
    }
}

/// An address with or without a port, which may be a word (RFC 7239, section 6).
fn address(node: &str) -> Option<IpAddr> {
    if let Ok(address) = node.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(address) = node.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let host = node.rsplit_once(":_").map_or(node, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn x_forwarded(headers: &HeaderMap) -> Result<Said, Malformed> {
    let nodes = list(headers, &FOR, "X-Forwarded-For")?;
    let hop = |node: &str| Hop { field: "X-Forwarded-For", node: Some(node.to_owned()), seen: Seen::default() };
    // The last one is of the proxy that asks. Earlier ones may be of the client.
    let proto = list(headers, &PROTO, "X-Forwarded-Proto")?.last().copied();
    let name = list(headers, &HOST, "X-Forwarded-Host")?.last().copied();
    Ok(Said {
        hops: nodes.into_iter().map(hop).collect(),
        encrypted: proto.map(|proto| is_encrypted("X-Forwarded-Proto", proto)).transpose()?,
        host: name.map(|name| host("X-Forwarded-Host", name)).transpose()?,
    })
}

fn forwarded(headers: &HeaderMap) -> Result<Said, Malformed> {
    const FIELD: &str = "Forwarded";
    let mut hops = Vec::new();
    for line in lines(headers, &FORWARDED, FIELD)? {
        let elements = forwarded::elements(line).ok_or_else(|| Malformed::new(FIELD, "is not as RFC 7239 has it"))?;
        hops.extend(elements.into_iter().map(|Element { node, proto, host }| {
            let seen = Seen { proto, host };
            Hop { field: FIELD, node, seen }
        }));
    }
    Ok(Said { hops, ..Said::default() })
}

/// The values of a field that is a list, in order.
fn list<'h>(headers: &'h HeaderMap, name: &HeaderName, shown: &'static str) -> Result<Vec<&'h str>, Malformed> {
    let lines = lines(headers, name, shown)?;
    Ok(lines.into_iter().flat_map(|line| line.split(',')).map(str::trim).filter(|item| !item.is_empty()).collect())
}

/// The lines of a field, in order.
fn lines<'h>(headers: &'h HeaderMap, name: &HeaderName, shown: &'static str) -> Result<Vec<&'h str>, Malformed> {
    let values = headers.get_all(name);
    if values.iter().map(|value| value.len()).sum::<usize>() > FIELD_BYTES_MAX {
        return Err(Malformed::new(shown, format!("is longer than {FIELD_BYTES_MAX} bytes")));
    }
    values.iter().map(|value| value.to_str().map_err(|_| Malformed::new(shown, "is not ASCII"))).collect()
}
