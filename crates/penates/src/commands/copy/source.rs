//! The store to be copied, and whether it takes changes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use store::{Clock, Store, SystemClock, UnixMillis, copying, read_only};

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
    /// Why it was read-only when it was opened, if it was. A lease of this copy, which was killed,
    /// does not count.
    read_only_before: Option<String>,
    /// The greatest difference between the clocks of those who decide when a lease ends.
    clock_skew_max: Duration,
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
    pub(super) async fn open(args: &CopyArgs, reason_of_copy: &str) -> anyhow::Result<Self> {
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
        let read_only_before = read_only::reason_at(store.as_ref(), SystemClock.now()).await?;
        let read_only_before = match read_only_before.as_deref().map(read_only::lease_of) {
            Some((reason, Some(_))) if reason == reason_of_copy && !matches!(holder, Holder::Elsewhere) => None,
            Some((_, Some(_))) => {
                let why = read_only_before.unwrap_or_default();
                return Err(CliError::Unreachable(format!("{name} is read-only: {why}; wait until that ends")).into());
            }
            _ => read_only_before,
        };
        if matches!(holder, Holder::Elsewhere) && read_only_before.is_none() {
            let first = "run `penates read-only on` there, and then this command again";
            return Err(
                CliError::Usage(format!("{name} still takes changes: {first}, or follow it with --follow")).into()
            );
        }
        // A server that holds the store has learned once it has answered.
        let is_seen_by_others = matches!(holder, Holder::This) && store.capabilities().is_shared;
        let others_learn_within = if is_seen_by_others { local::OTHERS_LEARN_WITHIN } else { Duration::ZERO };
        let clock_skew_max = if is_seen_by_others { settings.server.store.clock_skew_max } else { Duration::ZERO };
        Ok(Self { store, name, holder, read_only_before, clock_skew_max, others_learn_within })
    }

    /// Makes it read-only for as long as the lease is renewed, unless it is read-only already.
    pub(super) async fn hold(&self, reason: &str, lease: Duration) -> anyhow::Result<Hold<'_>> {
        let (reason, text) = match &self.read_only_before {
            Some(before) => (before.clone(), before.clone()),
            None => (reason.to_owned(), String::new()),
        };
        let mut hold = Hold { source: self, reason, text, lease, ends: UnixMillis(u64::MAX) };
        if self.read_only_before.is_none() {
            hold.replace_by_lease(None).await?;
        }
        Ok(hold)
    }

    /// Stores a reason. `instead_of`: only if this one is stored now.
    async fn make_read_only(&self, reason: &str, instead_of: Option<&str>) -> anyhow::Result<()> {
        match &self.holder {
            Holder::Server(server) => {
                let only_if = instead_of.map(|text| format!("&instead_of={}", query_value(text))).unwrap_or_default();
                let path = format!("/admin/read-only?reason={}{only_if}", query_value(reason));
                server.ask_json::<Value>(Method::PUT, &path).await?;
            }
            Holder::This => {
                if instead_of.is_some() && instead_of != read_only::reason(self.store.as_ref()).await?.as_deref() {
                    anyhow::bail!("somebody else has changed whether {} is read-only", self.name);
                }
                read_only::set(self.store.as_ref(), Some(reason)).await?;
            }
            // It was read-only before.
            Holder::Elsewhere => {}
        }
        Ok(())
    }

    /// Makes it writable again, unless it was read-only before for another reason than this copy,
    /// which may have been killed.
    pub(super) async fn leave_as_found(&self, reason_of_copy: &str) -> anyhow::Result<()> {
        match &self.read_only_before {
            Some(before) if before != reason_of_copy => Ok(()),
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

/// How many times a lease is renewed within its length.
const RENEWALS_PER_LEASE: u32 = 4;

/// A source that is read-only for the last part of a copy.
pub(super) struct Hold<'a> {
    source: &'a Source,
    reason: String,
    /// The reason that is stored, with the lease.
    text: String,
    lease: Duration,
    /// When the lease ends, by the clock of this process.
    ends: UnixMillis,
}

impl Hold<'_> {
    /// Does `work`, and renews the lease meanwhile. Fails if the source may have taken changes.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(self.lease / RENEWALS_PER_LEASE) => self.renew().await?,
            }
        }
    }

    /// Renews the lease, and so makes sure that it has held until now.
    pub(super) async fn renew(&mut self) -> anyhow::Result<()> {
        if self.source.read_only_before.is_some() {
            let now = read_only::reason(self.source.store.as_ref()).await?;
            anyhow::ensure!(now.as_ref() == Some(&self.text), "{} takes changes again", self.source.name);
            return Ok(());
        }
        self.replace_by_lease(Some(self.text.clone())).await
    }

    /// Makes it read-only for good, because the target replaces it.
    pub(super) async fn keep(mut self) -> anyhow::Result<()> {
        self.renew().await?;
        match &self.source.read_only_before {
            Some(_) => Ok(()),
            None => self.source.make_read_only(&self.reason, Some(&self.text)).await,
        }
    }

    async fn replace_by_lease(&mut self, before: Option<String>) -> anyhow::Result<()> {
        let ends = SystemClock.now().plus(self.lease);
        let text = read_only::leased(&self.reason, ends.plus(self.source.clock_skew_max));
        self.source.make_read_only(&text, before.as_deref()).await?;
        let name = &self.source.name;
        anyhow::ensure!(SystemClock.now() < self.ends, "{name} was not kept read-only: its lease ended meanwhile");
        (self.text, self.ends) = (text, ends);
        Ok(())
    }
}
