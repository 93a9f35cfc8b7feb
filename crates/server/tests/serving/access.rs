//! Identities and rights.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{Method, StatusCode};
use server::config::Access;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

use crate::support::{Server, VOLUME, on_free_ports, open_store, soon};

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn basic(token: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("anybody:{token}")))
}

/// Every path that needs the right to read, at the root and under the prefix.
fn reading_paths() -> Vec<String> {
    let under =
        ["/volumes/", &format!("/volumes/{VOLUME}"), &format!("/volumes/{VOLUME}/pages/7"), "/volumes?volumeIDs=a.b"];
    let doors = ["", "/data-api"].into_iter().flat_map(|prefix| under.map(|path| format!("{prefix}{path}")));
    doors.chain(["/stat".to_owned(), "/metrics".to_owned()]).collect()
}

#[tokio::test]
async fn tokens_of_other_issuers_do_no_harm_while_reading_is_open() {
    let (server, _folder) = Server::start(|_| {}).await;
    for path in reading_paths() {
        for shown in ["", "Bearer eyJhbGciOi.of.others", "Basic bm90IG91cnM=", "Negotiate ???"] {
            let answer = server.ask(Method::GET, &path, &[("authorization", shown)]).await;
            assert_eq!(answer.status, StatusCode::OK, "{path} with `{shown}`: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn nothing_is_served_without_a_token_if_reading_needs_one() {
    let (server, _folder) = Server::start(|config| config.auth.read = Access::Token).await;
    let token = server.token("reader").await;
    for path in reading_paths() {
        let answer = server.get(&path).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        let challenges: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
        assert_eq!(challenges.len(), 2, "{challenges:?}");
        for shown in [bearer("penates_0"), bearer(&token[1..]), bearer(""), basic("penates_0")] {
            let answer = server.ask(Method::GET, &path, &[("authorization", &shown)]).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} with {shown}");
        }
        for shown in [bearer(&token), basic(&token)] {
            let answer = server.ask(Method::GET, &path, &[("authorization", &shown)]).await;
            assert_eq!(answer.status, StatusCode::OK, "{path} with {shown}: {}", answer.text());
        }
    }
    for path in ["/", "/healthz", "/readyz"] {
        assert_eq!(server.get(path).await.status, StatusCode::OK, "{path} tells nothing of the text");
    }
}

#[tokio::test]
async fn changing_needs_a_valid_token() {
    let (server, _folder) = Server::start(|_| {}).await;
    let (good, revoked) = (server.token("good").await, server.token("revoked").await);
    assert_eq!(server.admin(Method::DELETE, "/admin/tokens/revoked").await.status, StatusCode::OK);
    for prefix in ["", "/data-api"] {
        let path = format!("{prefix}/volumes/{VOLUME}");
        for (method, path) in
            [(Method::DELETE, path.clone()), (Method::PUT, path.clone()), (Method::POST, path + "/verify")]
        {
            for shown in ["", &bearer("of.others"), &bearer(&revoked), &basic(&revoked)] {
                let answer = server.ask(method.clone(), &path, &[("authorization", shown)]).await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path} with {shown}");
            }
        }
    }
    let path = format!("/volumes/{VOLUME}");
    assert_eq!(server.get(&path).await.status, StatusCode::OK, "it is still there");
    let answer = server.ask(Method::DELETE, &path, &[("authorization", &bearer(&good))]).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text());
    assert_eq!(server.get(&path).await.status, StatusCode::GONE);
}

/// Sends a command of the Redis protocol, and returns the first line of the answer.
async fn command(client: &mut BufStream<TcpStream>, line: &str) -> String {
    client.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let mut answer = String::new();
    soon("an answer", client.read_line(&mut answer)).await.unwrap();
    answer.trim_end().to_owned()
}

