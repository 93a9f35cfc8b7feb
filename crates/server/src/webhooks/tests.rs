#![allow(clippy::unwrap_used)]
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use http::{HeaderMap, Method, Request, StatusCode, header};
use parking_lot::Mutex;
use serde_json::Value;
use store::{Capabilities, Clock, ManualClock, Store, SystemClock, Wrapper};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use super::*;
use crate::access::Via;
use crate::app::App;
use crate::config::Access;
use crate::delivery::{Delivering, Progress, Schedule};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A message as a receiver got it.
#[derive(Clone, Debug)]
struct Got {
    id: String,
    timestamp_s: u64,
    signature: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The type of the message, and the path of what it is about.
    fn reported(&self) -> (String, String) {
        let body = self.json();
        let object = body["data"]["object"]["id"].as_str().unwrap_or_default();
        let path = object.strip_prefix("http://books.test/rest/").unwrap_or(object);
        (body["type"].as_str().unwrap().to_owned(), path.to_owned())
    }
}

/// What a receiver does with a message.
type Judge = Box<dyn Fn(&Got) -> Response + Send + Sync>;

/// A receiver of messages.
struct Receiver {
    got: Arc<Mutex<Vec<Got>>>,
    url: String,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone)]
struct Receiving {
    got: Arc<Mutex<Vec<Got>>>,
    judge: Arc<Judge>,
}

async fn receive(State(receiving): State<Receiving>, headers: HeaderMap, body: String) -> Response {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    let timestamp_s = text("webhook-timestamp").parse().unwrap();
    let got = Got { id: text("webhook-id"), timestamp_s, signature: text("webhook-signature"), body };
    let response = (receiving.judge)(&got);
    receiving.got.lock().push(got);
    response
}

async fn receiver(judge: impl Fn(&Got) -> Response + Send + Sync + 'static) -> Receiver {
    let got = Arc::<Mutex<Vec<Got>>>::default();
    let receiving = Receiving { got: got.clone(), judge: Arc::new(Box::new(judge)) };
    let routes = Router::new().route("/hook", routing::post(receive)).with_state(receiving);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    Receiver { got, url, _task: AbortOnDropHandle::new(task) }
}

async fn willing() -> Receiver {
    receiver(|_| StatusCode::NO_CONTENT.into_response()).await
}

impl Receiver {
    fn got(&self) -> Vec<Got> {
        self.got.lock().clone()
    }

    /// Waits until it has this many messages, and returns them.
    async fn until(&self, count: usize) -> Vec<Got> {
        until(|| self.got().len() >= count).await;
        self.got()
    }

    /// What it got of each kind about what.
    fn reported(&self) -> Vec<(String, String)> {
        self.got().iter().map(Got::reported).collect()
    }
}

async fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn quick() -> Pacing {
    Pacing {
        attempt_max: Duration::from_secs(10),
        schedule: Schedule { pauses: vec![Duration::from_millis(20); 3], is_endless: false },
        look_every: Duration::from_millis(20),
    }
}

fn hook(url: &str) -> WebhookConfig {
    toml_hook(&format!("name = \"index\"\nurl = \"{url}\"\nsecret = \"{SECRET}\""))
}

/// A webhook as a configuration has it.
fn toml_hook(text: &str) -> WebhookConfig {
    let fields = text.lines().map(|line| line.split_once(" = ").unwrap());
    let fields: serde_json::Map<_, _> =
        fields.map(|(name, value)| (name.to_owned(), serde_json::from_str(value).unwrap())).collect();
    serde_json::from_value(fields.into()).unwrap()
}

fn config(hooks: Vec<WebhookConfig>) -> Config {
    let mut config = Config::default();
    config.auth.write = Access::Open;
    config.ldp.origin = "http://books.test".to_owned();
    config.feed.webhooks = hooks;
    config.feed.webhooks_networks = vec!["127.0.0.0/8".to_owned()];
    config
}

/// A server with webhooks.
struct Server {
    app: App,
    webhooks: Arc<Deliveries>,
    config: Config,
    folder: tempfile::TempDir,
}

async fn server(config: Config) -> Server {
    server_at(tempfile::tempdir().unwrap(), config).await
}

