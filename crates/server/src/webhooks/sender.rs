//! Sends one message to a webhook.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use door_http::trust;
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use store::UnixMillis;

use super::current::CurrentSecrets;
use crate::delivery::{Allowed, AllowedResolver, Failure};
use crate::network::Network;

/// Bytes of a response's head, and of the part of its body that is read so that its connection can
/// be used again.
const RESPONSE_BYTES_MAX: usize = 16 << 10;

/// How long that part of a body may take.
const BODY_MAX: Duration = Duration::from_secs(1);

/// How long a connection without requests is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Where messages of a webhook go.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    uri: Uri,
    allowed: Allowed,
}

impl Destination {
    /// Reads an address. Returns what is wrong with it.
    pub(crate) fn parse(url: &str, networks: Arc<[Network]>) -> Result<Self, String> {
        let malformed = || "`url` must be https:// or http:// with a host, without a user and without `#`".to_owned();
        let uri: Uri = url.parse().map_err(|_| malformed())?;
        let public = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(malformed()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(malformed)?;
        if authority.host().is_empty() || url.contains('#') {
            return Err(malformed());
        }
        let allowed = Allowed { networks, public, setting: "feed.webhooks_networks" };
        // Only names are resolved.
        let address: Option<IpAddr> = authority.host().trim_matches(['[', ']']).parse().ok();
        if address.is_some_and(|address| !allowed.allows(address)) {
            let why = match public {
                true => "`url` has an address that is not public: allow its network by feed.webhooks_networks",
                false => "`url` has no TLS (https://): that is only for networks that feed.webhooks_networks names",
            };
            return Err(why.to_owned());
        }
        Ok(Self { uri, allowed })
    }

    /// Scheme, host and port. The path may be confidential.
    pub(crate) fn origin(&self) -> String {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        format!("{}://{authority}", self.uri.scheme_str().unwrap_or_default())
    }
}

/// Sends messages to one webhook.
pub(crate) struct Sender {
    destination: Destination,
    secrets: CurrentSecrets,
    client: Client<HttpsConnector<HttpConnector<AllowedResolver>>, Full<Bytes>>,
    attempt_max: Duration,
}

impl Sender {
    /// A sender whose attempts take at most `attempt_max` each.
    ///
    /// Errors: the destination has TLS, and the system's root certificates cannot be read.
    pub(super) fn new(destination: Destination, secrets: CurrentSecrets, attempt_max: Duration) -> io::Result<Self> {
        let resolver = AllowedResolver { inner: GaiResolver::new(), allowed: destination.allowed.clone() };
        let mut connector = HttpConnector::new_with_resolver(resolver);
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(attempt_max));
        connector.set_nodelay(true);
        let tls = trust::client_config(destination.uri.scheme() == Some(&Scheme::HTTPS))?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new())
            .http1_max_buf_size(RESPONSE_BYTES_MAX)
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(builder.wrap_connector(connector));
        Ok(Self { destination, secrets, client, attempt_max })
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Reads the secrets again, if they are in a file. Messages from now on are signed with them.
    pub(super) async fn refresh(&self) {
        self.secrets.refresh().await;
    }

    /// Sends a message at `now`, once. It does not follow redirections (Standard Webhooks counts
    /// them as failures).
    pub(crate) async fn send(&self, id: &str, now: UnixMillis, body: Bytes) -> Result<(), Failure> {
        let timestamp = now.0 / 1_000;
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.destination.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("penates/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.secrets.sign(id, timestamp, &body))
            .body(Full::new(body))
            .map_err(|error| Failure::passing(error.to_string()))?;
        let response = tokio::time::timeout(self.attempt_max, self.client.request(request)).await;
        let late = |_| Failure::passing(format!("it did not respond within {} s", self.attempt_max.as_secs_f64()));
        let response = response.map_err(late)?.map_err(|error| Failure::passing(reason(&error)))?;
        let (head, body) = response.into_parts();
        // A body that is longer or slower costs its connection.
        let _ = tokio::time::timeout(BODY_MAX, Limited::new(body, RESPONSE_BYTES_MAX).collect()).await;
        judge(head.status, &head.headers, now)
    }
}

/// What a response means ("Deliverability and reliability").
fn judge(status: StatusCode, headers: &HeaderMap, now: UnixMillis) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let why = match status.is_redirection() {
        true => format!("it responded with {status}; redirections are not followed"),
        false => format!("it responded with {status}"),
    };
    let is_final = status == StatusCode::GONE;
    Err(Failure { why, is_final, asks_to_wait: retry_after(headers, now) })
}

/// `Retry-After`: seconds, or a time.
fn retry_after(headers: &HeaderMap, now: UnixMillis) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = httpdate::parse_http_date(text).ok()?;
    let now = std::time::UNIX_EPOCH + Duration::from_millis(now.0);
    Some(time.duration_since(now).unwrap_or_default())
}

/// An error with its causes.
fn reason(error: &dyn Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    reason
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_address_is_of_the_public_internet_with_tls_or_in_an_allowed_network() {
        let parse = |url: &str| Destination::parse(url, Arc::from(["10.0.0.0/8".parse().unwrap()]));
        for url in ["https://hooks.example.org/a?b=c", "http://10.1.1.1:81/", "https://1.1.1.1", "http://a.internal/"] {
            parse(url).unwrap();
        }
        for url in [
            "",
            "hooks.example.org",
            "/hooks",
            "ftp://example.org/",
            "https://",
            "https://me@example.org/",
            "https://example.org/#a",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://169.254.169.254/",
            "http://1.1.1.1/",
        ] {
            parse(url).unwrap_err();
        }
        assert_eq!(parse("https://a.example:81/secret?x").unwrap().origin(), "https://a.example:81");
    }

    #[test]
    fn only_2xx_is_success_410_is_final_and_others_may_ask_to_wait() {
        let now = UnixMillis(784_111_777_000);
        let judge = |status: u16, after: Option<&str>| {
            let mut headers = HeaderMap::new();
            after.map(|after| headers.insert(header::RETRY_AFTER, HeaderValue::from_str(after).unwrap()));
            super::judge(StatusCode::from_u16(status).unwrap(), &headers, now)
                .map_err(|it| (it.is_final, it.asks_to_wait))
        };
        assert_eq!([200, 202, 204].map(|status| judge(status, None)), [Ok(()); 3]);
        assert_eq!([301, 400, 500].map(|status| judge(status, None)), [Err((false, None)); 3]);
        assert_eq!(judge(410, None), Err((true, None)));
        let waits = |seconds| Err((false, Some(Duration::from_secs(seconds))));
        assert_eq!(judge(429, Some("120")), waits(120));
        assert_eq!(judge(503, Some("Sun, 06 Nov 1994 08:50:37 GMT")), waits(60));
        assert_eq!(judge(503, Some("Sun, 06 Nov 1994 08:00:00 GMT")), waits(0));
        assert_eq!(judge(502, Some("soon")), Err((false, None)));
    }
}
