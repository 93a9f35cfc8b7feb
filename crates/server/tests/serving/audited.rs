//! What the audit says of changes and refusals.

use http::{Method, StatusCode};
use serde_json::Value;
use server::config::{Access, AuditMode};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::{Server, VOLUME, on_free_ports, open_store, soon, until};

/// The events of the audit that meet conditions, as the administrator reads them.
async fn events(server: &Server, conditions: &str) -> Vec<Value> {
    let answer = server.admin(Method::GET, &format!("/admin/audit?{conditions}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let entries = answer.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    entries.into_iter().filter(|entry| !entry["event"].is_null()).map(|entry| entry["event"].clone()).collect()
}

#[tokio::test]
async fn a_change_is_recorded_before_its_answer_with_who_made_it_and_how_it_ended() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token("archivist").await;
    let with = [("authorization", format!("Bearer {token}")), ("x-request-id", "r-1".to_owned())];
    let headers = with.each_ref().map(|(name, value)| (*name, value.as_str()));
    let made = server.ask(Method::POST, "/rest/", &headers).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let changed = &events(&server, "kind=change&token=archivist").await[..];
    let [event] = changed else { panic!("{changed:?}") };
    assert_eq!(event["actor"]["token"], "archivist");
    assert_eq!(event["actor"]["address"], "127.0.0.1");
    assert_eq!([&event["action"], &event["target"], &event["request_id"]], ["POST", "/rest/", "r-1"]);
    assert!(made.header("location").ends_with(event["made"].as_str().unwrap()), "{event}");
    assert_eq!(event["result"]["status"], 201);

    let path = format!("/volumes/{VOLUME}");
    assert_eq!(server.ask(Method::DELETE, &path, &headers).await.status, StatusCode::NO_CONTENT);
    let lost = server.ask(Method::DELETE, "/volumes/t.none", &headers).await.status;
    assert_eq!(lost, StatusCode::NOT_FOUND);
    let targets = async |result: &str| -> Vec<Value> {
        let events = events(&server, &format!("kind=change&target=/volumes/&result={result}")).await;
        events.into_iter().map(|event| event["target"].clone()).collect()
    };
    assert_eq!(targets("ok").await, [path.as_str()]);
    assert_eq!(targets("404").await, ["/volumes/t.none"]);
    server.end().await;
}

#[tokio::test]
async fn below_a_base_path_records_name_what_was_made_as_they_name_targets() {
    let (server, _folder) = Server::start(|config| config.http.base_path = "/penates".to_owned()).await;
    let authorization = format!("Bearer {}", server.token("archivist").await);
    let headers = [("authorization", authorization.as_str())];
    let posted = server.ask(Method::POST, "/penates/rest/", &headers).await;
    let put = server.ask(Method::PUT, "/penates/rest/letters", &headers).await;
    assert_eq!([posted.status, put.status], [StatusCode::CREATED; 2], "{} {}", posted.text(), put.text());
    let changed = &events(&server, "kind=change&token=archivist").await[..];
    let [of_post, of_put] = changed else { panic!("{changed:?}") };
    assert_eq!([&of_post["target"], &of_put["target"]], ["/rest/", "/rest/letters"]);
    let made = of_post["made"].as_str().unwrap();
    assert!(made.starts_with("/rest/") && posted.header("location").ends_with(&format!("/penates{made}")), "{of_post}");
    assert!(of_put["made"].is_null(), "the target says it: {of_put}");
    server.end().await;
}

#[tokio::test]
async fn tokens_made_and_revoked_and_reads_of_the_audit_name_the_user_of_the_socket() {
    let (server, _folder) = Server::start(|_| {}).await;
    server.token_for("guest", "read").await;
    server.admin(Method::DELETE, "/admin/tokens/guest").await;
    let found = events(&server, "target=/admin/tokens/guest").await;
    let actions: Vec<_> = found.iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["POST", "DELETE"]);
    assert!(found.iter().all(|event| event["actor"]["user"].is_string()), "{found:?}");
    assert_eq!(found[0]["detail"], "scope=read");
    let reads = &events(&server, "kind=read").await[..];
    let [read] = reads else { panic!("{reads:?}") };
    assert_eq!(read["target"], "/admin/audit", "a reader of the audit is in it, except this time");
    server.end().await;
}

#[tokio::test]
async fn a_flood_of_refusals_is_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::serve(on_free_ports(), open_store(folder.path())).await;
    for n in 0..20 {
        let refused = server.ask(Method::DELETE, &format!("/volumes/t.{n}"), &[("x-request-id", "r")]).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        assert_eq!(server.ask(Method::POST, &format!("/nothing/{n}"), &[]).await.status, StatusCode::NOT_FOUND);
    }
    server.end().await;
    // The last ones are written when the server ends.
    let server = Server::serve(on_free_ports(), open_store(folder.path())).await;
    let refusals = &events(&server, "kind=refusal").await[..];
    let [refusal] = refusals else { panic!("{refusals:?}") };
    assert_eq!((&refusal["count"], &refusal["target"]), (&20.into(), &"/volumes/t.0".into()));
    assert_eq!(refusal["result"]["status"], 401);
    assert!(events(&server, "kind=change").await.is_empty(), "what changes nothing leaves nothing");
    server.end().await;
}

