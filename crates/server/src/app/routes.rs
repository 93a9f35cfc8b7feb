//! The routes of each way in, and the rights that they need.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use door_http::Reason;

use super::App;
use super::layers::Layers;
use crate::access::{LimitedRoutes, Policy, Right, Via, keep_standing, require};
use crate::admin::{self, Admin};
use crate::audit_routes::AuditDoor;
use crate::audited::Trail;
use crate::config::{Config, Hsts};
use crate::cors::Origins;
use crate::health::{self, Readiness};
use crate::listen::{Addresses, Ways};
use crate::places::Places;
use crate::telemetry::Watched;
use crate::tokens::Tokens;
use crate::{
    audit_routes, base_path, delivery, feed, fixity_pages, held, https, page, problem, reload, searching, sign_in, stat,
};

impl App {
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
            guarded(read, Right::Read).merge(guarded(outside_transactions(write), Right::Write))
        };
        let ldp = door_ldp::routes(self.ldp.clone());
        let records = door_records::http::routes(self.records.clone());
        let members = |routes| door_ldp::members(&self.ldp, routes);
        let door_data::Routes { read: members_read, write: members_write } =
            door_data::member_routes(self.data.clone());
        let mut routes = page::routes(self.places())
            .merge(health::routes(self.readiness()))
            .merge(sign_in::routes(self.tokens.clone(), self.places()))
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
            .merge(guarded(outside_transactions(records.write), Right::Write));
        if !self.config.data.prefix.is_empty() {
            routes = routes.nest(&self.config.data.prefix, data());
        }
        if via.is_admin() {
            routes = routes.merge(admin::routes(self.admin())).merge(held::routes(self.library.clone()));
            for receivers in &self.receivers {
                routes = routes.merge(delivery::routes(receivers.clone()));
            }
            routes = routes.merge(audit_routes::routes(self.audit_door()));
            let may_be_kept = self.ldp.settings().search.is_kept;
            routes = routes.merge(searching::routes(self.library.clone(), may_be_kept));
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

    /// The places that pages name.
    pub(super) fn places(&self) -> Places {
        let settings = self.ldp.settings();
        Places { repository: format!("{}/", settings.base).into(), has_search: settings.search.is_kept }
    }

    /// Puts the layers of a way in around routes.
    fn layered(&self, via: Via, routes: Router) -> Router {
        let layers = Layers {
            policy: Arc::new(self.policy(via)),
            hosts: (!via.is_admin()).then(|| self.hosts.clone()),
            places: self.places(),
            quotas: (!via.is_admin()).then(|| self.quotas.clone()),
            trail: Trail::new(via, self.library.audit.clone(), &self.config, self.ldp.settings()),
            live: self.live.clone(),
        };
        layers.around(routes)
    }

    /// The routes of all ways in to a server that listens at these addresses.
    pub(crate) fn ways(&self, addresses: &Addresses) -> Ways {
        let network = self.router(Via::Network);
        let strict_for = match (self.config.http.hsts, addresses.redirect) {
            (Hsts::For(time), _) => Some(time),
            (Hsts::Auto, Some(_)) => Some(https::STRICT_FOR),
            (Hsts::Auto, None) | (Hsts::Off, _) => None,
        };
        let origin = self.ldp.settings().origin.as_deref().filter(|origin| origin.starts_with("https://"));
        let site = match origin {
            Some(origin) => https::Site::Origin(origin.into()),
            None => https::Site::Port(addresses.tls.map_or(https::USUAL_PORT, |address| address.port())),
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

    pub(super) fn policy(&self, via: Via) -> Policy {
        policy(via, &self.config, self.tokens.clone(), self.origins.clone())
    }

    /// `/stat` and `/metrics`: they reveal nothing about single volumes.
    fn metrics_routes(&self) -> Router {
        let watched = self.watched();
        let metrics = async move || watched.clone().respond().await;
        Router::new()
            .route("/stat", get(stat::stored))
            .route("/metrics", get(metrics))
            .with_state(self.counting.clone())
    }

    /// What a scrape looks at.
    pub(crate) fn watched(&self) -> Watched {
        let fixity = self.config.fixity.every.map(|_| self.fixity.clone());
        let (library, records) = (self.library.clone(), self.records.clone());
        Watched { handle: self.metrics, library, readiness: self.readiness(), records, fixity }
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
        let (library, consumers) = (self.library.clone(), self.consumers.clone());
        AuditDoor { library, consumers, stopping: self.stopping.clone() }
    }

    /// `/audit`, which can be followed.
    fn audit_routes(&self, policy: &Arc<Policy>) -> Router {
        let routes = audit_routes::network_routes(self.audit_door());
        routes.layer(from_fn_with_state((policy.clone(), Right::Audit), keep_standing))
    }

    fn admin(&self) -> Admin {
        Admin { tokens: self.tokens.clone(), library: self.library.clone() }
    }
}

pub(super) fn policy(via: Via, config: &Config, tokens: Arc<Tokens>, origins: Arc<Origins>) -> Policy {
    let limited =
        LimitedRoutes { prefix: config.data.prefix.clone(), base: config.ldp.base.trim_end_matches('/').to_owned() };
    let names_actors = config.feed.actors;
    Policy { via, config: config.auth.clone(), tokens, origins, names_actors, limited }
}

/// Routes that change something outside the repository, which no transaction is about. A client
/// that names one expects that nothing happens before the commit.
fn outside_transactions(routes: Router) -> Router {
    routes.route_layer(from_fn(|request: Request, next: Next| async move {
        if !request.headers().contains_key(door_ldp::ATOMIC_ID) {
            return next.run(request).await;
        }
        let detail = "only resources of the repository are changed in a transaction: send this without `Atomic-ID`";
        problem::respond(Reason::NOT_IN_TRANSACTION, detail)
    }))
}

async fn nothing_here() -> Response {
    problem::respond(Reason::ABSENT, "there is nothing at this path")
}

/// `Allow` names the allowed methods.
async fn not_that_way(request: Request) -> Response {
    let detail = format!("this path does not support {}", request.method());
    problem::respond(Reason::NOT_ALLOWED, &detail)
}
