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

use crate::plan::Http;
use crate::reach::Reach;
use crate::scenario::Head;
use crate::tls::{self, Tls};
use crate::worker::{RespConnection, Target};

/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

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

async fn look_by_http(uri: &Uri, reach: &Reach) -> Result<Seen, Box<dyn Error + Send + Sync>> {
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
            Ok(Seen { tls: Some(negotiated), ..ask(stream, request).await? })
        }
    }
}

async fn ask<S>(stream: S, request: http::Request<Empty<Bytes>>) -> Result<Seen, Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let server = response.headers().get(SERVER);
    let server = server.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let is_success = response.status().is_success();
    Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?;
    connection.abort();
    Ok(Seen { is_success, server, tls: None })
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

    #[test]
    fn a_server_that_only_resembles_redis_has_not_its_version() {
        assert_eq!(server_of("# Server\r\nredis_version:7.0.15\r\n").unwrap(), "redis/7.0.15");
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n";
        assert_eq!(server_of(valkey).unwrap(), "valkey/8.1.0");
        assert_eq!(server_of("redis_version:7.4.0\r\nserver_name:penates\r\n").unwrap(), "penates/");
        assert_eq!(server_of("NOAUTH Authentication required."), None);
    }
}
