//! A library with its doors, without listeners: what a request meets, layer by layer.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::Router;
use door_data::{DataDoor, Routes};
use http::{HeaderValue, StatusCode, header};
use metrics_exporter_prometheus::PrometheusHandle;
use objects::Library;
use store::{Clock, Store, SystemClock};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::access::{Policy, Right, Via, identify, require};
use crate::admin::{self, Admin};
use crate::config::Config;
use crate::error::ServerError;
use crate::health::{self, Readiness};
use crate::tokens::{TokenError, Tokens};
use crate::{page, problem, request_id, stat, telemetry};

/// A library with its doors, without listeners.
pub struct App {
    config: Config,
    store: Arc<dyn Store>,
    library: Library,
    door: Arc<DataDoor>,
    tokens: Arc<Tokens>,
    metrics: &'static PrometheusHandle,
    stopping: CancellationToken,
}

impl App {
    /// Opens the library in a store that the caller has opened. Checks the configuration before anything else.
    pub async fn open(config: Config, store: Arc<dyn Store>) -> Result<Self, ServerError> {
        config.check()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = telemetry::metrics()?;
        let library = Library::open(store.clone(), clock.clone(), config.library_options()).await?;
        let door = DataDoor { library: library.clone(), settings: config.data.settings() };
        let tokens = Tokens::open(store.clone(), clock).await.map_err(token_error)?;
        Ok(Self {
            config,
            store,
            library,
            door: Arc::new(door),
            tokens: Arc::new(tokens),
            metrics,
            stopping: CancellationToken::new(),
        })
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Everything that answers on one way in. A request meets, in this order:
    ///
    /// 1. its id (`X-Request-Id`), taken or made;
    /// 2. log and metrics, which see how the response ends;
    /// 3. the catching of panics, so that a defect costs one answer and not a connection;
    /// 4. who asks (`Authorization`), and, in front of each route, whether they may;
    /// 5. limits: a body that pauses for too long is given up;
    /// 6. the doors.
    pub fn router(&self, via: Via) -> Router {
        let policy = Arc::new(Policy { via, config: self.config.auth.clone(), tokens: self.tokens.clone() });
        let guard = |routes: Router, right| routes.route_layer(from_fn_with_state((policy.clone(), right), require));
        let door = || {
            let Routes { read, write } = door_data::routes(self.door.clone());
            guard(read, Right::Read).merge(guard(write, Right::Write))
        };
        let mut routes = page::routes()
            .merge(health::routes(Readiness { store: self.store.clone(), stopping: self.stopping.clone() }))
            .merge(guard(self.telling_routes(), Right::Read))
            .merge(door());
        if !self.config.data.prefix.is_empty() {
            routes = routes.nest(&self.config.data.prefix, door());
        }
        if via.is_admin() {
            routes = routes.merge(admin::routes(self.admin()));
        }
        let layers = ServiceBuilder::new()
            .layer(from_fn(request_id::assign))
            .layer(from_fn(telemetry::observe))
            .layer(CatchPanicLayer::custom(panicked))
            .layer(from_fn_with_state(policy.clone(), identify))
            .layer(from_fn(guard_browser))
            .layer(RequestBodyTimeoutLayer::new(self.config.limits.body_pause));
        routes.fallback(nothing_here).layer(layers)
    }

    /// `/stat` and `/metrics`: they tell nothing of single volumes, and need the right to read.
    fn telling_routes(&self) -> Router {
        let (library, metrics) = (self.library.clone(), self.metrics);
        Router::new()
            .route("/stat", get(stat::stored).with_state(library))
            .route("/metrics", get(async move || telemetry::render(metrics)))
    }

    fn admin(&self) -> Admin {
        Admin { tokens: self.tokens.clone(), library: self.library.clone() }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Cancelled once the server has been told to stop: `/readyz` says so from then on.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Makes what is acknowledged safe and lets go of the store.
    pub async fn close(self) -> Result<(), ServerError> {
        Ok(self.store.close().await?)
    }
}

fn token_error(error: TokenError) -> ServerError {
    match error {
        TokenError::Store(error) => ServerError::Store(error),
        other => ServerError::Telemetry(other.to_string()),
    }
}

async fn nothing_here() -> Response {
    problem::respond(StatusCode::NOT_FOUND, "there is nothing at this path")
}

/// What a browser must not guess.
async fn guard_browser(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The panic itself was written to standard error by the hook; the client is told nothing of it.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a request met a defect of this program");
    problem::respond(StatusCode::INTERNAL_SERVER_ERROR, "a defect of this program; it was logged")
}
