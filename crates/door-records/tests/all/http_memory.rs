//! What requests over HTTP hold is within shares of the memory.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::Response;
use budget::Memory;
use futures::StreamExt;
use futures::future::join_all;
use http::{Method, Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt;

use crate::support::http::{Answered, get, send};
use crate::support::{Subject, fill, settings};

const LISTING: &str = "GET /records/?values=true";

/// Records of about 60 kB each.
async fn with_records(memory: &Memory, count: usize) -> (Subject, Router) {
    let subject = Subject::with(memory.clone(), settings()).await;
    let (mut client, value) = (subject.connect(), "v".repeat(60_000));
    for number in 0..count {
        assert_eq!(client.ask(&["SET", &format!("r{number}"), &value]).await.text(), "OK");
    }
    let router = subject.router();
    (subject, router)
}

/// A response of which nothing is read yet.
async fn unread(router: &Router, request: &str, body: String) -> Response {
    let (method, path) = request.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response
}

/// The lines of a response.
async fn lines(response: Response) -> Vec<Value> {
    let body = to_bytes(response.into_body(), 64 << 20).await.unwrap();
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Whether a request was refused for want of memory, and says when to come again.
fn is_overloaded(answered: &Answered) -> bool {
    answered.status == StatusCode::SERVICE_UNAVAILABLE
        && answered.json()["kind"] == "overloaded"
        && answered.headers.contains_key(header::RETRY_AFTER)
}

#[tokio::test]
async fn a_listing_takes_memory_before_it_reads_and_keeps_that_of_a_page_until_it_is_sent() {
    let memory = Memory::new(16 << 20);
    let (_subject, router) = with_records(&memory, 40).await;
    let mut responses = Vec::new();
    for count in 1_u64..=3 {
        responses.push(unread(&router, LISTING, String::new()).await);
        // The first page of each has a MiB.
        assert!(memory.taken_bytes() >= count << 20, "{}", memory.taken_bytes());
    }
    let shares = fill(&memory);
    let refused = send(&router, Method::GET, "/records/", &[("penates-deadline", "20")], Body::empty()).await;
    assert!(is_overloaded(&refused), "{}", refused.body);
    drop(shares);
    drop(responses.pop());
    for response in responses {
        assert_eq!(lines(response).await.len(), 40);
    }
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn listings_that_do_not_fit_into_the_memory_at_once_wait_for_each_other() {
    let memory = Memory::new(4 << 20);
    let (_subject, router) = with_records(&memory, 40).await;
    let listed = join_all((0..8).map(|_| async {
        let mut pieces = unread(&router, LISTING, String::new()).await.into_body().into_data_stream();
        let mut lines = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.unwrap();
            assert!(memory.taken_bytes() >= piece.len() as u64);
            lines += piece.iter().filter(|byte| **byte == b'\n').count();
        }
        lines
    }));
    assert_eq!(listed.await, [40; 8]);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn many_small_attributes_take_memory_besides_that_of_their_json() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let router = subject.router();
    let object = |count: usize| {
        let attributes: Vec<String> = (0..count).map(|number| format!("\"{number}\":1")).collect();
        format!("{{{}}}", attributes.join(","))
    };
    let names = vec!["\"name\""; 6_000].join(",");
    for (path, line) in [
        ("/records:batchWrite", format!("{{\"id\":\"a\",\"attributes\":{}}}", object(6_000))),
        ("/records:batchWrite", format!("{{\"id\":\"a\",\"patch\":{}}}", object(6_000))),
        ("/records:batchGet", format!("{{\"id\":\"a\",\"attributes\":[{names}]}}")),
    ] {
        let answers = send(&router, Method::POST, path, &[], line).await.lines();
        assert_eq!(answers[0]["kind"], "overloaded", "{path}: {answers:?}");
    }
    let refused = send(&router, Method::PUT, "/records/a", &[], object(6_000)).await;
    assert!(is_overloaded(&refused), "{}", refused.body);
    assert_eq!(send(&router, Method::PUT, "/records/a", &[], object(500)).await.status, StatusCode::CREATED);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn a_record_that_is_not_small_takes_memory_until_it_is_sent() {
    let memory = Memory::new(1 << 20);
    let (subject, router) = with_records(&memory, 1).await;
    subject.connect().ask(&["SET", "small", "1"]).await;
    let shares = fill(&memory);
    let refused = get(&router, "/records/r0").await;
    assert!(is_overloaded(&refused), "{}", refused.body);
    assert_eq!(get(&router, "/records/small").await.body, "\"1\"");
    drop(shares);
    let response = unread(&router, "GET /records/r0", String::new()).await;
    assert!(memory.taken_bytes() >= 60_000, "{}", memory.taken_bytes());
    assert_eq!(lines(response).await, ["v".repeat(60_000)]);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn answers_to_lines_take_memory_until_they_are_read() {
    let memory = Memory::new(16 << 20);
    let (_subject, router) = with_records(&memory, 1).await;
    let response = unread(&router, "POST /records:batchGet", "\"r0\"\n".repeat(40)).await;
    let all_are_held = async {
        while memory.taken_bytes() < 40 * 60_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(settings().stall_max, all_are_held).await.unwrap();
    let found = lines(response).await;
    assert_eq!(found.len(), 40);
    assert!(found.iter().all(|line| line["text"].as_str().unwrap().len() == 60_000));
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn lines_without_memory_for_their_answers_are_refused_and_the_others_are_answered() {
    let memory = Memory::new(1 << 20);
    let (_subject, router) = with_records(&memory, 1).await;
    let asked = "\"r0\"\n\"none\"\n".repeat(32);
    let answers = lines(unread(&router, "POST /records:batchGet", asked).await).await;
    assert_eq!(answers.len(), 64);
    let (found, refused): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|answer| answer.get("kind").is_none());
    assert!(refused.iter().all(|answer| answer["kind"] == "overloaded"), "{refused:?}");
    // Small answers need no more than their lines have.
    assert_eq!(found.iter().filter(|answer| answer["absent"] == true).count(), 32);
    assert!(found.iter().any(|answer| answer["text"].is_string()));
    assert_eq!(memory.taken_bytes(), 0);
}
