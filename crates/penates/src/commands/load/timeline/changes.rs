//! The changes of a resource that make its versions, one after the other.

use anyhow::{Context, ensure};
use preservation::about::About;
use preservation::archived::{ArchivedState, ArchivedVersion};
use preservation::bagit::text::Algorithm;

use super::super::fedora;
use super::super::loader::{DESCRIPTION_BYTES_MAX, Loader, State, model};
use super::super::source::Bytes;

/// A change that makes a version from the one before. A version with other bytes and other
/// statements takes two, unless it is an earlier one that was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Create,
    /// Of another kind: it was deleted and created again.
    CreateAgain,
    Bytes,
    Statements,
    /// The state after the change with this number again.
    Restore(usize),
    /// A version of the same state.
    Nothing,
    /// It is deleted. That makes no version.
    Delete,
}

impl Change {
    /// Whether the bytes, or the lack of any, are those of the version from here on.
    pub fn sets_bytes(self) -> bool {
        matches!(self, Self::Create | Self::CreateAgain | Self::Bytes | Self::Restore(_))
    }

    pub fn makes_version(self) -> bool {
        self != Self::Delete
    }

    pub fn sets_statements(self) -> bool {
        matches!(self, Self::Create | Self::CreateAgain | Self::Statements | Self::Restore(_))
    }
}

/// The versions of a resource, and the changes that make them.
pub(super) struct Changes {
    pub algorithm: Algorithm,
    pub versions: Vec<ArchivedVersion>,
    pub changes: Vec<(usize, Change)>,
    /// Whether Fedora stored it.
    pub is_of_fedora: bool,
}

impl Changes {
    /// The path of the resource.
    pub fn path(&self) -> &str {
        let first = self.versions.first().and_then(|version| version.state.as_ref());
        first.map_or("", |first| &first.about.path)
    }

    /// The state of a version, or of the one before if that is a deletion.
    pub async fn state(&self, version: usize) -> anyhow::Result<State> {
        let state = self.versions[..=version].iter().rev().find_map(|version| version.state.as_ref());
        let ArchivedState { about, statements, bytes } = state.context("its first version has no files")?;
        let (place, found) = (statements.place.clone(), &statements.digest);
        let named = || place.display().to_string();
        let len_bytes = tokio::fs::metadata(&place).await.with_context(named)?.len();
        ensure!(len_bytes <= DESCRIPTION_BYTES_MAX, "its statements have more than {DESCRIPTION_BYTES_MAX} bytes");
        let mut statements = tokio::fs::read(&place).await.with_context(named)?;
        if self.is_of_fedora {
            ensure!(digest(self.algorithm, &statements) == *found, "{}: it has changed since it was checked", named());
            statements = fedora::cleaned(&statements, about)?.0;
        }
        let bytes = bytes.as_ref().map(|bytes| Bytes {
            source: bytes.place.clone().into(),
            algorithm: self.algorithm,
            digest: bytes.digest.clone(),
        });
        Ok(State { about: about.clone(), statements, bytes })
    }
}

impl Changes {
    /// How many of the changes make so many versions; more than there are if they do not.
    pub fn until(&self, versions: usize) -> usize {
        let made = self.changes.iter().enumerate().filter(|(_, (_, change))| change.makes_version());
        match versions.checked_sub(1) {
            Some(before) => made.map(|(n, _)| n + 1).nth(before).unwrap_or(self.changes.len() + 1),
            None => 0,
        }
    }

    /// Whether it is deleted in the end.
    fn is_deleted(&self) -> bool {
        self.changes.last().is_some_and(|(_, change)| *change == Change::Delete)
    }

    /// How many of the changes were made to a resource that is deleted; `None` if the archive has it
    /// otherwise.
    pub async fn deleted_until(&self, loader: &Loader) -> anyhow::Result<Option<usize>> {
        let change = |n: usize| self.changes.get(n).map(|(_, change)| *change);
        let Some(count) = loader.version_count(self.path()).await? else {
            let is_done = self.is_deleted() && loader.is_known_as_deleted(self.path()).await?;
            return Ok(is_done.then_some(self.changes.len()));
        };
        let made = self.until(count);
        let done = match change(made) {
            Some(Change::Delete) => made + 1,
            // It was deleted in order to be created again.
            Some(Change::CreateAgain) => made,
            _ => return Ok(None),
        };
        self.compare_versions(loader, made).await?;
        Ok(Some(done))
    }

    /// Whether all versions are there until the resource is deleted.
    pub async fn is_deleted_next(&self, loader: &Loader) -> anyhow::Result<bool> {
        let made = self.until(loader.version_count(self.path()).await?.context(OTHER_VERSIONS)?);
        if self.changes.get(made).is_none_or(|(_, change)| *change != Change::Delete) {
            return Ok(false);
        }
        self.compare_versions(loader, made).await?;
        Ok(true)
    }

    /// The state after so many changes; `None` if they make none.
    pub async fn state_after(&self, done: usize) -> anyhow::Result<Option<State>> {
        let made = self.changes.get(..done).unwrap_or_default();
        // The bytes and the statements may be those of different versions.
        let last = |sets: fn(Change) -> bool| made.iter().rev().find(|(_, change)| sets(*change)).copied();
        let (Some((bytes_of, _)), Some((statements_of, change))) =
            (last(Change::sets_bytes), last(Change::sets_statements))
        else {
            return Ok(None);
        };
        let mut state = self.state(bytes_of).await?;
        state.statements = self.state(statements_of).await?.statements;
        if state.about.is_binary() && matches!(change, Change::Create | Change::CreateAgain) {
            state.statements = Vec::new();
        }
        Ok(Some(state))
    }

