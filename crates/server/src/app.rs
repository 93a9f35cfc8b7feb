//! A library with its doors, without listeners: the layers that a request passes.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use door_data::DataDoor;
use door_http::Reason;
use door_ldp::{LdpDoor, LdpSettings};
use door_records::{Door, RequestLimits};
use fixity::Auditor;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, header};
use library::Library;
use metrics_exporter_prometheus::PrometheusHandle;
use records::{Mode, Records, RecordsError};
use store::{Clock, Deadline, Store, SystemClock, Table};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use crate::access::{LimitedRoutes, Policy, Right, Via, identify, keep_standing, require};
use crate::admin::{self, Admin};
use crate::audit_routes::AuditDoor;
use crate::audited::{self, Trail};
use crate::config::{Config, Hsts, RecordsConfig, Warm};
use crate::cors::Origins;
use crate::error::ServerError;
use crate::feed::{self, Consumers};
use crate::health::{self, Readiness};
use crate::held;
use crate::hosts::Hosts;
use crate::listen::Ways;
use crate::live::Live;
use crate::otlp::Traced;
use crate::pace;
use crate::quota::{self, Quotas};
use crate::rate;
use crate::reload::{self, Reloading};
use crate::store_check::StoreCheck;
use crate::telemetry::Watched;
use crate::tokens::{TokenError, Tokens};
use crate::warm::Warming;
use crate::webhooks::{self, Pacing, Webhooks};
use crate::{
    audit_routes, base_path, cors, fixity_pages, https, page, problem, problem_page, request_id, searching, sign_in,
    stat, telemetry,
};

/// A library with its doors, without listeners.
pub struct App {
    config: Config,
    store: Arc<dyn Store>,
    library: Library,
    store_check: Arc<StoreCheck>,
    data: Arc<DataDoor>,
    ldp: Arc<LdpDoor>,
    records: Arc<Door>,
    warming: Arc<Warming>,
    tokens: Arc<Tokens>,
    quotas: Arc<Quotas>,
    fixity: Arc<Auditor>,
    hosts: Arc<Hosts>,
    origins: Arc<Origins>,
    metrics: &'static PrometheusHandle,
    consumers: Arc<Consumers>,
    webhooks: Arc<Webhooks>,
    stopping: CancellationToken,
    live: Arc<Live>,
    reloading: Arc<Reloading>,
}

impl App {
    /// Opens the library in a store that the caller has opened. Checks the configuration before
    /// anything else.
    pub async fn open(config: Config, store: Arc<dyn Store>) -> Result<Self, ServerError> {
        Self::open_with(config, store, Arc::new(SystemClock)).await
    }

