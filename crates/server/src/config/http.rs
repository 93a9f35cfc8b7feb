//! `[http]`

use std::time::Duration;

use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use crate::proxies::ProxyFields;

/// `[http]`
#[derive(Clone, Debug, Default, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpConfig {
    /// The names that `Host` may carry, with a port (only at that one) or without (at each); `*`:
    /// any. By default the server answers loopback's names on loopback addresses, and any name on
    /// others.
    pub hosts: Vec<String>,
    /// The origins (`https://reader.example.org`) whose pages may use the server from a browser;
    /// `*`: any, for reading.
    pub cors_origins: Vec<String>,
    /// The proxies whose word counts on who asks: addresses, networks (`10.0.0.0/8`), and `unix`
    /// for all that connect to a Unix socket.
    pub trusted_proxies: Vec<String>,
    /// The fields that those proxies write: `x-forwarded`, or `forwarded` (RFC 7239).
    pub proxy_fields: ProxyFields,
    /// The path below which all routes are, such as `/penates`; empty: `/`.
    pub base_path: String,
    /// For how long browsers use HTTPS only: a time, `off`, or `auto`: 180 days if
    /// `listen.redirect` is set, and otherwise not at all.
    pub hsts: Hsts,
}

/// For how long a browser that came by HTTPS uses nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hsts {
    /// Half a year where `listen.redirect` is set, and otherwise not at all.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// For this time after each response.
    For(Duration),
}