#[tokio::test]
async fn refusals_by_the_redis_protocol_are_counted_as_those_over_http_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = on_free_ports();
    config.records.listen = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::serve(config, open_store(folder.path())).await;
    let reader = server.token("reader").await;
    let mut client = TcpStream::connect(server.addresses.records.unwrap()).await.unwrap();
    let lines = format!("{}AUTH no-token\r\nQUIT\r\n", "set a 1\r\n".repeat(20));
    client.write_all(lines.as_bytes()).await.unwrap();
    let mut answers = String::new();
    soon("answers", client.read_to_string(&mut answers)).await.unwrap();
    assert!(answers.contains("NOAUTH") && answers.contains("WRONGPASS"), "{answers}");
    server.end().await;

    let server = Server::serve(on_free_ports(), open_store(folder.path())).await;
    let refusals = &events(&server, "kind=refusal").await[..];
    let [refusal] = refusals else { panic!("{refusals:?}") };
    assert_eq!([&refusal["action"], &refusal["target"]], ["SET", "/records/"]);
    assert_eq!((&refusal["count"], &refusal["result"]["status"]), (&21.into(), &401.into()));
    assert_eq!(refusal["actor"]["address"], "127.0.0.1");
    assert!(!refusal.to_string().contains("no-token") && !refusal.to_string().contains(&reader), "{refusal}");
    server.end().await;
}

#[tokio::test]
async fn reads_of_resources_are_recorded_if_asked_for_and_changes_are_not_if_not() {
    let (server, _folder) = Server::start(|config| {
        config.audit.resource_reads = AuditMode::Synced;
        config.audit.changes = AuditMode::Off;
    })
    .await;
    server.token("guest").await;
    assert_eq!(server.get("/rest/").await.status, StatusCode::OK);
    assert_eq!(server.get("/readyz").await.status, StatusCode::OK);
    let events = events(&server, "").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!([&events[0]["kind"], &events[0]["target"]], ["read", "/rest/"]);
    server.end().await;
}

/// Reads lines of a response until one has this text; `None`: it ended before.
async fn line_with(lines: &mut Lines, text: &str) -> Option<String> {
    let wait = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(text) {
                return Some(line);
            }
        }
        None
    };
    soon(text, wait).await
}

type Lines = tokio::io::Lines<BufReader<TcpStream>>;

#[tokio::test]
async fn the_audit_is_read_over_a_network_with_the_scope_admin_alone_and_each_reading_is_recorded() {
    let (server, _folder) = Server::start(|config| config.auth.write = Access::Open).await;
    assert_eq!(server.get("/audit").await.status, StatusCode::UNAUTHORIZED, "although changing is open");
    let writer = server.token("writer").await;
    let refused = server.send(&writer, Method::GET, "/audit", &[], "").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let auditor = server.token_for("auditor", "admin").await;
    assert_eq!(server.send(&writer, Method::PUT, "/rest/a", &[], "").await.status, StatusCode::CREATED);

    let get = async |path: &str| server.send(&auditor, Method::GET, path, &[], "").await;
    let lines = get("/audit?kind=change&token=writer").await;
    let change: Value = serde_json::from_str(&lines.text()).unwrap();
    assert_eq!([&change["action"], &change["target"], &change["result"]], ["PUT", "/rest/a", "201"]);
    let table = get("/audit?format=csv&target=/rest/").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert!(table.text().starts_with("at,kind,action,token") && table.text().contains(",change,PUT,writer,"));
    for wrong in ["top=3", "follow=true&to=2026-01-01T00:00:00Z", "follow=true&format=csv", "kind=all", "x=y"] {
        let answer = get(&format!("/audit?{wrong}")).await;
        assert!(answer.status == StatusCode::BAD_REQUEST, "{wrong}: {} {}", answer.status, answer.text());
    }
    let reads = events(&server, "kind=read&token=auditor&result=ok").await;
    assert_eq!(reads.len(), 2, "{reads:?}");
    assert!(reads.iter().all(|read| read["target"] == "/audit"));
    assert_eq!(reads[0]["detail"], "kind=change&token=…", "it names nobody");
    server.end().await;
}

