//! An application as a whole, without listeners.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use http::{Method, StatusCode, header};
use store::faults::{Damage, Faults, Harm, Rates};
use store::{Capabilities, Lane, ManualClock, Table, UnixMillis, Wrapper};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tower::ServiceExt;

use super::layers::Layers;
use super::*;
use crate::config::{Access, FixityConfig, RecordsConfig, RecordsDurability, Warm};
use crate::request_id;
use crate::store_check::KEPT;
use crate::tokens::NewToken;

async fn app() -> (App, Arc<Faults>, tempfile::TempDir) {
    app_with(Config::default()).await
}

async fn app_with(config: Config) -> (App, Arc<Faults>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
    let faults = Arc::new(Faults::new(store));
    (App::open(config, faults.clone()).await.unwrap(), faults, folder)
}

/// A store that decides itself when it syncs, as Cassandra does.
struct SyncsItself(Arc<Faults>);

impl Wrapper for SyncsItself {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { delays_syncs: false, ..Store::capabilities(&*self.0) }
    }
}

async fn answer(router: &Router, method: Method, path: &str) -> Response {
    if path == "/readyz" {
        // What an earlier check of the store found is not kept.
        tokio::time::pause();
        tokio::time::advance(KEPT + Duration::from_millis(1)).await;
        tokio::time::resume();
    }
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    let request = request.body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn the_server_is_not_ready_while_the_store_refuses_writes() {
    let (app, faults, _folder) = app().await;
    let router = app.router(Via::Network);
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::OK);
    faults.set_full(true);
    let full = answer(&router, Method::GET, "/readyz").await;
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(full.headers().contains_key(header::RETRY_AFTER));
    assert_eq!(answer(&router, Method::GET, "/healthz").await.status(), StatusCode::OK);
    faults.set_full(false);
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_server_is_ready_while_only_the_text_refuses_writes_and_reports_it() {
    let (app, faults, _folder) = app().await;
    let router = app.router(Via::Network);
    faults.set_poisoned(Lane::Text, true);
    let ready = answer(&router, Method::GET, "/readyz").await;
    assert_eq!(ready.status(), StatusCode::OK);
    let output = axum::body::to_bytes(ready.into_body(), 1_000).await.unwrap();
    assert!(String::from_utf8_lossy(&output).contains("changes of volumes are refused"), "{output:?}");
    assert_eq!(answer(&router, Method::POST, "/volumes?volumeIDs=a.b").await.status(), StatusCode::OK);

    faults.set_poisoned(Lane::Service, true);
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    faults.set_poisoned(Lane::Text, false);
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_server_is_not_ready_while_rows_of_any_lane_cannot_be_read_and_says_so_in_a_scrape() {
    let fixity = FixityConfig { every: None, ..FixityConfig::default() };
    let (app, faults, _folder) = app_with(Config { fixity, ..Config::default() }).await;
    let router = app.router(Via::Network);
    let text = async |path| {
        let response = answer(&router, Method::GET, path).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    faults.set_rates(1, Rates { unavailable: 1.0, ..Rates::default() });
    let (status, why) = text("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.contains("rows of lane text cannot be read"), "{why}");
    // The metrics are those of all servers in this process, and other tests scrape at the same time.
    let begun = Instant::now();
    while !text("/metrics").await.1.contains("\npenates_ready 0\n") {
        assert!(begun.elapsed() < Duration::from_secs(60), "no scrape says so");
    }
    faults.set_rates(1, Rates::default());
    assert_eq!(text("/readyz").await, (StatusCode::OK, "ready\n".to_owned()));

    // A broken block is not the end of the others.
    let partition = bytes::Bytes::from_static(b"readyz");
    let damage =
        Damage { table: Table::Tokens, partition, sort: None, harm: Harm::FlippedBit, strong_reads_are_whole: false };
    faults.damage(damage);
    assert_eq!(text("/readyz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn the_server_is_not_ready_while_the_audit_lags_because_reads_are_refused_then() {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_700_000_000_000)));
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
    let faults = Arc::new(Faults::new(store));
    let app = App::open_with(Config::default(), faults.clone(), clock.clone()).await.unwrap();
    let router = app.router(Via::Network);
    let unwritten = app.library().audit.auditor();
    let requester = audit::Requester::default();
    faults.set_rates(1, Rates { unavailable: 1.0, ..Rates::default() });
    let volume = audit::AuditedVolume { volume: hathi::VolumeId::parse("a.b").unwrap(), pages: None };
    let writing = unwritten.requested(&requester, None, [volume]);
    let lagging = async {
        while unwritten.waiting_bytes() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(app.config().audit.max_lag + Duration::from_secs(1));
        let lagging = answer(&router, Method::GET, "/readyz").await;
        faults.set_rates(1, Rates::default());
        lagging
    };
    let (written, lagging) = futures::join!(writing, lagging);
    written.unwrap();
    assert!(unwritten.failures() > 0 && unwritten.waiting_bytes() == 0);
    assert_eq!(lagging.status(), StatusCode::SERVICE_UNAVAILABLE);
    let why = axum::body::to_bytes(lagging.into_body(), 1_000).await.unwrap();
    assert!(String::from_utf8_lossy(&why).contains("the audit lags"), "{why:?}");
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_server_is_not_ready_while_the_audit_is_refused_and_tries_again_after_a_while() {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_700_000_000_000)));
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
    let faults = Arc::new(Faults::new(store));
    let app = App::open_with(Config::default(), faults.clone(), clock.clone()).await.unwrap();
    let router = app.router(Via::Network);
    let volume = || audit::AuditedVolume { volume: hathi::VolumeId::parse("a.b").unwrap(), pages: None };
    let requester = audit::Requester::default();
    let write = async || app.library().audit.auditor().requested(&requester, None, [volume()]).await;
    let ready = async || answer(&router, Method::GET, "/readyz").await.status();
    let refuse = async || {
        faults.set_poisoned(Lane::Service, true);
        write().await.unwrap_err();
        faults.set_poisoned(Lane::Service, false);
    };
    refuse().await;
    assert_eq!(ready().await, StatusCode::SERVICE_UNAVAILABLE, "the store itself does not say it");
    write().await.unwrap();
    assert_eq!(ready().await, StatusCode::OK, "a write succeeded");
    refuse().await;
    clock.advance(Duration::from_secs(31));
    assert_eq!(ready().await, StatusCode::OK, "nobody reads while it says no, so it has to try");
}

#[tokio::test]
async fn records_over_http_need_the_rights_of_all_doors() {
    let (app, _faults, _folder) = app().await;
    let (network, trusted) = (app.router(Via::Network), app.router(Via::InProcess));
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        assert_eq!(answer(&network, method, "/records/a").await.status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(answer(&network, Method::POST, "/records:batchWrite").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(answer(&network, Method::GET, "/records/a").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(answer(&network, Method::POST, "/records:batchGet").await.status(), StatusCode::OK);
    assert_eq!(answer(&trusted, Method::DELETE, "/records/a").await.status(), StatusCode::NOT_FOUND);
}

/// What a client of the Redis protocol may do with a token: read, change, and operate.
fn rights_by_redis(app: &App, token: Option<&str>) -> (bool, bool, bool) {
    let access = RecordsAccess {
        policy: app.policy(Via::Network),
        live: app.live.clone(),
        quotas: app.quotas.clone(),
        audit: app.library.audit.clone(),
        changes: app.config.audit.changes,
    };
    let rights = door_records::Access::rights(&access, token.map(str::as_bytes)).unwrap();
    (rights.read, rights.write, rights.operate)
}

/// A new token with these scopes.
async fn token(app: &App, name: &str, scopes: &str) -> String {
    let new = NewToken { name, scopes: Some(scopes.parse().unwrap()), expires: None };
    app.tokens.create(new).await.unwrap().reveal().to_owned()
}

#[tokio::test]
async fn a_limited_token_gets_nothing_of_the_records_although_they_are_open() {
    let mut config = Config::default();
    config.auth.write = Access::Open;
    let (app, _faults, _folder) = app_with(config).await;
    let limited = token(&app, "limited", "read write volumes:a.* rest:/").await;
    assert_eq!(rights_by_redis(&app, None), (true, true, true));
    assert_eq!(rights_by_redis(&app, Some(&limited)), (false, false, false));
}

#[tokio::test]
async fn the_scopes_of_a_token_are_its_rights_over_the_redis_protocol() {
    let mut config = Config::default();
    (config.auth.read, config.auth.write) = (Access::Token, Access::Token);
    let (app, _faults, _folder) = app_with(config).await;
    assert_eq!(rights_by_redis(&app, None), (false, false, false));
    for (name, scopes, rights) in [
        ("a", "read", (true, false, false)),
        ("b", "write", (true, true, false)),
        ("c", "metrics", (false, false, false)),
        ("d", "admin", (false, false, true)),
        ("e", "read admin", (true, false, true)),
    ] {
        let token = token(&app, name, scopes).await;
        assert_eq!(rights_by_redis(&app, Some(&token)), rights, "{scopes}");
    }
}

#[tokio::test]
async fn the_server_is_ready_when_its_records_are_warm_and_says_how_far_it_is() {
    let records = RecordsConfig { warm: Warm::All, ..RecordsConfig::default() };
    let (app, _faults, _folder) = app_with(Config { records, ..Config::default() }).await;
    let router = app.router(Via::Network);
    let warming = answer(&router, Method::GET, "/readyz").await;
    assert_eq!(warming.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(warming.headers().contains_key(header::RETRY_AFTER));
    let output = axum::body::to_bytes(warming.into_body(), 1_000).await.unwrap();
    assert!(String::from_utf8_lossy(&output).contains("being warmed: 0 records are read"), "{output:?}");
    assert_eq!(answer(&router, Method::GET, "/records/a").await.status(), StatusCode::NOT_FOUND);
    app.warming().run().await;
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_durability_that_the_store_does_not_have_is_refused_at_the_start() {
    let records = |durability| RecordsConfig { durability, ..RecordsConfig::default() };
    for (durability, is_refused) in
        [(RecordsDurability::Sync, false), (RecordsDurability::Every(Duration::from_millis(10)), true)]
    {
        let config = Config { records: records(durability), ..Config::default() };
        let (app, faults, _folder) = app_with(config.clone()).await;
        assert!(app.records_door(false).await.is_ok(), "{durability:?} in a data folder");
        let elsewhere = App::open(config, Arc::new(SyncsItself(faults))).await.unwrap();
        let door = elsewhere.records_door(false).await.map(|_| ());
        assert_eq!(door.is_err(), is_refused, "{durability:?}");
        if let Err(error) = door {
            assert!(error.to_string().contains("records.durability has to be `sync`"), "{error}");
        }
    }
}

#[tokio::test]
async fn records_are_served_at_an_address_or_at_a_given_socket() {
    let (app, _faults, _folder) = app().await;
    assert!(app.records_door(false).await.unwrap().is_none());
    assert!(app.records_door(true).await.unwrap().is_some());
    let records = RecordsConfig { listen: Some("127.0.0.1:0".parse().unwrap()), ..RecordsConfig::default() };
    let (app, _faults, _folder) = app_with(Config { records, ..Config::default() }).await;
    assert!(app.records_door(false).await.unwrap().is_some());
}

#[tokio::test]
async fn the_server_is_not_ready_once_it_was_asked_to_stop() {
    let (app, _faults, _folder) = app().await;
    let router = app.router(Via::Network);
    app.stopping().cancel();
    assert_eq!(answer(&router, Method::GET, "/readyz").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer(&router, Method::GET, "/healthz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_defect_costs_one_response_that_still_has_its_request_id() {
    let (app, _faults, _folder) = app().await;
    let panics = async || -> &'static str { panic!("a defect, on purpose") };
    let layers = Layers {
        policy: Arc::new(app.policy(Via::Network)),
        hosts: None,
        places: app.places(),
        quotas: None,
        trail: None,
        live: app.live.clone(),
    };
    let router = layers.around(Router::new().route("/", get(panics)));
    let response = answer(&router, Method::GET, "/").await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(response.headers().contains_key(request_id::HEADER));
}

#[tokio::test]
async fn a_request_that_no_handler_understands_is_refused_with_a_problem() {
    let (app, _faults, _folder) = app().await;
    let router = app.router(Via::InProcess);
    let (query, path) = ("malformed-parameter", "not-utf-8");
    for (method, uri, expected) in [
        (Method::POST, "/admin/tokens", query),
        (Method::GET, "/admin/audit?other=1", query),
        (Method::GET, "/audit?other=1", query),
        (Method::GET, "/admin/store/changes?other=1", query),
        (Method::GET, "/admin/store/contents/a", query),
        (Method::PUT, "/admin/read-only", query),
        (Method::DELETE, "/admin/read-only?other=1", query),
        (Method::POST, "/admin/webhooks/a/resume?skip=perhaps", query),
        (Method::GET, "/rest/fcr:resources?other=1", query),
        (Method::POST, "/rest/fcr:verify", query),
        (Method::DELETE, "/admin/tokens/%FF", path),
        (Method::GET, "/fixity/%FF", path),
        (Method::GET, "/selections/%FF", path),
        (Method::GET, "/rest/volumes/%FF", path),
        (Method::POST, "/admin/audit/erase", "unsupported-media-type"),
    ] {
        assert_eq!(kind(answer(&router, method, uri).await).await, expected, "{uri}");
    }
    let much = Request::builder().method(Method::POST).uri("/admin/store").header(header::HOST, "localhost");
    let much = much.body(Body::from(vec![0_u8; 3 << 20])).unwrap();
    assert_eq!(kind(router.oneshot(much).await.unwrap()).await, "too-large");
}

/// The kind of a problem.
async fn kind(response: Response) -> String {
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    problem["kind"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_new_token_is_refused_and_not_made_while_nothing_can_be_written() {
    let (app, faults, _folder) = app().await;
    let router = app.router(Via::InProcess);
    faults.set_full(true);
    let refused = answer(&router, Method::POST, "/admin/tokens?name=a").await;
    assert_eq!(refused.status(), StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(app.tokens.list().await.unwrap(), []);
    faults.set_full(false);
    let made = answer(&router, Method::POST, "/admin/tokens?name=a").await;
    assert_eq!(made.status(), StatusCode::CREATED);
}
