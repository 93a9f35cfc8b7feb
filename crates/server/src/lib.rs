//! The server: listeners, TLS, tokens, limits, metrics, logs, and a page for people. It wires the doors to a library and knows
//! nothing of engines: whoever starts it has opened the store.
//!
//! How to read it:
//!
//! - [`config`]: what can be set, and where each value came from.
//! - [`App`] (`app.rs`): a library with its doors and the layers that a request meets, in order; no listeners, so that tests and
//!   commands use it within the process. `access.rs` says who may do what, `tokens.rs` keeps the tokens, `request_id.rs`,
//!   `trace_context.rs` and `telemetry.rs` tell requests apart (`logging.rs` is where its lines go), `linger.rs` lets a client hear an early answer, `pace.rs` gives up a slow one; `hosts.rs` and `cors.rs` keep other
//!   sites' pages out; `health.rs`, `stat.rs`, `admin.rs` and `page.rs` are the
//!   server's own routes.
//! - [`serve`]: `listen/` binds and accepts (`descriptors.rs`: how many at once), `tls.rs` has the certificate, `background.rs` collects and sweeps meanwhile,
//!   `systemd.rs` tells the service manager.

pub mod config;

mod access;
mod admin;
mod app;
mod background;
mod cors;
mod descriptors;
mod error;
mod health;
mod held;
mod hosts;
mod linger;
mod listen;
mod logging;
mod pace;
mod page;
mod private;
mod problem;
mod request_id;
mod serve;
mod stat;
mod systemd;
mod telemetry;
mod tls;
mod tokens;
mod trace_context;

pub use access::Via;
pub use app::App;
pub use descriptors::raise_descriptor_limit;
pub use error::ServerError;
pub use listen::{Addresses, SOCKET_NAME};
pub use logging::{Logging, init_logging};
pub use private::keep_files_private;
pub use serve::serve;
