//! The data door: the HTRC Data API and what lies beyond it, over HTTP. It knows the domain (`objects`) and nothing of engines,
//! listeners, tokens or configuration files; of the seam (`store`) only the errors that the domain hands through, and its time.
//!
//! How to read it:
//!
//! - [`routes`] below is the list of what there is. Those that read and those that write come apart, so that the server can put
//!   its rights in front of each. Who asks comes in as a request extension, [`objects::Requester`].
//! - From a request: `params.rs` (query, form, list of ids), `policies.rs` (how much one may ask for), `asking.rs` (who asks, and
//!   what the path names).
//! - One file a subject: `bulk.rs` and `selections.rs` (ZIPs, whole and in ranges), `tokens.rs`, `listing.rs`, `volume.rs`,
//!   `page.rs`, `upload.rs`.
//! - What HTTP asks of all of them: `negotiate.rs`, `digest.rs`, `representation.rs` (and the crate `door-http`); `damage.rs`: what is marked;
//!   `audit.rs`: what is recorded though nothing is streamed.
//! - `errors.rs`: each reason and its status, in one match.

mod asking;
mod audit;
mod bulk;
mod damage;
mod digest;
pub mod errors;
mod listing;
mod negotiate;
mod page;
pub mod params;
mod policies;
mod representation;
mod selections;
mod settings;
mod time;
mod tokens;
mod upload;
mod volume;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};
use objects::Library;

pub use asking::segment;
pub use policies::Policy;
pub use settings::DataSettings;

/// The door: a library, and what is set.
pub struct DataDoor {
    /// What is read and written.
    pub library: Library,
    /// What is set.
    pub settings: DataSettings,
}

/// The routes of the door.
pub struct Routes {
    /// What needs the right to read, selections included.
    pub read: Router,
    /// What changes the text, and verifying, which marks what is damaged.
    pub write: Router,
}

/// Those of the routes that send bytes of volumes: their pages, METS and records. Another door tells of them as resources.
pub fn member_routes(door: Arc<DataDoor>) -> Router {
    Router::new()
        .route("/volumes/{id}/pages/{seq}", get(page::page))
        .route("/volumes/{id}/mets", get(volume::mets))
        .route("/volumes/{id}/record", get(volume::record))
        .with_state(door)
}

/// Makes the routes. They can be mounted at `/` and, besides, nested under a prefix: addresses in answers follow the mount.
pub fn routes(door: Arc<DataDoor>) -> Routes {
    let read = Router::new()
        .route("/volumes", get(bulk::volumes).post(bulk::volumes))
        .route("/pages", get(bulk::pages).post(bulk::pages))
        .route("/tokencount", post(tokens::count))
        .route("/selections", post(selections::create))
        .route("/selections/{selection}", get(selections::send).delete(selections::delete))
        .route("/volumes/", get(listing::list))
        .route("/volumes/{id}", get(volume::info))
        .route("/volumes/{id}/pages/", get(volume::pages))
        .with_state(door.clone())
        .merge(member_routes(door.clone()));
    let write = Router::new()
        .route("/volumes/{id}", put(upload::put).delete(volume::delete))
        .route("/volumes/{id}/verify", post(volume::verify))
        .with_state(door);
    Routes { read, write }
}
