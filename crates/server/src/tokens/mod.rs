//! Access tokens: 256 random bits each, shown once, stored as a hash.
//!
//! They are guarded rows of one partition, keyed by name. A name is never reused, even after its
//! token was revoked: the audit identifies clients by it. All tokens are held in memory, since
//! there are few: what they take in the partition is bounded. A token whose row is damaged is valid
//! for nobody, and hides no other.

mod record;
mod scope;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use heads::sampling::row_bytes;
use library::bounds::TOKENS_BYTES_MAX;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use store::{
    Call, Class, Clock, Deadline, Expect, Guard, Outcome, Row, Scan, Stamp, Step, Store, StoreError, Table, UnixMillis,
};
use thiserror::Error;
use tokio::sync::Mutex;

use record::Record;
pub use scope::{NotScopes, Scopes};

/// The beginning of a token's text, by which secret scanners find a token that was published by
/// mistake.
const PREFIX: &str = "penates_";

const PARTITION: Bytes = Bytes::from_static(b"tokens");
const NAME_BYTES_MAX: usize = 64;

const _: () = assert!(NAME_BYTES_MAX == library::bounds::FEED_ACTOR_BYTES);
const SCAN_BYTES: usize = 1 << 20;

/// The most bytes that a record grows by when its token is revoked.
const REVOKED_BYTES: usize = 16;

const CALL_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// A token's text. It is neither stored nor logged; [`fmt::Debug`] does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
        Ok(Self(format!("{PREFIX}{}", hex::encode(bytes))))
    }

    /// The text to show, once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A token in a list: everything but its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    /// Its name, which identifies the client in the audit.
    pub name: String,
    /// When it was made.
    pub created: UnixMillis,
    /// When it was revoked, if it was.
    pub revoked: Option<UnixMillis>,
    /// What it allows.
    pub scopes: Scopes,
    /// From when on it is not valid, if it expires.
    pub expires: Option<UnixMillis>,
}

/// A token that is to be made.
#[derive(Clone, Debug, Default)]
pub struct NewToken<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it allows; `None`: what tokens usually allow.
    pub scopes: Option<Scopes>,
    /// From when on it is not valid, if it expires.
    pub expires: Option<UnixMillis>,
}

/// The client that sent a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name of the token.
    pub name: String,
    /// What it allows.
    pub scopes: Scopes,
}

