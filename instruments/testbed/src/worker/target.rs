//! Where a candidate answers, and by which protocol.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use http::{HeaderValue, Uri};
use rustls_pki_types::ServerName;

use super::WorkerError;
use crate::scenario::Protocol;

/// The port of HTTP where an address names none.
const HTTP_PORT: u16 = 80;
/// The port of HTTP over TLS where an address names none.
const HTTPS_PORT: u16 = 443;
/// The port of the Redis protocol where an address names none.
const RESP_PORT: u16 = 6379;

/// How long a look takes whether an address answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a candidate answers.
#[derive(Clone, Debug)]
pub struct Target {
    /// The protocol.
    pub protocol: Protocol,
    /// The address to connect to.
    pub address: SocketAddr,
    /// The host and the port, as requests over HTTP name them.
    pub host: HeaderValue,
    /// The path; `/` without one.
    path: String,
    /// The name that the server's certificate must have, if it speaks TLS.
    pub tls: Option<ServerName<'static>>,
}

impl Target {
    /// Finds the address that a URL names.
    pub fn of_url(url: &str) -> Result<Self, WorkerError> {
        let refuse = |message: &str| WorkerError::Address { url: url.to_owned(), message: message.to_owned() };
        let uri: Uri = url.parse().map_err(|_| refuse("no address; write for example http://127.0.0.1:8080"))?;
        let (protocol, port) = match uri.scheme_str() {
            Some("http") => (Protocol::Http, HTTP_PORT),
            Some("https") => (Protocol::Http, HTTPS_PORT),
            Some("redis") => (Protocol::Resp, RESP_PORT),
            _ => {
                return Err(refuse("the testbed speaks HTTP (http://…, https://…) and the Redis protocol (redis://…)"));
            }
        };
        let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("no names and passwords: an address is kept with the run"));
        }
        if protocol == Protocol::Resp && !matches!(uri.path(), "" | "/") {
            return Err(refuse("only redis://HOST:PORT; SELECT is a step of a scenario"));
        }
        let name = authority.host().trim_matches(['[', ']']);
        let resolved = (name, authority.port_u16().unwrap_or(port)).to_socket_addrs();
        let resolved: Vec<_> = resolved?.collect();
        // A name such as `localhost` has several addresses, and the candidate listens on some of them.
        let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok();
        let address = match resolved.as_slice() {
            [only] => Some(*only),
            several => several.iter().find(answers).or(several.first()).copied(),
        };
        let address = address.ok_or_else(|| refuse("its host has no address"))?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| refuse("its host is no header value"))?;
        let is_secure = uri.scheme_str() == Some("https");
        let name = || ServerName::try_from(name.to_owned()).map_err(|_| refuse("its host is no name of a server"));
        let tls = is_secure.then(name).transpose()?;
        Ok(Self { protocol, address, host, path: uri.path().to_owned(), tls })
    }

    /// Whether steps of this protocol can be sent there.
    pub fn check(&self, url: &str, steps: Protocol) -> Result<(), WorkerError> {
        let message = match (steps, self.protocol) {
            (Protocol::Http, Protocol::Resp) => "the steps have paths: name an address like http://127.0.0.1:8080",
            (Protocol::Resp, Protocol::Http) => "the steps have commands: name an address like redis://127.0.0.1:6379",
            (Protocol::Http, Protocol::Http) if self.path != "/" => "only http://HOST:PORT: paths are in the steps",
            _ => return Ok(()),
        };
        Err(WorkerError::Address { url: url.to_owned(), message: message.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_scheme_chooses_the_protocol_and_its_port() {
        let target = |url: &str| Target::of_url(url).map(|target| (target.protocol, target.address.to_string()));
        assert_eq!(target("http://127.0.0.1").unwrap(), (Protocol::Http, "127.0.0.1:80".to_owned()));
        assert_eq!(target("https://127.0.0.1").unwrap(), (Protocol::Http, "127.0.0.1:443".to_owned()));
        assert_eq!(target("redis://127.0.0.1").unwrap(), (Protocol::Resp, "127.0.0.1:6379".to_owned()));
        assert_eq!(target("redis://[::1]:7000/").unwrap(), (Protocol::Resp, "[::1]:7000".to_owned()));
        for refused in [
            "ftp://127.0.0.1",
            "127.0.0.1:80",
            "redis://user:word@127.0.0.1",
            "http://user:word@127.0.0.1",
            "redis://127.0.0.1/1",
        ] {
            assert!(target(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn the_steps_have_the_paths() {
        let checked = |url: &str| Target::of_url(url).unwrap().check(url, Protocol::Http);
        assert!(checked("http://127.0.0.1:8080/").is_ok() && checked("http://127.0.0.1:8080").is_ok());
        let refused = checked("http://127.0.0.1:8080/penates").unwrap_err().to_string();
        assert!(refused.contains("paths are in the steps"), "{refused}");
    }
}
