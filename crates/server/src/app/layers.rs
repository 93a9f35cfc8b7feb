//! The layers that a request passes before it comes to a door.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, from_fn_with_state};
use axum::response::Response;
use door_http::Reason;
use futures::FutureExt;
use http::{HeaderValue, header};

use crate::access::{Policy, identify};
use crate::audited::{self, Trail};
use crate::hosts::Hosts;
use crate::live::Live;
use crate::next::{Next, Then};
use crate::places::Places;
use crate::quota::{self, Quotas};
use crate::{cors, pace, problem, problem_page, rate, request_id, telemetry};

/// The layers of one way in; see [`App::router`](super::App::router) for their order.
pub(super) struct Layers {
    pub(super) policy: Arc<Policy>,
    /// `None`: `Host` is not checked, and other sites are not asked about.
    pub(super) hosts: Option<Arc<Hosts>>,
    /// What pages of errors name.
    pub(super) places: Places,
    /// `None`: requests have no limits.
    pub(super) quotas: Option<Arc<Quotas>>,
    /// `None`: nothing is recorded.
    pub(super) trail: Option<Arc<Trail>>,
    pub(super) live: Arc<Live>,
}

impl Layers {
    /// Puts them around routes.
    pub(super) fn around(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(Arc::new(self), pass))
    }

    /// Requests of other sites' pages.
    async fn of_sites(&self, request: Request, next: impl Next) -> Response {
        let origins = &self.policy.origins;
        match self.hosts.is_some() && !origins.is_empty() {
            true => cors::answer(origins, request, Then(move |request| self.guard(request, next))).await,
            false => self.guard(request, next).await,
        }
    }

    /// Refuses requests for another host, forbids browsers to guess types, makes pages of errors for
    /// them, and catches panics.
    async fn guard(&self, request: Request, next: impl Next) -> Response {
        let visit = problem_page::preferred(&request, &self.places);
        let checked = self.hosts.as_ref().map_or(Ok(()), |hosts| hosts.check(&request));
        let mut response = match checked {
            Ok(()) => {
                let next = Then(move |request| self.record(request, next));
                let identified = identify(&self.policy, request, next);
                AssertUnwindSafe(identified).catch_unwind().await.unwrap_or_else(panicked)
            }
            Err(refusal) => refusal.respond(),
        };
        if let Some(visit) = visit {
            response = problem_page::of(response, &visit).await;
        }
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// The audit.
    async fn record(&self, request: Request, next: impl Next) -> Response {
        let next = Then(move |request| pace::keep(&self.live, request, Then(move |request| self.limit(request, next))));
        match &self.trail {
            Some(trail) => audited::record(trail, request, next).await,
            None => next.run(request).await,
        }
    }

    /// The limits of clients.
    async fn limit(&self, request: Request, next: impl Next) -> Response {
        let Some(quotas) = &self.quotas else { return next.run(request).await };
        let next = Then(move |request| quota::keep(&self.live, quotas, request, next));
        rate::limit(&self.live, request, next).await
    }
}

/// The one service that they are.
async fn pass(State(layers): State<Arc<Layers>>, request: Request, next: middleware::Next) -> Response {
    let layers = &*layers;
    let next = Then(move |request| layers.of_sites(request, next));
    let next = Then(move |request| telemetry::observe(&layers.places, request, next));
    request_id::assign(request, next).await
}

/// The hook of the process has logged the panic; the client gets no details.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    problem::respond(Reason::INTERNAL, "a request panicked")
}