    /// The same with another clock: the changes have its times.
    pub fn open_with(
        config: Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> BoxFuture<'static, Result<Self, ServerError>> {
        async move {
            config.check()?;
            let (hosts, origins) = (Arc::new(config.hosts()?), Arc::new(config.origins()?));
            let metrics = telemetry::metrics()?;
            let store: Arc<dyn Store> = match config.telemetry.otlp {
                Some(_) => Arc::new(Traced(store)),
                None => store,
            };
            let library = Library::open(store.clone(), clock.clone(), config.library_options()).await?;
            if let Err(error) = library.feed.forget_if_off().await {
                // Passes do it again.
                tracing::warn!(%error, "the change feed is off, and its earlier cursors could not be refused");
            }
            let data = DataDoor { library: library.clone(), settings: config.data.settings() };
            let search = config.search.settings();
            let ldp = LdpSettings { search, ..config.ldp.settings(&config.http.base_path)? };
            let ldp = LdpDoor::new(library.clone(), ldp)
                .map_err(|error| ServerError::Door { door: "the repository door", reason: error.to_string() })?;
            let fixity = Auditor::new(library.clone(), config.fixity.options());
            let quotas = Quotas::new(clock.clone());
            let tokens = Tokens::open(store.clone(), clock.clone()).await.map_err(token_error)?;
            let consumers = Arc::new(Consumers::new(config.feed.consumers_max));
            let webhooks = Webhooks::open(&config, library.clone(), Pacing::default())?;
            let (tokens, records) = (Arc::new(tokens), records_of(&config, store.clone(), clock));
            let policy = policy(Via::Network, &config, tokens.clone(), origins.clone());
            let folder = store.capabilities().folder;
            let live = Live::new(&config.limits);
            let reloading = Reloading::new(&config, live.clone());
            let warming = Warming::new(records.clone(), config.records.warm, config.records.warm_max, folder);
            let records = Door::new(records, Box::new(policy), library.memory.clone(), records_settings(&config));
            let store_check = Arc::new(StoreCheck::new(store.clone()));
            Ok(Self {
                config,
                store,
                store_check,
                library,
                data: Arc::new(data),
                ldp: Arc::new(ldp),
                records,
                warming,
                tokens,
                fixity,
                hosts,
                origins,
                metrics,
                quotas,
                consumers,
                webhooks,
                stopping: CancellationToken::new(),
                live,
                reloading,
            })
        }
        .boxed()
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The routes of one way in. A request passes these layers, in this order:
    ///
    /// 1. its id (`X-Request-Id`), accepted or made;
    /// 2. log and metrics, which see how the response ends;
    /// 3. over a network: whether another site's page may make it (CORS), and the host that it
    ///    names (`Host`); with a header that forbids browsers to guess types; errors become pages
    ///    for browsers;
    /// 4. catching of panics, so that a defect costs one response and not a connection;
    /// 5. the client's identity (`Authorization`) and, in front of each route, its rights;
    /// 6. the audit, which records changes, reads of resources and refusals;
    /// 7. limits: a body that arrives too slowly is given up; the rest of a body after an early
    ///    response is read, up to a bound; a client with too many requests is refused;
    /// 8. the doors.
    pub fn router(&self, via: Via) -> Router {
        let policy = Arc::new(self.policy(via));
        let guarded = |routes: Router, right| routes.route_layer(from_fn_with_state((policy.clone(), right), require));
        let data = || {
            let door_data::Routes { read, write } = door_data::routes(self.data.clone());
            guarded(read, Right::Read).merge(guarded(write, Right::Write))
        };
        let ldp = door_ldp::routes(self.ldp.clone());
        let records = door_records::http::routes(self.records.clone());
        let members = |routes| door_ldp::members(self.ldp.settings(), routes);
        let door_data::Routes { read: members_read, write: members_write } =
            door_data::member_routes(self.data.clone());
        let mut routes = page::routes()
            .merge(health::routes(self.readiness()))
            .merge(sign_in::routes(self.tokens.clone()))
            .merge(guarded(self.metrics_routes(), Right::Metrics))
            .merge(guarded(self.feed_routes(&policy), Right::Read))
            .merge(guarded(fixity_pages::routes(self.fixity.clone()), Right::Operate))
            .merge(guarded(self.audit_routes(&policy), Right::Audit))
            .merge(data())
            .merge(guarded(ldp.read, Right::Read))
            .merge(guarded(members(members_read), Right::Read))
            .merge(guarded(members(members_write), Right::Write))
            .merge(guarded(ldp.write, Right::Write))
            .merge(guarded(records.read, Right::Read))
            .merge(guarded(records.write, Right::Write));
        if !self.config.data.prefix.is_empty() {
            routes = routes.nest(&self.config.data.prefix, data());
        }
        if via.is_admin() {
            let webhooks = webhooks::routes(self.webhooks.clone());
            routes =
                routes.merge(admin::routes(self.admin())).merge(held::routes(self.library.clone())).merge(webhooks);
            routes = routes.merge(audit_routes::routes(self.audit_door()));
            routes = routes.merge(searching::routes(self.library.clone()));
            routes = routes.merge(reload::routes(self.reloading.clone()));
        }
        if via.is_admin() || !self.config.auth.copy.is_empty() {
            routes = routes.merge(guarded(held::read_routes(self.library.clone()), Right::Copy));
        }
        let within = self.layered(via, routes.fallback(nothing_here).method_not_allowed_fallback(not_that_way));
        // The administrator's commands name routes without the base path, and follow links with it.
        let outside =
            if via.is_admin() { within.clone() } else { self.layered(via, Router::new().fallback(nothing_here)) };
        base_path::below(&self.config.http.base_path, within, outside)
    }

    /// Puts the layers of a way in around routes.
    fn layered(&self, via: Via, routes: Router) -> Router {
        let hosts = (!via.is_admin()).then(|| self.hosts.clone());
        let quotas = (!via.is_admin()).then(|| self.quotas.clone());
        let trail = Trail::new(via, self.library.audit.clone(), &self.config, self.ldp.settings());
        layered(routes, Arc::new(self.policy(via)), hosts, quotas, trail, self.live.clone())
    }

    /// The routes of all ways in. `tls` is where HTTPS is, if it is this server's own.
    pub(crate) fn ways(&self, tls: Option<SocketAddr>) -> Ways {
        let network = self.router(Via::Network);
        let strict_for = match (self.config.http.hsts, self.config.listen.redirect) {
            (Hsts::For(time), _) => Some(time),
            (Hsts::Auto, Some(_)) => Some(https::STRICT_FOR),
            (Hsts::Auto, None) | (Hsts::Off, _) => None,
        };
        let origin = self.ldp.settings().origin.as_deref().filter(|origin| origin.starts_with("https://"));
        let site = match origin {
            Some(origin) => https::Site::Origin(origin.into()),
            None => https::Site::Port(tls.map_or(https::USUAL_PORT, |address| address.port())),
        };
        Ways {
            encrypted: https::strict_for(strict_for, network.clone()),
            network,
            redirecting: self.layered(Via::Network, https::redirecting(site)),
            admin: self.router(Via::AdminSocket),
        }
    }

    fn readiness(&self) -> Readiness {
        let (library, warming, stopping) = (self.library.clone(), self.warming.clone(), self.stopping.clone());
        let (store_check, live) = (self.store_check.clone(), self.live.clone());
        Readiness { library, store_check, warming, stopping, live }
    }

    /// The warming of records.
    pub(crate) fn warming(&self) -> &Arc<Warming> {
        &self.warming
    }

    /// The records door, if the Redis protocol is spoken: the configuration names an address for
    /// it, or the service manager has given a socket.
    ///
    /// Errors: the store cannot do what the configuration asks for, or its records have another
    /// mode.
    pub(crate) fn records_door(&self, is_given: bool) -> BoxFuture<'_, Result<Option<Arc<Door>>, ServerError>> {
        async move {
            let refuse = |reason| Err(ServerError::Door { door: "the records door", reason });
            let RecordsConfig { listen, mode, .. } = self.config.records;
            if !self.config.records.durability.sync_delay().is_zero() && !self.store.capabilities().delays_syncs {
                let reason = "records.durability has to be `sync`: this store decides itself when it syncs \
                              (Apache Cassandra by its `commitlog_sync`)";
                return refuse(reason.to_owned());
            }
            let is_served = is_given || listen.is_some();
            if !is_served && mode == Mode::Atomic {
                return Ok(None);
            }
            if !Table::Records.is_in(self.store.level()) {
                return refuse("the store has no table of records yet: run `penates upgrade`".to_owned());
            }
            match self.records.check_mode(Deadline::within(self.config.store.call_timeout)).await {
                Ok(()) => Ok(is_served.then(|| self.records.clone())),
                Err(RecordsError::Store(error)) => Err(error.into()),
                Err(error) => refuse(error.to_string()),
            }
        }
        .boxed()
    }