/// Why an operation failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// No token has this name.
    #[error("there is no token `{0}`")]
    Absent(String),
    /// A token has or had this name.
    #[error("there is or was a token `{0}`; names are not reused, because the audit records them")]
    Exists(String),
    /// The text is not a name.
    #[error("a token's name has 1 to {NAME_BYTES_MAX} letters, digits, or `.`, `_`, `-`, `@`")]
    Name,
    /// The text is not a list of scopes.
    #[error(transparent)]
    Scopes(#[from] NotScopes),
    /// The expiry is not in the future.
    #[error("a token that expires now or earlier is of no use: name a later time")]
    Expired,
    /// There is no room for another token.
    #[error(
        "the tokens of a store take at most {max_bytes} bytes, which is about 100,000 tokens; revoked ones count, \
         because names are not reused"
    )]
    TooMany {
        /// The most bytes of all.
        max_bytes: u64,
    },
    /// Somebody else changed it at the same time, or the outcome is unknown.
    #[error("{0}: list the tokens to see the current ones")]
    Unsure(String),
    /// No random bytes are available.
    #[error("the operating system gave no random bytes: {0}")]
    Random(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the rows of a store say.
#[derive(Default)]
struct Known {
    /// Each token by its name, with the stamp of its row.
    records: BTreeMap<String, (Record, Stamp)>,
    /// The name of the token of each hash.
    names: HashMap<[u8; 32], String>,
    /// The names of the tokens whose rows are damaged, with the stamps of those that have one.
    damaged: BTreeMap<String, Option<Stamp>>,
    /// Bytes of all rows once all tokens are revoked.
    bytes: u64,
}

/// The tokens of a store.
pub struct Tokens {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The most bytes of all rows. Servers that make tokens at the same time may exceed it by what
    /// they make until they have read the rows again.
    bytes_max: u64,
    cached: RwLock<Known>,
    /// Held while tokens are read or changed, so that rows read before a revocation do not replace
    /// newer ones.
    turn: Mutex<()>,
}

impl Tokens {
    /// Reads all tokens.
    pub fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> BoxFuture<'static, Result<Self, TokenError>> {
        async move {
            let (cached, turn) = (RwLock::default(), Mutex::default());
            let tokens = Self { store, clock, bytes_max: TOKENS_BYTES_MAX, cached, turn };
            tokens.refresh().await?;
            Ok(tokens)
        }
        .boxed()
    }

    /// The holder of the token with this text; `None` if there is none, or it was revoked or has
    /// expired. Takes as long however many tokens there are. How long it takes can at most tell
    /// something about stored hashes, from which nobody can compute a text of 256 random bits.
    pub fn holder_of(&self, text: &str) -> Option<Holder> {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let now = self.clock.now();
        let cached = self.cached.read();
        let (Record { info, sha256 }, _) = cached.records.get(cached.names.get(&digest)?)?;
        let is_valid = info.revoked.is_none() && info.expires.is_none_or(|expires| now < expires);
        (*sha256 == digest && is_valid).then(|| Holder { name: info.name.clone(), scopes: info.scopes.clone() })
    }

    /// Reads all tokens again and returns them by name, including revoked ones, and without those
    /// whose rows are damaged.
    pub fn list(&self) -> BoxFuture<'_, Result<Vec<TokenInfo>, TokenError>> {
        async move {
            let _turn = self.turn.lock().await;
            self.refresh().await?;
            Ok(self.cached.read().records.values().map(|(record, _)| record.info.clone()).collect())
        }
        .boxed()
    }

    /// Whether a row was damaged when they were read last.
    pub fn are_damaged(&self) -> bool {
        !self.cached.read().damaged.is_empty()
    }

    /// Creates a token.
    pub fn create<'a>(&'a self, new: NewToken<'a>) -> BoxFuture<'a, Result<Secret, TokenError>> {
        async move {
            let NewToken { name, scopes, expires } = new;
            if !is_name(name) {
                return Err(TokenError::Name);
            }
            let created = self.clock.now();
            if expires.is_some_and(|expires| expires <= created) {
                return Err(TokenError::Expired);
            }
            let _turn = self.turn.lock().await;
            let secret = Secret::random()?;
            let scopes = scopes.unwrap_or_else(Scopes::usual);
            let info = TokenInfo { name: name.to_owned(), created, revoked: None, scopes, expires };
            let record = Record { info, sha256: Sha256::digest(secret.reveal().as_bytes()).into() };
            let value_bytes = record.seal()?.len();
            let bytes = row_bytes(&Bytes::copy_from_slice(name.as_bytes()), value_bytes + REVOKED_BYTES);
            if self.cached.read().bytes + bytes > self.bytes_max {
                return Err(TokenError::TooMany { max_bytes: self.bytes_max });
            }
            match self.write(record, Expect::Absent).await? {
                Outcome::Applied => {
                    self.cached.write().bytes += bytes;
                    Ok(secret)
                }
                Outcome::Refused { .. } => Err(TokenError::Exists(name.to_owned())),
                Outcome::Unknown { reason } => Err(TokenError::Unsure(reason)),
            }
        }
        .boxed()
    }

    /// Revokes a token. Revoking it again changes nothing. A damaged row is replaced by one that
    /// says that the token was made and revoked now.
    pub fn revoke<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TokenInfo, TokenError>> {
        async move {
            let _turn = self.turn.lock().await;
            match self.refresh().await {
                // The stamp decides whether what was read before is still what is stored.
                Err(TokenError::Store(error @ StoreError::Corrupt { .. })) => {
                    tracing::error!(%error, "the tokens cannot be read again; one is revoked as it was known");
                }
                refreshed => refreshed?,
            }
            let now = self.clock.now();
            let (mut record, stamp) = self.cached.read().token(name, now)?;
            if record.info.revoked.is_some() {
                return Ok(record.info);
            }
            record.info.revoked = Some(now);
            let info = record.info.clone();
            match self.write(record, Expect::Stamp(stamp)).await? {
                Outcome::Applied => Ok(info),
                Outcome::Refused { .. } => Err(TokenError::Unsure(format!("`{name}` was changed by another process"))),
                Outcome::Unknown { reason } => Err(TokenError::Unsure(reason)),
            }
        }
        .boxed()
    }

    /// Writes a record. An applied change is in force from then on, even if the store cannot be
    /// read just now.
    async fn write(&self, record: Record, expect: Expect) -> Result<Outcome, TokenError> {
        let value = record.seal()?;
        let stamp = Stamp::fresh();
        let step = Step::CompareAndWrite {
            table: Table::Tokens,
            partition: PARTITION,
            sort: Bytes::copy_from_slice(record.info.name.as_bytes()),
            expect,
            guard: Guard { stamp, tag: Bytes::new() },
            value,
        };
        let outcome = self.store.run(call(), vec![step]).await?;
        if outcome.is_applied() {
            let mut cached = self.cached.write();
            cached.damaged.remove(&record.info.name);
            cached.add(record, stamp);
        }
        Ok(outcome)
    }

    async fn refresh(&self) -> Result<(), TokenError> {
        let mut fresh = Known::default();
        let mut scan = Some(Scan::prefix(Bytes::new(), SCAN_BYTES));
        while let Some(page) = scan {
            let rows = self.store.scan(call().strong(), Table::Tokens, &PARTITION, page.clone()).await?;
            for Row { sort, value, guard, .. } in rows.rows {
                let (opened, stamp) = (Record::open(&value), guard.map(|guard| guard.stamp));
                let is_valid = opened.as_ref().is_ok_and(|record| record.info.revoked.is_none());
                fresh.bytes += row_bytes(&sort, value.len() + if is_valid { REVOKED_BYTES } else { 0 });
                let error = match (opened, stamp) {
                    (Ok(record), Some(stamp)) => {
                        fresh.add(record, stamp);
                        continue;
                    }
                    (Ok(_), None) => no_guard(),
                    (Err(error), _) => error,
                };
                let name = String::from_utf8_lossy(&sort).into_owned();
                // Once: they are read every few seconds.
                if !self.cached.read().damaged.contains_key(&name) {
                    tracing::error!(name, %error, "the row of a token is damaged: the token is valid for nobody");
                }
                fresh.damaged.insert(name, stamp);
            }
            scan = page.resumed(rows.next);
        }
        *self.cached.write() = fresh;
        Ok(())
    }
}

