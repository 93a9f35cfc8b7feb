//! `lares testbed serve`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use clap::Args;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::uri::Authority;
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower_http::services::ServeDir;

use super::ArchiveArgs;
use terminal::exit::full_message;
use terminal::interrupt;

/// The archive is not looked at more often.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// What all pages may do. The policy in each page narrows it to the scripts that the page names.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self' 'unsafe-inline'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What a run has brought along gets an origin of its own, and sees nothing of the portal.
const RUN_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox allow-scripts";

/// Arguments of `lares testbed serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed serve
  lares testbed serve --archive /srv/runs --listen 127.0.0.1:8091")]
pub struct ServeArgs {
    /// Where runs are kept.
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Address of HTTP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8091")]
    listen: SocketAddr,
    /// A name under which browsers reach it, besides localhost and addresses; may be repeated. Requests
    /// for other names are refused: a page elsewhere could give its name this address.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
}

/// Serves until it is asked to end.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let archive = args.archive.archive;
    // The folder goes with its value, and not with a process that a signal kills.
    let stop = interrupt::stop_token()?;
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let portal = Arc::new(Portal {
        pages: folder.path().join("portal"),
        seen: Mutex::new(Seen { archive: stamp(&archive).with_context(|| reading(&archive))?, at: Instant::now() }),
        archive,
        hosts: args.host,
    });
    portal.publish().await?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    note!("Listening on http://{}/", listener.local_addr()?);
    let routes =
        Router::new().fallback_service(ServeDir::new(&portal.pages)).layer(from_fn_with_state(portal.clone(), answer));
    tokio::select! {
        served = axum::serve(listener, routes).into_future() => Ok(served?),
        () = stop.cancelled() => {
            // A publication at work would make the folder again.
            let _seen = portal.seen.lock().await;
            drop(folder);
            Ok(())
        }
    }
}

/// The pages of an archive.
struct Portal {
    archive: PathBuf,
    pages: PathBuf,
    /// The names under which browsers reach it.
    hosts: Vec<String>,
    seen: Mutex<Seen>,
}

/// The archive as it was published last.
struct Seen {
    archive: Stamp,
    /// When it was looked at.
    at: Instant,
}

/// The folders of an archive, and when each has changed. Runs get their names when they are whole.
type Stamp = BTreeMap<OsString, SystemTime>;

fn stamp(archive: &Path) -> io::Result<Stamp> {
    let entries = std::fs::read_dir(archive)?;
    entries.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?.modified()?)))).collect()
}

fn reading(archive: &Path) -> String {
    format!("reading the archive {}", archive.display())
}

impl Portal {
    async fn publish(&self) -> anyhow::Result<()> {
        let (archive, pages) = (self.archive.clone(), self.pages.clone());
        let published = tokio::task::spawn_blocking(move || testbed::portal::publish(&archive, &pages)).await?;
        published.map(drop).with_context(|| reading(&self.archive))
    }

    /// Publishes again if the archive has changed. Requests wait for it.
    async fn refresh(&self) -> anyhow::Result<()> {
        let mut seen = self.seen.lock().await;
        if seen.at.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        seen.at = Instant::now();
        let archive = stamp(&self.archive).with_context(|| reading(&self.archive))?;
        if archive != seen.archive {
            self.publish().await?;
            seen.archive = archive;
        }
        Ok(())
    }
}

/// Whether a host is this server's: an address, `localhost`, or a name that it was given. A name that
/// somebody else has given to its address is not (DNS rebinding).
fn is_known(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || is("localhost") || names.iter().any(|known| is(known))
}

async fn answer(State(portal): State<Arc<Portal>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| is_known(host, &portal.hosts)) {
        let message = "This host is not served here. Name it by --host.\n";
        return (StatusCode::MISDIRECTED_REQUEST, message).into_response();
    }
    let path = request.uri().path();
    // The pages of the portal itself, by the names that it gives them; all else is of some run.
    let is_portal = ["/", "/index.html"].contains(&path);
    if ["/", "/index.html", "/runs.json"].contains(&path)
        && let Err(error) = portal.refresh().await
    {
        // What was published before is still there.
        note!("lares: {}", full_message(error.as_ref()));
    }
    let mut response = next.run(request).await;
    let policy = if is_portal { POLICY } else { RUN_POLICY };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