    fn policy(&self, via: Via) -> Policy {
        policy(via, &self.config, self.tokens.clone(), self.origins.clone())
    }

    /// `/stat` and `/metrics`: they reveal nothing about single volumes.
    fn metrics_routes(&self) -> Router {
        let watched = self.watched();
        let metrics = async move || watched.clone().respond().await;
        Router::new().route("/stat", get(stat::stored)).route("/metrics", get(metrics)).with_state(self.library.clone())
    }

    /// What a scrape looks at.
    pub(crate) fn watched(&self) -> Watched {
        let fixity = self.config.fixity.every.map(|_| self.fixity.clone());
        Watched { handle: self.metrics, library: self.library.clone(), readiness: self.readiness(), fixity }
    }

    /// `/feed`: the right to read includes the changes.
    fn feed_routes(&self, policy: &Arc<Policy>) -> Router {
        let door = feed::FeedDoor {
            feed: self.library.feed.clone(),
            ldp: self.ldp.clone(),
            consumers: self.consumers.clone(),
            memory: self.library.memory.clone(),
            stopping: self.stopping.clone(),
        };
        feed::routes(door).layer(from_fn_with_state((policy.clone(), Right::Read), keep_standing))
    }

    fn audit_door(&self) -> AuditDoor {
        AuditDoor { library: self.library.clone(), stopping: self.stopping.clone() }
    }

