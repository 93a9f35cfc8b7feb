//! Content stored elsewhere (Fedora API, section 3.9): copied when it is linked, proxied on each
//! request, or redirected to. The server requests only addresses with a configured prefix. Anything
//! else would let strangers explore the server's network, or (`files.rs`) its files.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use axum::body::Body;
use door_http::trust;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioExecutor;
use percent_encoding::percent_decode_str;
use repository::Handling;
use thiserror::Error;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tower::Service;

use crate::errors::LdpError;
use crate::files::{self, Folder};
use crate::links;

/// The relation type of a link to such content.
pub const EXTERNAL_CONTENT: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";
/// Header that lists the ways of handling it.
pub const ACCEPT_EXTERNAL_CONTENT_HANDLING: HeaderName = HeaderName::from_static("accept-external-content-handling");
/// All of them.
pub const HANDLINGS: HeaderValue = HeaderValue::from_static("copy,redirect,proxy");

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the head of an answer, or the next piece of its body, may take.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Redirections that are followed.
const REDIRECTIONS_MAX: usize = 5;

/// A request's link to content stored elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its address.
    pub url: String,
    /// How to handle it.
    pub wanted: Wanted,
    /// Its media type, if stated.
    pub media_type: Option<String>,
}

/// How to handle content stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Copy it now, and store it.
    Copy,
    /// Leave it where it is.
    Kept(Handling),
}

impl Named {
    /// The link of a request; `None` if there is none.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, LdpError> {
        let named: Vec<_> = links::of(headers).into_iter().filter(|link| link.has_rel(EXTERNAL_CONTENT)).collect();
        let link = match &named[..] {
            [] => return Ok(None),
            [link] => link,
            _ => return Err(LdpError::External("only one link to content is allowed".to_owned())),
        };
        let parameters = |wanted: &str| {
            let of_name = link.parameters.iter().filter(|(name, _)| name == wanted);
            of_name.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        let wanted = match parameters("handling")[..] {
            ["copy"] => Wanted::Copy,
            ["proxy"] => Wanted::Kept(Handling::Proxy),
            ["redirect"] => Wanted::Kept(Handling::Redirect),
            _ => return Err(LdpError::External("`handling` must be copy, proxy or redirect".to_owned())),
        };
        let media_type = parameters("type").first().filter(|said| !said.is_empty()).map(|said| (*said).to_owned());
        Ok(Some(Self { url: link.target.clone(), wanted, media_type }))
    }
}

/// A prefix of allowed addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalPrefix {
    /// Of a server.
    Web(WebPrefix),
    /// Of files.
    Files(Folder),
}

/// A prefix of addresses of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPrefix {
    scheme: Scheme,
    host: String,
    port: Option<u16>,
    path: String,
}

/// Why a text is not such a prefix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` must be http:// or https:// with a host, or file:///, and a path that ends with `/`")]
pub struct InvalidPrefix(String);

impl ExternalPrefix {
    /// Reads a prefix. Its path ends with a slash, so that it cannot be a part of another name.
    pub fn parse(text: &str) -> Result<Self, InvalidPrefix> {
        let invalid = || InvalidPrefix(text.to_owned());
        if files::is_file(text) {
            return Folder::parse(text).map(Self::Files).ok_or_else(invalid);
        }
        WebPrefix::parse(text).map(Self::Web)
    }
}

impl WebPrefix {
    fn parse(text: &str) -> Result<Self, InvalidPrefix> {
        let invalid = || InvalidPrefix(text.to_owned());
        let uri = plain_uri(text).ok_or_else(invalid)?;
        let (scheme, host, port) = place(&uri).ok_or_else(invalid)?;
        let is_folder = uri.path().ends_with('/') && text.ends_with('/') && uri.query().is_none();
        is_folder.then(|| Self { scheme, host, port, path: uri.path().to_owned() }).ok_or_else(invalid)
    }

    fn allows(&self, uri: &Uri) -> bool {
        let is_there = place(uri).is_some_and(|place| place == (self.scheme.clone(), self.host.clone(), self.port));
        is_there && uri.path().starts_with(&self.path)
    }
}

