//! Counts refusals, so that a flood of them neither fills the store nor waits for it: the refusals
//! of one client within a minute are one event.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use budget::Party;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::event::{Actor, Event, EventResult};
use crate::recorder::Recorder;

/// The time in which refusals are counted together.
const PERIOD: Duration = Duration::from_secs(60);

/// Clients whose refusals are counted apart. Those of further ones are counted together.
const CLIENTS_MAX: usize = 256;

/// A client, and how it was refused. A client can change its `User-Agent`, so that does not count.
type Refused = (Actor, EventResult);

/// The refusals of this minute.
pub(super) struct Refusals {
    recorder: Arc<Recorder>,
    counted: Mutex<BTreeMap<Refused, Event>>,
    begun: Notify,
}

/// The network of a client: one that has an IPv6 network has all its addresses.
fn network_of(address: IpAddr) -> IpAddr {
    match Party::of_address(address) {
        Party::Network(network) => network,
        Party::Local | Party::Token(_) => address,
    }
}

impl Refusals {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        Self { recorder, counted: Mutex::default(), begun: Notify::new() }
    }

    /// Counts a refusal. The first of a client in this minute says what was refused.
    pub(super) fn count(&self, event: Event) {
        let mut counted = self.counted.lock();
        let address = event.actor.address.map(network_of);
        let client = (Actor { agent: None, address, ..event.actor.clone() }, event.result);
        let is_crowded = counted.len() >= CLIENTS_MAX && !counted.contains_key(&client);
        let (client, event) = match is_crowded {
            true => ((Actor::default(), event.result), Event { actor: Actor::default(), ..event }),
            false => (client, event),
        };
        match counted.get_mut(&client) {
            Some(known) => known.count += 1,
            None => {
                counted.insert(client, event.shortened());
            }
        }
        if counted.len() == 1 {
            self.begun.notify_one();
        }
    }

    /// Records what was counted, every minute, forever.
    pub(super) async fn look_after(self: Arc<Self>) {
        loop {
            if self.counted.lock().is_empty() {
                self.begun.notified().await;
            }
            tokio::time::sleep(PERIOD).await;
            self.record().await;
        }
    }

    /// Records what was counted.
    pub(super) async fn record(&self) {
        let counted = std::mem::take(&mut *self.counted.lock());
        if counted.is_empty() {
            return;
        }
        let (clients, rows) = (counted.len(), counted.values().map(|event| self.recorder.event(event)).collect());
        let written = match rows {
            Ok(rows) => self.recorder.write(rows).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(%error, clients, "refusals could not be recorded in the audit");
        }
    }
}