    /// `/audit`, which can be followed.
    fn audit_routes(&self, policy: &Arc<Policy>) -> Router {
        let routes = audit_routes::network_routes(self.audit_door());
        routes.layer(from_fn_with_state((policy.clone(), Right::Audit), keep_standing))
    }

    fn admin(&self) -> Admin {
        Admin { tokens: self.tokens.clone(), library: self.library.clone() }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn metrics(&self) -> &'static PrometheusHandle {
        self.metrics
    }

    pub(crate) fn fixity(&self) -> &Arc<Auditor> {
        &self.fixity
    }

    pub(crate) fn webhooks(&self) -> &Arc<Webhooks> {
        &self.webhooks
    }

    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    pub(crate) fn reloading(&self) -> &Arc<Reloading> {
        &self.reloading
    }

    /// Cancelled once the server has been asked to stop: from then on `/readyz` reports it.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Makes acknowledged writes durable and releases the store.
    pub fn close(self) -> BoxFuture<'static, Result<(), ServerError>> {
        async move {
            self.library.audit.auditor().finish().await;
            Ok(self.store.close().await?)
        }
        .boxed()
    }
}

fn policy(via: Via, config: &Config, tokens: Arc<Tokens>, origins: Arc<Origins>) -> Policy {
    let limited =
        LimitedRoutes { prefix: config.data.prefix.clone(), base: config.ldp.base.trim_end_matches('/').to_owned() };
    let names_actors = config.feed.actors;
    Policy { via, config: config.auth.clone(), tokens, origins, names_actors, limited }
}

/// The records of a store, with the durability of the configuration.
fn records_of(config: &Config, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Records> {
    let remembers = config.records.warm == Warm::Hottest && store.capabilities().folder.is_some();
    let records =
        Records::in_mode(store, clock, config.records.mode).synced_within(config.records.durability.sync_delay());
    Arc::new(if remembers { records.remembering() } else { records })
}

fn records_settings(config: &Config) -> door_records::Settings {
    let RecordsConfig {
        listen: _,
        gives_way: _,
        tls: _,
        proxy_protocol: _,
        mode: _,
        durability: _,
        warm: _,
        warm_max: _,
        deadline,
        deadline_max,
        silence_max,
        request_max,
    } = config.records;
    door_records::Settings {
        deadline,
        deadline_max,
        silence_max,
        stall_max: config.limits.stall,
        request: RequestLimits { bytes: usize::try_from(request_max).unwrap_or(usize::MAX) },
    }
}

/// Puts the layers around the routes; see [`App::router`] for their order. Without `hosts`, `Host`
/// is not checked. Without `quotas`, requests have no limits.
fn layered(
    routes: Router,
    policy: Arc<Policy>,
    hosts: Option<Arc<Hosts>>,
    quotas: Option<Arc<Quotas>>,
    trail: Option<Arc<Trail>>,
    live: Arc<Live>,
) -> Router {
    let origins = Some(policy.origins.clone()).filter(|origins| hosts.is_some() && !origins.is_empty());
    let layers = ServiceBuilder::new()
        .layer(from_fn(request_id::assign))
        .layer(from_fn(telemetry::observe))
        .option_layer(origins.map(|origins| from_fn_with_state(origins, cors::answer)))
        .layer(from_fn_with_state(hosts, guard))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(policy, identify))
        .option_layer(trail.map(|trail| from_fn_with_state(trail, audited::record)))
        .layer(from_fn_with_state(live.clone(), pace::keep))
        .option_layer(quotas.is_some().then(|| from_fn_with_state(live.clone(), rate::limit)))
        .option_layer(quotas.map(|quotas| from_fn_with_state((live, quotas), quota::keep)));
    routes.layer(layers)
}