    /// Compares what is there with the versions. Returns how many of the changes were made, and whether
    /// this made one.
    pub async fn compare(&self, loader: &Loader) -> anyhow::Result<(usize, bool)> {
        let path = self.path();
        let done = match loader.version_count(path).await? {
            Some(count) => self.until(count),
            None => self.changes.len(),
        };
        ensure!(done <= self.changes.len(), "there is a resource with more versions");
        let state = self.state_after(done).await?.context(OTHER_VERSIONS)?;
        loader.compare_bytes(&state).await?;
        let is_root_that_every_repository_has = path.is_empty() && done == 1;
        Ok((done, loader.compare_statements(&state, is_root_that_every_repository_has).await?))
    }

    /// Compares all that is there with all that the changes make.
    pub async fn verify(&self, loader: &Loader) -> anyhow::Result<()> {
        let names = loader.version_names(self.path()).await?;
        let has_versions = names.is_some();
        if let Some(names) = names {
            let made = self.versions_made_by(self.changes.len(), names)?;
            // The newest version of what is not deleted is compared below.
            let earlier = made.len().saturating_sub(usize::from(!self.is_deleted()));
            self.compare_each(loader, &made[..earlier]).await?;
        }
        if self.is_deleted() {
            ensure!(!loader.is_there(self.path()).await?, "it is deleted there, and is here");
            let is_known = has_versions || loader.is_known_as_deleted(self.path()).await?;
            ensure!(is_known, "it is deleted there, and was never here");
            return Ok(());
        }
        let state = self.state_after(self.changes.len()).await?.context(OTHER_VERSIONS)?;
        loader.compare_bytes(&state).await?;
        loader.compare_statements(&state, false).await.map(drop)
    }

    /// Compares each version that is there with those that the first `done` changes make.
    pub async fn compare_versions(&self, loader: &Loader, done: usize) -> anyhow::Result<()> {
        let names = loader.version_names(self.path()).await?.context(OTHER_VERSIONS)?;
        self.compare_each(loader, &self.versions_made_by(done, names)?).await
    }

    /// The names of the versions that the first `done` changes make, each with the number of changes
    /// until it.
    fn versions_made_by(&self, done: usize, names: Vec<String>) -> anyhow::Result<Vec<(usize, String)>> {
        let made = self.changes.iter().take(done).enumerate().filter(|(_, (_, change))| change.makes_version());
        let made: Vec<_> = made.map(|(n, _)| n + 1).collect();
        ensure!(made.len() == names.len(), OTHER_VERSIONS);
        Ok(made.into_iter().zip(names).collect())
    }

    async fn compare_each(&self, loader: &Loader, versions: &[(usize, String)]) -> anyhow::Result<()> {
        for (done, name) in versions {
            let state = self.state_after(*done).await?.context(OTHER_VERSIONS)?;
            loader.compare_version(&state, name).await.with_context(|| format!("version {name}"))?;
        }
        Ok(())
    }
}

/// Why a resource is left as it is.
pub const OTHER_VERSIONS: &str = "there is a resource with other versions";
/// The changes that make the versions, each with the number of its version.
pub(super) fn changes(versions: &[ArchivedVersion]) -> Vec<(usize, Change)> {
    let mut changes = Vec::new();
    let mut before: Option<&ArchivedState> = None;
    for (n, version) in versions.iter().enumerate() {
        let Some(state) = &version.state else {
            changes.extend(before.take().map(|_| (n, Change::Delete)));
            continue;
        };
        let Some(before) = before.replace(state).filter(|before| kind(before) == kind(state)) else {
            changes.push((n, if n == 0 { Change::Create } else { Change::CreateAgain }));
            // A graph is created with its statements.
            if state.about.is_binary() && !is_empty(state) {
                changes.push((n, Change::Statements));
            }
            continue;
        };
        let has_same_bytes = bytes_of(before) == bytes_of(state);
        let has_same_statements = before.statements.digest == state.statements.digest;
        match (has_same_bytes, has_same_statements) {
            (true, true) => changes.push((n, Change::Nothing)),
            (true, false) => changes.push((n, Change::Statements)),
            (false, true) => changes.push((n, Change::Bytes)),
            (false, false) => {
                let made: Vec<_> = changes.iter().filter(|(_, change)| change.makes_version()).collect();
                let is_same = |of: usize| versions[of].state.as_ref().is_some_and(|of| is_same_state(of, state));
                match made.iter().rposition(|(of, _)| is_same(*of)) {
                    Some(earlier) => changes.push((n, Change::Restore(earlier))),
                    None => changes.extend([(n, Change::Bytes), (n, Change::Statements)]),
                }
            }
        }
    }
    changes
}

/// What a change of bytes changes.
fn bytes_of(state: &ArchivedState) -> impl PartialEq + use<'_> {
    let About { content_type, content_disposition, stored_at, handling, .. } = &state.about;
    (state.bytes.as_ref().map(|bytes| &bytes.digest), content_type, content_disposition, stored_at, handling)
}

fn is_same_state(one: &ArchivedState, other: &ArchivedState) -> bool {
    let is_same_kind = kind(one) == kind(other);
    is_same_kind && bytes_of(one) == bytes_of(other) && one.statements.digest == other.statements.digest
}

fn kind(state: &ArchivedState) -> Option<String> {
    model(&state.about).ok()
}

/// Whether there are no statements. An empty file is known by its length.
fn is_empty(state: &ArchivedState) -> bool {
    std::fs::metadata(&state.statements.place).is_ok_and(|file| file.len() == 0)
}

fn digest(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digest = algorithm.begin();
    digest.update(bytes);
    digest.finalize().to_vec()
}
