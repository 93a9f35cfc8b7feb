//! A server from its beginning to its end.

use std::future::Future;
use std::sync::Arc;

use store::Store;

use crate::access::Via;
use crate::app::App;
use crate::background;
use crate::config::Config;
use crate::error::ServerError;
use crate::listen::{Addresses, Listeners};

/// Serves a store that the caller has opened: binds every listener or none, says where by `ready`, and goes on until `shutdown`.
/// Then it stops accepting, lets responses end for as long as `limits.shutdown_time` allows, and closes the store.
pub async fn serve(
    config: Config,
    store: Arc<dyn Store>,
    ready: impl FnOnce(Addresses),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let app = App::open(config, store).await?;
    let served = serve_app(&app, ready, shutdown).await;
    let closed = app.close().await;
    served.and(closed)
}

async fn serve_app(
    app: &App,
    ready: impl FnOnce(Addresses),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let listeners = Listeners::bind(app.config()).await?;
    let _background = background::start(app.library().clone(), app.config().store.sweep_interval);
    let addresses = listeners.addresses().clone();
    tracing::info!(http = ?addresses.http, tls = ?addresses.tls, socket = %addresses.socket.display(), "listening");
    ready(addresses);
    let shutdown = async {
        shutdown.await;
        tracing::info!("stopping");
        app.stopping().cancel();
    };
    listeners.serve(app.router(Via::Network), app.router(Via::AdminSocket), shutdown).await;
    Ok(())
}
