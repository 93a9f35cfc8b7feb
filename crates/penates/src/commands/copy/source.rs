//! The store to be copied, and whether it takes changes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use store::{Store, copying, read_only};

use super::CopyArgs;
use crate::client::{Client, query_value};
use crate::exit::CliError;
use crate::local;
use crate::reach::{self, Way};
use crate::served::ServedStore;
use crate::settings::{self, Flags, Settings, StoreLocation};

/// Who holds the source, and so decides whether it takes changes.
enum Holder {
    /// This process, or every process that opens it.
    This,
    /// A server on this machine.
    Server(Client),
    /// A server elsewhere, where only its own administrator makes it read-only.
    Elsewhere,
}

/// The source of a copy that ends.
pub(super) struct Source {
    pub(super) store: Arc<dyn Store>,
    /// Its name in the target while the copy is incomplete.
    pub(super) name: String,
    holder: Holder,
    /// Why it was read-only when it was opened, if it was.
    read_only_before: Option<String>,
    /// How long other processes may take to learn that it is read-only.
    pub(super) others_learn_within: Duration,
}

/// The name of a store that an unfinished copy of it keeps.
pub(super) fn name_of(args: &CopyArgs, settings: &Settings) -> String {
    match (args.server(), settings.place()) {
        (Some(server), _) => server.to_owned(),
        (None, StoreLocation::Cluster(address)) => address.to_owned(),
        (None, StoreLocation::Folder(folder)) => {
            folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).display().to_string()
        }
    }
}

/// A client of the server elsewhere that `--from` names.
pub(super) fn client_of(args: &CopyArgs, server: &str) -> anyhow::Result<Client> {
    Client::network(server, args.token.as_deref(), args.ca_cert.as_deref())
}

impl Source {
    pub(super) async fn open(args: &CopyArgs) -> anyhow::Result<Self> {
        let store = args.source();
        let settings = settings::load(&store, Flags::of(&store)?)?.settings;
        let name = name_of(args, &settings);
        let served = async |client| Ok::<_, anyhow::Error>(Arc::new(ServedStore::open(client, args.rate()).await?));
        let (store, holder): (Arc<dyn Store>, _) = match args.server() {
            Some(server) => (served(client_of(args, server)?).await?, Holder::Elsewhere),
            None => match reach::find_ungated(&store).await? {
                Way::Free(store, _) => (store, Holder::This),
                Way::Server(client) => (served(client.clone()).await?, Holder::Server(client)),
            },
        };
        if let Some(origin) = copying::unfinished(store.as_ref()).await? {
            store.close().await?;
            return Err(local::cannot_open(local::unfinished_copy(&settings, &origin)));
        }
        let read_only_before = read_only::reason(store.as_ref()).await?;
        if matches!(holder, Holder::Elsewhere) && read_only_before.is_none() {
            let first = "run `penates read-only on` there, and then this command again";
            return Err(
                CliError::Usage(format!("{name} still takes changes: {first}, or follow it with --follow")).into()
            );
        }
        // A server that holds the store has learned once it has answered.
        let is_seen_by_others = matches!(holder, Holder::This) && store.capabilities().is_shared;
        let others_learn_within = if is_seen_by_others { local::OTHERS_LEARN_WITHIN } else { Duration::ZERO };
        Ok(Self { store, name, holder, read_only_before, others_learn_within })
    }

    pub(super) async fn make_read_only(&self, reason: &str) -> anyhow::Result<()> {
        match &self.holder {
            Holder::Server(server) => {
                let path = format!("/admin/read-only?reason={}", query_value(reason));
                server.ask_json::<Value>(Method::PUT, &path).await?;
            }
            Holder::This => read_only::set(self.store.as_ref(), Some(reason)).await?,
            // It was read-only before.
            Holder::Elsewhere => {}
        }
        Ok(())
    }

    /// Makes it writable again, unless it was read-only before for another reason than this copy,
    /// which may have been killed.
    pub(super) async fn leave_as_found(&self, reason_of_copy: &str) -> anyhow::Result<()> {
        match &self.read_only_before {
            Some(before) if before != reason_of_copy => self.make_read_only(before).await,
            _ => self.take_changes().await,
        }
    }

    async fn take_changes(&self) -> anyhow::Result<()> {
        match &self.holder {
            Holder::Server(server) => drop(server.ask_json::<Value>(Method::DELETE, "/admin/read-only").await?),
            Holder::This => read_only::set(self.store.as_ref(), None).await?,
            Holder::Elsewhere => {}
        }
        Ok(())
    }
}
