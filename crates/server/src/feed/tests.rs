#![allow(clippy::unwrap_used)]
use axum::body::Body;
use futures::StreamExt;
use http::{Method, Request, StatusCode, header};
use serde_json::Value;
use store::{Clock, ManualClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tower::ServiceExt;

use super::*;
use crate::access::Via;
use crate::app::App;
use crate::config::{Access, Config};
use crate::tokens::NewToken;

struct Server {
    app: App,
    router: Router,
    _folder: tempfile::TempDir,
}

async fn server_with(config: Config) -> Server {
    server_at(tempfile::tempdir().unwrap(), config).await
}

async fn server_at(folder: tempfile::TempDir, config: Config) -> Server {
    server_by(folder, config, Arc::new(store::SystemClock)).await
}

async fn server_by(folder: tempfile::TempDir, config: Config, clock: Arc<dyn Clock>) -> Server {
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
    let app = App::open_with(config, store, clock).await.unwrap();
    Server { router: app.router(Via::Network), app, _folder: folder }
}

async fn server() -> Server {
    let mut config = Config::default();
    config.auth.write = Access::Open;
    server_with(config).await
}

impl Server {
    /// Stops, and starts again with this configuration.
    async fn again(self, config: Config) -> Self {
        let Self { app, router, _folder: folder } = self;
        drop(router);
        app.close().await.unwrap();
        server_at(folder, config).await
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn put(&self, name: &str) {
        let headers = [("content-type", "text/turtle")];
        assert_eq!(self.send(Method::PUT, &format!("/rest/{name}"), &headers).await.status(), StatusCode::CREATED);
    }

    /// The response to a GET: status and JSON.
    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let response = self.send(Method::GET, path, &[]).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn page(&self, path: &str) -> Value {
        let (status, page) = self.get(path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page
    }
}

/// The part of an address behind the host.
fn local(address: &Value) -> String {
    address.as_str().unwrap().strip_prefix("http://localhost").unwrap().to_owned()
}

fn objects(page: &Value) -> Vec<&str> {
    page["orderedItems"].as_array().unwrap().iter().map(|item| item["object"]["id"].as_str().unwrap()).collect()
}

/// Reads a stream until it has this many events. Returns their ids and data.
async fn read(response: Response, events: usize) -> Vec<(String, Value)> {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    while text.matches("data: ").count() < events {
        let piece = tokio::time::timeout(std::time::Duration::from_secs(60), body.next()).await;
        let piece = piece.expect("the stream says nothing");
        text += std::str::from_utf8(&piece.expect("the stream ends").unwrap()).unwrap();
    }
    assert!(text.starts_with("retry: 3000\nid: "), "{text}");
    let blocks = text.split("\n\n").filter_map(|block| block.split_once("\ndata: "));
    blocks.map(|(id, data)| (id.replace("id: ", ""), serde_json::from_str(data).unwrap())).collect()
}

#[tokio::test]
async fn the_collection_leads_to_its_pages_and_each_page_to_the_next_and_the_one_before() {
    let server = server().await;
    for number in 0..5 {
        server.put(&format!("a{number}")).await;
    }
    let collection = server.page("/feed").await;
    assert_eq!(collection["@context"], "https://www.w3.org/ns/activitystreams");
    assert_eq!(
        (&collection["type"], &collection["id"]),
        (&"OrderedCollection".into(), &"http://localhost/feed".into())
    );

    let all = server.page(&local(&collection["first"])).await;
    let ids: Vec<String> = objects(&all).iter().map(ToString::to_string).collect();
    assert_eq!(ids[0], "http://localhost/rest/", "the root was created first");
    assert_eq!(ids[1..], [0, 1, 2, 3, 4].map(|number| format!("http://localhost/rest/a{number}")));
    assert!(all.get("next").is_none(), "{all}");
    assert_eq!(server.page(&local(&collection["last"])).await["orderedItems"], all["orderedItems"]);

    // By small pages there, and back again.
    let (mut path, mut there, mut last) = ("/feed?after=start&limit=4".to_owned(), Vec::new(), Value::Null);
    loop {
        let page = server.page(&path).await;
        assert_eq!((local(&page["id"]), &page["partOf"]), (path.clone(), &collection["id"]));
        assert_eq!(page["type"], "OrderedCollectionPage");
        there.extend(objects(&page).iter().map(ToString::to_string));
        last = if page["prev"].is_null() { last } else { page["prev"].clone() };
        let Some(next) = page.get("next") else { break };
        path = local(next);
    }
    assert_eq!(there, ids);
    let before = server.page(&local(&last)).await;
    assert_eq!(objects(&before), ids[..4].iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(objects(&server.page(&local(&before["next"])).await), ids[4..]);
    // A full page does not know whether it is the last one.
    let empty = server.page(&local(&before["prev"])).await;
    assert_eq!((objects(&empty), empty.get("prev")), (Vec::new(), None));
}

#[tokio::test]
async fn an_event_says_what_happened_to_what() {
    let server = server().await;
    server.put("a").await;
    assert_eq!(server.send(Method::DELETE, "/rest/a", &[]).await.status(), StatusCode::NO_CONTENT);
    let page = server.page("/feed?after=start").await;
    let [_, created, deleted] = &page["orderedItems"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&created["type"], &deleted["type"]), (&"Create".into(), &"Delete".into()));
    assert_eq!(
        created["object"]["type"],
        serde_json::json!(["Collection", "http://www.w3.org/ns/ldp#BasicContainer"]),
        "{created}"
    );
    assert_eq!(deleted["object"]["id"], "http://localhost/rest/a");
    assert_eq!(deleted["object"]["type"], "Tombstone");
    assert_eq!(deleted["object"]["formerType"], created["object"]["type"]);
    let time: jiff::Timestamp = created["published"].as_str().unwrap().parse().unwrap();
    assert!(time <= jiff::Timestamp::now());
    // A time is a place too, and so is the cursor in an id.
    let (_, cursor) = created["id"].as_str().unwrap().split_once("/feed#").unwrap();
    assert_eq!(server.page(&format!("/feed?after={cursor}")).await["orderedItems"], serde_json::json!([deleted]));
    let past = server.page("/feed?before=2020-01-01T00:00:00Z").await;
    assert_eq!(past["orderedItems"], serde_json::json!([]));
}

#[tokio::test]
async fn the_form_is_negotiated() {
    let server = server().await;
    let profile = "application/ld+json; profile=\"https://www.w3.org/ns/activitystreams\"";
    for (accept, content_type) in [
        ("*/*", "application/activity+json"),
        ("application/activity+json", "application/activity+json"),
        (profile, profile),
        ("application/json", "application/json"),
        ("text/event-stream", "text/event-stream"),
    ] {
        let response = server.send(Method::GET, "/feed", &[("accept", accept)]).await;
        assert_eq!(response.headers()[header::CONTENT_TYPE], content_type);
        assert_eq!(response.headers()[header::VARY], "Accept");
    }
    let refused = server.send(Method::GET, "/feed", &[("accept", "text/html")]).await;
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_with_what_to_do() {
    let server = server().await;
    let stream = [("accept", "text/event-stream")];
    for (path, headers) in [
        ("/feed?after=x", &[][..]),
        ("/feed?after=", &[]),
        ("/feed?after=0123456789abcdef0123456789abcde", &[]),
        ("/feed?after=2026-13-01T00:00:00Z", &[]),
        ("/feed?limit=0", &[]),
        ("/feed?limit=1001", &[]),
        ("/feed?limit=-1", &[]),
        ("/feed?cursor=start", &[]),
        ("/feed?after=start&before=now", &[]),
        ("/feed?after=start&after=now", &[]),
        ("/feed?before=now&before=now", &[]),
        ("/feed?limit=5&limit=5", &[]),
        ("/feed?after=start&%61fter=start", &[]),
        ("/feed?limit=5", &stream),
        ("/feed?before=now", &stream),
        ("/feed", &[("accept", "text/event-stream"), ("last-event-id", "17")]),
        ("/feed", &[("accept", "text/event-stream"), ("last-event-id", "\u{fc}")]),
    ] {
        let response = server.send(Method::GET, path, headers).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path} {headers:?}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
    // What was never given, before the first and after the last event.
    let (status, problem) = server.get("/feed?after=00000000000000000000000000000001").await;
    assert_eq!((status, &problem["kind"]), (StatusCode::GONE, &"expired".into()));
    assert!(problem["detail"].as_str().unwrap().contains("30 days"), "{problem}");
    assert_eq!(objects(&server.page("/feed?after=ffffffffffffffffffffffffffffffff").await), [""; 0]);
    assert_eq!(server.send(Method::POST, "/feed", &[]).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_stream_begins_now_or_where_the_client_was_and_misses_nothing() {
    let server = server().await;
    server.put("before").await;
    let stream = [("accept", "text/event-stream")];
    let (live, all) = (
        server.send(Method::GET, "/feed", &stream).await,
        server.send(Method::GET, "/feed?after=start", &stream).await,
    );
    let (live, all) = (tokio::spawn(read(live, 3)), tokio::spawn(read(all, 5)));
    for name in ["x", "y", "z"] {
        server.put(name).await;
    }
    let (live, all) = (live.await.unwrap(), all.await.unwrap());
    assert_eq!(live, all[2..]);
    assert_eq!(live[0].1["object"]["id"], "http://localhost/rest/x");
    assert_eq!(live[0].1["@context"], "https://www.w3.org/ns/activitystreams");
    // Resumed behind any of them, whatever the address says.
    for resumed in 0..4 {
        let headers = [stream[0], ("last-event-id", all[resumed].0.as_str())];
        let rest = read(server.send(Method::GET, "/feed?after=start", &headers).await, 4 - resumed).await;
        assert_eq!(rest, all[resumed + 1..]);
    }
}

#[tokio::test]
async fn a_stream_that_began_now_and_broke_before_its_first_event_is_resumed_where_it_began() {
    let server = server().await;
    let stream = [("accept", "text/event-stream")];
    let response = server.send(Method::GET, "/feed", &stream).await;
    let mut pieces = response.into_body().into_data_stream();
    let first = pieces.next().await.unwrap().unwrap();
    let first = std::str::from_utf8(&first).unwrap();
    let id = first.strip_prefix("retry: 3000\nid: ").and_then(|rest| rest.strip_suffix("\n\n"));
    drop(pieces);
    server.put("meanwhile").await;
    let resumed = [stream[0], ("last-event-id", id.unwrap_or_else(|| panic!("{first}")))];
    let missed = read(server.send(Method::GET, "/feed", &resumed).await, 1).await;
    assert_eq!(missed[0].1["object"]["id"], "http://localhost/rest/meanwhile");
}

#[tokio::test]
async fn a_page_holds_its_share_of_the_memory_until_it_is_sent() {
    let server = server().await;
    server.put("a").await;
    let memory = server.app.library().memory.clone();
    assert_eq!(memory.taken_bytes(), 0);
    let response = server.send(Method::GET, "/feed?after=start", &[]).await;
    let taken = memory.taken_bytes();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    assert_eq!(taken, body.len() as u64);
    drop(body);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn a_time_is_a_place_and_the_pages_from_it_on_have_addresses_that_stay() {
    let server = server().await;
    server.put("a").await;
    let all = server.page("/feed?after=start").await;
    let published = all["orderedItems"][1]["published"].as_str().unwrap();
    let from = server.page(&format!("/feed?after={}", published.replace(':', "%3A"))).await;
    assert_eq!(from["orderedItems"].as_array().unwrap().last(), all["orderedItems"].as_array().unwrap().last());
    assert_eq!(server.page(&local(&from["id"])).await["orderedItems"], from["orderedItems"]);
    let encoded: String = published.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let with_offset = published.replace('Z', "+00:00");
    for query in [format!("%61fter={encoded}"), format!("after={with_offset}")] {
        assert_eq!(server.page(&format!("/feed?{query}")).await["orderedItems"], from["orderedItems"], "{query}");
    }
    let before = server.page(&format!("/feed?before={}", published.replace(':', "%3A"))).await;
    assert!(!objects(&before).contains(&"http://localhost/rest/a"), "{before}");
}

#[tokio::test]
async fn what_a_server_without_the_feed_changes_is_no_silent_gap_once_it_is_on_again() {
    let mut config = Config::default();
    config.auth.write = Access::Open;
    let mut off = config.clone();
    off.feed.keep = std::time::Duration::ZERO;
    let server = server_with(config.clone()).await;
    server.put("a").await;
    let cursor = local(&server.page("/feed?after=start").await["orderedItems"][1]["id"]).replace("/feed#", "");
    let server = server.again(off).await;
    server.put("b").await;
    let server = server.again(config).await;
    let (status, problem) = server.get(&format!("/feed?after={cursor}")).await;
    assert_eq!(status, StatusCode::GONE, "{problem}");
    server.put("c").await;
    assert_eq!(objects(&server.page("/feed?after=start").await), ["http://localhost/rest/c"]);
}

#[tokio::test]
async fn a_stream_ends_when_the_token_is_revoked_or_expires_and_when_the_server_stops() {
    let mut config = Config::default();
    (config.auth.read, config.auth.write) = (Access::Token, Access::Token);
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let server = server_by(tempfile::tempdir().unwrap(), config, clock.clone()).await;
    let refused = server.send(Method::GET, "/feed", &[]).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let minute = std::time::Duration::from_secs(60);
    let mut streams = Vec::new();
    for (name, expires) in [("revoked", None), ("expires", Some(clock.now().plus(minute))), ("lasts", None)] {
        let new = NewToken { name, expires, ..NewToken::default() };
        let bearer = format!("Bearer {}", server.app.tokens().create(new).await.unwrap().reveal());
        let headers = [("accept", "text/event-stream"), ("authorization", bearer.as_str())];
        let response = server.send(Method::GET, "/feed", &headers).await;
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        streams.push(response);
    }
    let lasting = streams.pop().unwrap();
    server.app.tokens().revoke("revoked").await.unwrap();
    clock.advance(minute);
    let ended = |response: Response| tokio::time::timeout(minute, axum::body::to_bytes(response.into_body(), 1 << 10));
    for body in futures::future::join_all(streams.into_iter().map(ended)).await {
        body.expect("the stream goes on").unwrap();
    }
    server.app.stopping().cancel();
    ended(lasting).await.expect("the stream goes on").unwrap();
}

/// Batches go on without end before a cursor in the future is reached.
#[tokio::test]
async fn a_consumer_that_begins_in_the_future_does_not_wait_for_it() {
    let patience = std::time::Duration::from_secs(60);
    let mut config = Config::default();
    config.auth.read = Access::Token;
    let server = server_with(config).await;
    let secret = server.app.tokens().create(NewToken { name: "early", ..NewToken::default() }).await.unwrap();
    let bearer = format!("Bearer {}", secret.reveal());
    let headers = [("accept", "text/event-stream"), ("authorization", bearer.as_str())];
    let response = server.send(Method::GET, "/feed?after=2126-01-01T00:00:00Z", &headers).await;
    assert_eq!(response.status(), StatusCode::OK);
    server.app.tokens().revoke("early").await.unwrap();
    let followed = async {
        let body = axum::body::to_bytes(response.into_body(), 1 << 10).await.unwrap();
        assert!(body.starts_with(b"retry: "), "{body:?}");
    };
    let consumed = async {
        let library = server.app.library();
        let year = std::time::Duration::from_secs(365 * 24 * 3_600);
        let cursor = Cursor::before(library.heads.now().plus(year));
        let mut consumer = library.feed.follow(cursor).await.unwrap();
        for _ in 0..2 {
            assert!(consumer.next().await.unwrap().as_slice().is_empty());
        }
        assert_eq!(consumer.cursor(), cursor);
    };
    tokio::time::timeout(patience, futures::future::join(followed, consumed)).await.expect("it waits on");
}

#[tokio::test]
async fn no_party_takes_all_places_of_consumers_and_one_that_leaves_makes_room() {
    let mut config = Config::default();
    config.feed.consumers_max = 4;
    let server = server_with(config).await;
    let stream = [("accept", "text/event-stream")];
    // Requests without an address are this machine's: only the total is a limit.
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(server.send(Method::GET, "/feed", &stream).await);
    }
    let refused = server.send(Method::GET, "/feed", &stream).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    held.pop();
    assert_eq!(server.send(Method::GET, "/feed", &stream).await.status(), StatusCode::OK);
    // The places of strangers.
    let places = Arc::new(Consumers::new(4));
    let stranger = |number: u8| Party::of_address([192, 0, 2, number].into());
    let _one = (places.take(stranger(1)).unwrap(), places.take(stranger(1)).unwrap());
    assert!(places.take(stranger(1)).is_none());
    assert!(places.take(stranger(2)).is_some());
}

#[tokio::test]
async fn a_feed_that_is_off_is_not_there() {
    let mut config = Config::default();
    config.feed.keep = std::time::Duration::ZERO;
    let server = server_with(config).await;
    let (status, problem) = server.get("/feed").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(problem["detail"].as_str().unwrap().contains("feed.keep"), "{problem}");
}

#[tokio::test]
async fn events_name_the_token_and_the_program_of_a_change_if_the_operator_wants_it() {
    let mut config = Config::default();
    config.auth.write = Access::Open;
    let mut server = server_with(config.clone()).await;
    let secret = server.app.tokens().create(NewToken { name: "mapper", ..NewToken::default() }).await.unwrap();
    let bearer = format!("Bearer {}", secret.reveal());
    for is_wanted in [false, true] {
        config.feed.actors = is_wanted;
        server = server.again(config.clone()).await;
        let name = format!("/rest/named-{is_wanted}");
        let headers = [("authorization", &*bearer), ("content-type", "text/turtle"), ("user-agent", "mapper/2")];
        assert_eq!(server.send(Method::PUT, &name, &headers).await.status(), StatusCode::CREATED);
        assert_eq!(server.send(Method::POST, &name, &headers).await.status(), StatusCode::CREATED);
        assert_eq!(server.send(Method::DELETE, &name, &headers).await.status(), StatusCode::NO_CONTENT);
        // In a transaction.
        let begun = server.send(Method::POST, "/rest/fcr:tx", &headers[..1]).await;
        let transaction = begun.headers()["location"].to_str().unwrap().to_owned();
        let inside = [headers[0], headers[1], ("atomic-id", &*transaction)];
        let name = format!("/rest/together-named-{is_wanted}");
        assert_eq!(server.send(Method::PUT, &name, &inside).await.status(), StatusCode::CREATED);
        let committed =
            server.send(Method::PUT, transaction.strip_prefix("http://localhost").unwrap(), &headers[..1]).await;
        assert_eq!(committed.status(), StatusCode::NO_CONTENT);
    }
    server.put("nobody").await;
    let page = server.page("/feed?after=start&limit=100").await;
    let actor = |item: &Value| item["actor"]["name"].as_str().map(str::to_owned);
    for item in page["orderedItems"].as_array().unwrap() {
        let expected = item["object"]["id"].as_str().unwrap().contains("named-true").then(|| "mapper".to_owned());
        assert_eq!(actor(item), expected, "{item}");
        // Those who committed the transaction named no program.
        let program = item["object"]["id"].as_str().unwrap().contains("/named-true").then_some("mapper/2");
        assert_eq!(item["instrument"]["name"].as_str(), program, "{item}");
    }
    let named = page["orderedItems"].as_array().unwrap().iter().filter_map(actor).count();
    assert!(named >= 5, "created, created in it, deleted, and what was in it; by a transaction: {page}");
}

#[tokio::test]
async fn a_stream_of_a_limited_token_has_the_events_of_its_area_alone() {
    let server = server().await;
    for name in ["a", "mine", "b", "mine/1"] {
        server.put(name).await;
    }
    let scopes = Some("read rest:/mine".parse().unwrap());
    let new = NewToken { name: "limited", scopes, expires: None };
    let bearer = format!("Bearer {}", server.app.tokens().create(new).await.unwrap().reveal());
    let headers = [("authorization", &*bearer), ("accept", "text/event-stream")];
    let events = read(server.send(Method::GET, "/feed?after=start", &headers).await, 2).await;
    let about: Vec<_> = events.iter().map(|(_, event)| local(&event["object"]["id"])).collect();
    assert_eq!(about, ["/rest/mine", "/rest/mine/1"]);
}
