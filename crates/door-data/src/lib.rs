//! The data door: the HTRC Data API and its extensions over HTTP. It knows volumes and the audit,
//! and of the seam (`store`) only its errors and its time. It knows no engine, listener, token or
//! configuration file.
//!
//! How to read it:
//!
//! - [`routes`] below lists all routes. Reading and writing routes are separate, so that the server
//!   can require a right for each. The requester is a request extension, [`audit::Requester`].
//! - Which routes limited clients may use: [`keeps_to_area`].
//! - Reading a request: `params.rs` (query, form, list of ids), `policies.rs` (limits per request,
//!   named in `policy.rs`), `as_of.rs` (the time), `list_request.rs` (all together), `retrieval.rs`
//!   (volumes or pages), `waiting.rs` (work that ends when the client leaves), `asking.rs`
//!   (requester and path).
//! - One file per subject: `bulk.rs` and `selections.rs` (`archive.rs`: ZIPs, whole and in ranges),
//!   `tokens.rs` (`token_rows.rs`: CSV and JSON), `listing/`, `text.rs`, `volume.rs`, `page.rs`,
//!   `upload.rs`, `replace.rs`. Earlier versions: `in_time.rs` (how they are addressed and
//!   negotiated), `versions.rs` (their list).
//! - HTTP for all of them: `digest.rs`, `representation.rs` (and the crate `door-http`).
//!   `damage.rs` marks damage. `audit.rs` records requests that stream nothing.
//! - `errors.rs`: each reason and its status, in one match.

mod archive;
mod as_of;
mod asking;
mod audit;
mod bulk;
mod damage;
mod digest;
pub mod errors;
mod in_time;
mod list_request;
mod listing;
mod page;
pub mod params;
mod policies;
mod policy;
mod replace;
mod representation;
mod retrieval;
mod selections;
mod settings;
mod text;
mod time;
mod token_rows;
mod tokens;
mod upload;
mod versions;
mod volume;
mod waiting;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post, put};
use library::Library;

pub use asking::segment;
pub use policy::Policy;
pub use retrieval::Retrieval;
pub use settings::{DataSettings, RepositoryPlace};

/// The door: a library and its settings.
pub struct DataDoor {
    /// The library.
    pub library: Library,
    /// The settings.
    pub settings: DataSettings,
}

/// The routes of the door.
pub struct Routes {
    /// Routes that need the right to read, including selections.
    pub read: Router,
    /// Routes that need the right to write: those that change text, and verification, which marks
    /// damage.
    pub write: Router,
}

/// The routes of present members of volumes: pages, METS and records. Another door serves them as
/// resources.
pub fn member_routes(door: Arc<DataDoor>) -> Routes {
    let read = members_at("/volumes/{id}").with_state(door.clone());
    Routes { read, write: replacing().with_state(door) }
}

/// The routes that send members of the volume, or of the version, at an address.
fn members_at(address: &str) -> Router<Arc<DataDoor>> {
    Router::new()
        .route(&format!("{address}/pages/{{seq}}"), get(page::page))
        .route(&format!("{address}/mets"), get(volume::mets))
        .route(&format!("{address}/record"), get(volume::record))
}

/// The routes that replace members.
fn replacing() -> Router<Arc<DataDoor>> {
    Router::new().route("/volumes/{id}/pages/{seq}", put(replace::page)).route("/volumes/{id}/mets", put(replace::mets))
}

/// The routes of one volume and its members, as they are and in versions.
fn in_time(door: Arc<DataDoor>) -> Router<Arc<DataDoor>> {
    let version = "/volumes/{id}/versions/{revision}";
    Router::new()
        .route("/volumes/{id}", get(volume::info))
        .route("/volumes/{id}/pages/", get(volume::pages))
        .merge(members_at("/volumes/{id}"))
        .route(version, get(versions::one))
        .route(&format!("{version}/pages/"), get(volume::pages))
        .merge(members_at(version))
        .route_layer(middleware::from_fn_with_state(door, in_time::around))
}

/// Whether this door keeps to a client's [`area::Area`] in a route of it. It does so in two ways:
/// no handler gets a volume of the path that is outside, and lists are checked or filtered. A route
/// that is not named here is not for limited clients.
pub fn keeps_to_area(route: &str) -> bool {
    let member = |of: &str| matches!(of, "" | "/pages/" | "/pages/{seq}" | "/mets" | "/record");
    if let Some(of_volume) = route.strip_prefix("/volumes/{id}") {
        let of_version = of_volume.strip_prefix("/versions/{revision}");
        return of_version
            .map_or_else(|| matches!(of_volume, "/text" | "/verify" | "/versions/") || member(of_volume), member);
    }
    matches!(route, "/volumes" | "/pages" | "/tokencount" | "/volumes/" | "/selections" | "/selections/{selection}")
}

/// Makes the routes. They can be mounted at `/` and also nested under a prefix. Addresses in
/// responses follow the mount.
pub fn routes(door: Arc<DataDoor>) -> Routes {
    let read = Router::new()
        .route("/volumes", get(bulk::volumes).post(bulk::volumes))
        .route("/pages", get(bulk::pages).post(bulk::pages))
        .route("/tokencount", get(tokens::count).post(tokens::count))
        .route("/selections", post(selections::create))
        .route("/selections/{selection}", get(selections::send).delete(selections::delete))
        .route("/volumes/", get(listing::list))
        .route("/volumes/{id}/text", get(text::text))
        .route("/volumes/{id}/versions/", get(versions::list))
        .merge(in_time(door.clone()))
        .with_state(door.clone());
    let write = Router::new()
        .route("/volumes/{id}", put(upload::put).delete(volume::delete))
        .route("/volumes/{id}/verify", post(volume::verify))
        .route("/volumes/{id}/versions/", post(versions::restore))
        .merge(replacing())
        .with_state(door);
    Routes { read, write }
}
