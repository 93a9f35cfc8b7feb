//! The layers that a request passes before it comes to a door.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use door_http::Reason;
use http::{HeaderValue, header};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use crate::access::{Policy, identify};
use crate::audited::{self, Trail};
use crate::hosts::Hosts;
use crate::live::Live;
use crate::places::Places;
use crate::quota::{self, Quotas};
use crate::{cors, pace, problem, problem_page, rate, request_id, telemetry};

/// Puts the layers around the routes; see [`App::router`](super::App::router) for their order.
/// Without `hosts`, `Host` is not checked. Pages of errors name `places`. Without `quotas`, requests
/// have no limits.
pub(super) fn layered(
    routes: Router,
    policy: Arc<Policy>,
    hosts: Option<Arc<Hosts>>,
    places: Places,
    quotas: Option<Arc<Quotas>>,
    trail: Option<Arc<Trail>>,
    live: Arc<Live>,
) -> Router {
    let origins = Some(policy.origins.clone()).filter(|origins| hosts.is_some() && !origins.is_empty());
    let layers = ServiceBuilder::new()
        .layer(from_fn(request_id::assign))
        .layer(from_fn_with_state(places.clone(), telemetry::observe))
        .option_layer(origins.map(|origins| from_fn_with_state(origins, cors::answer)))
        .layer(from_fn_with_state((hosts, places), guard))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(policy, identify))
        .option_layer(trail.map(|trail| from_fn_with_state(trail, audited::record)))
        .layer(from_fn_with_state(live.clone(), pace::keep))
        .option_layer(quotas.is_some().then(|| from_fn_with_state(live.clone(), rate::limit)))
        .option_layer(quotas.map(|quotas| from_fn_with_state((live, quotas), quota::keep)));
    routes.layer(layers)
}

/// A layer: refuses requests for another host, forbids browsers to guess types, and makes pages of
/// errors for them. It is one layer for all, because each costs every request a microsecond or two.
async fn guard(State((hosts, places)): State<(Option<Arc<Hosts>>, Places)>, request: Request, next: Next) -> Response {
    let visit = problem_page::preferred(&request, &places);
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
