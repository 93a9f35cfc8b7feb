//! Runs a server from start to stop.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use store::Store;

use crate::access::Via;
use crate::app::App;
use crate::background;
use crate::config::Config;
use crate::error::ServerError;
use crate::listen::{Addresses, Listeners};
use crate::systemd;

/// Serves a store that the caller has opened: binds every listener or none, reports their addresses
/// by `ready`, and serves until `shutdown`. Then it stops accepting, lets responses end for at most
/// `limits.shutdown_time`, and closes the store. It closes the store even if it never served.
pub async fn serve(
    config: Config,
    store: Arc<dyn Store>,
    ready: impl FnOnce(Addresses),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let served = match App::open(config, store.clone()).await {
        Ok(app) => serve_app(&app, store.capabilities().folder, ready, shutdown).await,
        Err(error) => Err(error),
    };
    let closed = store.close().await;
    served.and(closed.map_err(ServerError::from))
}

async fn serve_app(
    app: &App,
    folder: Option<PathBuf>,
    ready: impl FnOnce(Addresses),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let listeners = Listeners::bind(app.config(), folder.as_deref()).await?;
    let _sweeping = background::start(app.library().clone(), app.config().store.sweep_interval);
    let _tokens = background::keep_fresh(app.tokens().clone());
    let _fixity = app.config().fixity.every.map(|_| background::audit_fixity(app.fixity().clone()));
    let addresses = listeners.addresses().clone();
    tracing::info!(http = ?addresses.http, tls = ?addresses.tls, records = ?addresses.records, socket = ?addresses.socket, "listening");
    ready(addresses);
    systemd::tell(systemd::State::Ready);
    let shutdown = async {
        shutdown.await;
        tracing::info!("stopping");
        systemd::tell(systemd::State::Stopping);
        app.stopping().cancel();
    };
    let door = app.records_door()?;
    listeners.serve(app.router(Via::Network), app.router(Via::AdminSocket), door, shutdown).await;
    app.library().audit.auditor().finish().await;
    Ok(())
}
