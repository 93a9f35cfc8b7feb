//! `/healthz`: the process answers. `/readyz`: it can serve.
//!
//! Serving means reading, and each read writes an audit entry. A server is ready as long as reads
//! succeed, the audit keeps up, and the store accepts its entries ([`Lane::Service`]). If only
//! another lane refuses writes (its disk is nearly full, or compaction met a broken block), the
//! status stays 200, so that no load balancer removes a server that can read everything. The
//! response then says what is refused. Imports get 503 or 507, and `penates_store_refusing_writes`
//! reports it to monitors. A server that warms its records (`records.warm`) is ready afterwards.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use door_http::Reason;
use futures::future::join_all;
use library::Library;
use store::{Call, Deadline, Lane, StoreError};
use tokio_util::sync::CancellationToken;

use crate::live::Live;
use crate::problem;
use crate::warm::Warming;

/// How long a read of a row may take. Whoever asks is about to give up.
const READ_MAX: Duration = Duration::from_secs(2);

/// The partition that is read: it has no row.
const NO_ROW: &[u8] = b"readyz";

/// The state that readiness depends on.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) library: Library,
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
    /// Says that the server can serve, and what it refuses nevertheless; or why it cannot.
    pub(crate) async fn check(&self) -> Result<String, (Reason, String)> {
        if self.stopping.is_cancelled() {
            return Err((Reason::STOPPING, "the server is stopping".to_owned()));
        }
        if let Some(progress) = self.warming.progress() {
            return Err((Reason::WARMING, format!("the records are being warmed: {progress}")));
        }
        // Reads are refused while it lags.
        if let Err(error) = self.library.audit.auditor().check_lag() {
            return Err(((&error).into(), error.to_string()));
        }
        let (health, unreadable) = futures::join!(self.library.store().health(), self.unreadable());
        if let Some((error, why)) = unreadable {
            return Err((Reason::UNAVAILABLE, format!("{why}: {error}")));
        }
        let refusing = health.refusing_writes;
        if let Some(reason) = refusing.get(&Lane::Service) {
            let lane = Lane::Service;
            let detail = format!("writes that serving needs, such as the audit (lane {lane}), are refused: {reason}");
            return Err((Reason::REFUSES_WRITES, detail));
        }
        for (lane, what) in [(Lane::Text, "volumes"), (Lane::Records, "records")] {
            if let Some(reason) = refusing.get(&lane) {
                return Ok(format!("ready to read; changes of {what} (lane {lane}) are refused: {reason}\n"));
            }
        }
        Ok("ready\n".to_owned())
    }

    /// Reads a row of each lane; returns why one cannot be read. A broken block is no reason: it
    /// makes some rows unreadable, and the others are served.
    async fn unreadable(&self) -> Option<(StoreError, String)> {
        let store = self.library.store();
        let (level, partition) = (store.level(), Bytes::from_static(NO_ROW));
        let read = async |lane: Lane| {
            let table = lane.tables().find(|table| table.is_in(level))?;
            let call = Call::new(table.class(), Deadline::within(READ_MAX));
            match store.get(call, table, &partition, &Bytes::new()).await {
                Ok(_) | Err(StoreError::Corrupt { .. }) => None,
                Err(error) => Some((error, format!("rows of lane {lane} cannot be read"))),
            }
        };
        join_all(Lane::ALL.into_iter().map(read)).await.into_iter().flatten().next()
    }
}
