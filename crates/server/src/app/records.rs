//! The records door of an application.

use std::sync::Arc;

use door_records::Door;
use futures::FutureExt;
use futures::future::BoxFuture;
use records::{Mode, Records, RecordsError};
use store::{Clock, Deadline, Store};

use super::App;
use crate::config::{Config, RecordsConfig, Warm};
use crate::error::ServerError;

impl App {
    /// The records door, if the Redis protocol is spoken: the configuration names an address for
    /// it, or the service manager has given a socket.
    ///
    /// Errors: the store cannot do what the configuration asks for, or its records have another
    /// mode.
    pub(crate) fn records_door(&self, is_given: bool) -> BoxFuture<'_, Result<Option<Arc<Door>>, ServerError>> {
        async move {
            let refuse = |reason| Err(ServerError::Door { door: "the records door", reason });
            let RecordsConfig { listen, mode, .. } = self.config.records;
            if !self.config.records.durability.sync_delay().is_zero() && !self.store.capabilities().delays_syncs {
                let reason = "records.durability has to be `sync`: this store decides itself when it syncs \
                              (Apache Cassandra by its `commitlog_sync`)";
                return refuse(reason.to_owned());
            }
            let is_served = is_given || listen.is_some();
            if !is_served && mode == Mode::Atomic {
                return Ok(None);
            }
            match self.records.check_mode(Deadline::within(self.config.store.call_timeout)).await {
                Ok(()) => Ok(is_served.then(|| self.records.clone())),
                Err(RecordsError::Store(error)) => Err(error.into()),
                Err(error) => refuse(error.to_string()),
            }
        }
        .boxed()
    }
}

/// The records of a store, with the durability of the configuration.
pub(super) fn records_of(config: &Config, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Records> {
    let remembers = config.records.warm == Warm::Hottest && store.capabilities().folder.is_some();
    let records =
        Records::in_mode(store, clock, config.records.mode).synced_within(config.records.durability.sync_delay());
    Arc::new(if remembers { records.remembering() } else { records })
}

/// The settings of the door. A request takes at most so much memory.
pub(super) fn records_settings(config: &Config, bytes_max: u64) -> door_records::Settings {
    let RecordsConfig {
        listen: _,
        gives_way: _,
        tls: _,
        proxy_protocol: _,
        mode: _,
        durability: _,
        warm: _,
        warm_max: _,
        deadline,
        deadline_max,
        silence_max,
        request_max: _,
    } = config.records;
    door_records::Settings {
        deadline,
        deadline_max,
        silence_max,
        stall_max: config.limits.stall,
        request: config.records.request_limits().within(bytes_max),
    }
}
