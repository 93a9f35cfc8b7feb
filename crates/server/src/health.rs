//! `/healthz`: the process answers. `/readyz`: it can serve.
//!
//! Serving means reading, and each read writes an audit entry. A server is ready as long as reads
//! succeed, the audit keeps up, and the store accepts its entries ([`Lane::Service`]). If only
//! another lane refuses writes (its disk is nearly full, or compaction met a broken block), the
//! status stays 200, so that no load balancer removes a server that can read everything. The
//! response then says what is refused. Imports get 503 or 507, and `penates_store_refusing_writes`
//! reports it to monitors. A server that warms its records (`records.warm`) is ready afterwards.
//!
//! A store that is busy is ready: load comes to all servers at once, and if all said no, nothing
//! would be served. `store_check.rs` decides which failures are load.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use door_http::Reason;
use library::Library;
use store::{Lane, NoRoom};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::live::Live;
use crate::problem;
use crate::store_check::{Checked, KEPT, Reading, StoreCheck};
use crate::warm::Warming;

/// What the server can serve, or why it cannot.
pub(crate) type Answer = Result<String, (Reason, String)>;

/// The state that readiness depends on.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) library: Library,
    pub(crate) store_check: Arc<StoreCheck>,
    pub(crate) warming: Arc<Warming>,
    /// Cancelled once the server has been asked to stop.
    pub(crate) stopping: CancellationToken,
    pub(crate) live: Arc<Live>,
}

/// Whether a path is one of these. They are answered whatever the limits of clients are.
pub(crate) fn is_health(path: &str) -> bool {
    ["/healthz", "/readyz"].contains(&path)
}

pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new().route("/healthz", get(async || "alive\n")).route("/readyz", get(ready)).with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    readiness.live.watched();
    match readiness.check().await {
        Ok(text) => text.into_response(),
        Err((reason, why)) => problem::respond(reason, &why),
    }
}

impl Readiness {
    /// Says that the server can serve, and what it refuses nevertheless; or why it cannot. It may
    /// be a moment old.
    pub(crate) async fn check(&self) -> Answer {
        self.may_serve()?;
        let now = Instant::now();
        let checked = self.store_check.since(now.checked_sub(KEPT).unwrap_or(now)).await;
        answer(&checked)
    }

    /// The same as of now, with what the store was read to report.
    pub(crate) async fn check_now(&self) -> (Answer, Arc<Checked>) {
        let checked = self.store_check.since(Instant::now()).await;
        (self.may_serve().and_then(|()| answer(&checked)), checked)
    }

    /// What the server knows without its store.
    fn may_serve(&self) -> Result<(), (Reason, String)> {
        if self.stopping.is_cancelled() {
            return Err((Reason::STOPPING, "the server is stopping".to_owned()));
        }
        if let Some(progress) = self.warming.progress() {
            return Err((Reason::WARMING, format!("the records are being warmed: {progress}")));
        }
        // Reads are refused while it lags.
        let auditor = self.library.audit.auditor();
        if let Err(error) = auditor.check_lag() {
            return Err(((&error).into(), error.to_string()));
        }
        if let Some(why) = auditor.refusal() {
            return Err((Reason::REFUSES_WRITES, format!("the last write of the audit was refused: {why}")));
        }
        Ok(())
    }
}

/// What a nearly full disk refuses, in the words of operators.
fn refused(no_room: NoRoom) -> &'static str {
    match no_room {
        NoRoom::ForMuch => "imports, large files and changes of records",
        NoRoom::ForChanges => "all changes but deletions",
        NoRoom::ForRemovals => "all changes, deletions too,",
    }
}

/// What a check of the store means for readiness.
fn answer(checked: &Checked) -> Answer {
    if let Reading::Fails(why) = &checked.reading {
        return Err((Reason::UNAVAILABLE, why.clone()));
    }
    let refusing = |lane| checked.health.as_ref().and_then(|health| health.refusing_writes.get(&lane));
    if let Some(reason) = refusing(Lane::Service) {
        let lane = Lane::Service;
        let detail = format!("writes that serving needs, such as the audit (lane {lane}), are refused: {reason}");
        return Err((Reason::REFUSES_WRITES, detail));
    }
    if let Reading::Busy(why) = &checked.reading {
        return Ok(format!("ready, and busy: {why}\n"));
    }
    if let Some((no_room, left)) = checked.health.as_ref().and_then(|health| health.no_room.as_ref()) {
        return Ok(format!("ready to read; {} are refused: {left}\n", refused(*no_room)));
    }
    for (lane, what) in [(Lane::Text, "volumes"), (Lane::Records, "records")] {
        if let Some(reason) = refusing(lane) {
            return Ok(format!("ready to read; changes of {what} are refused: {reason}\n"));
        }
    }
    Ok("ready\n".to_owned())
}
