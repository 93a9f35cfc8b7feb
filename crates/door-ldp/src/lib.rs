//! The repository door: a Linked Data Platform (W3C LDP 1.0) over HTTP. It knows the domain
//! (`repository`), graphs (`rdf`), and of the seam (`store`) only its times. It knows no engine,
//! listener, token or configuration file.
//!
//! How to read it, in the order in which a request is processed:
//!
//! - [`routes`] below: reading and writing routes are separate, so that the server can require a
//!   right for each. All requests arrive in `dispatch.rs`. `request.rs` finds the resource
//!   (`address.rs`: paths and IRIs).
//! - Which routes limited clients may use: [`keeps_to_area`].
//! - One file per method: `get.rs` (and HEAD), `options.rs`, `post.rs`, `put.rs`, `patch.rs`,
//!   `delete.rs`.
//! - A change: `incoming.rs` receives the body (`body.rs`: its limits), `changes.rs` makes of it
//!   what is stored, and `returned.rs` responds. `managed.rs` and `claims.rs` handle server-managed
//!   statements, `membership.rs` rules of membership.
//! - `given_up.rs`: what stops when the client of a change leaves.
//! - Headers: `links.rs`, `model.rs` (the interaction model), `conditions.rs`, `prefer.rs`,
//!   `digests.rs`, `disposition.rs`. `query.rs` has the parameters of a query, `paging.rs` pages of
//!   containers.
//! - From the stored form to a response: `stored.rs` (graphs and their IRIs), `held.rs` (the memory
//!   for them), `arrange.rs` (the order of statements), `statements.rs` (the statements as a
//!   stream), `format.rs` (their format).
//! - `pages/`: pages for people; `forms/`: forms by which they change something. `search/`:
//!   `fcr:search`, as Fedora has it.
//! - Earlier versions (RFC 7089; Fedora API, section 4): `version_name.rs` (their names and times),
//!   `timegate.rs`, `timemap.rs`, `mementos.rs`; `restore.rs` and `receive.rs` make versions, and
//!   `deleted.rs` lists what was deleted.
//! - `external.rs`, `files.rs`: content stored elsewhere. `many.rs`, `lines.rs`: many
//!   resources in one request. `archive.rs`: a container with its contents as a ZIP. `volumes.rs`,
//!   `volumes_then.rs`, `volume_members.rs`: volumes as resources. `fixity.rs`: checks of bytes;
//!   `verify.rs`: verification of everything.
//! - `transactions.rs`, `joined.rs`: transactions, and requests in them.
//! - `changed.rs`: what a change made of a resource, for messages about it.
//! - `errors.rs`: each reason and its status, in one match. `constraints.rs`: the page that
//!   explains refusals.

mod address;
mod archive;
mod arrange;
mod body;
mod changed;
mod changes;
mod claims;
mod conditions;
mod constraints;
mod delete;
mod deleted;
mod digests;
mod dispatch;
mod disposition;
pub mod errors;
mod external;
mod fedora;
mod files;
mod fixity;
mod format;
mod forms;
mod get;
mod given_up;
mod held;
mod incoming;
mod joined;
mod lines;
mod links;
mod managed;
mod many;
mod membership;
mod mementos;
mod model;
mod options;
mod pages;
mod paging;
mod patch;
mod post;
mod prefer;
mod put;
mod query;
mod receive;
mod request;
mod restore;
mod returned;
mod search;
mod settings;
mod statements;
mod stored;
mod timegate;
mod timemap;
mod transactions;
mod verify;
mod version_name;
mod volume_members;
mod volumes;
mod volumes_then;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, options, post};
use budget::Turns;
use http::uri::Authority;
use library::Library;

use address::VERSIONS;
use external::External;

pub use address::Site;
pub use changed::{Changed, Parts};
pub use external::{ExternalPrefix, InvalidPrefix, WebPrefix};
pub use files::Folder;
pub use search::own_types;
pub use settings::{DefaultModel, LdpSettings, SearchSettings};
pub use transactions::ATOMIC_ID;
pub use volume_members::members;

/// The number of short readings at once: for pages for people, searches and lists. Each reads
/// little, however much is stored.
const READINGS_AT_ONCE: usize = 4;

/// The number of contents that are read to their end at once for small responses (fixity, digests),
/// and of trees that limited clients delete. That may last long, so no short reading waits for it.
const WHOLE_READINGS_AT_ONCE: usize = 4;

/// The most of these of one client. Two keep a disk busy, and the others are left to other clients.
const WHOLE_READINGS_OF_ONE: usize = 2;

