//! What the audit says of changes and refusals.

use http::{Method, StatusCode};
use serde_json::Value;
use server::config::AuditMode;

use crate::support::{Server, VOLUME, on_free_ports, open_store};

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
async fn reads_of_resources_are_recorded_if_asked_for_and_changes_are_not_if_not() {
    let (server, _folder) = Server::start(|config| {
        config.audit.resource_reads = AuditMode::Awaited;
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
