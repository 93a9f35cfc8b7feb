//! To which addresses events are sent. A name may lead anywhere, also to this machine or into its
//! network, and to another place at each request. So a name is resolved for each connection, and
//! only addresses that are allowed are connected to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tokio::net::TcpStream;
use tower::Service;

use crate::network::Network;

/// Whether an address is one of the public Internet (the special-purpose registries of IANA).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_special = match address.octets() {
        [0, ..] | [192, 0, 0, _] | [192, 88, 99, _] => true,
        // Carriers; benchmarks.
        [100, second, ..] => second & 0xC0 == 64,
        [198, second, ..] => second & 0xFE == 18,
        [first, ..] => first >= 240,
    };
    let is_private = address.is_private() || address.is_loopback() || address.is_link_local();
    !(is_special || is_private || address.is_multicast() || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global_unicast = first & 0xE000 == 0x2000;
    // Protocols such as Teredo, documentation, 6to4: some lead to an address of IPv4.
    let is_special =
        (first == 0x2001 && (second < 0x200 || second == 0x0DB8)) || first == 0x2002 || first & 0xFFF0 == 0x3FF0;
    is_global_unicast && !is_special
}

/// What may be connected to.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    /// The networks that the operator allows.
    pub(crate) networks: Arc<[Network]>,
    /// Whether the public Internet is allowed too: only with TLS.
    pub(crate) public: bool,
    /// The setting that names the networks.
    pub(crate) setting: &'static str,
}

impl Allowed {
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address)) || (self.public && is_public(address))
    }

    /// The addresses that may be connected to; an error if there is none.
    fn filter(&self, found: impl Iterator<Item = SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        let addresses: Vec<_> = found.filter(|address| self.allows(address.ip())).collect();
        match addresses.is_empty() {
            true => {
                let why = format!("its name leads to no address that is allowed ({})", self.setting);
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }
            false => Ok(addresses),
        }
    }

    /// Connects to an address of a host that is allowed.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let addresses = self.filter(tokio::net::lookup_host((host, port)).await?)?;
        let stream = TcpStream::connect(&addresses[..]).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Resolves names to addresses that are allowed.
#[derive(Clone)]
pub(crate) struct AllowedResolver {
    pub(crate) inner: GaiResolver,
    pub(crate) allowed: Allowed,
}

impl Service<Name> for AllowedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (found, allowed) = (self.inner.call(name), self.allowed.clone());
        async move { Ok(allowed.filter(found.await?)?.into_iter()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_of_machines_networks_and_protocols_are_not_public() {
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "192.0.2.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "100::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["93.184.215.14", "1.1.1.1", "100.128.0.1", "198.20.0.1", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn without_tls_only_networks_of_the_operator_are_allowed() {
        let networks: Arc<[Network]> = Arc::from(["10.0.0.0/8".parse().unwrap()]);
        let allowed = |public: bool| {
            let allowed = Allowed { networks: networks.clone(), public, setting: "a" };
            ["10.0.0.1", "1.1.1.1", "127.0.0.1"].map(|address| allowed.allows(address.parse().unwrap()))
        };
        assert_eq!((allowed(true), allowed(false)), ([true, true, false], [true, false, false]));
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_not_connected_to() {
        let resolve = async |networks: &[&str]| {
            let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
            let allowed = Allowed { networks, public: true, setting: "a" };
            AllowedResolver { inner: GaiResolver::new(), allowed }.call("localhost".parse().unwrap()).await
        };
        assert_eq!(resolve(&[]).await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let mut allowed = resolve(&["127.0.0.0/8", "::1"]).await.unwrap();
        assert!(allowed.all(|address| address.ip().is_loopback()));
    }
}