/// Scheme, host and port of an address, if it can be requested at all.
fn place(uri: &Uri) -> Option<(Scheme, String, Option<u16>)> {
    let scheme = uri.scheme().filter(|scheme| **scheme == Scheme::HTTP || **scheme == Scheme::HTTPS)?.clone();
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    let usual = if scheme == Scheme::HTTPS { 443 } else { 80 };
    Some((scheme, authority.host().to_ascii_lowercase(), authority.port_u16().filter(|port| *port != usual)))
}

/// An address with the same meaning for every server: nothing in its path leads to a parent or
/// hides a separator. This includes servers that decode twice (`%252e`), remove parameters of
/// segments (`..;x`), or strip dots and spaces from their ends.
fn plain_uri(text: &str) -> Option<Uri> {
    if text.contains(['#', '\\']) {
        return None;
    }
    let uri: Uri = text.parse().ok()?;
    let mut path = uri.path().to_owned();
    if leads_up(&path) {
        return None;
    }
    loop {
        let decoded = percent_decode_str(&path).decode_utf8().ok()?.into_owned();
        if decoded == path {
            return Some(uri);
        }
        // A separator that appears only by decoding was hidden.
        let separators = |path: &str| path.matches('/').count();
        let is_hiding =
            separators(&decoded) != separators(&path) || decoded.contains(['\\', char::REPLACEMENT_CHARACTER]);
        if is_hiding || decoded.chars().any(char::is_control) || leads_up(&decoded) {
            return None;
        }
        path = decoded;
    }
}

/// Whether a segment of a path, without its parameters, is nothing but dots and spaces.
fn leads_up(path: &str) -> bool {
    path.split('/').any(|segment| {
        let name = segment.split([';', '?', '#']).next().unwrap_or_default();
        name.contains('.') && name.chars().all(|character| character == '.' || character.is_whitespace())
    })
}

/// Connects without TLS.
type Connector = HttpConnector<OutsideResolver>;

/// The client for content stored elsewhere.
#[derive(Clone)]
pub struct External {
    prefixes: Arc<[ExternalPrefix]>,
    plain: Client<Connector, Body>,
    /// The one with TLS, once an address has needed it: the system may have no root certificates,
    /// and without TLS none are needed.
    encrypted: Arc<OnceCell<Client<HttpsConnector<Connector>, Body>>>,
}

impl External {
    /// A client for addresses with these prefixes, and no others.
    pub fn new(prefixes: &[ExternalPrefix]) -> Self {
        let plain = Client::builder(TokioExecutor::new()).build(connector());
        Self { prefixes: prefixes.into(), plain, encrypted: Arc::default() }
    }

    /// Sends a request, and returns the response or why there is none. The first request over TLS
    /// reads the system's root certificates. If it cannot, the next one tries again.
    async fn request(&self, request: Request<Body>) -> Result<Response<Incoming>, String> {
        let response = match request.uri().scheme() == Some(&Scheme::HTTPS) {
            true => self.encrypted.get_or_try_init(encrypted).await?.request(request).await,
            false => self.plain.request(request).await,
        };
        response.map_err(|error| error.to_string())
    }

    /// Refuses an address that is not allowed, or cannot be handled this way.
    pub fn check(&self, url: &str, handling: Handling) -> Result<(), LdpError> {
        match (files::is_file(url), handling) {
            (true, Handling::Redirect) => Err(LdpError::External(
                "a client cannot be redirected to a file of this machine: use copy or proxy".to_owned(),
            )),
            (true, Handling::Proxy) => self.file(url).map(|_| ()),
            (false, _) => self.allowed(url).map(|_| ()),
        }
    }

    /// The allowed folder of a file, and its path in there.
    fn file(&self, url: &str) -> Result<(&Folder, Vec<OsString>), LdpError> {
        let mut folders = self.prefixes.iter().filter_map(|prefix| match prefix {
            ExternalPrefix::Files(folder) => Some(folder),
            ExternalPrefix::Web(_) => None,
        });
        folders.find_map(|folder| Some((folder, folder.below(url)?))).ok_or_else(|| not_allowed(url))
    }

    /// An allowed address of a server.
    fn allowed(&self, url: &str) -> Result<Uri, LdpError> {
        let allows = |prefix: &ExternalPrefix, uri: &Uri| match prefix {
            ExternalPrefix::Web(prefix) => prefix.allows(uri),
            ExternalPrefix::Files(_) => false,
        };
        let uri = plain_uri(url).filter(|uri| self.prefixes.iter().any(|prefix| allows(prefix, uri)));
        uri.ok_or_else(|| not_allowed(url))
    }