fn token_error(error: TokenError) -> ServerError {
    match error {
        TokenError::Store(error) => ServerError::Store(error),
        other => ServerError::Tokens(other.to_string()),
    }
}

async fn nothing_here() -> Response {
    problem::respond(Reason::ABSENT, "there is nothing at this path")
}

/// `Allow` names the allowed methods.
async fn not_that_way(request: Request) -> Response {
    let detail = format!("this path does not support {}", request.method());
    problem::respond(Reason::NOT_ALLOWED, &detail)
}

/// A layer: refuses requests for another host, forbids browsers to guess types, and makes pages of
/// errors for them. It is one layer for all, because each costs every request a microsecond or two.
async fn guard(State(hosts): State<Option<Arc<Hosts>>>, request: Request, next: Next) -> Response {
    let visit = problem_page::preferred(&request);
    let checked = hosts.map_or(Ok(()), |hosts| hosts.check(&request));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.respond(),
    };
    if let Some(visit) = visit {
        response = problem_page::of(response, &visit).await;
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The hook of the process has logged the panic; the client gets no details.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    problem::respond(Reason::INTERNAL, "a request panicked")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use axum::body::Body;
    use http::{Method, StatusCode};
    use store::faults::{Damage, Faults, Harm, Rates};
    use store::{Capabilities, Lane, ManualClock, UnixMillis, Wrapper};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};
    use tower::ServiceExt;

    use super::*;
    use crate::config::{Access, FixityConfig, RecordsDurability};
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
        let told = axum::body::to_bytes(ready.into_body(), 1_000).await.unwrap();
        assert!(String::from_utf8_lossy(&told).contains("lane text"), "{told:?}");
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
        assert!(text("/metrics").await.1.contains("\npenates_ready 0\n"));
        faults.set_rates(1, Rates::default());
        assert_eq!(text("/readyz").await, (StatusCode::OK, "ready\n".to_owned()));

        // A broken block is not the end of the others.
        let partition = bytes::Bytes::from_static(b"readyz");
        let damage = Damage {
            table: Table::Tokens,
            partition,
            sort: None,
            harm: Harm::FlippedBit,
            strong_reads_are_whole: false,
        };
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

    #[tokio::test]
    async fn a_limited_token_gets_nothing_of_the_records_although_they_are_open() {
        let mut config = Config::default();
        config.auth.write = Access::Open;
        let (app, _faults, _folder) = app_with(config).await;
        let scopes = Some("read write volumes:a.* rest:/".parse().unwrap());
        let secret = app.tokens.create(NewToken { name: "a", scopes, expires: None }).await.unwrap();
        let policy = app.policy(Via::Network);
        let rights = |token: Option<&str>| {
            let rights = door_records::Access::rights(&policy, token.map(str::as_bytes)).unwrap();
            (rights.read, rights.write)
        };
        assert_eq!(rights(None), (true, true));
        assert_eq!(rights(Some(secret.reveal())), (false, false));
    }

    #[tokio::test]
    async fn the_server_is_ready_when_its_records_are_warm_and_says_how_far_it_is() {
        let records = RecordsConfig { warm: Warm::All, ..RecordsConfig::default() };
        let (app, _faults, _folder) = app_with(Config { records, ..Config::default() }).await;
        let router = app.router(Via::Network);
        let warming = answer(&router, Method::GET, "/readyz").await;
        assert_eq!(warming.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(warming.headers().contains_key(header::RETRY_AFTER));
        let told = axum::body::to_bytes(warming.into_body(), 1_000).await.unwrap();
        assert!(String::from_utf8_lossy(&told).contains("being warmed: 0 records are read"), "{told:?}");
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
        let (routes, policy) = (Router::new().route("/", get(panics)), Arc::new(app.policy(Via::Network)));
        let router = layered(routes, policy, None, None, None, app.live.clone());
        let response = answer(&router, Method::GET, "/").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(response.headers().contains_key(request_id::HEADER));
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
}