impl Known {
    /// Adds a token, in the place of what was known of its name.
    fn add(&mut self, record: Record, stamp: Stamp) {
        let name = record.info.name.clone();
        self.names.insert(record.sha256, name.clone());
        self.records.insert(name, (record, stamp));
    }

    /// The token of a name, with the stamp of its row. One whose row is damaged is as if it were
    /// made now.
    fn token(&self, name: &str, now: UnixMillis) -> Result<(Record, Stamp), TokenError> {
        if let Some(found) = self.records.get(name) {
            return Ok(found.clone());
        }
        match self.damaged.get(name) {
            Some(Some(stamp)) => Ok((Record::of_nobody(name, now), *stamp)),
            Some(None) => Err(no_guard().into()),
            None => Err(TokenError::Absent(name.to_owned())),
        }
    }
}

fn no_guard() -> StoreError {
    StoreError::Corrupt { table: Table::Tokens, detail: "a token's row has no guard".to_owned() }
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(CALL_TIME))
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicBool, Ordering};

    use store::faults::{Damage, Fault, Faults, Harm, Kind};
    use store::{ManualClock, Rows, StoreResult, SystemClock, Wrapper};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    fn named(name: &str) -> NewToken<'_> {
        NewToken { name, ..NewToken::default() }
    }

    async fn tokens() -> (Tokens, Arc<Faults>, tempfile::TempDir) {
        tokens_at(Arc::new(SystemClock)).await
    }

    async fn tokens_at(clock: Arc<dyn Clock>) -> (Tokens, Arc<Faults>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
        let faults = Arc::new(Faults::new(store));
        (Tokens::open(faults.clone(), clock).await.unwrap(), faults, folder)
    }

    #[tokio::test]
    async fn a_token_identifies_its_client_until_it_is_revoked() {
        let (tokens, _faults, _folder) = tokens().await;
        let secret = tokens.create(named("importer")).await.unwrap();
        let other = tokens.create(named("other")).await.unwrap();
        let name_of = |text: &str| tokens.holder_of(text).map(|holder| holder.name);
        assert_eq!(name_of(secret.reveal()).as_deref(), Some("importer"));
        assert_eq!(name_of(&secret.reveal()[1..]), None);
        tokens.revoke("importer").await.unwrap();
        // As they were changed, and as they are read again.
        for _ in 0..2 {
            assert_eq!(name_of(secret.reveal()), None);
            assert_eq!(name_of(other.reveal()).as_deref(), Some("other"));
            assert_eq!(tokens.list().await.unwrap().len(), 2);
        }
    }

    #[test]
    fn tokens_of_nobody_have_the_same_hash_and_each_of_them_is_known() {
        let mut known = Known::default();
        for name in ["a", "b"] {
            known.add(Record::of_nobody(name, UnixMillis(1)), Stamp::fresh());
        }
        assert!(known.records.keys().eq(["a", "b"]));
    }

    #[tokio::test]
    async fn a_token_is_valid_until_it_expires() {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000)));
        let (tokens, _faults, _folder) = tokens_at(clock.clone()).await;
        let new = NewToken { expires: Some(UnixMillis(5_000)), ..named("harvester") };
        let secret = tokens.create(new.clone()).await.unwrap();
        clock.set(UnixMillis(4_999));
        assert_eq!(tokens.holder_of(secret.reveal()).unwrap().scopes, Scopes::usual());
        clock.set(UnixMillis(5_000));
        assert_eq!(tokens.holder_of(secret.reveal()), None);
        let late = NewToken { name: "late", ..new };
        assert!(matches!(tokens.create(late).await, Err(TokenError::Expired)));
    }

    #[tokio::test]
    async fn a_token_with_an_unknown_outcome_is_not_shown_and_can_be_revoked() {
        let (tokens, faults, _folder) = tokens().await;
        faults.next(Kind::Run, Fault::UnknownApplied);
        assert!(matches!(tokens.create(named("a")).await, Err(TokenError::Unsure(_))));
        let listed = tokens.list().await.unwrap();
        assert_eq!((listed[0].name.as_str(), listed[0].revoked), ("a", None));
        assert!(tokens.revoke("a").await.unwrap().revoked.is_some());
        faults.next(Kind::Run, Fault::UnknownNotApplied);
        assert!(matches!(tokens.create(named("b")).await, Err(TokenError::Unsure(_))));
        tokens.create(named("b")).await.unwrap();
    }

    #[tokio::test]
    async fn a_damaged_row_makes_its_token_invalid_and_hides_no_other() {
        let (tokens, faults, _folder) = tokens().await;
        let broken = tokens.create(named("broken")).await.unwrap();
        let other = tokens.create(named("other")).await.unwrap();
        faults.damage(Damage {
            table: Table::Tokens,
            partition: PARTITION,
            sort: Some(Bytes::from_static(b"broken")),
            harm: Harm::FlippedBit,
            strong_reads_are_whole: false,
        });
        assert!(tokens.revoke("other").await.unwrap().revoked.is_some());
        let reopened = Tokens::open(faults.clone(), Arc::new(SystemClock)).await.unwrap();
        for tokens in [&tokens, &reopened] {
            assert_eq!([&broken, &other].map(|secret| tokens.holder_of(secret.reveal())), [None, None]);
            assert!(tokens.are_damaged());
        }
        let listed = reopened.list().await.unwrap();
        let states: Vec<_> = listed.iter().map(|token| (&*token.name, token.revoked.is_some())).collect();
        assert_eq!(states, [("other", true)]);
        assert!(matches!(reopened.create(named("broken")).await, Err(TokenError::Exists(_))));
        // To revoke it replaces its row.
        assert!(reopened.revoke("broken").await.unwrap().revoked.is_some());
        faults.heal();
        let listed = reopened.list().await.unwrap();
        assert_eq!((listed.len(), listed.iter().all(|token| token.revoked.is_some())), (2, true));
        assert!(!reopened.are_damaged());
    }

    /// A store whose list of tokens cannot be read for a while.
    struct Unreadable {
        inner: Arc<dyn Store>,
        is_damaged: AtomicBool,
    }

    impl Wrapper for Unreadable {
        fn inner(&self) -> &dyn Store {
            &*self.inner
        }

        async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
            if table == Table::Tokens && self.is_damaged.load(Ordering::Relaxed) {
                return Err(StoreError::Corrupt { table, detail: "a block of the list".to_owned() });
            }
            self.inner.scan(call, table, partition, scan).await
        }
    }

    #[tokio::test]
    async fn a_known_token_can_be_revoked_while_the_list_is_damaged() {
        let (_, faults, _folder) = tokens().await;
        let store = Arc::new(Unreadable { inner: faults, is_damaged: AtomicBool::new(false) });
        let open = || Tokens::open(store.clone(), Arc::new(SystemClock));
        let tokens = open().await.unwrap();
        let secret = tokens.create(named("a")).await.unwrap();
        store.is_damaged.store(true, Ordering::Relaxed);
        assert!(matches!(tokens.list().await, Err(TokenError::Store(StoreError::Corrupt { .. }))));
        assert!(tokens.revoke("a").await.unwrap().revoked.is_some());
        assert_eq!(tokens.holder_of(secret.reveal()), None);
        store.is_damaged.store(false, Ordering::Relaxed);
        assert!(open().await.unwrap().list().await.unwrap()[0].revoked.is_some());
    }

    #[tokio::test]
    async fn no_more_tokens_are_made_than_there_is_room_for_in_their_partition_and_each_can_be_revoked() {
        let (mut tokens, _faults, _folder) = tokens().await;
        tokens.create(named("a")).await.unwrap();
        tokens.bytes_max = 2 * tokens.cached.read().bytes;
        tokens.create(named("b")).await.unwrap();
        let refused = tokens.create(named("c")).await.unwrap_err();
        assert!(matches!(refused, TokenError::TooMany { max_bytes } if max_bytes == tokens.bytes_max), "{refused}");
        for name in ["a", "b"] {
            tokens.revoke(name).await.unwrap();
        }
        assert_eq!(tokens.list().await.unwrap().len(), 2);
        let bytes = tokens.cached.read().bytes;
        assert!((1..=tokens.bytes_max).contains(&bytes), "{bytes} of {}", tokens.bytes_max);
        assert!(matches!(tokens.create(named("c")).await, Err(TokenError::TooMany { .. })), "the names are taken");
    }

    #[tokio::test]
    async fn a_secret_is_not_shown_in_a_log() {
        let (tokens, _faults, _folder) = tokens().await;
        let secret = tokens.create(named("a")).await.unwrap();
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(secret.reveal().len(), PREFIX.len() + 64);
    }
}
