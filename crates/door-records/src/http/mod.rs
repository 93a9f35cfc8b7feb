//! The same records over HTTP.
//!
//! - [`routes`] below; `asking.rs`: what each handler takes from a request first;
//! - `one.rs`: one record; `many.rs`: many in one request; `list.rs`: all records;
//! - `overwriting.rs`: changes in mode fast;
//! - `json.rs`: records as JSON; `line.rs`: as lines of it;
//! - `error.rs`: each reason and its status.

mod asking;
mod error;
mod json;
mod line;
mod list;
mod many;
mod one;
mod overwriting;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use budget::{Overloaded, Party, Share};
use store::Deadline;
use tokio::time::timeout_at;

use crate::Door;
use error::HttpError;

pub(crate) use many::{line_within, memory_bytes};

/// The media type of lines of JSON.
const LINES: &str = "application/x-ndjson";

/// The routes of the door.
pub struct Routes {
    /// Routes that need the right to read.
    pub read: Router,
    /// Routes that need the right to write.
    pub write: Router,
}

/// Makes the routes.
pub fn routes(door: Arc<Door>) -> Routes {
    let read = Router::new()
        .route("/records/", get(list::list))
        .route("/records/{id}", get(one::get))
        .route("/records:batchGet", post(many::get));
    let write = Router::new()
        .route("/records/{id}", delete(one::delete).put(one::put).patch(one::patch))
        .route("/records:batchWrite", post(many::write));
    Routes { read: read.with_state(door.clone()), write: write.with_state(door) }
}

impl Door {
    /// A share of the memory, which is waited for until a deadline.
    async fn share_by(&self, deadline: Deadline, party: &Party, bytes: u64) -> Result<Share, HttpError> {
        let late = |_| Overloaded("there was no memory for it by its deadline (limits.memory)".to_owned());
        let share = timeout_at(deadline.0, self.memory.reserve(party, bytes)).await;
        Ok(share.map_err(late)??)
    }
}
