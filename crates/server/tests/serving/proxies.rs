//! Proxies in front of the server: whom it takes for the client, and how it names itself.

use std::net::SocketAddr;

use http::{Method, StatusCode};
use proxy_header::{ProxiedAddress, ProxyHeader};
use server::config::{Config, ProxyFields};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::support::{Server, VOLUME, ask, soon};

/// A server that trusts all who connect in these tests.
async fn behind_a_proxy(change: impl FnOnce(&mut Config)) -> (Server, tempfile::TempDir) {
    Server::start(|config| {
        config.http.trusted_proxies = vec!["127.0.0.1".to_owned()];
        config.http.hosts = vec!["books.example.org".to_owned()];
        change(config);
    })
    .await
}

/// The fields of a proxy that speaks for this client.
fn from(client: &str) -> [(&'static str, &str); 3] {
    [("x-forwarded-for", client), ("x-forwarded-proto", "https"), ("x-forwarded-host", "books.example.org")]
}

#[tokio::test]
async fn limits_and_the_audit_see_the_client_and_not_the_proxy() {
    let (server, _folder) = behind_a_proxy(|config| {
        (config.limits.request_rate, config.limits.request_burst) = (1, 1_000);
    })
    .await;
    let page = format!("/volumes/{VOLUME}/pages/7");
    let asked = async |client: &str| server.ask(Method::GET, &page, &from(client)).await;
    for client in ["203.0.113.7", "2001:db8::7", "198.51.100.1, 203.0.113.8"] {
        let answer = asked(client).await;
        assert_eq!(answer.status, StatusCode::OK, "{client}");
        // Each has a burst of its own.
        assert!(answer.header("ratelimit").contains(";r=999;"), "{client}: {}", answer.header("ratelimit"));
    }
    // What the client writes itself does not count.
    assert_eq!(asked("198.51.100.2, 203.0.113.8").await.status, StatusCode::OK);
    let audited = server.admin(Method::GET, "/admin/audit?top=9").await.text();
    for address in ["203.0.113.7", "2001:db8::7", "203.0.113.8"] {
        assert!(audited.contains(&format!("address {address}")), "{address} is not in {audited}");
    }
    assert!(!audited.contains("127.0.0.1") && !audited.contains("198.51.100"), "{audited}");
}

#[tokio::test]
async fn addresses_in_responses_have_the_scheme_and_the_host_that_the_client_uses() {
    let (server, _folder) = behind_a_proxy(|_| {}).await;
    let token = format!("Bearer {}", server.token("writer").await);
    let fields = [&from("203.0.113.7")[..], &[("authorization", &*token), ("content-type", "text/turtle")]].concat();
    let made = server.ask(Method::PUT, "/rest/a", &fields).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert_eq!(made.header("location"), "https://books.example.org/rest/a");
    let fields = [&from("203.0.113.7")[..], &[("accept", "application/n-triples")]].concat();
    let read = server.ask(Method::GET, "/rest/a", &fields).await;
    assert!(read.text().contains("<https://books.example.org/rest/a>"), "{}", read.text());
    let feed = server.ask(Method::GET, "/feed", &from("203.0.113.7")).await;
    assert_eq!(feed.json()["id"], "https://books.example.org/feed");
}

#[tokio::test]
async fn fields_of_a_stranger_change_nothing() {
    let (server, _folder) = behind_a_proxy(|config| {
        config.http.trusted_proxies = vec!["192.0.2.1".to_owned()];
    })
    .await;
    let feed = server.ask(Method::GET, "/feed", &from("203.0.113.7")).await;
    assert_eq!(feed.json()["id"], "http://localhost/feed");
    for client in ["203.0.113.8", "nonsense"] {
        let answer = server.ask(Method::GET, &format!("/volumes/{VOLUME}/pages/7"), &from(client)).await;
        assert_eq!(answer.status, StatusCode::OK, "{client}");
    }
    let audited = server.admin(Method::GET, "/admin/audit?top=9").await.text();
    assert!(audited.contains("address 127.0.0.1") && !audited.contains("203.0.113"), "{audited}");
}

#[tokio::test]
async fn a_field_of_a_proxy_that_cannot_be_read_is_refused() {
    let (server, _folder) = behind_a_proxy(|_| {}).await;
    for (name, value) in
        [("x-forwarded-for", "nobody"), ("x-forwarded-proto", "gopher"), ("x-forwarded-host", "books example")]
    {
        let refused = server.ask(Method::GET, "/volumes/", &[(name, value)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{name}");
        assert_eq!(refused.json()["kind"], "invalid-forwarded", "{name}");
    }
    let (server, _folder) = behind_a_proxy(|config| config.http.proxy_fields = ProxyFields::Forwarded).await;
    let refused = server.ask(Method::GET, "/volumes/", &[("forwarded", "for=\"203.0.113.7")]).await;
    assert_eq!(refused.json()["kind"], "invalid-forwarded");
    let answer =
        server.ask(Method::GET, "/feed", &[("forwarded", "for=203.0.113.7;host=books.example.org;proto=https")]).await;
    assert_eq!(answer.json()["id"], "https://books.example.org/feed");
}

/// A page of another site reaches a server on loopback by a name of its own, and may set any field
/// but `Host`.
#[tokio::test]
async fn neither_host_may_be_a_foreign_one() {
    let (server, _folder) = behind_a_proxy(|_| {}).await;
    let foreign = server.ask(Method::GET, "/volumes/", &[("x-forwarded-host", "evil.example")]).await;
    assert_eq!(foreign.status, StatusCode::MISDIRECTED_REQUEST);
    let request =
        b"GET /volumes/ HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-host: localhost\r\nconnection: close\r\n\r\n";
    let answer = sent(server.http(), &[request]).await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    let answer = sent(server.http(), &[b"GET /feed HTTP/1.0\r\nx-forwarded-host: evil.example\r\n\r\n"]).await;
    assert!(answer.starts_with("HTTP/1.0 421"), "{answer}");
}

/// Sends bytes as they are, and returns everything that the server answers until it closes.
async fn sent(address: SocketAddr, pieces: &[&[u8]]) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    for piece in pieces {
        // A server that refuses closes at once.
        let _ = client.write_all(piece).await;
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    // A server that closes may leave bytes unread, which is a reset.
    let _ = soon("an answer", client.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A header of version 2 for a client.
fn version_2(client: &str) -> Vec<u8> {
    let client = SocketAddr::new(client.parse().unwrap(), 4711);
    let server = if client.is_ipv4() { "192.0.2.1:443" } else { "[2001:db8::1]:443" };
    let header = ProxyHeader::with_address(ProxiedAddress::stream(client, server.parse().unwrap()));
    let mut bytes = [0; 256];
    let length = header.encode_to_slice_v2(&mut bytes).unwrap();
    bytes[..length].to_vec()
}

#[tokio::test]
async fn a_proxy_that_passes_bytes_on_says_first_for_whom() {
    let (server, _folder) = behind_a_proxy(|config| {
        config.listen.http_proxy_protocol = true;
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
        config.records.proxy_protocol = true;
    })
    .await;
    let request = format!("GET /volumes/{VOLUME}/pages/7 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let request = request.as_bytes();
    let first = b"PROXY TCP4 203.0.113.1 192.0.2.1 4711 80\r\n";
    let (second, third) = (version_2("203.0.113.2"), version_2("2001:db8::3"));
    // The health check of a proxy, and a client whose address it does not know.
    let (local, unknown) = (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", b"PROXY UNKNOWN\r\n");
    for pieces in [
        &[&first[..], request][..],
        &[&first[..9], &first[9..], request],
        &[&[&second[..], request].concat()],
        &[&third[..15], &third[15..], request],
        &[&local[..], request],
        &[&unknown[..], request],
    ] {
        assert!(sent(server.http(), pieces).await.starts_with("HTTP/1.1 200"), "{pieces:?}");
    }
    let audited = server.admin(Method::GET, "/admin/audit?top=9").await.text();
    for address in ["203.0.113.1", "203.0.113.2", "2001:db8::3", "127.0.0.1"] {
        assert!(audited.contains(&format!("address {address}")), "{address} is not in {audited}");
    }
    // The client of a proxy is no proxy, known or not.
    let forwarded = b"GET /feed HTTP/1.1\r\nhost: localhost\r\nx-forwarded-proto: gopher\r\nconnection: close\r\n\r\n";
    assert!(sent(server.http(), &[first, forwarded]).await.starts_with("HTTP/1.1 200"));
    assert!(sent(server.http(), &[&unknown[..], forwarded]).await.starts_with("HTTP/1.1 200"));

    let answered = sent(server.addresses.records.unwrap(), &[&second, b"PING\r\nQUIT\r\n"]).await;
    assert_eq!(answered, "+PONG\r\n+OK\r\n");
    let long = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xf0\0", &[0; 8_000][..]].concat();
    for pieces in [&[request][..], &[b"PROXY TCP4 nobody\r\n", request], &[&long], &[&b"PROXY TCP4 1.2.3.4 "[..]; 9]] {
        assert_eq!(sent(server.http(), pieces).await, "", "{:?}", pieces[0]);
    }
}

#[tokio::test]
async fn nobody_else_may_speak_for_a_client_and_a_proxy_has_to_begin() {
    let (server, _folder) = behind_a_proxy(|config| {
        config.listen.http_proxy_protocol = true;
        config.http.trusted_proxies = vec!["192.0.2.1".to_owned()];
    })
    .await;
    let request = b"PROXY TCP4 203.0.113.1 192.0.2.1 4711 80\r\nGET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(sent(server.http(), &[request]).await, "");
    let (server, _folder) = behind_a_proxy(|config| {
        config.listen.http_proxy_protocol = true;
        config.limits.header_time = std::time::Duration::from_millis(50);
    })
    .await;
    assert_eq!(sent(server.http(), &[b"PROXY TCP4 "]).await, "");
}

#[tokio::test]
async fn a_unix_socket_serves_proxies_and_is_gone_at_the_end() {
    let beside = tempfile::tempdir().unwrap();
    let path = beside.path().join("http.sock");
    let listen = |config: &mut Config| {
        config.listen.http = Some(format!("unix:{}", path.display()).parse().unwrap());
        config.listen.http_mode = 0o600;
    };
    let get = async |fields: &[(&str, &str)]| {
        let page = format!("/volumes/{VOLUME}/pages/7");
        ask(UnixStream::connect(&path).await.unwrap(), Method::GET, &page, fields).await
    };
    let (server, _folder) = behind_a_proxy(|config| {
        listen(config);
        config.http.trusted_proxies = vec!["unix".to_owned()];
        config.http.hosts.clear();
    })
    .await;
    assert_eq!(server.addresses.http_socket.as_ref(), Some(&path));
    assert_eq!(get(&from("203.0.113.7")).await.status, StatusCode::OK);
    let audited = server.admin(Method::GET, "/admin/audit?top=9").await.text();
    assert!(audited.contains("address 203.0.113.7"), "{audited}");
    server.end().await;
    assert!(!path.exists());

    // Those that are not trusted are one client on this machine.
    let (server, _folder) = Server::start(listen).await;
    assert_eq!(get(&from("203.0.113.7")).await.status, StatusCode::OK);
    let audited = server.admin(Method::GET, "/admin/audit?top=9").await.text();
    assert!(audited.contains("address 127.0.0.1") && !audited.contains("203.0.113.7"), "{audited}");
}

#[test]
fn a_base_path_has_one_spelling_and_is_no_route() {
    let checked = |path: &str| {
        let mut config = Config::default();
        config.http.base_path = path.to_owned();
        config.check().is_ok()
    };
    for path in ["", "/penates", "/a/b-1_2.x~"] {
        assert!(checked(path), "{path}");
    }
    for path in [
        "penates",
        "/",
        "/penates/",
        "//evil.example",
        "/a b",
        "/a?b",
        "/ä",
        "/a/../b",
        "/admin",
        "/x/volumes",
        "/rest",
    ] {
        assert!(!checked(path), "{path}");
    }
}

#[tokio::test]
async fn all_routes_and_addresses_are_below_the_base_path() {
    let (server, _folder) = behind_a_proxy(|config| config.http.base_path = "/penates".to_owned()).await;
    for outside in ["/", "/volumes/", "/rest/", "/healthz", "/penatesx/healthz", "/metrics"] {
        assert_eq!(server.get(outside).await.status, StatusCode::NOT_FOUND, "{outside}");
    }
    assert!(!server.get("/volumes/").await.header("x-request-id").is_empty());
    for inside in ["/penates/", "/penates/healthz", "/penates/openapi", "/penates/data-api/volumes/"] {
        assert_eq!(server.get(inside).await.status, StatusCode::OK, "{inside}");
    }
    assert_eq!(server.get("/penates?a=b").await.header("location"), "/penates/?a=b");
    let page = server.get("/penates/").await.text();
    assert!(!page.contains("=\"/") && page.contains("\"assets/page.js\""), "{page}");

    let token = format!("Bearer {}", server.token("writer").await);
    let fields = [&from("203.0.113.7")[..], &[("authorization", &*token), ("content-type", "text/turtle")]].concat();
    let made = server.ask(Method::PUT, "/penates/rest/a", &fields).await;
    assert_eq!(made.header("location"), "https://books.example.org/penates/rest/a");
    let triples = [("accept", "application/n-triples")];
    let listed = server.ask(Method::GET, "/penates/rest/", &triples).await.text();
    assert!(listed.contains("contains> <http://localhost/penates/rest/a>"), "{listed}");
    let selected = server.ask(Method::POST, &format!("/penates/selections?volumeIDs={VOLUME}"), &[]).await;
    assert!(selected.header("location").starts_with("/penates/selections/"), "{}", selected.text());
    for (path, headers, location) in [
        ("/penates/rest/a/", &[][..], "/penates/rest/a"),
        (&*format!("/penates/rest/volumes/{VOLUME}"), &[("accept", "application/zip")], "/penates/volumes?volumeIDs="),
    ] {
        let answer = server.ask(Method::GET, path, headers).await;
        assert!(answer.header("location").starts_with(location), "{path}: {}", answer.header("location"));
    }
    let member = server.ask(Method::OPTIONS, &format!("/penates/rest/volumes/{VOLUME}/pages/7"), &[]).await;
    assert!(!member.header("link").contains("</rest/"), "{}", member.header("link"));
    assert_eq!(server.get("/penates/feed").await.json()["id"], "http://localhost/penates/feed");
    // Commands name routes without it, and follow links with it.
    for path in ["/rest/a", "/penates/rest/a"] {
        assert_eq!(server.admin(Method::GET, path).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn http_is_redirected_to_https_of_the_server() {
    let loopback = || Some("127.0.0.1:0".parse().unwrap());
    let (server, _folder) = behind_a_proxy(|config| {
        (config.listen.tls, config.listen.redirect) = (loopback(), loopback());
    })
    .await;
    let (tls, redirect) = (server.addresses.tls.unwrap(), server.addresses.redirect.unwrap());
    let asked = async |host: &str| {
        let request = format!("POST /rest/a%20b?c=d HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        sent(redirect, &[request.as_bytes()]).await.to_lowercase()
    };
    let answer = asked("books.example.org").await;
    assert!(answer.starts_with("http/1.1 308"), "{answer}");
    let location = format!("location: https://books.example.org:{}/rest/a%20b?c=d\r\n", tls.port());
    assert!(answer.contains(&location) && !answer.contains("strict-transport"), "{answer}");
    assert!(asked("evil.example").await.starts_with("http/1.1 421"));
    // A probe may name any host, and so is sent nowhere.
    let probe = sent(redirect, &[b"GET /healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"]).await;
    assert!(probe.starts_with("HTTP/1.1 204") && !probe.contains("evil"), "{probe}");

    let head = async |url: String| {
        let mut curl = tokio::process::Command::new("curl");
        let output = soon("curl", curl.args(["-skI", "--max-time", "60", &url]).output()).await.unwrap();
        String::from_utf8(output.stdout).unwrap().to_lowercase()
    };
    let encrypted = head(format!("https://{tls}/healthz")).await;
    assert!(encrypted.contains("strict-transport-security: max-age=15552000\r\n"), "{encrypted}");
    assert!(!server.get("/healthz").await.headers.contains_key("strict-transport-security"));
    let (plain, _folder) = Server::start(|config| config.listen.tls = loopback()).await;
    let encrypted = head(format!("https://{}/healthz", plain.addresses.tls.unwrap())).await;
    assert!(encrypted.starts_with("http/2 200") && !encrypted.contains("strict-transport"), "{encrypted}");
}
