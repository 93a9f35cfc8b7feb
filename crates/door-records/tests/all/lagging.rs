//! Changes where usual reads ask a replica that lags: none of them misses what has changed.

use crate::support::Subject;
use crate::support::http::send;
use axum::body::Body;
use http::{Method, StatusCode};

#[tokio::test]
async fn a_change_sees_a_record_that_its_replica_lacks() {
    let (subject, store) = Subject::lagging().await;
    let (mut connection, router) = (subject.connect(), subject.router());
    store.fall_behind();
    for id in ["a", "b", "c", "d", "e"] {
        assert_eq!(connection.ask(&["HSET", id, "f", "1", "g", "2"]).await.text(), "2");
    }
    // Such a read may miss it.
    assert_eq!(connection.ask(&["EXISTS", "a"]).await.text(), "0");
    assert_eq!(connection.ask(&["HSETNX", "a", "f", "2"]).await.text(), "0");
    assert_eq!(connection.ask(&["HDEL", "a", "f"]).await.text(), "1");
    assert_eq!(connection.ask(&["SETNX", "b", "2"]).await.text(), "0");
    assert_eq!(connection.ask(&["DEL", "b", "none"]).await.text(), "1");
    assert_eq!(connection.ask(&["SETNX", "b", "2"]).await.text(), "1", "it is deleted");
    let sent = [&["MULTI"][..], &["HGET", "c", "f"], &["EXEC"]];
    assert_eq!(connection.ask_all(&sent).await[2].text(), "1", "a transaction is one change");
    assert_eq!(send(&router, Method::DELETE, "/records/d", &[], Body::empty()).await.status, StatusCode::NO_CONTENT);
    let any = [("if-match", "*")];
    let patched = send(&router, Method::PATCH, "/records/e", &any, "{\"f\":\"2\"}").await;
    assert_eq!(patched.status, StatusCode::NO_CONTENT, "{}", patched.body);
}

#[tokio::test]
async fn a_change_does_not_see_a_record_that_only_its_replica_still_has() {
    let (subject, store) = Subject::lagging().await;
    let (mut connection, router) = (subject.connect(), subject.router());
    for id in ["a", "b", "c"] {
        assert_eq!(connection.ask(&["SET", id, "1"]).await.text(), "OK");
    }
    store.fall_behind();
    assert_eq!(connection.ask(&["DEL", "a", "b", "c"]).await.text(), "3");
    assert_eq!(connection.ask(&["EXISTS", "a", "b", "c"]).await.text(), "3", "such a read may find it");
    assert_eq!(connection.ask(&["DEL", "a"]).await.text(), "0");
    assert_eq!(connection.ask(&["SETNX", "a", "2"]).await.text(), "1");
    assert_eq!(connection.ask(&["SET", "b", "2", "NX"]).await.text(), "OK");
    assert_eq!(connection.ask(&["SET", "b", "3", "NX"]).await.text(), "nothing");
    let only_new = [("if-none-match", "*")];
    let made = send(&router, Method::PUT, "/records/c", &only_new, "\"2\"").await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
}

#[tokio::test]
async fn a_command_that_changes_nothing_has_an_answer_while_a_replica_is_away() {
    let (subject, store) = Subject::lagging().await;
    let mut connection = subject.connect();
    store.fall_behind();
    assert_eq!(connection.ask(&["SET", "a", "1"]).await.text(), "OK");
    store.lose_one();
    // The replica that usual reads ask lacks the record.
    assert_eq!(connection.ask(&["SETNX", "a", "2"]).await.text(), "0");
    assert_eq!(connection.ask(&["DEL", "none"]).await.text(), "0");
    assert_eq!(connection.ask(&["HDEL", "none", "f"]).await.text(), "0");
    assert_eq!(connection.ask(&["DEL", "a"]).await.text(), "1");
    assert_eq!(connection.ask(&["DEL", "a"]).await.text(), "0");
}