    /// Requests content, or a range of it. Redirections are followed only to allowed addresses. The
    /// response is the content itself, without a content coding, and a part of it or the refusal of
    /// a range only if a range was asked for.
    pub async fn ask(
        &self,
        method: Method,
        url: &str,
        range: Option<&HeaderValue>,
    ) -> Result<Response<Body>, LdpError> {
        if files::is_file(url) {
            let (folder, below) = self.file(url)?;
            return folder.ask(&method, url, below, range).await;
        }
        let mut uri = self.allowed(url)?;
        for _ in 0..REDIRECTIONS_MAX {
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            let headers = request.headers_mut();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            range.into_iter().for_each(|range| _ = headers.insert(header::RANGE, range.clone()));
            let failed = |why: String| LdpError::Elsewhere { url: url.to_owned(), why };
            let response = timeout(PAUSE_MAX, self.request(request)).await;
            let response = response.map_err(|_| failed("it does not respond".to_owned()))?.map_err(failed)?;
            if !response.status().is_redirection() {
                return match response.status() {
                    StatusCode::OK | StatusCode::PARTIAL_CONTENT if has_coding(response.headers()) => {
                        Err(failed("it responds with a content coding, which was not asked for".to_owned()))
                    }
                    StatusCode::OK => Ok(response.map(patient)),
                    StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if range.is_some() => {
                        Ok(response.map(patient))
                    }
                    status => Err(failed(format!("it responds with {status}"))),
                };
            }
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            let location = location.ok_or_else(|| failed("it was moved without a new address".to_owned()))?;
            let target = rdf::Iri::parse(uri.to_string()).and_then(|base| base.resolve(location));
            let target = target.map_err(|error| failed(error.to_string()))?;
            uri =
                self.allowed(&target).map_err(|_| failed(format!("it was moved to {target}, which is not allowed")))?;
        }
        Err(LdpError::Elsewhere { url: url.to_owned(), why: "it was redirected too often".to_owned() })
    }
}

fn connector() -> Connector {
    let mut connector = HttpConnector::new_with_resolver(OutsideResolver(GaiResolver::new()));
    connector.set_connect_timeout(Some(CONNECT_MAX));
    connector
}

/// A client with TLS that trusts what the system trusts, or why there is none. It reads files.
async fn encrypted() -> Result<Client<HttpsConnector<Connector>, Body>, String> {
    let config = tokio::task::spawn_blocking(|| trust::client_config(true)).await;
    let config = config.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let mut connector = connector();
    connector.enforce_http(false);
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
    Ok(Client::builder(TokioExecutor::new()).build(builder.wrap_connector(connector)))
}

/// Whether the bytes of a response are those of a content in another form (RFC 9110, section 8.4).
fn has_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

fn not_allowed(url: &str) -> LdpError {
    LdpError::External(format!("content at {url} is refused: no configured prefix allows it"))
}

/// A body that ends with an error if nothing arrives for a while.
fn patient(body: Incoming) -> Body {
    let pieces = Body::new(body).into_data_stream();
    Body::from_stream(futures::stream::unfold(Some(pieces), async |pieces| {
        let mut pieces = pieces?;
        match timeout(PAUSE_MAX, pieces.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(_) => Some((Err(axum::Error::new("no more data arrived for a while")), None)),
        }
    }))
}

/// Resolves host names, but never to this machine under another name: a prefix for this machine
/// must name it as such.
#[derive(Clone)]
struct OutsideResolver(GaiResolver);

impl Service<Name> for OutsideResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let means_this_machine = name.as_str().eq_ignore_ascii_case("localhost");
        let found = self.0.call(name);
        async move {
            let addresses: Vec<_> = found.await?.filter(|address| means_this_machine || is_outside(address)).collect();
            Ok(addresses.into_iter())
        }
        .boxed()
    }
}