#[tokio::test]
async fn the_scopes_of_a_token_are_its_rights_over_records_by_both_doors() {
    let (server, _folder) = Server::start(|config| {
        (config.auth.read, config.auth.write) = (Access::Token, Access::Token);
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let json = [("content-type", "application/json")];
    let lines = [("content-type", "application/x-ndjson")];
    for (name, scopes, may_read, may_write) in [
        ("a", "write", true, true),
        ("b", "read", true, false),
        ("c", "metrics", false, false),
        ("d", "read write rest:/a", false, false),
    ] {
        let token = server.token_for(name, scopes).await;
        let mut client = BufStream::new(TcpStream::connect(server.addresses.records.unwrap()).await.unwrap());
        let sent = async |method, path, headers: &[_], body| server.send(&token, method, path, headers, body).await;
        for (method, path, headers, body, is_allowed) in [
            (Method::PUT, "/records/r", &json, r#"{"a": "1"}"#, may_write),
            (Method::PATCH, "/records/r", &json, r#"{"a": "2"}"#, may_write),
            (Method::POST, "/records:batchWrite", &lines, r#"{"id": "r", "attributes": {"a": "3"}}"#, may_write),
            (Method::GET, "/records/r", &json, "", may_read),
            (Method::POST, "/records:batchGet", &lines, r#"{"id": "r"}"#, may_read),
        ] {
            let answer = sent(method.clone(), path, headers, body).await;
            let what = format!("{scopes}: {method} {path}: {} {}", answer.status, answer.text());
            assert_eq!(answer.status.is_success(), is_allowed, "{what}");
            assert!(is_allowed || answer.status == StatusCode::FORBIDDEN, "{what}");
        }
        assert_eq!(command(&mut client, &format!("AUTH {token}")).await, "+OK");
        for (line, expected, is_allowed) in [("EXISTS r", ":1", may_read), ("HSET r b 1", ":", may_write)] {
            let answer = command(&mut client, line).await;
            let expected = if is_allowed { expected } else { "-NOPERM" };
            assert!(answer.starts_with(expected), "{scopes}: {line}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_revoked_token_does_not_count_any_more_on_open_connections_to_the_records() {
    let (server, _folder) = Server::start(|config| {
        config.auth.read = Access::Token;
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let token = server.token("bidder").await;
    let mut client = BufStream::new(TcpStream::connect(server.addresses.records.unwrap()).await.unwrap());
    for (line, answer) in [(&*format!("AUTH {token}"), "+OK"), ("SET r 1", "+OK"), ("MULTI", "+OK")] {
        assert_eq!(command(&mut client, line).await, answer, "{line}");
    }
    assert_eq!(command(&mut client, "SET r 2").await, "+QUEUED");
    assert_eq!(server.admin(Method::DELETE, "/admin/tokens/bidder").await.status, StatusCode::OK);
    let refused = command(&mut client, "EXEC").await;
    assert!(refused.starts_with("-NOPERM") || refused.starts_with("-EXECABORT"), "{refused}");
    for line in ["GET r", "SET r 3", "EXISTS r"] {
        let answer = command(&mut client, line).await;
        assert!(answer.starts_with("-NOPERM"), "{line}: {answer}");
    }
    let again = server.token("another").await;
    assert_eq!(command(&mut client, &format!("AUTH {again}")).await, "+OK");
    assert_eq!(command(&mut client, "INCRBY r 0").await, ":1", "what was queued is not done");
}

#[tokio::test]
async fn reports_of_the_fixity_auditor_name_what_is_stored_and_need_the_scope_admin() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token_for("operator", "admin").await;
    for path in ["/fixity", "/fixity/1"] {
        assert_eq!(server.get(path).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let json = server.ask(Method::GET, "/fixity", &[("authorization", &bearer(&token))]).await;
    assert_eq!(json.status, StatusCode::OK, "{}", json.text());
    assert!(json.text().contains("\"passes\":[]"), "{}", json.text());
    let html = [("authorization", &*bearer(&token)), ("accept", "text/html")];
    let page = server.ask(Method::GET, "/fixity", &html).await;
    assert!(page.status == StatusCode::OK && page.text().contains("No pass has begun yet"), "{}", page.text());
    let absent = server.ask(Method::GET, "/fixity/1", &html).await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
    assert!(server.get("/metrics").await.text().contains("penates_fixity_oldest_check_seconds inf"));
}

#[tokio::test]
async fn changing_needs_no_token_if_it_is_open() {
    let (server, _folder) = Server::start(|config| config.auth.write = Access::Open).await;
    let answer = server.ask(Method::DELETE, &format!("/volumes/{VOLUME}"), &[]).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text());
}

#[tokio::test]
async fn a_page_of_another_site_cannot_make_a_browser_change_anything() {
    let (server, _folder) = Server::start(|config| config.auth.write = Access::Open).await;
    let path = format!("/volumes/{VOLUME}/verify");
    for (site, status) in
        [("cross-site", StatusCode::FORBIDDEN), ("same-site", StatusCode::FORBIDDEN), ("same-origin", StatusCode::OK)]
    {
        let answer = server.ask(Method::POST, &path, &[("sec-fetch-site", site)]).await;
        assert_eq!(answer.status, status, "{site}: {}", answer.text());
    }
    let read = server.ask(Method::GET, "/volumes/", &[("sec-fetch-site", "cross-site")]).await;
    assert_eq!(read.status, StatusCode::OK, "any page may link to a volume");
}

#[tokio::test]
async fn the_administrators_routes_do_not_exist_on_the_network() {
    let (server, _folder) = Server::start(|config| config.auth.write = Access::Open).await;
    let token = server.token("admin").await;
    for (method, path) in [
        (Method::GET, "/admin/tokens"),
        (Method::POST, "/admin/tokens?name=mine"),
        (Method::DELETE, "/admin/tokens/admin"),
        (Method::GET, "/admin/audit"),
        (Method::POST, "/admin/sweep"),
        (Method::GET, "/data-api/admin/tokens"),
    ] {
        let answer = server.ask(method.clone(), path, &[("authorization", &bearer(&token))]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    for (method, path) in
        [(Method::GET, "/admin/tokens"), (Method::GET, "/admin/audit"), (Method::POST, "/admin/sweep")]
    {
        assert_eq!(server.admin(method.clone(), path).await.status, StatusCode::OK, "{method} {path} by the socket");
    }
}

#[tokio::test]
async fn the_administrators_socket_needs_no_token() {
    let (server, _folder) = Server::start(|config| config.auth.read = Access::Token).await;
    let path = format!("/volumes/{VOLUME}");
    assert_eq!(server.admin(Method::GET, &path).await.status, StatusCode::OK);
    assert_eq!(server.admin(Method::DELETE, &path).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_token_is_shown_once_and_its_name_is_never_reused() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token("once").await;
    let listed = server.admin(Method::GET, "/admin/tokens").await;
    assert!(listed.text().contains("\"once\"") && !listed.text().contains(&token), "{}", listed.text());
    for _ in 0..2 {
        let again = server.admin(Method::POST, "/admin/tokens?name=once").await;
        assert_eq!(again.status, StatusCode::CONFLICT, "also after it was revoked");
        assert_eq!(server.admin(Method::DELETE, "/admin/tokens/once").await.status, StatusCode::OK);
    }
    assert_eq!(server.admin(Method::DELETE, "/admin/tokens/never").await.status, StatusCode::NOT_FOUND);
    for name in ["", "a%20b", "a%2Fb", &"x".repeat(65)] {
        let answer = server.admin(Method::POST, &format!("/admin/tokens?name={name}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
    }
}

#[tokio::test]
async fn tokens_outlive_the_server() {
    let (server, folder) = Server::start(|_| {}).await;
    let (kept, revoked) = (server.token("kept").await, server.token("revoked").await);
    server.admin(Method::DELETE, "/admin/tokens/revoked").await;
    server.end().await;
    let mut config = on_free_ports();
    config.auth.read = Access::Token;
    let server = Server::serve(config, open_store(folder.path())).await;
    for (token, status) in [(kept, StatusCode::OK), (revoked, StatusCode::UNAUTHORIZED)] {
        let answer = server.ask(Method::GET, "/volumes/", &[("authorization", &bearer(&token))]).await;
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn the_audit_identifies_clients_by_token_name_or_address() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token("historian").await;
    let path = format!("/volumes/{VOLUME}/pages/7");
    let headers = [("authorization", bearer(&token)), ("x-request-id", "asked-1".to_owned())];
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(server.ask(Method::GET, &path, &headers).await.status, StatusCode::OK);
    assert_eq!(server.get(&path).await.status, StatusCode::OK);
    let audit = server.admin(Method::GET, "/admin/audit").await;
    let records: Vec<serde_json::Value> =
        audit.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let by = |key: &str, value: &str| records.iter().filter(|record| record["requester"][key] == value).count();
    assert_eq!(by("name", "historian"), 2, "REQUESTED and ACCESSED: {}", audit.text());
    assert_eq!(by("request_id", "asked-1"), 2);
    assert_eq!(by("address", "127.0.0.1"), 4);
    let top = server.admin(Method::GET, "/admin/audit?top=1").await.json();
    assert_eq!(top["requests"], 2);
    let later = server.admin(Method::GET, "/admin/audit?from=2999-01-01T00:00:00Z").await;
    assert_eq!(later.text(), "");
    assert_eq!(server.admin(Method::GET, "/admin/audit?from=yesterday").await.status, StatusCode::BAD_REQUEST);
}

/// A path for each kind of request: reading, changing, metrics, and what operators see.
fn paths_by_scope() -> [(&'static str, Method, String); 4] {
    [
        ("read", Method::GET, format!("/volumes/{VOLUME}")),
        ("write", Method::POST, format!("/volumes/{VOLUME}/verify")),
        ("metrics", Method::GET, "/metrics".to_owned()),
        ("admin", Method::GET, "/fixity".to_owned()),
    ]
}

#[tokio::test]
async fn a_token_allows_what_its_scopes_say_and_nothing_else() {
    let (server, _folder) = Server::start(|config| config.auth.read = Access::Token).await;
    let cases = [
        ("read", [true, false, true, false]),
        ("write", [true, true, true, false]),
        ("metrics", [false, false, true, false]),
        ("admin", [false, false, true, true]),
    ];
    for (scope, allowed) in cases {
        let token = server.token_for(scope, scope).await;
        for ((needed, method, path), allowed) in paths_by_scope().into_iter().zip(allowed) {
            let answer = server.ask(method, &path, &[("authorization", &bearer(&token))]).await;
            let expected = if allowed { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status, expected, "{path} with the scope {scope}: {}", answer.text());
            if !allowed {
                let challenge = answer.header("www-authenticate");
                let error = format!("error=\"insufficient_scope\", scope=\"{needed}\"");
                assert!(challenge.contains(&error), "{challenge}");
                assert_eq!(answer.json()["kind"], "insufficient-scope");
            }
        }
    }
}

#[tokio::test]
async fn a_token_with_few_scopes_may_do_what_is_open_to_all() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token_for("prometheus", "metrics").await;
    let answer = server.ask(Method::GET, &format!("/volumes/{VOLUME}"), &[("authorization", &bearer(&token))]).await;
    assert_eq!(answer.status, StatusCode::OK);
    let answer = server.ask(Method::DELETE, &format!("/volumes/{VOLUME}"), &[("authorization", &bearer(&token))]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_is_no_scope_and_a_time_that_has_passed_are_refused() {
    let (server, _folder) = Server::start(|_| {}).await;
    for query in ["scope=all", "scope=", "scope=read%2Cwrite", "expires=2020-01-01T00:00:00Z", "expires=soon"] {
        let answer = server.admin(Method::POST, &format!("/admin/tokens?name=a&{query}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}: {}", answer.text());
    }
    assert_eq!(server.admin(Method::GET, "/admin/tokens").await.json().as_array().unwrap().len(), 0);
}
