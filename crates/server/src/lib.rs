//! The server: listeners, TLS, tokens, limits, metrics, logs, and a page for people. It wires the
//! doors to a library. It knows no engine: its caller has opened the store.
//!
//! How to read it:
//!
//! - [`config`]: the settings, one file for each section.
//! - [`App`] (`app/`): a library with its doors and the layers of a request, in order. It has no
//!   listeners, so tests and commands can use it within the process. `access.rs` checks rights,
//!   `tokens/` keeps the tokens. `audited.rs` records changes and refusals, and `local_user.rs`
//!   names users of this machine. `audit_routes.rs` lets administrators read and erase.
//!   `allocated.rs` says what the thread of an update holds.
//!   `request_id.rs`, `trace_context.rs` and `telemetry/` identify requests (`logging.rs` writes
//!   their lines, `otlp/` sends their traces). `linger.rs` lets a client read an early response,
//!   `pace.rs` ends slow bodies, `rate.rs` and `quota.rs` count what a client takes
//!   (`records_access.rs`: over the Redis protocol). `observed_body.rs` shows them what is sent. `base_path.rs` puts routes below a path. `hosts.rs` and `cors.rs` keep
//!   other sites' pages out. `health.rs`, `stat.rs`, `fixity_pages.rs`, `problem_page.rs`,
//!   `admin.rs` and `page.rs` (with `openapi.rs`) are the server's own routes (`places.rs`: where
//!   their links lead); so is `feed/`, the change feed over HTTP. `delivery/` sends it to webhooks
//!   (`webhooks/`) and, over bridges, to brokers of messages (`bridges/`).
//! - [`serve`]: `listen/` binds and accepts (`descriptors.rs`: the number of connections), `tls.rs`
//!   has the certificate (`certificate.rs` reads it), `live.rs` has what may change while the
//!   server runs, `reload.rs` changes it, `check.rs` looks at what a configuration names, `peer.rs`
//!   the client's address (`proxies/` reads it from a proxy's fields), `https.rs` leads to HTTPS,
//!   `background.rs` collects and sweeps, `searching.rs` keeps the search index up to date,
//!   `warm.rs` reads records before the server is ready, `records_time.rs` remembers how late it was
//!   for them (both in a `sealed_file.rs`), `systemd.rs` notifies the service manager.

pub mod config;

mod access;
mod admin;
mod allocated;
mod app;
mod audit_routes;
mod audited;
mod background;
mod base_path;
mod bridges;
mod certificate;
mod check;
mod cors;
mod delivery;
mod descriptors;
mod error;
mod feed;
mod fixity_pages;
mod health;
mod held;
mod hosts;
mod https;
mod linger;
mod listen;
mod live;
mod local_user;
mod logging;
mod network;
mod next;
mod observed_body;
mod openapi;
mod otlp;
mod pace;
mod page;
mod peer;
mod places;
mod private;
mod problem;
mod problem_page;
mod proxies;
mod quota;
mod rate;
mod records_access;
mod records_time;
mod reload;
mod request_id;
mod sealed_file;
mod searching;
mod serve;
mod sign_in;
mod stat;
mod store_check;
mod systemd;
mod telemetry;
mod tls;
mod tokens;
mod trace_context;
mod warm;
mod webhooks;

pub use access::Via;
pub use app::App;
pub use check::{Finding, check_addresses, check_files};
pub use descriptors::raise_descriptor_limit;
pub use error::ServerError;
pub use listen::{Addresses, SOCKET_NAME};
pub use local_user::user_of_this_process;
pub use logging::{Logging, init_logging};
pub use private::keep_files_private;
pub use reload::{HangUps, ReadAgain, Reload, Reloaded, Reread};
pub use serve::{serve, serve_reloading};
pub use tokens::{NotScopes, Scopes};
