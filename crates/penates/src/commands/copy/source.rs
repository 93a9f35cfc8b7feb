//! The store to be copied, and whether it takes changes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
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
    /// The reasons that this copy may have stored: the last one, and one whose writing has not
    /// ended. No other is removed.
    written: Mutex<Vec<String>>,
    /// The greatest difference between the clocks of those who decide when a lease ends.
    clock_skew_max: Duration,
    /// How long other processes may take to learn that it is read-only, and to end their changes.
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
        let others_learn_within =
            if is_seen_by_others { local::others_learn_within(&settings) } else { Duration::ZERO };
        let clock_skew_max = if is_seen_by_others { settings.server.store.clock_skew_max } else { Duration::ZERO };
        // An earlier run of this copy was killed after it had made the source read-only for good, or
        // failed then.
        let of_earlier_run = read_only_before.iter().filter(|before| *before == reason_of_copy);
        let written = Mutex::new(of_earlier_run.cloned().collect());
        Ok(Self { store, name, holder, read_only_before, written, clock_skew_max, others_learn_within })
    }

    /// Makes it read-only for as long as the lease is renewed, unless it was read-only already.
    /// Fails if somebody else has made it read-only meanwhile.
    pub(super) async fn hold(&self, reason: &str, lease: Duration) -> anyhow::Result<Hold<'_>> {
        let (reason, text) = match &self.read_only_before {
            Some(before) => (before.clone(), before.clone()),
            None => (reason.to_owned(), String::new()),
        };
        let mut hold = Hold { source: self, reason, text, lease, ends: UnixMillis(u64::MAX) };
        if self.read_only_before.is_none() {
            let found = self.lease_of_killed_run(&hold.reason).await?;
            hold.replace_by_lease(&found).await?;
        }
        Ok(hold)
    }

    /// The lease of an earlier run of this copy that still holds; empty if nothing makes the source
    /// read-only.
    async fn lease_of_killed_run(&self, reason: &str) -> anyhow::Result<String> {
        match read_only::reason_at(self.store.as_ref(), SystemClock.now()).await? {
            None => Ok(String::new()),
            Some(text) if matches!(read_only::lease_of(&text), (of, Some(_)) if of == reason) => Ok(text),
            Some(text) => anyhow::bail!("{} was made read-only while it was copied: {text}", self.name),
        }
    }

    /// Stores a reason if `expected` is stored now; if that is empty: if none holds.
    async fn make_read_only(&self, reason: &str, expected: &str) -> anyhow::Result<()> {
        self.written.lock().push(reason.to_owned());
        match &self.holder {
            Holder::Server(server) => {
                let (reason, expected) = (query_value(reason), query_value(expected));
                let path = format!("/admin/read-only?reason={reason}&instead_of={expected}");
                server.ask_json::<Value>(Method::PUT, &path).await?;
            }
            Holder::This => {
                self.expect_reason(expected).await?;
                read_only::set(self.store.as_ref(), Some(reason)).await?;
            }
            // It was read-only before.
            Holder::Elsewhere => {}
        }
        self.written.lock().retain(|written| written == reason);
        Ok(())
    }

    async fn expect_reason(&self, expected: &str) -> anyhow::Result<()> {
        let stored = read_only::reason(self.store.as_ref()).await?;
        let is_as_expected = read_only::is_as_expected(stored.as_deref(), expected, SystemClock.now());
        anyhow::ensure!(is_as_expected, "somebody else has changed whether {} is read-only", self.name);
        Ok(())
    }

    /// Makes it writable again if this copy, or an earlier run of it, made it read-only. What
    /// somebody else has stored stays.
    pub(super) async fn leave_as_found(&self) -> anyhow::Result<()> {
        let written = self.written.lock().clone();
        if written.is_empty() {
            return Ok(());
        }
        let stored = read_only::reason(self.store.as_ref()).await?;
        match stored.filter(|stored| written.contains(stored)) {
            Some(of_this_copy) => self.take_changes(&of_this_copy).await,
            None => Ok(()),
        }
    }

    /// Removes the reason, if it is the expected one.
    async fn take_changes(&self, expected: &str) -> anyhow::Result<()> {
        match &self.holder {
            Holder::Server(server) => {
                let path = format!("/admin/read-only?instead_of={}", query_value(expected));
                server.ask_json::<Value>(Method::DELETE, &path).await?;
            }
            Holder::This => {
                self.expect_reason(expected).await?;
                read_only::set(self.store.as_ref(), None).await?;
            }
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
        let text = self.text.clone();
        self.replace_by_lease(&text).await
    }

    /// Makes it read-only for good, because the target replaces it.
    pub(super) async fn keep(mut self) -> anyhow::Result<()> {
        self.renew().await?;
        match &self.source.read_only_before {
            Some(_) => Ok(()),
            None => {
                self.source.make_read_only(&self.reason, &self.text).await?;
                self.check_lease()
            }
        }
    }

    /// Fails if the lease may have ended before it was replaced: changes may have been taken then.
    fn check_lease(&self) -> anyhow::Result<()> {
        let name = &self.source.name;
        anyhow::ensure!(SystemClock.now() < self.ends, "{name} was not kept read-only: its lease ended meanwhile");
        Ok(())
    }

    async fn replace_by_lease(&mut self, expected: &str) -> anyhow::Result<()> {
        let ends = SystemClock.now().plus(self.lease);
        let text = read_only::leased(&self.reason, ends.plus(self.source.clock_skew_max));
        self.source.make_read_only(&text, expected).await?;
        self.check_lease()?;
        (self.text, self.ends) = (text, ends);
        Ok(())
    }
}
