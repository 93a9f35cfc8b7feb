//! `[listen]`

use std::net::SocketAddr;
use std::path::PathBuf;

use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use super::{ListenAddress, text};

/// `[listen]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenConfig {
    /// Address of plain HTTP (HTTP/1.1 and HTTP/2), `unix:` and the path of a socket, or `off`.
    #[serde(with = "text::address")]
    pub http: Option<ListenAddress>,
    /// Who may open that socket: the mode of its file.
    #[serde(with = "text::mode")]
    pub http_mode: u32,
    /// Whether connections to `listen.http` begin with the PROXY protocol.
    pub http_proxy_protocol: bool,
    /// Address of HTTPS, or `off`.
    #[serde(with = "text::address")]
    pub tls: Option<SocketAddr>,
    /// Whether connections to `listen.tls` and `listen.redirect` begin with the PROXY protocol.
    pub tls_proxy_protocol: bool,
    /// Address at which HTTP is redirected to HTTPS, or `off`.
    #[serde(with = "text::address")]
    pub redirect: Option<SocketAddr>,
    /// A further socket of the administrator: `unix:` and its path, or `off`. Only the user of the
    /// server may open it, and has all rights there.
    #[serde(with = "text::address")]
    pub admin: Option<ListenAddress>,
    /// The certificate chain, PEM. By default the server makes one for loopback, and keeps it in
    /// the data folder.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    pub tls_key: Option<PathBuf>,
}

impl Default for ListenConfig {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            http: Some(loopback(8080).into()),
            http_mode: 0o660,
            http_proxy_protocol: false,
            tls: Some(loopback(8443)),
            tls_proxy_protocol: false,
            redirect: None,
            admin: None,
            tls_cert: None,
            tls_key: None,
        }
    }
}

/// Whether only this machine can reach an address, also where IPv4 is written as IPv6.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
