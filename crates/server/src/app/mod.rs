//! A library with its doors, without listeners: the layers that a request passes.

mod layers;
mod records;
mod routes;

use std::sync::Arc;

use budget::Memory;
use door_data::{DataDoor, DataSettings, RepositoryPlace};
use door_ldp::{LdpDoor, LdpSettings};
use door_records::Door;
use fixity::Auditor;
use futures::FutureExt;
use futures::future::BoxFuture;
use library::Library;
use metrics_exporter_prometheus::PrometheusHandle;
use store::{Clock, Store, SystemClock};
use tokio_util::sync::CancellationToken;

use self::records::{records_of, records_settings};
use self::routes::policy;
use crate::access::Via;
use crate::config::Config;
use crate::cors::Origins;
use crate::delivery::{Deliveries, Pacing, Schedule};
use crate::error::ServerError;
use crate::feed::Consumers;
use crate::hosts::Hosts;
use crate::live::Live;
use crate::otlp::Traced;
use crate::quota::Quotas;
use crate::records_access::RecordsAccess;
use crate::records_time::RecordsTime;
use crate::reload::Reloading;
use crate::stat::Counting;
use crate::store_check::StoreCheck;
use crate::telemetry;
use crate::tokens::{TokenError, Tokens};
use crate::warm::Warming;
use crate::{allocated, bridges, webhooks};

/// A library with its doors, without listeners.
pub struct App {
    config: Config,
    store: Arc<dyn Store>,
    library: Library,
    store_check: Arc<StoreCheck>,
    counting: Arc<Counting>,
    data: Arc<DataDoor>,
    ldp: Arc<LdpDoor>,
    records: Arc<Door>,
    stored_records: Arc<::records::Records>,
    warming: Arc<Warming>,
    records_time: Arc<RecordsTime>,
    tokens: Arc<Tokens>,
    quotas: Arc<Quotas>,
    fixity: Arc<Auditor>,
    hosts: Arc<Hosts>,
    origins: Arc<Origins>,
    metrics: &'static PrometheusHandle,
    consumers: Arc<Consumers>,
    /// Webhooks, and bridges to brokers.
    receivers: [Arc<Deliveries>; 2],
    stopping: CancellationToken,
    live: Arc<Live>,
    reloading: Arc<Reloading>,
}

impl App {
    /// Opens the library in a store that the caller has opened. Checks the configuration before
    /// anything else.
    pub async fn open(config: Config, store: Arc<dyn Store>) -> Result<Self, ServerError> {
        Self::open_with(config, store, Arc::new(SystemClock)).await
    }

    /// The same with another clock: the changes have its times.
    pub fn open_with(
        config: Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> BoxFuture<'static, Result<Self, ServerError>> {
        async move {
            config.check()?;
            let (hosts, origins) = (Arc::new(config.hosts()?), Arc::new(config.origins()?));
            let metrics = telemetry::metrics()?;
            let store: Arc<dyn Store> = match config.telemetry.otlp {
                Some(_) => Arc::new(Traced(store)),
                None => store,
            };
            let library = Library::open(store.clone(), clock.clone(), config.library_options()).await?;
            if let Err(error) = library.feed.forget_if_off().await {
                // Passes do it again.
                tracing::warn!(%error, "the change feed is off, and its earlier cursors could not be refused");
            }
            // Each request fits into the memory that there is.
            let most = Memory::largest_request(library.options().memory_bytes);
            let (search, ldp) = (config.search.settings(), config.ldp.settings(&config.http.base_path)?);
            let ldp = LdpSettings { search, held: allocated::held(), ..ldp }.within(most);
            let address = format!("{}/", ldp.base).trim_start_matches('/').to_owned();
            let repository = Some(RepositoryPlace { address, has_search: ldp.search.is_kept });
            let settings = DataSettings { repository, ..config.data.settings().within(most) };
            let data = DataDoor { library: library.clone(), settings };
            let ldp = LdpDoor::new(library.clone(), ldp);
            let fixity = Auditor::new(library.clone(), config.fixity.options());
            let quotas = Quotas::new(clock.clone());
            let tokens = Tokens::open(store.clone(), clock.clone()).await.map_err(token_error)?;
            let consumers = Arc::new(Consumers::new(config.feed.consumers_max));
            let receivers = [
                webhooks::open(&config, library.clone(), Pacing::with(Schedule::of_standard_webhooks()))?,
                bridges::open(&config, library.clone(), Pacing::with(Schedule::of_brokers()))?,
            ];
            let (tokens, records) = (Arc::new(tokens), records_of(&config, store.clone(), clock));
            let policy = policy(Via::Network, &config, tokens.clone(), origins.clone());
            let folder = store.capabilities().folder;
            let live = Live::new(&config.limits);
            let reloading = Reloading::new(&config, live.clone());
            let records_time = RecordsTime::restored(records.clone(), folder.as_deref()).await;
            let warming = Warming::new(records.clone(), config.records.warm, config.records.warm_max, folder);
            let stored_records = records.clone();
            let access = RecordsAccess {
                policy,
                live: live.clone(),
                quotas: quotas.clone(),
                audit: library.audit.clone(),
                changes: config.audit.changes,
            };
            let records = Door::new(records, Box::new(access), library.memory.clone(), records_settings(&config, most));
            let store_check = Arc::new(StoreCheck::new(store.clone()));
            let counting = Arc::new(Counting::new(library.clone()));
            Ok(Self {
                config,
                store,
                store_check,
                counting,
                library,
                data: Arc::new(data),
                ldp: Arc::new(ldp),
                records,
                stored_records,
                warming,
                records_time,
                tokens,
                fixity,
                hosts,
                origins,
                metrics,
                quotas,
                consumers,
                receivers,
                stopping: CancellationToken::new(),
                live,
                reloading,
            })
        }
        .boxed()
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The records, without their door.
    pub(crate) fn stored_records(&self) -> &Arc<::records::Records> {
        &self.stored_records
    }

    /// The warming of records.
    pub(crate) fn warming(&self) -> &Arc<Warming> {
        &self.warming
    }

    /// The time of records.
    pub(crate) fn records_time(&self) -> &Arc<RecordsTime> {
        &self.records_time
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn metrics(&self) -> &'static PrometheusHandle {
        self.metrics
    }

    pub(crate) fn fixity(&self) -> &Arc<Auditor> {
        &self.fixity
    }

    /// Those to whom events are delivered.
    pub(crate) fn receivers(&self) -> &[Arc<Deliveries>; 2] {
        &self.receivers
    }

    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    pub(crate) fn reloading(&self) -> &Arc<Reloading> {
        &self.reloading
    }

    /// Cancelled once the server has been asked to stop: from then on `/readyz` reports it.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Makes acknowledged writes durable and releases the store.
    pub fn close(self) -> BoxFuture<'static, Result<(), ServerError>> {
        async move {
            self.library.audit.auditor().finish().await;
            Ok(self.store.close().await?)
        }
        .boxed()
    }
}

fn token_error(error: TokenError) -> ServerError {
    match error {
        TokenError::Store(error) => ServerError::Store(error),
        other => ServerError::Tokens(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