async fn server_at(folder: tempfile::TempDir, config: Config) -> Server {
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
    let app = App::open(config.clone(), store).await.unwrap();
    let webhooks = open(&config, app.library().clone(), quick()).unwrap();
    Server { app, webhooks, config, folder }
}

impl Server {
    fn start(&self) -> Delivering {
        self.webhooks.start(&CancellationToken::new())
    }

    /// Starts, and waits until it has begun with what happens from now on.
    async fn begin(&self) -> Delivering {
        let delivering = self.start();
        let begun = Instant::now();
        while self.listed().await["state"] == "new" {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        delivering
    }

    async fn again(self) -> Self {
        let Self { app, webhooks, config, folder } = self;
        drop(webhooks);
        app.close().await.unwrap();
        server_at(folder, config).await
    }

    async fn ask(&self, via: Via, method: Method, path: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "books.test");
        let request = request.header(header::CONTENT_TYPE, "text/turtle").body(Body::empty()).unwrap();
        let router = match via.is_admin() {
            true => delivery::routes(self.webhooks.clone()),
            false => self.app.router(via),
        };
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn put(&self, path: &str) {
        let (status, body) = self.ask(Via::Network, Method::PUT, &format!("/rest/{path}")).await;
        assert!(status.is_success(), "{status} {body}");
    }

    async fn delete(&self, path: &str) {
        let (status, _) = self.ask(Via::Network, Method::DELETE, &format!("/rest/{path}")).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
    }

    async fn listed(&self) -> Value {
        let (status, listed) = self.ask(Via::AdminSocket, Method::GET, "/admin/webhooks").await;
        assert_eq!(status, StatusCode::OK);
        listed[0].clone()
    }

    async fn resume(&self, query: &str) -> (StatusCode, Value) {
        self.ask(Via::AdminSocket, Method::POST, &format!("/admin/webhooks/index/resume{query}")).await
    }

    async fn metrics(&self) -> String {
        let request =
            Request::builder().uri("/metrics").header(header::HOST, "books.test").body(Body::empty()).unwrap();
        let response = self.app.router(Via::Network).oneshot(request).await.unwrap();
        let text = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    /// Waits until the webhook is in a state.
    async fn until_state(&self, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let listed = self.listed().await;
            if listed["state"] == state {
                return listed;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{listed}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn reported(change: &str, path: &str) -> (String, String) {
    (format!("resource.{change}"), path.to_owned())
}

#[tokio::test]
async fn each_event_is_sent_signed_and_those_of_one_resource_in_order() {
    let receiver = willing().await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let _delivering = server.begin().await;
    for path in ["a", "b"] {
        server.put(path).await;
        server.delete(path).await;
        let (status, _) = server.ask(Via::Network, Method::DELETE, &format!("/rest/{path}/fcr:tombstone")).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
        server.put(path).await;
    }
    let got = receiver.until(6).await;
    for path in ["a", "b"] {
        let of_path: Vec<_> = receiver.reported().into_iter().filter(|(_, about)| about == path).collect();
        assert_eq!(of_path, [reported("created", path), reported("deleted", path), reported("created", path)]);
    }
    let feed = server.ask(Via::Network, Method::GET, "/feed?after=start").await.1;
    let events: HashMap<_, _> = feed["orderedItems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let id = event["id"].as_str().unwrap().rsplit_once('#').unwrap().1.to_owned();
            (id, event.clone())
        })
        .collect();
    for message in got {
        let signed = Secrets::parse(SECRET).unwrap().sign(&message.id, message.timestamp_s, message.body.as_bytes());
        assert_eq!(message.signature, signed);
        let mut event = events[&message.id].clone();
        event["@context"] = "https://www.w3.org/ns/activitystreams".into();
        let body = message.json();
        assert_eq!((&body["data"], &body["timestamp"]), (&event, &event["published"]));
    }
}

#[tokio::test]
async fn a_server_that_starts_again_goes_on_where_it_was() {
    let receiver = willing().await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let delivering = server.begin().await;
    server.put("a").await;
    receiver.until(1).await;
    let cursor = receiver.got()[0].id.clone();
    until_cursor(&server, &cursor).await;
    drop(delivering);
    server.put("b").await;
    let server = server.again().await;
    server.put("c").await;
    let _delivering = server.start();
    receiver.until(3).await;
    let mut told_all = receiver.reported();
    told_all.sort();
    assert_eq!(
        told_all,
        ["a", "b", "c"].map(|path| reported("created", path)),
        "nothing is missing and nothing comes twice"
    );
}

/// Waits until it is stored that everything up to a cursor was delivered.
async fn until_cursor(server: &Server, cursor: &str) {
    let begun = Instant::now();
    while server.listed().await["cursor"].as_str().is_none_or(|done| done < cursor) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the cursor is not stored");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_message_that_is_not_accepted_is_sent_again_until_the_webhook_is_parked_and_an_operator_resumes() {
    let is_willing = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let willing = is_willing.clone();
    let receiver = receiver(move |_| match willing.load(Ordering::Relaxed) {
        true => StatusCode::OK.into_response(),
        // A redirection is a failure too.
        false => (StatusCode::FOUND, [(header::LOCATION, "/hook")]).into_response(),
    })
    .await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let _delivering = server.begin().await;
    server.put("a").await;
    let parked = server.until_state("parked").await;
    assert!(
        parked["parked"]["why"].as_str().unwrap().contains("4 times; the last time it responded with 302"),
        "{parked}"
    );
    assert_eq!(parked["failing"]["tries"], 4);
    assert!(!parked.to_string().contains("/hook"), "{parked}");
    let tries = receiver.got();
    assert_eq!(tries.len(), 4);
    assert!(tries.iter().all(|message| message.id == tries[0].id && message.body == tries[0].body));

    server.put("b").await;
    is_willing.store(true, Ordering::Relaxed);
    assert_eq!(receiver.got().len(), 4, "nothing is sent to a webhook that is parked");
    let (status, listed) = server.resume("").await;
    assert_eq!((status, &listed["state"]), (StatusCode::OK, &"delivering".into()));
    receiver.until(6).await;
    let mut after = receiver.reported()[4..].to_vec();
    after.sort();
    assert_eq!(after, [reported("created", "a"), reported("created", "b")]);
}

#[tokio::test]
async fn an_operator_leaves_out_an_event_that_a_receiver_never_accepts() {
    let receiver = receiver(|message| match message.reported().1.as_str() {
        "poison" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => StatusCode::OK.into_response(),
    })
    .await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let _delivering = server.begin().await;
    for path in ["a", "poison", "b"] {
        server.put(path).await;
    }
    server.until_state("parked").await;
    assert_eq!(server.resume("?skip=true&from=now").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.resume("?skip=true").await.0, StatusCode::OK);
    server.put("c").await;
    let has = |path: &str| receiver.reported().contains(&reported("created", path));
    until(|| ["a", "b", "c"].into_iter().all(has)).await;
    server.until_state("delivering").await;
    let tried = receiver.reported().into_iter().filter(|(_, path)| path == "poison").count();
    assert_eq!(tried, 4, "it was tried until it was left out");
    assert_eq!(server.resume("?skip=true").await.0, StatusCode::CONFLICT, "nothing is failing");
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_parked_at_once_and_can_go_on_from_a_place() {
    let receiver = receiver(|message| match message.reported().1.as_str() {
        "a" => StatusCode::GONE.into_response(),
        // An answer that never ends counts by its head.
        _ => Body::from_stream(futures::stream::repeat_with(|| Ok::<_, std::io::Error>("more"))).into_response(),
    })
    .await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let _delivering = server.begin().await;
    server.put("a").await;
    let parked = server.until_state("parked").await;
    assert_eq!((receiver.got().len(), &parked["failing"]["tries"]), (1, &1.into()));
    for (query, status) in [
        ("?from=yesterday", StatusCode::BAD_REQUEST),
        ("?from=00000000000000000000000000000001", StatusCode::GONE),
        // What happens until then would not be sent.
        ("?from=2126-01-01T00:00:00Z", StatusCode::BAD_REQUEST),
        ("?from=ffffffffffffffffffffffffffffffff", StatusCode::BAD_REQUEST),
        ("?from=now", StatusCode::OK),
    ] {
        assert_eq!(server.resume(query).await.0, status, "{query}");
    }
    server.put("b").await;
    receiver.until(2).await;
    assert_eq!(receiver.reported()[1..], [reported("created", "b")]);
    assert_eq!(
        server.ask(Via::AdminSocket, Method::POST, "/admin/webhooks/other/resume").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_receiver_that_does_not_respond_is_given_up_for_now() {
    // It takes connections, and says nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = server(config(vec![hook(&url)])).await;
    let pacing = Pacing { attempt_max: Duration::from_millis(50), ..quick() };
    let webhooks = open(&server.config, server.app.library().clone(), pacing).unwrap();
    let failure = webhooks.test("index").await.map_err(|refused| refused.1).unwrap().unwrap_err();
    assert!(failure.why.contains("did not respond") && !failure.is_final, "{failure:?}");
    drop(listener);
    let failure = webhooks.test("index").await.map_err(|refused| refused.1).unwrap().unwrap_err();
    assert!(!failure.is_final && failure.asks_to_wait.is_none(), "{failure:?}");
}

#[tokio::test]
async fn a_name_that_leads_into_the_network_of_the_server_is_not_connected_to() {
    let receiver = willing().await;
    let mut config = config(vec![hook(&receiver.url.replace("127.0.0.1", "localhost"))]);
    config.feed.webhooks_networks.clear();
    let server = server(config).await;
    let (status, tested) = server.ask(Via::AdminSocket, Method::POST, "/admin/webhooks/index/test").await;
    assert_eq!((status, &tested["accepted"]), (StatusCode::OK, &false.into()));
    assert!(tested["detail"].as_str().unwrap().contains("feed.webhooks_networks"), "{tested}");
    assert_eq!(receiver.got().len(), 0);
}

#[tokio::test]
async fn a_webhook_with_a_path_gets_events_of_that_tree_alone() {
    let receiver = willing().await;
    let mut letters = hook(&receiver.url);
    letters.path = "letters".to_owned();
    let server = server(config(vec![letters])).await;
    let _delivering = server.begin().await;
    for path in ["other", "letters", "letters2", "letters/1", "letters/1/a", "z"] {
        server.put(path).await;
    }
    receiver.until(3).await;
    server.put("letters/2").await;
    receiver.until(4).await;
    let mut paths: Vec<_> = receiver.reported().into_iter().map(|(_, path)| path).collect();
    paths.sort();
    assert_eq!(paths, ["letters", "letters/1", "letters/1/a", "letters/2"]);
    let tested = server.ask(Via::AdminSocket, Method::POST, "/admin/webhooks/index/test").await.1;
    assert_eq!(tested["accepted"], true);
    let test = receiver.until(5).await.pop().unwrap();
    assert_eq!((&test.json()["type"], &test.json()["data"]["webhook"]), (&"webhook.test".into(), &"index".into()));
    assert!(test.id.starts_with("test_"));
}

/// The embedded engine as if several processes could have it open, as on Cassandra.
struct AsShared(Arc<EmbeddedStore>);

impl Wrapper for AsShared {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, ..self.0.capabilities() }
    }
}

#[tokio::test]
async fn of_two_servers_one_delivers_and_the_other_takes_over_from_one_that_stops_or_dies() {
    let receiver = willing().await;
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
    let store: Arc<dyn Store> = Arc::new(AsShared(store));
    let config = config(vec![hook(&receiver.url)]);
    let open = async || {
        let app = App::open_with(config.clone(), store.clone(), clock.clone() as Arc<dyn Clock>).await.unwrap();
        let webhooks = open(&config, app.library().clone(), quick()).unwrap();
        Server { app, webhooks, config: config.clone(), folder: tempfile::tempdir().unwrap() }
    };
    // So long after a change its event can be read, on a store that others may write to. It is
    // longer than a lease, too.
    let beyond = Duration::from_secs(300 + 70 + 1);
    let (one, other) = (open().await, open().await);
    for number in 0..19 {
        one.put(&format!("a{number}")).await;
    }
    clock.advance(beyond);
    assert_eq!(one.resume("?from=start").await.0, StatusCode::OK);
    let stopping = CancellationToken::new();
    let holds = one.webhooks.start(&stopping);
    until_held(&one, &one).await;
    let waits = other.webhooks.start(&CancellationToken::new());
    receiver.until(20).await;
    until_cursor(&one, &receiver.got().iter().map(|message| message.id.clone()).max().unwrap()).await;
    // The one that holds it is asked to stop: the other need not wait.
    stopping.cancel();
    holds.ended(Duration::from_secs(60)).await;
    until_held(&one, &other).await;
    other.put("b").await;
    clock.advance(beyond);
    receiver.until(21).await;
    until_cursor(&one, &receiver.got()[20].id).await;
    // Now it dies. A third one waits until its lease has ended on every clock.
    drop(waits);
    let third = open().await;
    third.put("c").await;
    clock.advance(beyond);
    let _delivering = third.webhooks.start(&CancellationToken::new());
    receiver.until(22).await;
    let mut ids: Vec<_> = receiver.got().into_iter().map(|message| message.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), receiver.got().len()), (22, 22), "each event was sent once");
}

/// Waits until a server has the webhook, as another one sees it.
async fn until_held(seen_by: &Server, holder: &Server) {
    let begun = Instant::now();
    loop {
        let known = seen_by.webhooks.read("index").await.unwrap();
        if known.value.is_some_and(|progress| progress.server == holder.webhooks.server) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not take the webhook");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn metrics_show_what_waits_what_was_sent_and_what_is_parked() {
    let receiver = receiver(|_| StatusCode::GONE.into_response()).await;
    let mut metered = hook(&receiver.url);
    metered.name = "metered".to_owned();
    let server = server(config(vec![metered])).await;
    let _delivering = server.begin().await;
    server.put("a").await;
    server.until_state("parked").await;
    let begun = Instant::now();
    loop {
        let text = server.metrics().await;
        let has = |line: &str| text.contains(&format!("penates_webhook_{line}\n"));
        let lag = text.lines().find_map(|line| line.strip_prefix("penates_webhook_lag_seconds{webhook=\"metered\"} "));
        if has("parked{webhook=\"metered\"} 1") && lag.is_some_and(|lag| lag.parse::<f64>().unwrap() > 0.0) {
            assert!(has("messages_total{webhook=\"metered\",outcome=\"failed\"} 1"), "{text}");
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_webhook_whose_cursor_lies_in_the_future_shows_since_when_nothing_is_sent() {
    let receiver = willing().await;
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
    let mut ahead = hook(&receiver.url);
    ahead.name = "ahead".to_owned();
    let config = config(vec![ahead]);
    let app = App::open_with(config.clone(), store, clock.clone() as Arc<dyn Clock>).await.unwrap();
    let webhooks = open(&config, app.library().clone(), quick()).unwrap();
    let server = Server { app, webhooks, config, folder };
    let day = Duration::from_secs(24 * 3_600);
    // The clock was a day ahead, and is right again.
    let place = server.app.library().feed.since(clock.now().plus(day)).await.unwrap();
    let known = server.webhooks.read("ahead").await.unwrap();
    server.webhooks.write("ahead", &Progress::behind(place), known.expect).await.unwrap().unwrap();
    let _delivering = server.start();
    server.put("a").await;
    clock.advance(2 * Duration::from_secs(3_600));
    let begun = Instant::now();
    loop {
        let text = server.metrics().await;
        let lag = text.lines().find_map(|line| line.strip_prefix("penates_webhook_lag_seconds{webhook=\"ahead\"} "));
        if lag.is_some_and(|lag| lag.parse::<f64>().unwrap() >= 7_200.0) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(receiver.got().len(), 0);
}

#[tokio::test]
async fn the_state_of_a_webhook_that_is_damaged_is_parked_and_resumed_by_an_operator() {
    let receiver = willing().await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let heads = &server.app.library().heads;
    let other = heads::head::seal(&Progress::behind(::feed::Cursor::BEGINNING)).unwrap();
    let broken = Bytes::copy_from_slice(&other[..other.len() - 1]);
    let step = store::Step::CompareAndWrite {
        table: store::Table::Work,
        partition: heads::keys::webhooks(),
        sort: Bytes::from_static(b"index"),
        expect: store::Expect::Absent,
        guard: store::Guard { stamp: heads.stamp(), tag: Bytes::new() },
        value: broken,
    };
    heads.store().run(heads.call(store::Class::Description), vec![step]).await.unwrap();
    server.put("a").await;
    let _delivering = server.start();
    let parked = server.until_state("parked").await;
    assert!(parked["parked"]["why"].as_str().unwrap().contains("is lost"), "{parked}");
    assert_eq!(server.resume("?from=start").await.0, StatusCode::OK);
    receiver.until(2).await;
}

#[tokio::test]
async fn a_webhook_of_a_new_name_is_refused_once_as_many_are_remembered_as_may_be() {
    let receiver = willing().await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    let heads = &server.app.library().heads;
    let progress = Progress::behind(::feed::Cursor::BEGINNING);
    let value = heads::head::seal(&progress).unwrap();
    let remembers = |name: String| store::Step::CompareAndWrite {
        table: store::Table::Work,
        partition: heads::keys::webhooks(),
        sort: Bytes::from(name),
        expect: store::Expect::Absent,
        guard: store::Guard { stamp: heads.stamp(), tag: Bytes::new() },
        value: value.clone(),
    };
    let names: Vec<String> = (0..library::bounds::WEBHOOKS_KEPT_MAX - 1).map(|n| format!("n{n}")).collect();
    for names in names.chunks(512) {
        let steps = names.iter().cloned().map(remembers).collect();
        let ran = heads.store().run(heads.call(store::Class::Description), steps).await.unwrap();
        assert!(ran.is_applied());
    }
    server.webhooks.write("last", &progress, store::Expect::Absent).await.unwrap().unwrap();
    let refused = server.webhooks.write("index", &progress, store::Expect::Absent).await;
    assert!(matches!(&refused, Err(heads::ObjectsError::OverLimit(why)) if why.contains("`index`")), "{refused:?}");
    let (status, problem) = server.resume("?from=start").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(problem["detail"].as_str().unwrap().contains("the webhook `index` is new"), "{problem}");
    // Those that are remembered go on.
    let known = server.webhooks.read("n0").await.unwrap();
    server.webhooks.write("n0", &progress, known.expect).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_webhook_whose_events_are_lost_is_parked_rather_than_given_the_rest_of_them() {
    let receiver = willing().await;
    let server = server(config(vec![hook(&receiver.url)])).await;
    drop(server.begin().await);
    server.put("a").await;
    server.app.library().feed.forget().await.unwrap();
    server.put("b").await;
    let _delivering = server.start();
    let parked = server.until_state("parked").await;
    assert!(parked["parked"]["why"].as_str().unwrap().contains("no longer has"), "{parked}");
    assert_eq!(receiver.got().len(), 0);
    assert_eq!(server.resume("?from=now").await.0, StatusCode::OK);
    server.put("c").await;
    receiver.until(1).await;
    assert_eq!(receiver.reported(), [reported("created", "c")]);
}

#[test]
fn settings_that_cannot_work_are_refused_and_no_secret_is_shown() {
    let check = |change: &dyn Fn(&mut Config)| {
        let mut config = config(vec![hook("https://hooks.example.org/a")]);
        change(&mut config);
        config.check().map_err(|error| error.to_string())
    };
    assert_eq!(check(&|_| {}), Ok(()));
    let refused = |named: &str, change: &dyn Fn(&mut Config)| {
        let error = check(change).unwrap_err();
        assert!(error.contains(named) && !error.contains("whsec_M"), "{error}");
    };
    refused("ldp.origin", &|config| config.ldp.origin.clear());
    refused("feed.keep", &|config| config.feed.keep = Duration::ZERO);
    refused("feed.webhooks_networks", &|config| config.feed.webhooks_networks = vec!["here".to_owned()]);
    refused("another webhook", &|config| config.feed.webhooks.push(config.feed.webhooks[0].clone()));
    refused("more than 64", &|config| config.feed.webhooks = vec![config.feed.webhooks[0].clone(); 65]);
    for (field, value) in [
        ("name", "a b"),
        ("name", ""),
        ("url", "http://hooks.example.org@a/"),
        ("path", "/a"),
        ("secret", "whsec_Mw=="),
    ] {
        refused("feed.webhooks `", &|config| {
            let mut hook = serde_json::json!({"name": "a", "url": "https://a.example/", "secret": SECRET});
            hook[field] = value.into();
            config.feed.webhooks = vec![serde_json::from_value(hook).unwrap()];
        });
    }
    for lacking in [serde_json::json!({}), serde_json::json!({"secret": SECRET, "secret_file": "a"})] {
        refused("either `secret` or `secret_file`", &|config| {
            let mut hook = lacking.clone();
            (hook["name"], hook["url"]) = ("a".into(), "https://a.example/".into());
            config.feed.webhooks = vec![serde_json::from_value(hook).unwrap()];
        });
    }
    let shown = config(vec![hook("https://hooks.example.org/a")]);
    let shown = [format!("{shown:?}"), serde_json::to_string(&shown).unwrap()];
    assert!(shown.iter().all(|shown| shown.contains("(hidden)") && !shown.contains(SECRET)), "{shown:?}");
    let unknown: Result<WebhookConfig, _> =
        serde_json::from_value(serde_json::json!({"name": "a", "url": "https://a.example/", "secrets": ""}));
    assert!(unknown.unwrap_err().to_string().contains("secret_file"));
}

#[tokio::test]
async fn the_secret_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let hook = serde_json::json!({"name": "a", "url": "https://a.example/", "secret_file": file});
    let hook: WebhookConfig = serde_json::from_value(hook).unwrap();
    let signed = hook.secrets().unwrap().sign("a", 1, b"");
    assert_eq!(signed, Secrets::parse(SECRET).unwrap().sign("a", 1, b""));
    std::fs::write(&file, "not a secret").unwrap();
    assert!(!hook.secrets().unwrap_err().contains("not a secret"));
    std::fs::remove_file(&file).unwrap();
    assert!(hook.secrets().unwrap_err().contains("cannot be read"));
}

#[tokio::test]
async fn messages_are_signed_with_what_the_file_has_then_or_with_the_last_secrets_that_it_had() {
    let receiver = willing().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let text = format!("name = \"index\"\nurl = \"{}\"\nsecret_file = {file:?}", receiver.url);
    let server = server(config(vec![toml_hook(&text)])).await;
    let _delivering = server.begin().await;
    let other = format!("whsec_{}", "A".repeat(32));
    let both = format!("{SECRET}\n{other}\n");
    let (both, other) = (both.as_str(), other.as_str());
    // What is written into the file, and what signs then.
    let turns = [(Some(SECRET), SECRET), (Some(both), both), (Some("half"), both), (None, both), (Some(other), other)];
    for (count, (written, signing)) in (1..).zip(turns) {
        match written {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        server.put(&format!("a{count}")).await;
        let message = receiver.until(count).await.remove(count - 1);
        let secrets = Secrets::parse(signing).unwrap();
        let signed = secrets.sign(&message.id, message.timestamp_s, message.body.as_bytes());
        assert_eq!(message.signature, signed, "{count}");
    }
    std::fs::write(&file, SECRET).unwrap();
    let tested = server.ask(Via::AdminSocket, Method::POST, "/admin/webhooks/index/test").await.1;
    assert_eq!(tested["accepted"], true);
    let test = receiver.until(6).await.remove(5);
    let signed = Secrets::parse(SECRET).unwrap().sign(&test.id, test.timestamp_s, test.body.as_bytes());
    assert_eq!(test.signature, signed);
}

/// A receiver that accepts what comes at its own pace never gets more at once than is allowed.
#[tokio::test]
async fn few_messages_are_on_their_way_at_once() {
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (under_way.clone(), most.clone());
    let routes = Router::new().route(
        "/hook",
        routing::post(async move |_: String| {
            highest.fetch_max(1 + counted.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
            // The first message waits for the second, however slow the machine is.
            loop {
                tokio::time::sleep(Duration::from_millis(2)).await;
                if highest.load(Ordering::SeqCst) > 1 {
                    break;
                }
            }
            counted.fetch_sub(1, Ordering::SeqCst);
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let _task = AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }));
    let server = server(config(vec![hook(&url)])).await;
    let delivering = server.begin().await;
    drop(delivering);
    for number in 0..30 {
        server.put(&format!("a{number}")).await;
    }
    let last = server.ask(Via::Network, Method::GET, "/feed?before=now&limit=1").await.1;
    let last = last["orderedItems"][0]["id"].as_str().unwrap().rsplit_once('#').unwrap().1.to_owned();
    let _delivering = server.start();
    until_cursor(&server, &last).await;
    assert!((2..=4).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}