fn is_outside(address: &SocketAddr) -> bool {
    let address = address.ip().to_canonical();
    let is_link_local = match address {
        std::net::IpAddr::V4(address) => address.is_link_local(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !address.is_loopback() && !address.is_unspecified() && !is_link_local
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn external(prefixes: &[&str]) -> External {
        let prefixes: Vec<_> = prefixes.iter().map(|prefix| ExternalPrefix::parse(prefix).unwrap()).collect();
        External::new(&prefixes)
    }

    #[tokio::test]
    async fn only_addresses_with_a_configured_prefix_are_requested() {
        let external = external(&["https://example.org/data/", "http://127.0.0.1:8081/"]);
        for url in [
            "https://example.org/data/a",
            "https://EXAMPLE.org:443/data/a?b=c",
            "http://127.0.0.1:8081/x",
            "https://example.org/data/a.b/..c/d;v=1.2/100%25",
            "https://example.org/data/%C3%A4%20b",
            "https://example.org/data//a",
            "https://example.org/data/a?up=/../..",
        ] {
            assert!(external.allowed(url).is_ok(), "{url}");
        }
        for url in [
            "https://example.org/database",
            "https://example.org/data",
            "http://example.org/data/a",
            "https://example.org:8443/data/a",
            "https://example.org.evil/data/a",
            "https://example.org@evil/data/a",
            "https://user@example.org/data/a",
            "https://example.org/data/../private",
            "https://example.org/data/%2e%2E/private",
            "https://example.org/data/..%2Fprivate",
            "https://example.org/data/..\\private",
            "https://example.org/data/..;/private",
            "https://example.org/data/..;x=y/private",
            "https://example.org/data/%2e%2e;/private",
            "https://example.org/data/..%3b/private",
            "https://example.org/data/.;/private",
            "https://example.org/data/..%3fx/private",
            "https://example.org/data/%252e%252e/private",
            "https://example.org/data/%25252e%25252e/private",
            "https://example.org/data/a%252f..%252f..%252fprivate",
            "https://example.org/data/%5c..%5cprivate",
            "https://example.org/data/%255c..%255cprivate",
            "https://example.org/data/..%20/private",
            "https://example.org/data/.../private",
            "https://example.org/data/..%00/private",
            "https://example.org/data/a%0d%0ahost:%20evil",
            "https://example.org/data/%c0%ae%c0%ae/private",
            "https://example.org:0/data/a",
            "https://example.org/data/a#/../..",
            "https://example.org//data/a",
            "//example.org/data/a",
            "http://localhost:8081/x",
            "http://127.0.0.1/x",
            "http://[::1]:8081/x",
            "http://2130706433:8081/x",
            "file:///etc/passwd",
            "/data/a",
            "",
        ] {
            assert!(external.allowed(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_prefix_ends_with_a_whole_name() {
        for text in [
            "https://example.org",
            "https://example.org/data",
            "ftp://example.org/",
            "https://a@example.org/",
            "/data/",
        ] {
            assert!(ExternalPrefix::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_foreign_host_name_does_not_lead_to_this_machine() {
        let is_outside = |address: &str| is_outside(&address.parse().unwrap());
        for address in
            ["127.0.0.1:80", "[::1]:80", "0.0.0.0:80", "169.254.169.254:80", "[::ffff:127.0.0.1]:80", "[fe80::1]:80"]
        {
            assert!(!is_outside(address), "{address}");
        }
        assert!(is_outside("192.0.2.1:80"));
    }

    #[test]
    fn the_handling_is_stated_once() {
        let named = |link: &str| {
            let link = link.replace("ext", &format!("rel=\"{EXTERNAL_CONTENT}\""));
            Named::of(&HeaderMap::from_iter([(header::LINK, link.parse().unwrap())]))
        };
        let expected = Named {
            url: "http://a/b,c".to_owned(),
            wanted: Wanted::Kept(Handling::Proxy),
            media_type: Some("image/png".to_owned()),
        };
        assert_eq!(named("<http://a/b,c>; ext; handling=proxy; type=\"image/png\"").unwrap(), Some(expected));
        assert_eq!(named("<http://a/>; rel=\"type\"").unwrap(), None);
        for link in [
            "<http://a/>; ext",
            "<http://a/>; ext; handling=steal",
            "<http://a/>; ext; handling=copy; handling=proxy",
            "<http://a/>; ext; handling=copy, <http://b/>; ext; handling=copy",
        ] {
            assert!(named(link).is_err(), "{link}");
        }
    }
}
