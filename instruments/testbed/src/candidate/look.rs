//! Looks whether a candidate answers, and what it says about itself.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::header::{HOST, SERVER};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::monitor::exposition::{Line, lines};
use crate::plan::Http;
use crate::reach::Reach;
use crate::scenario::Head;
use crate::tls::{self, Tls};
use crate::worker::{RespConnection, Target};

/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer: pages of metrics are long.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// How the series ends that names a program, with its version as a label.
const BUILD: &str = "_build_info";
/// Libraries of Go count themselves in such a series, too.
const NOT_THE_SERVER: &str = "go";

/// What a look has seen.
pub struct Seen {
    /// It answers, and is ready.
    pub is_success: bool,
    /// The server and its version, such as `nginx/1.22.1`.
    pub server: Option<String>,
    /// The version of TLS and its cipher suite.
    pub tls: Option<String>,
}

/// Looks at an address: by `GET`, or by `PING` and `INFO`.
pub async fn look(url: &str, reach: &Reach) -> Result<Seen, Box<dyn Error + Send + Sync>> {
    let look = async {
        match url.starts_with("redis:") {
            true => look_by_resp(url).await,
            false => look_by_http(&url.parse()?, reach).await,
        }
    };
    timeout(LOOK_TIMEOUT, look).await.map_err(|_| "no answer")?
}

/// The same. A server that does not say its version is asked for its metrics, if their address is known.
pub async fn look_for_version(url: &str, metrics: Option<&str>, reach: &Reach) -> Option<Seen> {
    let mut seen = look(url, reach).await.ok()?;
    let is_known = seen.server.as_ref().is_some_and(|server| !server.ends_with('/'));
    if let (false, Some(metrics)) = (is_known, metrics) {
        // Without them nothing is known: a name alone would look like another version later.
        seen.server = version_by_metrics(metrics, reach).await;
    }
    Some(seen)
}

async fn version_by_metrics(url: &str, reach: &Reach) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let (seen, body) = timeout(LOOK_TIMEOUT, get(&uri, reach)).await.ok()?.ok()?;
    version_in(&String::from_utf8_lossy(&body)).filter(|_| seen.is_success)
}

/// The program and its version that a page of metrics names: `penates_build_info{version="0.1.0"} 1`.
fn version_in(page: &str) -> Option<String> {
    let all = [String::new()];
    let mut builds = lines(page, &all).filter_map(|line| match line {
        Line::Series(series) => Some((series.name.strip_suffix(BUILD)?, series.labels)),
        Line::Type { .. } => None,
    });
    builds.find_map(|(name, labels)| {
        let mut labels = labels.split(',').map(str::trim);
        let version = labels.find_map(|label| label.strip_prefix("version=\"")?.strip_suffix('"'))?;
        (name != NOT_THE_SERVER).then(|| format!("{name}/{version}"))
    })
}

async fn look_by_http(uri: &Uri, reach: &Reach) -> Result<Seen, Box<dyn Error + Send + Sync>> {
    Ok(get(uri, reach).await?.0)
}

/// What a server answers, and the body of that.
async fn get(uri: &Uri, reach: &Reach) -> Result<(Seen, Bytes), Box<dyn Error + Send + Sync>> {
    let target = Target::of_url(&uri.to_string())?;
    let stream = TcpStream::connect(target.address).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = http::Request::get(path).header(HOST, target.host).body(Empty::<Bytes>::new())?;
    request.headers_mut().extend(reach.fields()?);
    match target.tls {
        None => ask(stream, request).await,
        Some(server) => {
            let stream = Tls::new(&reach.trust, server, Http::One)?.begin(stream).await?;
            let negotiated = tls::negotiated(&stream);
            let (seen, body) = ask(stream, request).await?;
            Ok((Seen { tls: Some(negotiated), ..seen }, body))
        }
    }
}

async fn ask<S>(stream: S, request: http::Request<Empty<Bytes>>) -> Result<(Seen, Bytes), Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let server = response.headers().get(SERVER);
    let server = server.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let is_success = response.status().is_success();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok((Seen { is_success, server, tls: None }, body))
}

async fn look_by_resp(url: &str) -> Result<Seen, Box<dyn Error + Send + Sync>> {
    let mut connection = RespConnection::new(TcpStream::connect(Target::of_url(url)?.address).await?);
    let pong = connection.ask(&["PING"]).await?;
    let info = connection.ask(&["INFO", "server"]).await?;
    let is_success = matches!(pong.head, Head::Done);
    Ok(Seen { is_success, server: server_of(&String::from_utf8_lossy(&info.body)), tls: None })
}

/// The server and its version, by the answer to `INFO`. Only Redis does not name itself; what others
/// report as the version of Redis is the one that they resemble.
fn server_of(info: &str) -> Option<String> {
    let value = |key: &str| info.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()));
    let name = value("server_name").unwrap_or("redis");
    let version = value(&format!("{name}_version")).unwrap_or_default();
    info.contains("redis_version:").then(|| format!("{name}/{version}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::monitor::test_server::{Reply, Server};

    #[tokio::test]
    async fn the_version_of_a_server_that_does_not_name_itself_is_that_of_its_metrics() {
        let version_of = async |reply: Reply| {
            let server = Server::start(move |_, _| reply.clone()).await;
            let reach = Reach::at(&server.url);
            assert_eq!(look(&server.url, &reach).await.unwrap().server, None);
            look_for_version(&server.url, Some(&server.url), &reach).await.unwrap().server
        };
        let page = "# TYPE up gauge\nup 1\ngo_build_info{version=\"(devel)\"} 1\n\
                    penates_build_info{commit=\"abc\",version=\"0.1.0\"} 1\n";
        assert_eq!(version_of(Reply::page(page)).await.as_deref(), Some("penates/0.1.0"));
        assert_eq!(version_of(Reply::page("up 1\n")).await, None);
        assert_eq!(version_of(Reply::Status(404)).await, None);
    }

    #[test]
    fn a_server_that_only_resembles_redis_has_not_its_version() {
        assert_eq!(server_of("# Server\r\nredis_version:7.0.15\r\n").unwrap(), "redis/7.0.15");
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n";
        assert_eq!(server_of(valkey).unwrap(), "valkey/8.1.0");
        assert_eq!(server_of("redis_version:7.4.0\r\nserver_name:penates\r\n").unwrap(), "penates/");
        assert_eq!(server_of("NOAUTH Authentication required."), None);
    }
}
