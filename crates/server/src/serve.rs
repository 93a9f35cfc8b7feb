//! Runs a server from start to stop.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use store::Store;

use crate::access::Via;
use crate::app::App;
use crate::background;
use crate::config::Config;
use crate::error::ServerError;
use crate::listen::{Addresses, Listeners};
use crate::systemd;

/// How long a stop waits for webhooks to be given back to other servers.
const WEBHOOKS_PATIENCE: Duration = Duration::from_secs(5);

/// Serves a store that the caller has opened: binds every listener or none, reports their addresses
/// by `ready`, and serves until `shutdown`. Then it stops accepting, lets responses end for at most
/// `limits.shutdown_time`, and closes the store. It closes the store even if it never served.
pub fn serve(
    config: Config,
    store: Arc<dyn Store>,
    ready: impl FnOnce(Addresses) + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, Result<(), ServerError>> {
    serve_until(config, store, Box::new(ready), shutdown.boxed())
}

fn serve_until(
    config: Config,
    store: Arc<dyn Store>,
    ready: Box<dyn FnOnce(Addresses) + Send>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServerError>> {
    async move {
        let served = match App::open(config, store.clone()).await {
            Ok(app) => serve_app(&app, store.capabilities().folder, ready, shutdown).await,
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
    ready: Box<dyn FnOnce(Addresses) + Send>,
    shutdown: BoxFuture<'static, ()>,
) -> Result<(), ServerError> {
    let door = app.records_door().await?;
    let listeners = Listeners::bind(app.config(), folder.as_deref())?;
    let _sweeping = background::start(app.library().clone(), app.config().store.sweep_interval);
    let _tokens = background::keep_fresh(app.tokens().clone());
    let _fixity = app.config().fixity.every.map(|_| background::audit_fixity(app.fixity().clone()));
    let warming = app.warming().start();
    let webhooks = app.webhooks().start(app.stopping());
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
    listeners.serve(app.router(Via::Network), app.router(Via::AdminSocket), door, shutdown).await;
    drop(warming);
    app.warming().save().await;
    webhooks.ended(WEBHOOKS_PATIENCE).await;
    app.library().audit.auditor().finish().await;
    Ok(())
}
