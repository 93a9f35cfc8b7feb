//! Where a server listens: an address, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// The beginning of an address that is a Unix socket.
const UNIX: &str = "unix:";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address with a port: `127.0.0.1:8080`.
    Tcp(SocketAddr),
    /// The path of a Unix socket: `unix:/run/penates/http.sock`.
    Unix(PathBuf),
}

/// Why a text is no address to listen on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is not an address to listen on: write IP:PORT, or `unix:` and a path")]
pub struct InvalidListenAddress(String);

impl ListenAddress {
    /// The address; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidListenAddress;

    fn from_str(text: &str) -> Result<Self, InvalidListenAddress> {
        match text.strip_prefix(UNIX).filter(|path| !path.is_empty()) {
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| InvalidListenAddress(text.to_owned())),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/penates/http.sock", "unix:data/http.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "localhost:80", "127.0.0.1", "/run/http.sock"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
