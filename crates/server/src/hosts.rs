//! The names of the server. A page of another site can give its own name this machine's address
//! (DNS rebinding). A browser then takes the server's responses for that site's own. The name in
//! `Host` reveals it.

use std::net::IpAddr;

use axum::extract::Request;
use axum::response::Response;
use door_http::Reason;
use door_ldp::SeenAs;
use http::uri::Authority;
use http::{HeaderValue, Version, header};
use thiserror::Error;

use crate::peer::Peer;
use crate::problem;
use crate::proxies::Malformed;

/// The entry that means every name.
const ANY: &str = "*";

/// The accepted names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// Empty: any name, except on a loopback address.
    names: Vec<Name>,
    is_any: bool,
}

/// A host that is accepted at one port or at every port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
}

/// Why an entry of `http.hosts` is not a host.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a host: write a name or an address, with or without a port, such as `books.example.org`; or `*` for any"
)]
pub(crate) struct InvalidHost(String);

/// Why a request is refused because of its host.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum Refusal {
    #[error("the request names no host: it needs exactly one `Host` field")]
    None,
    #[error("the request names several hosts: it needs exactly one `Host` field")]
    Several,
    #[error("`{0}` is not a host")]
    Malformed(String),
    #[error("`:authority` and `Host` name different hosts")]
    Different,
    #[error("this server does not answer under the name `{0}`; its administrator can add the name to `http.hosts`")]
    NotServed(String),
    #[error(transparent)]
    Proxy(Malformed),
}

impl Hosts {
    /// The configured hosts, and the host of `origin`, under which clients see the server.
    pub(crate) fn of(hosts: &[String], origin: &str) -> Result<Self, InvalidHost> {
        let is_any = hosts.iter().any(|name| name == ANY);
        let mut names = hosts.iter().filter(|name| *name != ANY).map(|name| Name::parse(name));
        let mut names = names.by_ref().collect::<Result<Vec<_>, _>>()?;
        if let (false, Some((_, host))) = (names.is_empty(), origin.split_once("://")) {
            names.push(Name::parse(host)?);
        }
        Ok(Self { names, is_any })
    }

    /// Refuses a request that names no host, several, or another one, also one that a proxy says
    /// its client named. The request's own host counts in any case: a page of another site can set
    /// any other field.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let authority = named(request)?;
        if let Some(malformed) = request.extensions().get::<Malformed>() {
            return Err(Refusal::Proxy(malformed.clone()));
        }
        // Probes use any address that they know, and learn nothing of the stored data.
        let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
        if is_probe {
            return Ok(());
        }
        let on_loopback = request.extensions().get::<Peer>().is_some_and(|peer| peer.on_loopback);
        let forwarded = request.extensions().get::<SeenAs>().and_then(|seen| seen.host.as_ref());
        let other = forwarded.into_iter().chain(&authority).find(|host| !self.serves(host, on_loopback));
        other.map_or(Ok(()), |host| Err(Refusal::NotServed(host.host().to_owned())))
    }

    fn serves(&self, authority: &Authority, on_loopback: bool) -> bool {
        let asked = Name { host: plain(authority.host()), port: authority.port_u16() };
        let is_named =
            self.names.iter().any(|name| name.host == asked.host && (name.port.is_none() || name.port == asked.port));
        let by_default = if on_loopback { is_loopback_name(&asked.host) } else { self.names.is_empty() };
        self.is_any || is_named || by_default
    }
}

impl Name {
    fn parse(text: &str) -> Result<Self, InvalidHost> {
        let authority = authority(text).ok_or_else(|| InvalidHost(text.to_owned()))?;
        Ok(Self { host: plain(authority.host()), port: authority.port_u16() })
    }
}

/// A host, perhaps with a port, and without user information.
pub(crate) fn authority(text: &str) -> Option<Authority> {
    let authority: Authority = text.parse().ok()?;
    let is_host = !authority.host().is_empty() && !text.contains('@') && !text.ends_with(':');
    is_host.then_some(authority)
}

/// A name in the form in which it is compared: in lower case, without the final dot of an absolute
/// name.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Whether a name always means this machine (RFC 6761, section 6.3), so that nobody else can have
/// given it an address.
fn is_loopback_name(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host == "localhost" || host.ends_with(".localhost") || address.parse().is_ok_and(is_loopback)
}

/// The host that a request names. `None`: none, as HTTP/1.0 allows.
///
/// RFC 9112, section 3.2: HTTP/1.1 has exactly one `Host`, and the host of an absolute target takes
/// precedence. RFC 9113, section 8.3.1: HTTP/2 has `:authority` (here in the URI) or `Host`, and
/// they are equal if both exist.
pub(crate) fn named(request: &Request) -> Result<Option<Authority>, Refusal> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let (field, more) = (fields.next(), fields.next());
    if more.is_some() {
        return Err(Refusal::Several);
    }
    let field = field.map(read).transpose()?;
    let target = request.uri().authority();
    if target.is_some_and(|target| target.as_str().contains('@')) {
        return Err(Refusal::Malformed(target.map(ToString::to_string).unwrap_or_default()));
    }
    match (request.version(), target, field) {
        (Version::HTTP_2, Some(target), Some(field)) if *target != field => Err(Refusal::Different),
        (Version::HTTP_11, _, None) | (Version::HTTP_2, None, None) => Err(Refusal::None),
        (_, target, field) => Ok(target.cloned().or(field)),
    }
}

