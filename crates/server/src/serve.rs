//! Runs a server from start to stop.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use store::Store;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::background;
use crate::config::Config;
use crate::error::ServerError;
use crate::listen::{Addresses, Given, Listeners};
use crate::otlp::Exporting;
use crate::reload::Reload;
use crate::searching::Indexing;
use crate::{systemd, telemetry};

/// How long a stop waits for receivers of events to be given back to other servers.
const RECEIVERS_PATIENCE: Duration = Duration::from_secs(5);

/// How long a stop waits for the search index to be given back.
const INDEXING_PATIENCE: Duration = Duration::from_secs(5);

/// Serves a store that the caller has opened: binds every listener or none, reports their addresses
/// by `ready`, and serves until `shutdown`. Then it stops accepting, lets responses end for at most
/// `limits.shutdown_time`, and closes the store. It closes the store even if it never served.
pub fn serve(
    config: Config,
    store: Arc<dyn Store>,
    ready: impl FnOnce(Addresses) + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, Result<(), ServerError>> {
    serve_until(config, store, None, Box::new(ready), shutdown.boxed())
}

/// The same, for a server whose configuration can be read again: on SIGHUP, and for the
/// administrator.
pub fn serve_reloading(
    config: Config,
    store: Arc<dyn Store>,
    reload: Reload,
    ready: impl FnOnce(Addresses) + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, Result<(), ServerError>> {
    serve_until(config, store, Some(reload), Box::new(ready), shutdown.boxed())
}

fn serve_until(
    config: Config,
    store: Arc<dyn Store>,
    reload: Option<Reload>,
    ready: Box<dyn FnOnce(Addresses) + Send>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServerError>> {
    async move {
        let served = match App::open(config, store.clone()).await {
            Ok(app) => serve_app(&app, store.capabilities().folder, reload, ready, shutdown).await,
            Err(error) => Err(error),
        };
        let closed = store.close().await;
        served.and(closed.map_err(ServerError::from))
    }
    .boxed()
}

async fn serve_app(
    app: &App,
    folder: Option<PathBuf>,
    reload: Option<Reload>,
    ready: Box<dyn FnOnce(Addresses) + Send>,
    shutdown: BoxFuture<'static, ()>,
) -> Result<(), ServerError> {
    let memory = app.library().options().memory_bytes;
    if let Some((_, keys)) = app.config().allow_more_than(memory)? {
        tracing::warn!(memory, keys, "limits.memory is so small that requests have to be smaller than settings say");
    }
    if let Some(update_memory) = app.config().update_memory_beyond(memory) {
        let most = budget::Memory::largest_request(memory);
        tracing::warn!(update_memory, most, "ldp.update_memory is more than one request gets of limits.memory");
    }
    let _upkeep = telemetry::keep_up(app.metrics());
    let exporting = Exporting::start(&app.config().telemetry, app.watched())?;
    let given = Given::by_the_service_manager()?;
    let door = app.records_door(given.has_records()).await?;
    let listeners = Listeners::bind(app.config(), given, folder.as_deref(), app.live().clone())?;
    let serves_records = listeners.addresses().records.is_some();
    let _reloading = match reload {
        Some(reload) => Some(app.reloading().start(reload, serves_records).await),
        None => None,
    };
    let _sweeping = background::start(app.library().clone(), app.config().store.sweep_interval);
    let (records, interval) = (app.stored_records().clone(), app.config().store.sweep_interval);
    let _dropping = background::drop_expired_attributes(app.library(), records, interval);
    let _tokens = background::keep_fresh(app.tokens().clone());
    let _fixity = app.config().fixity.every.map(|_| background::audit_fixity(app.fixity().clone()));
    let warming = app.warming().start();
    let _keeping = app.records_time().start().await;
    let delivering = app.receivers().each_ref().map(|receivers| receivers.start(app.stopping()));
    let indexing = app.config().search.index.then(|| Indexing::start(app.library(), app.stopping()));
    let addresses = listeners.addresses().clone();
    let shown = |address: Option<SocketAddr>| address.map(tracing::field::display);
    let socket = addresses.socket.as_ref().map(|path| tracing::field::display(path.display()));
    let http_socket = addresses.http_socket.as_ref().map(|path| tracing::field::display(path.display()));
    let admin_socket = addresses.admin_socket.as_ref().map(|path| tracing::field::display(path.display()));
    let (http, tls, records) = (shown(addresses.http), shown(addresses.tls), shown(addresses.records));
    let redirect = shown(addresses.redirect);
    tracing::info!(http, http_socket, tls, redirect, records, socket, admin_socket, "listening");
    let ways = app.ways(&addresses);
    ready(addresses);
    systemd::notify(systemd::State::Ready);
    let shutdown = async {
        shutdown.await;
        tracing::info!("stopping");
        systemd::notify(systemd::State::Stopping);
        app.stopping().cancel();
        let drain = app.live().drain();
        if !drain.is_zero() {
            tracing::info!(seconds = drain.as_secs_f64(), "draining: /readyz says no, and requests are still served");
            tokio::select! {
                () = tokio::time::sleep(drain) => {}
                () = asked_again() => {}
            }
        }
    };
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = systemd::keep_alive() => {}
        }
    };
    listeners.serve(ways, door, shutdown).await;
    drop(warming);
    app.warming().save().await;
    app.records_time().save().await;
    futures::future::join_all(delivering.iter().map(|kind| kind.ended(RECEIVERS_PATIENCE))).await;
    if let Some(indexing) = indexing {
        indexing.ended(INDEXING_PATIENCE).await;
    }
    app.library().audit.auditor().finish().await;
    if let Some(exporting) = exporting {
        exporting.end().await;
    }
    Ok(())
}

/// Completes at the next signal that asks the process to end.
async fn asked_again() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminated), Ok(mut interrupted)) => tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        },
        _ => std::future::pending().await,
    }
}