#[tokio::test]
async fn a_follower_of_the_audit_gets_each_record_once_until_its_token_is_revoked() {
    let (server, _folder) = Server::start(|_| {}).await;
    let auditor = server.token_for("auditor", "admin").await;
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    let request = format!(
        "GET /audit?follow=true&kind=change HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {auditor}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(line_with(&mut lines, "/admin/tokens/auditor").await.is_some(), "what was recorded before");
    for name in ["first", "second"] {
        server.token_for(name, "read").await;
        let line = line_with(&mut lines, "admin/tokens").await.unwrap();
        assert!(line.contains(&format!("/admin/tokens/{name}")), "{line}");
        let until: Value = serde_json::from_str(&line_with(&mut lines, "until").await.unwrap()).unwrap();
        assert!(until["until"].as_str().unwrap().ends_with('Z'), "{until}");
    }
    server.admin(Method::DELETE, "/admin/tokens/auditor").await;
    assert_eq!(line_with(&mut lines, "never").await, None, "the response ends");
    server.end().await;
}

#[tokio::test]
async fn signing_in_and_out_is_no_change() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token("archivist").await;
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let signed_in = server.ask_with(Method::POST, "/sign-in", &form, &format!("token={token}")).await;
    assert_eq!(signed_in.status, StatusCode::SEE_OTHER);
    assert_eq!(server.ask(Method::POST, "/sign-out", &[]).await.status, StatusCode::SEE_OTHER);
    let changes = events(&server, "kind=change").await;
    assert!(changes.iter().all(|event| event["target"] != "/sign-in" && event["target"] != "/sign-out"), "{changes:?}");
    assert!(!changes.is_empty(), "the token was made");
}

#[tokio::test]
async fn what_is_requested_in_a_transaction_is_recorded_as_staged_and_the_commit_as_the_change() {
    let (server, _folder) = Server::start(|_| {}).await;
    let token = server.token("archivist").await;
    let ask = async |method, path: &str, transaction: &str| {
        let headers: &[_] = if transaction.is_empty() { &[] } else { &[("atomic-id", transaction)] };
        server.send(&token, method, path, headers, "").await
    };
    for commits in [true, false] {
        let begun = ask(Method::POST, "/rest/fcr:tx", "").await;
        let address = begun.header("location").to_owned();
        let (_, id) = address.rsplit_once('/').unwrap();
        let path = format!("/rest/fcr:tx/{id}");
        assert_eq!(ask(Method::PUT, "/rest/a", &address).await.status, StatusCode::CREATED);
        assert!(ask(Method::PUT, "/rest/c/d", "").await.status.is_success(), "outside of it");
        let end = if commits { Method::PUT } else { Method::DELETE };
        assert_eq!(ask(end, &path, "").await.status, StatusCode::NO_CONTENT);
        let of = async |kind: &str| -> Vec<String> {
            let events = events(&server, &format!("kind={kind}&token=archivist")).await.into_iter();
            let of_it = events.filter(|event| event["transaction"] == id);
            of_it.map(|event| format!("{} {}", event["action"], event["target"]).replace('"', "")).collect()
        };
        let (staged, ended) = ("PUT /rest/a".to_owned(), format!("{} {path}", if commits { "PUT" } else { "DELETE" }));
        match commits {
            true => assert_eq!((of("staged").await, of("change").await), (vec![staged], vec![ended])),
            false => {
                // What is staged is recorded soon.
                until("both are recorded", async || of("staged").await == [staged.clone(), ended.clone()]).await;
                assert_eq!(of("change").await, Vec::<String>::new());
            }
        }
        assert_eq!(ask(Method::DELETE, "/rest/a", "").await.status.is_success(), commits);
        let _ = ask(Method::DELETE, "/rest/a/fcr:tombstone", "").await;
    }
    let changes = events(&server, "kind=change&target=/rest/a").await;
    assert!(changes.iter().all(|event| event["action"] == "DELETE"), "{changes:?}");
    server.end().await;
}

#[tokio::test]
async fn a_reader_of_the_audit_hides_nothing_by_the_id_of_its_request() {
    let (server, _folder) = Server::start(|_| {}).await;
    let auditor = server.token_for("auditor", "admin").await;
    let id = [("x-request-id", "mine")];
    let writer = server.token("writer").await;
    assert_eq!(server.send(&writer, Method::PUT, "/rest/a", &id, "").await.status, StatusCode::CREATED);
    for readings in 0..2 {
        let seen = server.send(&auditor, Method::GET, "/audit", &id, "").await.text();
        assert_eq!(seen.matches("\"PUT\"").count(), 1, "{seen}");
        assert_eq!(seen.matches("\"read\"").count(), readings, "each reading but the present one: {seen}");
    }
    server.end().await;
}

#[tokio::test]
async fn who_follows_the_audit_takes_a_place_and_gives_it_back() {
    let (server, _folder) = Server::start(|config| config.feed.consumers_max = 2).await;
    let auditor = server.token_for("auditor", "admin").await;
    let request =
        format!("GET /audit?follow=true HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {auditor}\r\n\r\n");
    let follow = async || {
        let mut stream = TcpStream::connect(server.http()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = soon("a status", lines.next_line()).await.unwrap().unwrap();
        (status, lines)
    };
    let (status, first) = follow().await;
    assert!(status.contains("200"), "{status}");
    let (status, _) = follow().await;
    assert!(status.contains("503"), "{status}");
    drop(first);
    let again = async {
        while !follow().await.0.contains("200") {
            tokio::task::yield_now().await;
        }
    };
    soon("a place", again).await;
    server.end().await;
}