fn read(field: &HeaderValue) -> Result<Authority, Refusal> {
    let text = field.to_str().unwrap_or_default();
    authority(text).ok_or_else(|| Refusal::Malformed(String::from_utf8_lossy(field.as_bytes()).into_owned()))
}

impl Refusal {
    /// The response. RFC 9110, section 15.5.20: another server may know the host.
    pub(crate) fn respond(&self) -> Response {
        let reason = match self {
            Refusal::NotServed(_) => Reason::HOST_NOT_SERVED,
            Refusal::Proxy(_) => Reason::INVALID_FORWARDED,
            _ => Reason::INVALID_HOST,
        };
        problem::respond(reason, &self.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Body;

    use super::*;

    fn hosts(names: &[&str]) -> Hosts {
        let hosts: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Hosts::of(&hosts, "").unwrap()
    }

    fn serves(hosts: &Hosts, name: &str, on_loopback: bool) -> bool {
        hosts.serves(&authority(name).unwrap(), on_loopback)
    }

    #[test]
    fn a_loopback_address_serves_loopback_names_and_configured_ones() {
        let hosts = hosts(&["Books.example.org", "other.example.org:8443"]);
        for name in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "a.localhost:1",
            "127.0.0.1",
            "127.9.9.9:80",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "books.example.org",
            "books.EXAMPLE.org.:444",
            "other.example.org:8443",
        ] {
            assert!(serves(&hosts, name, true), "{name}");
        }
        for name in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "192.0.2.1",
            "[::2]",
            "0.0.0.0",
            "2130706433",
            "books.example.org.evil",
            "other.example.org",
            "other.example.org:443",
        ] {
            assert!(!serves(&hosts, name, true), "{name}");
        }
    }

    #[test]
    fn another_address_serves_any_name_until_names_are_configured() {
        assert!(serves(&hosts(&[]), "books.example.org", false));
        assert!(!serves(&hosts(&[]), "books.example.org", true));
        let named = hosts(&["books.example.org"]);
        assert!(serves(&named, "books.example.org", false));
        assert!(!serves(&named, "evil.example", false) && !serves(&named, "localhost", false));
        assert!(serves(&hosts(&["*"]), "evil.example", true));
    }

    #[test]
    fn the_host_of_the_origin_is_served_beside_configured_names() {
        let hosts = Hosts::of(&["a.example".to_owned()], "https://books.example.org").unwrap();
        assert!(serves(&hosts, "books.example.org", true) && serves(&hosts, "a.example", true));
    }

    #[test]
    fn a_text_that_is_not_a_host_cannot_be_configured() {
        for text in ["", "https://a.example", "a.example/", "user@a.example", "a b", "a.example:", ":80"] {
            assert_eq!(Hosts::of(&[text.to_owned()], ""), Err(InvalidHost(text.to_owned())), "{text}");
        }
    }

    fn asked(version: Version, target: &str, fields: &[&str]) -> Result<Option<String>, Refusal> {
        let mut request = Request::builder().version(version).uri(target);
        for field in fields {
            request = request.header(header::HOST, *field);
        }
        let named = named(&request.body(Body::empty()).unwrap())?;
        Ok(named.map(|authority| authority.to_string()))
    }

    #[test]
    fn http_1_names_one_host_and_an_absolute_target_takes_precedence() {
        let host = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(asked(Version::HTTP_11, "/", &["a"]), host("a"));
        assert_eq!(asked(Version::HTTP_11, "http://b/", &["a"]), host("b"));
        assert_eq!(asked(Version::HTTP_11, "/", &[]), Err(Refusal::None));
        assert_eq!(asked(Version::HTTP_11, "http://b/", &[]), Err(Refusal::None));
        assert_eq!(asked(Version::HTTP_11, "/", &["a", "a"]), Err(Refusal::Several));
        assert_eq!(asked(Version::HTTP_10, "/", &[]), Ok(None));
        assert_eq!(asked(Version::HTTP_10, "/", &["a", "b"]), Err(Refusal::Several));
        for malformed in ["", "a b", "a@b", "http://a", "a/b", "ä"] {
            let refused = asked(Version::HTTP_11, "/", &[malformed]);
            assert_eq!(refused, Err(Refusal::Malformed(malformed.to_owned())), "{malformed}");
        }
    }

    #[test]
    fn http_2_names_its_host_in_one_place_or_the_same_in_both() {
        let host = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(asked(Version::HTTP_2, "http://a:1/", &[]), host("a:1"));
        assert_eq!(asked(Version::HTTP_2, "/", &["a"]), host("a"));
        assert_eq!(asked(Version::HTTP_2, "http://a/", &["A"]), host("a"));
        assert_eq!(asked(Version::HTTP_2, "http://a/", &["b"]), Err(Refusal::Different));
        assert_eq!(asked(Version::HTTP_2, "/", &[]), Err(Refusal::None));
        assert_eq!(asked(Version::HTTP_2, "http://a/", &["a", "a"]), Err(Refusal::Several));
        assert!(asked(Version::HTTP_2, "http://a@b/", &[]).is_err());
    }
}
