//! The repository door: a Linked Data Platform (W3C LDP 1.0) over HTTP. It knows the domain (`objects`) and graphs (`rdf`) and
//! nothing of engines, listeners, tokens or configuration files; of the seam (`store`) only its times.
//!
//! How to read it, in the order in which a request goes:
//!
//! - [`routes`] below: those that read and those that write come apart, so that the server can put its rights in front of each.
//!   All of them arrive in `ask.rs`, which finds out what is asked of what (`address.rs`: paths and IRIs) and answers it.
//! - One file a method: `get.rs` (and HEAD), `options.rs`, `post.rs`, `put.rs`, `patch.rs`, `delete.rs`; `returned.rs`: what a change
//!   answers.
//! - What they say and understand in headers: `links.rs`, `model.rs` (which interaction model is asked for), `conditions.rs`,
//!   `prefer.rs`, `digests.rs`, `disposition.rs`; `paging.rs` for pages of containers.
//! - From a body to what is kept and back: `body.rs`, `managed.rs` and `claims.rs` (statements that are the server's), `membership.rs`,
//!   `statements.rs` (the statements of an answer, as a stream), `arrange.rs` (their order), `format.rs` (what they are sent as).
//! - `external.rs`, `files.rs`: content that is kept elsewhere. `many.rs`, `lines.rs`, `spool.rs`: many resources in one request. `archive.rs`: a container with all that is in it, as one. `volumes.rs`, `volume_members.rs`: the volumes of the library, as resources.
//!   `verify.rs`: whether resources are what came in.
//! - `errors.rs`: each reason and its status, in one match; `constraints.rs`: the page that explains what is refused.

mod address;
mod archive;
mod arrange;
mod ask;
mod body;
mod claims;
mod conditions;
mod constraints;
mod delete;
mod digests;
mod disposition;
pub mod errors;
mod external;
mod fedora;
mod files;
mod format;
mod get;
mod lines;
mod links;
mod managed;
mod many;
mod membership;
mod model;
mod options;
mod paging;
mod patch;
mod post;
mod prefer;
mod put;
mod returned;
mod settings;
mod spool;
mod statements;
mod verify;
mod volume_members;
mod volumes;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, options, post};
use objects::Library;

use external::External;

pub use external::{ExternalPrefix, InvalidPrefix, WebPrefix};
pub use files::Folder;
pub use settings::{DefaultModel, LdpSettings};
pub use volume_members::members;

/// The door: a library, and what is set.
pub struct LdpDoor {
    library: Library,
    settings: LdpSettings,
    /// Content that is kept elsewhere, where that is allowed at all.
    external: Option<External>,
}

impl LdpDoor {
    /// A door to this library. It fails where content elsewhere is allowed and the system has no certificates to know others by.
    pub fn new(library: Library, settings: LdpSettings) -> io::Result<Self> {
        let external = match settings.external.is_empty() {
            true => None,
            false => Some(External::new(&settings.external)?),
        };
        Ok(Self { library, settings, external })
    }

    /// What is set.
    pub fn settings(&self) -> &LdpSettings {
        &self.settings
    }
}

/// The routes of the door.
pub struct Routes {
    /// What needs the right to read.
    pub read: Router,
    /// What changes something.
    pub write: Router,
}

/// A request that comes over an encrypted connection: an extension of it, from which the door knows how it is addressed.
#[derive(Clone, Copy, Debug)]
pub struct Encrypted;

/// What a volume contains; its bytes the data door sends.
const MEMBERS: [&str; 3] = ["pages/{seq}", "mets", "record"];

/// Makes the routes, under the base path that is set.
pub fn routes(door: Arc<LdpDoor>) -> Routes {
    let everywhere = |methods: MethodRouter<Arc<LdpDoor>>| {
        let base = &door.settings.base;
        let routes = Router::new()
            .route(&format!("{base}/"), methods.clone())
            .route(&format!("{base}/{{*path}}"), methods.clone());
        let routes = if base.is_empty() { routes } else { routes.route(base, methods) };
        routes.with_state(door.clone())
    };
    let base = &door.settings.base;
    let volumes = |list: MethodRouter<Arc<LdpDoor>>, volume| {
        Router::new()
            .route(&format!("{base}/volumes"), list)
            .route(&format!("{base}/volumes/{{id}}"), volume)
            .with_state(door.clone())
    };
    let reading = volumes(get(volumes::list).options(volumes::list), get(volumes::volume).options(volumes::volume))
        .merge(
            MEMBERS
                .iter()
                .fold(Router::new(), |routes, member| {
                    routes.route(&format!("{base}/volumes/{{id}}/{member}"), options(volume_members::member))
                })
                .with_state(door.clone()),
        );
    let changing = || post(ask::answer).put(ask::answer).patch(ask::answer).delete(ask::answer);
    Routes {
        read: everywhere(get(ask::answer).options(ask::answer)).merge(reading),
        write: everywhere(changing()).merge(volumes(changing(), changing())).merge(verify::routes(door.clone())),
    }
}
