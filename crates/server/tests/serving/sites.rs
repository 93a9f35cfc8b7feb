//! Other sites: names of the server, origins of pages, and what stored content may do in a browser.

use http::{Method, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use server::config::Access;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Server, VOLUME, soon};

/// A path of each door, and the change feed.
const DOORS: [&str; 5] = ["/volumes/", "/data-api/volumes/", "/rest/", "/records/", "/feed"];

/// The whole response to a request that is sent exactly as given.
async fn raw(server: &Server, request: &str) -> String {
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon(request, client.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

async fn status(server: &Server, path: &str, fields: &str) -> String {
    let answer = raw(server, &format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{fields}\r\n")).await;
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn on_loopback_only_loopback_names_and_configured_ones_are_served() {
    let (server, _folder) = Server::start(|config| config.http.hosts = vec!["books.example.org".to_owned()]).await;
    for (host, expected) in [
        ("localhost", "200"),
        ("LOCALHOST:8080", "200"),
        ("127.0.0.1", "200"),
        ("[::1]:1", "200"),
        ("books.example.org", "200"),
        ("evil.example", "421"),
        ("localhost.evil.example", "421"),
        ("192.0.2.1", "421"),
        ("a b", "400"),
        ("", "400"),
    ] {
        for path in DOORS.into_iter().chain(["/", "/metrics"]) {
            assert_eq!(status(&server, path, &format!("host: {host}\r\n")).await, expected, "{path} of {host}");
        }
    }
    let refused = raw(&server, "GET / HTTP/1.1\r\nconnection: close\r\nhost: evil.example\r\n\r\n").await;
    assert!(refused.contains("http.hosts") && refused.contains("application/problem+json"), "{refused}");
}

#[tokio::test]
async fn a_request_names_one_host() {
    let (server, _folder) = Server::start(|_| {}).await;
    assert_eq!(status(&server, "/volumes/", "").await, "400");
    assert_eq!(status(&server, "/volumes/", "host: localhost\r\nhost: localhost\r\n").await, "400");
    assert_eq!(status(&server, "http://evil.example/volumes/", "host: localhost\r\n").await, "421");
    assert_eq!(status(&server, "http://localhost/volumes/", "host: evil.example\r\n").await, "200");
}

#[tokio::test]
async fn probes_and_the_administrator_may_use_any_name() {
    let (server, _folder) = Server::start(|_| {}).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(&server, path, "host: 192.0.2.1:8080\r\n").await, "200", "{path}");
    }
    let answer = server.admin(Method::GET, "/volumes/").await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn http_2_accepts_the_same_names() {
    let (server, _folder) = Server::start(|_| {}).await;
    let stream = TcpStream::connect(server.http()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for (authority, field, expected) in [
        ("localhost", None, 200),
        ("evil.example", None, 421),
        ("localhost", Some("localhost"), 200),
        ("localhost", Some("evil.example"), 400),
    ] {
        let mut request = http::Request::get(format!("http://{authority}/volumes/"));
        if let Some(field) = field {
            request = request.header("host", field);
        }
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = soon(authority, sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), expected, "{authority}, {field:?}");
        soon("the rest", response.into_body().collect()).await.unwrap();
    }
}

#[tokio::test]
async fn pages_of_other_sites_get_no_cors_headers_unless_their_origin_is_configured() {
    let (server, _folder) = Server::start(|config| {
        config.auth.write = Access::Open;
        config.http.cors_origins = vec!["https://reader.example.org".to_owned()];
    })
    .await;
    let (mine, other) = (("origin", "https://reader.example.org"), ("origin", "https://evil.example"));
    // A page may read why it is refused, too.
    let refused = ["/records/absent", "/feed?limit=0"];
    for path in DOORS.into_iter().chain(refused) {
        let answer = server.ask(Method::GET, path, &[mine]).await;
        assert_eq!(answer.status.is_client_error(), refused.contains(&path), "{path}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), mine.1, "{path}");
        let exposed = answer.header("access-control-expose-headers");
        assert!(["ETag", "Link", "Location", "Content-Range", "Repr-Digest"].iter().all(|name| exposed.contains(name)));
        assert!(answer.headers.get_all("vary").iter().any(|value| value == "origin"), "{path}");
        let answer = server.ask(Method::GET, path, &[other]).await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
    }
    let asks_leave = ("access-control-request-method", "PUT");
    let names = ("access-control-request-headers", "authorization,if-match");
    for path in ["/rest/a", "/records/a", "/feed"] {
        let leave = server.ask(Method::OPTIONS, path, &[mine, asks_leave, names]).await;
        assert_eq!(leave.status, StatusCode::NO_CONTENT, "{path}");
        assert!(leave.header("access-control-allow-methods").contains("PUT"), "{path}");
        assert_eq!(leave.header("access-control-allow-headers"), names.1, "{path}");
        let none = server.ask(Method::OPTIONS, path, &[other, asks_leave]).await;
        assert_eq!(none.header("access-control-allow-methods"), "", "{path}");
    }

    let options = server.ask(Method::OPTIONS, "/rest/", &[mine]).await;
    assert!(options.header("allow").contains("POST"), "the door responds to OPTIONS without a preflight");
    assert_eq!(options.header("access-control-allow-origin"), mine.1);

    let site = ("sec-fetch-site", "cross-site");
    let path = format!("/volumes/{VOLUME}/verify");
    assert_eq!(server.ask(Method::POST, &path, &[mine, site]).await.status, StatusCode::OK);
    assert_eq!(server.ask(Method::POST, &path, &[other, site]).await.status, StatusCode::FORBIDDEN);
    // There is no such record.
    assert_eq!(server.ask(Method::DELETE, "/records/a", &[mine, site]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.ask(Method::DELETE, "/records/a", &[other, site]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn without_configuration_no_response_has_cors_headers() {
    let (server, _folder) = Server::start(|_| {}).await;
    for path in DOORS {
        let answer = server.ask(Method::GET, path, &[("origin", "https://reader.example.org")]).await;
        let is_of_cors = |name: &http::HeaderName| name.as_str().starts_with("access-control-");
        assert!(!answer.headers.keys().any(is_of_cors), "{path}: {:?}", answer.headers);
    }
}

#[tokio::test]
async fn every_origin_may_read_if_all_are_configured_and_none_may_change_anything() {
    let (server, _folder) = Server::start(|config| {
        config.auth.write = Access::Open;
        config.http.cors_origins = vec!["*".to_owned()];
    })
    .await;
    let headers = [("origin", "https://anywhere.example"), ("sec-fetch-site", "cross-site")];
    for path in DOORS {
        let answer = server.ask(Method::GET, path, &headers).await;
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
    }
    let changed = server.ask(Method::POST, &format!("/volumes/{VOLUME}/verify"), &headers).await;
    assert_eq!(changed.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn names_of_fields_are_written_as_old_clients_expect_them() {
    let (server, _folder) = Server::start(|_| {}).await;
    let answer = raw(&server, "GET /rest/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    for name in ["\r\nContent-Type: ", "\r\nEtag: ", "\r\nLink: ", "\r\nAccept-Post: "] {
        assert!(answer.contains(name), "{name:?} is not in {answer}");
    }
}

#[tokio::test]
async fn no_page_runs_stored_content() {
    let (server, _folder) = Server::start(|config| config.auth.write = Access::Open).await;
    let put = [("content-type", "text/html"), ("link", "<http://www.w3.org/ns/ldp#NonRDFSource>; rel=\"type\"")];
    let made = server.ask(Method::PUT, "/rest/page", &put).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    for path in ["/rest/page".to_owned(), format!("/volumes/{VOLUME}/mets"), format!("/volumes/{VOLUME}/record")] {
        assert_eq!(server.get(&path).await.header("content-security-policy"), "sandbox", "{path}");
    }
    for path in ["/", "/volumes/?format=html", "/volumes/?format=html&limit=1", "/rest/fcr:constraints"] {
        let answer = server.get(path).await;
        assert!(answer.header("content-type").starts_with("text/html"), "{path}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
    }
    let listed = server.ask(Method::GET, "/rest/", &[("accept", "text/html")]).await;
    assert!(listed.header("content-security-policy").starts_with("default-src 'none'"));
}