/// The number of pages of lists of earlier volumes that are read at once. Each reads the heads of many
/// volumes. A list has a turn for each of its pages, so none waits for a client that reads slowly.
const PAST_LISTINGS_AT_ONCE: usize = 4;

/// The most of these of one client.
const PAST_LISTINGS_OF_ONE: usize = 2;

/// The number of updates for each processor that read what they change, or wait for their turn to be
/// computed. Others wait with their text only.
const UPDATES_PER_PROCESSOR: usize = 4;

/// The door: a library and its settings.
pub struct LdpDoor {
    library: Library,
    settings: LdpSettings,
    /// The client for content stored elsewhere, if that is allowed.
    external: Option<External>,
    /// Turns to read for a page, a search or a list.
    readings: Turns,
    /// Turns to read all bytes of a resource for a small response, or all that a limited client
    /// deletes.
    whole_readings: Turns,
    /// Turns to read a page of the volumes that there were.
    past_listings: Turns,
    /// Turns to read what an update changes, and to compute it.
    updates: Turns,
    /// Turns to compute an update, for those that have one of `updates`. So a slow store holds up no
    /// other updates than those that wait for it. Parsers have others: an update can take longer.
    evaluations: Turns,
    /// Turns to parse a graph that takes long. Memory is not reserved for what a parser builds, so
    /// only so many run at once.
    parsings: Turns,
}

impl LdpDoor {
    /// A door to this library.
    pub fn new(library: Library, mut settings: LdpSettings) -> Self {
        settings.search.is_kept |= library.store().capabilities().is_shared;
        let external = (!settings.external.is_empty()).then(|| External::new(&settings.external));
        let readings = Turns::new(READINGS_AT_ONCE);
        let whole_readings = Turns::shared(WHOLE_READINGS_AT_ONCE, WHOLE_READINGS_OF_ONE);
        let past_listings = Turns::shared(PAST_LISTINGS_AT_ONCE, PAST_LISTINGS_OF_ONE);
        let processors = library.heads.options().processors;
        let updates = Turns::new(UPDATES_PER_PROCESSOR.saturating_mul(processors));
        let [evaluations, parsings] = [(); 2].map(|()| Turns::new(processors));
        Self { library, settings, external, readings, whole_readings, past_listings, updates, evaluations, parsings }
    }

    /// The settings.
    pub fn settings(&self) -> &LdpSettings {
        &self.settings
    }
}

/// The routes of the door.
pub struct Routes {
    /// Routes that need the right to read.
    pub read: Router,
    /// Routes that need the right to write.
    pub write: Router,
}

/// Request extension: how the client reaches the server, where the request itself does not say it.
/// The door derives its own address from it.
#[derive(Clone, Debug, Default)]
pub struct SeenAs {
    /// Whether the client's connection is encrypted.
    pub encrypted: bool,
    /// The host that the client asked for; `None`: the one that the request names.
    pub host: Option<Authority>,
}

/// The members of a volume. The data door sends their bytes.
const MEMBERS: [&str; 3] = ["pages/{seq}", "mets", "record"];

/// Whether this door keeps to a client's [`area::Area`] in a route of it, below this base path. It
/// does: no request reaches a method for a resource that is not within. A route that is not named
/// here is not for limited clients.
pub fn keeps_to_area(base: &str, route: &str) -> bool {
    let of_volume = |rest: &str| rest.is_empty() || MEMBERS.iter().any(|member| rest.strip_prefix('/') == Some(member));
    match route.strip_prefix(base) {
        Some("" | "/" | "/{*path}") => true,
        Some(below) => below.strip_prefix("/volumes/{id}").is_some_and(of_volume),
        None => false,
    }
}

/// Makes the routes under the configured base path.
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
        )
        .merge(
            Router::new()
                .route(
                    &format!("{base}/volumes/{VERSIONS}/{{second}}"),
                    get(volumes_then::list).options(volumes_then::list),
                )
                .with_state(door.clone()),
        );
    let reading = transactions::only_reading(&door, transactions::VOLUMES_ARE_NOT, reading);
    let verifying = transactions::only_reading(&door, "resources are not verified", verify::routes(door.clone()));
    let changing = || post(dispatch::respond).put(dispatch::respond).patch(dispatch::respond).delete(dispatch::respond);
    Routes {
        read: everywhere(get(dispatch::respond).options(dispatch::respond)).merge(reading),
        write: everywhere(changing()).merge(volumes(changing(), changing())).merge(verifying),
    }
}
