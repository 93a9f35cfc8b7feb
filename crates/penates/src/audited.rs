//! Records in the audit what commands do to a store that they open themselves, without a server's
//! routes.

use std::sync::Arc;

use anyhow::Context;
use audit::{Actor, Audit, Event, EventKind, EventResult};
use heads::{Heads, Surroundings};
use server::config::AuditMode;
use store::{Store, SystemClock};

use crate::client;
use crate::settings::Settings;

/// A change that a command of this process makes.
pub fn change(command: &str, target: &str, result: EventResult) -> Event {
    let actor = Actor {
        user: Some(server::user_of_this_process()),
        agent: Some(client::agent().to_owned()),
        ..Actor::default()
    };
    Event { actor, ..Event::of(EventKind::Change, command, target, result) }
}

/// Whether changes are to be recorded.
pub fn is_on(settings: &Settings) -> bool {
    settings.server.audit.changes != AuditMode::Off
}

/// Records that a command has changed a whole store, which this process has open. The store may be
/// one whose library cannot be opened yet.
pub async fn note(
    settings: &Settings,
    store: Arc<dyn Store>,
    command: &str,
    detail: Option<String>,
) -> anyhow::Result<()> {
    if !is_on(settings) {
        return Ok(());
    }
    let surroundings = Surroundings::of_this_machine(Arc::new(SystemClock));
    let audit = Audit::new(Heads::new(store, surroundings, settings.server.library_options()));
    let event = Event { detail, ..change(command, "/", EventResult::Done) };
    audit.auditor().synced_event(&event).await.with_context(|| format!("{command}: it is done, but not in the audit"))
}

/// The same of a store that this process has not open.
#[cfg(feature = "cassandra")]
pub async fn note_in(settings: &Settings, command: &str, detail: Option<String>) -> anyhow::Result<()> {
    if !is_on(settings) {
        return Ok(());
    }
    let not_recorded = || format!("{command}: it is done, but not in the audit");
    let store =
        crate::local::open_store(settings).await.map_err(crate::local::cannot_open).with_context(not_recorded)?;
    let noted = note(settings, store.clone(), command, detail).await;
    store.close().await?;
    noted
}
