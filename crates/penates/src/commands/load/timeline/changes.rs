//! The changes of a resource that make its versions, one after the other.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use preservation::about::About;
use preservation::archived::{ArchivedState, ArchivedVersion};
use preservation::bagit::text::Algorithm;
use tokio::task::spawn_blocking;

use super::super::fedora;
use super::super::loader::{Loader, State, Statements, model_name, parsed};
use super::super::source::Bytes;
use crate::client::ClientError;

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
    pub fn makes_version(self) -> bool {
        self != Self::Delete
    }
}

/// A change, and what is there after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The version that it is of.
    pub version: usize,
    pub change: Change,
    /// The version that has the bytes, or the lack of any.
    bytes_of: usize,
    /// The version that has the statements; `None` if there are none.
    statements_of: Option<usize>,
}

impl Step {
    /// Whether the bytes are sent that the version has.
    pub fn sends_bytes(&self) -> bool {
        matches!(self.change, Change::Create | Change::CreateAgain | Change::Bytes)
    }
}

/// The versions of a resource, and the changes that make them.
pub(super) struct Changes {
    algorithm: Algorithm,
    pub versions: Vec<ArchivedVersion>,
    /// In the order of the versions.
    pub steps: Vec<Step>,
    /// Whether Fedora stored it.
    is_of_fedora: bool,
}

impl Changes {
    /// The changes of a resource whose files have digests of this algorithm.
    pub fn of(algorithm: Algorithm, versions: Vec<ArchivedVersion>, is_of_fedora: bool) -> Self {
        let steps = steps(algorithm, &versions, Same::of);
        Self { algorithm, versions, steps, is_of_fedora }
    }

    /// The path of the resource.
    pub fn path(&self) -> &str {
        let first = self.versions.first().and_then(|version| version.state.as_ref());
        first.map_or("", |first| &first.about.path)
    }

    /// The changes that are of a version, by their numbers.
    pub fn steps_of(&self, version: usize) -> Range<usize> {
        let first = self.steps.partition_point(|step| step.version < version);
        let end = self.steps.partition_point(|step| step.version <= version);
        first..end
    }

    /// The state of a version, or of the one before if that is a deletion. It reads a file.
    pub fn state(&self, version: usize, loader: &Loader) -> anyhow::Result<State> {
        let state = self.archived(version)?;
        Ok(self.with(state, self.statements(state, loader)?))
    }

    /// How many bytes the file with the statements of a version has, as far as that is known.
    pub fn statements_len_bytes(&self, version: usize) -> u64 {
        let state = self.archived(version).ok().filter(|state| self.has_statements(state));
        let file = state.and_then(|state| fs::metadata(&state.statements.place).ok());
        file.map_or(0, |file| file.len())
    }

    /// Whether a state has statements. Most bytes have none, and an empty file need not be looked at.
    fn has_statements(&self, state: &ArchivedState) -> bool {
        state.statements.digest != digest(self.algorithm, &[])
    }

    fn archived(&self, version: usize) -> anyhow::Result<&ArchivedState> {
        let state = self.versions[..=version].iter().rev().find_map(|version| version.state.as_ref());
        state.context("its first version has no files")
    }

    /// What is said in a state about the resource and its bytes, with statements.
    fn with(&self, state: &ArchivedState, statements: Statements) -> State {
        let bytes = state.bytes.as_ref().map(|bytes| Bytes {
            source: bytes.place.clone().into(),
            algorithm: self.algorithm,
            digest: bytes.digest.clone(),
        });
        State { about: state.about.clone(), statements, bytes }
    }

    /// The statements of a state, as they are stored here.
    fn statements(&self, state: &ArchivedState, loader: &Loader) -> anyhow::Result<Statements> {
        let ArchivedState { about, statements, .. } = state;
        if !self.has_statements(state) {
            return Ok(Statements::Moved(bytes::Bytes::new()));
        }
        let text = fedora::read_statements(&statements.place)?;
        if self.is_of_fedora {
            let is_same = digest(self.algorithm, &text) == statements.digest;
            ensure!(is_same, "{}: it has changed since it was checked", statements.place.display());
        }
        let graph = parsed(about, &text)?;
        let graph = if self.is_of_fedora { fedora::cleaned(graph, about).0 } else { graph };
        Ok(Statements::Moved(loader.moved(about, graph)))
    }
}

impl Changes {
    /// How many of the changes make so many versions; more than there are if they do not.
    pub fn until(&self, versions: usize) -> usize {
        let made = self.steps.iter().enumerate().filter(|(_, step)| step.change.makes_version());
        match versions.checked_sub(1) {
            Some(before) => made.map(|(n, _)| n + 1).nth(before).unwrap_or(self.steps.len() + 1),
            None => 0,
        }
    }

    /// How many versions the changes before the one with this number make.
    pub fn made_before(&self, number: usize) -> usize {
        self.steps.iter().take(number).filter(|step| step.change.makes_version()).count()
    }

    /// Whether it is deleted in the end.
    fn is_deleted(&self) -> bool {
        self.steps.last().is_some_and(|step| step.change == Change::Delete)
    }

    /// The change with this number.
    pub fn change(&self, number: usize) -> Option<Change> {
        self.steps.get(number).map(|step| step.change)
    }

    /// How many of the changes were made to a resource that is deleted; `None` if the archive has it
    /// otherwise.
    pub async fn deleted_until(self: &Arc<Self>, loader: &Arc<Loader>) -> anyhow::Result<Option<usize>> {
        let Some(count) = loader.version_count(self.path()).await? else {
            let is_done = self.is_deleted() && loader.is_known_as_deleted(self.path()).await?;
            return Ok(is_done.then_some(self.steps.len()));
        };
        let made = self.until(count);
        let done = match self.change(made) {
            Some(Change::Delete) => made + 1,
            // It was deleted in order to be created again.
            Some(Change::CreateAgain) => made,
            _ => return Ok(None),
        };
        self.compare_versions(loader, made).await?;
        Ok(Some(done))
    }

    /// Whether all versions are there until the resource is deleted.
    pub async fn is_deleted_next(self: &Arc<Self>, loader: &Arc<Loader>) -> anyhow::Result<bool> {
        let made = self.until(loader.version_count(self.path()).await?.context(OTHER_VERSIONS)?);
        if self.change(made) != Some(Change::Delete) {
            return Ok(false);
        }
        self.compare_versions(loader, made).await?;
        Ok(true)
    }

    /// What is there in the end, or why it cannot be read; `None` if nothing is, or if its statements have
    /// more than so many bytes. It reads a file.
    pub fn last(&self, loader: &Loader, statements_bytes_max: u64) -> Option<anyhow::Result<State>> {
        let last = self.steps.last().filter(|last| last.change != Change::Delete)?;
        let len_bytes = last.statements_of.map_or(0, |version| self.statements_len_bytes(version));
        if len_bytes > statements_bytes_max {
            return None;
        }
        self.state_with(self.steps.len(), |state| self.statements(state, loader)).transpose()
    }

    /// The state after so many changes; `None` if they make none.
    async fn state_after(self: &Arc<Self>, done: usize, loader: &Arc<Loader>) -> anyhow::Result<Option<State>> {
        let (changes, loader) = (self.clone(), loader.clone());
        spawn_blocking(move || changes.state_with(done, |state| changes.statements(state, &loader))).await?
    }

    /// The same. `statements` reads those of a state.
    fn state_with(
        &self,
        done: usize,
        statements: impl FnOnce(&ArchivedState) -> anyhow::Result<Statements>,
    ) -> anyhow::Result<Option<State>> {
        let Some(step) = done.checked_sub(1).and_then(|last| self.steps.get(last)) else { return Ok(None) };
        // The bytes and the statements may be those of different versions.
        let statements = match step.statements_of {
            Some(version) => statements(self.archived(version)?)?,
            None => Statements::Exported(Vec::new()),
        };
        Ok(Some(self.with(self.archived(step.bytes_of)?, statements)))
    }

    /// Compares what is there with the versions. Returns how many of the changes were made, and whether
    /// this made one.
    pub async fn compare(self: &Arc<Self>, loader: &Arc<Loader>) -> anyhow::Result<(usize, bool)> {
        let path = self.path();
        let count = loader.version_count(path).await?;
        let done = count.map_or(self.steps.len(), |count| self.until(count));
        ensure!(done <= self.steps.len(), "there is a resource with more versions");
        let state = self.state_after(done, loader).await?.context(OTHER_VERSIONS)?;
        let is_root_that_every_repository_has = path.is_empty() && done == 1;
        match loader.compare(&state, is_root_that_every_repository_has).await {
            Ok(is_changed) => Ok((done, is_changed)),
            // A refusal of the server says nothing about versions.
            Err(error) if done == self.steps.len() || error.is::<ClientError>() => Err(error),
            Err(error) => {
                let last = self.state_after(self.steps.len(), loader).await?.context(OTHER_VERSIONS)?;
                match loader.is_same(&last).await? {
                    true => bail!(fewer(count.unwrap_or_default(), self.made_before(self.steps.len()))),
                    false => Err(error),
                }
            }
        }
    }

    /// Compares all that is there with all that the changes make. `last` is what [`Changes::last`] gave,
    /// or `None` if that is still to be read.
    pub async fn verify(
        self: &Arc<Self>,
        loader: &Arc<Loader>,
        last: Option<anyhow::Result<State>>,
    ) -> anyhow::Result<()> {
        let names = loader.version_names(self.path()).await?;
        let has_versions = names.is_some();
        if let Some(names) = names {
            let made = self.versions_made_by(self.steps.len(), names)?;
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
        let state = match last {
            Some(last) => last?,
            None => self.state_after(self.steps.len(), loader).await?.context(OTHER_VERSIONS)?,
        };
        loader.compare(&state, false).await.map(drop)
    }

    /// Compares each version that is there with those that the first `done` changes make.
    pub async fn compare_versions(self: &Arc<Self>, loader: &Arc<Loader>, done: usize) -> anyhow::Result<()> {
        let names = loader.version_names(self.path()).await?.context(OTHER_VERSIONS)?;
        self.compare_each(loader, &self.versions_made_by(done, names)?).await
    }

    /// The names of the versions that the first `done` changes make, each with the number of changes
    /// until it.
    fn versions_made_by(&self, done: usize, names: Vec<String>) -> anyhow::Result<Vec<(usize, String)>> {
        let made = self.steps.iter().take(done).enumerate().filter(|(_, step)| step.change.makes_version());
        let made: Vec<_> = made.map(|(n, _)| n + 1).collect();
        ensure!(names.len() >= made.len(), fewer(names.len(), made.len()));
        ensure!(names.len() == made.len(), OTHER_VERSIONS);
        Ok(made.into_iter().zip(names).collect())
    }

    async fn compare_each(self: &Arc<Self>, loader: &Arc<Loader>, versions: &[(usize, String)]) -> anyhow::Result<()> {
        for (done, name) in versions {
            let state = self.state_after(*done, loader).await?.context(OTHER_VERSIONS)?;
            loader.compare_version(&state, name).await.with_context(|| format!("version {name}"))?;
        }
        Ok(())
    }
}

/// Why a resource is left as it is.
const OTHER_VERSIONS: &str = "there is a resource with other versions";

/// Why one with fewer versions than the archive is left as it is. They may never have been there, or are
/// not kept any more.
fn fewer(there: usize, made: usize) -> String {
    format!(
        "it has {there} of its {made} versions here, and a load needs all of them: \
         a server keeps them if its history.resources is \"all\""
    )
}

/// What two states have in common that are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Same<'a> {
    kind: Kind,
    bytes: SameBytes<'a>,
    statements: &'a [u8],
}

/// What a resource is as long as it is not deleted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    model: Option<&'static str>,
    is_group: bool,
}

/// What a change of bytes changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SameBytes<'a> {
    digest: Option<&'a [u8]>,
    content_type: Option<&'a str>,
    content_disposition: Option<&'a str>,
    stored_at: Option<&'a str>,
    handling: Option<&'a str>,
}

impl<'a> Same<'a> {
    fn of(state: &'a ArchivedState) -> Self {
        let About { content_type, content_disposition, stored_at, handling, .. } = &state.about;
        let bytes = SameBytes {
            digest: state.bytes.as_ref().map(|bytes| bytes.digest.as_slice()),
            content_type: content_type.as_deref(),
            content_disposition: content_disposition.as_deref(),
            stored_at: stored_at.as_deref(),
            handling: handling.as_deref(),
        };
        let kind = Kind { model: model_name(&state.about), is_group: state.about.is_group() };
        Self { kind, bytes, statements: &state.statements.digest }
    }
}

/// The changes that make the versions. `same` says what a state has in common with others that are the
/// same. Each state is looked at once, because an archive may have very many.
fn steps<'a>(
    algorithm: Algorithm,
    versions: &'a [ArchivedVersion],
    mut same: impl FnMut(&'a ArchivedState) -> Same<'a>,
) -> Vec<Step> {
    let no_statements = digest(algorithm, &[]);
    let mut making = Making::default();
    // The numbers of the versions that were made last with each state.
    let mut earlier: HashMap<Same<'a>, usize> = HashMap::new();
    let mut before: Option<Same<'a>> = None;
    for (version, archived) in versions.iter().enumerate() {
        let Some(state) = &archived.state else {
            if before.take().is_some() {
                making.push(version, Change::Delete);
            }
            continue;
        };
        let now = same(state);
        match before.replace(now).filter(|before| before.kind == now.kind) {
            None => {
                let change = if version == 0 { Change::Create } else { Change::CreateAgain };
                making.create(version, change, state.about.is_binary());
                // A graph is created with its statements.
                if state.about.is_binary() && state.statements.digest != no_statements {
                    making.push(version, Change::Statements);
                }
            }
            Some(before) => match (before.bytes == now.bytes, before.statements == now.statements) {
                (true, true) => making.push(version, Change::Nothing),
                (true, false) => making.push(version, Change::Statements),
                (false, true) => making.push(version, Change::Bytes),
                (false, false) => match earlier.get(&now) {
                    Some(earlier) => making.push(version, Change::Restore(*earlier)),
                    None => {
                        making.push(version, Change::Bytes);
                        making.push(version, Change::Statements);
                    }
                },
            },
        }
        // Each state makes at least one.
        earlier.insert(now, making.made.saturating_sub(1));
    }
    making.steps
}

/// Changes that are being listed.
#[derive(Default)]
struct Making {
    steps: Vec<Step>,
    /// How many of them make versions.
    made: usize,
}

impl Making {
    /// Adds a change that creates the resource. Bytes are created without statements.
    fn create(&mut self, version: usize, change: Change, is_binary: bool) {
        self.add(Step { version, change, bytes_of: version, statements_of: (!is_binary).then_some(version) });
    }

    /// Adds a change of a resource that is there.
    fn push(&mut self, version: usize, change: Change) {
        let last = self.steps.last().map(|step| (step.bytes_of, step.statements_of));
        let (bytes_of, statements_of) = last.unwrap_or((version, None));
        let (bytes_of, statements_of) = match change {
            Change::Bytes => (version, statements_of),
            Change::Statements => (bytes_of, Some(version)),
            Change::Restore(_) => (version, Some(version)),
            _ => (bytes_of, statements_of),
        };
        self.add(Step { version, change, bytes_of, statements_of });
    }

    fn add(&mut self, step: Step) {
        self.made += usize::from(step.change.makes_version());
        self.steps.push(step);
    }
}

fn digest(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digest = algorithm.begin();
    digest.update(bytes);
    digest.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use preservation::about::ARCHIVAL_GROUP;
    use preservation::ocfl::Content;

    use super::*;

    /// A version of bytes with statements, or of a graph.
    fn version(bytes: Option<&str>, statements: &str) -> ArchivedVersion {
        let class = if bytes.is_some() { "NonRDFSource" } else { "BasicContainer" };
        let about = About {
            repository: "info:fedora/".to_owned(),
            path: "a".to_owned(),
            types: vec![format!("http://www.w3.org/ns/ldp#{class}")],
            content_type: None,
            content_disposition: None,
            last_modified: None,
            stored_at: None,
            handling: None,
        };
        let content = |text: &str| Content {
            place: format!("file of {text}").into(),
            digest: digest(Algorithm::Sha256, text.as_bytes()),
        };
        let state = ArchivedState { about, statements: content(statements), bytes: bytes.map(content) };
        ArchivedVersion { created: "2025-06-15T15:06:40.007Z".to_owned(), state: Some(state) }
    }

    fn deletion() -> ArchivedVersion {
        ArchivedVersion { state: None, ..version(None, "") }
    }

    fn changes(versions: Vec<ArchivedVersion>) -> Changes {
        Changes::of(Algorithm::Sha256, versions, true)
    }

    #[test]
    fn a_version_with_bytes_and_statements_of_an_earlier_one_restores_the_last_of_these() {
        let both = |text: &str| version(Some(text), text);
        let made = changes(vec![both("a"), both("b"), both("a"), both("a"), both("b"), both("c"), both("a")]);
        let made: Vec<_> = made.steps.iter().map(|step| (step.version, step.change)).collect();
        let expected = [
            (0, Change::Create),
            (0, Change::Statements),
            (1, Change::Bytes),
            (1, Change::Statements),
            (2, Change::Restore(1)),
            (3, Change::Nothing),
            (4, Change::Restore(3)),
            (5, Change::Bytes),
            (5, Change::Statements),
            (6, Change::Restore(5)),
        ];
        assert_eq!(made, expected);
    }

    #[test]
    fn a_resource_of_another_kind_is_created_again_and_a_deletion_makes_no_version() {
        let versions = vec![version(Some("a"), ""), version(None, "a"), deletion(), deletion(), version(None, "a")];
        let made = changes(versions);
        let kinds: Vec<_> = made.steps.iter().map(|step| step.change).collect();
        assert_eq!(kinds, [Change::Create, Change::CreateAgain, Change::Delete, Change::CreateAgain]);
        assert_eq!((made.until(2), made.until(3), made.until(4)), (2, 4, 5));
    }

    #[test]
    fn a_container_that_becomes_an_archival_group_or_is_none_any_more_is_created_again() {
        let group = || {
            let mut group = version(None, "a");
            group.state.as_mut().unwrap().about.types.push(ARCHIVAL_GROUP.to_owned());
            group
        };
        let made = changes(vec![version(None, "a"), group(), group(), version(None, "a")]);
        let kinds: Vec<_> = made.steps.iter().map(|step| step.change).collect();
        assert_eq!(kinds, [Change::Create, Change::CreateAgain, Change::Nothing, Change::CreateAgain]);
    }

    #[test]
    fn the_versions_before_a_change_are_counted_without_deletions() {
        let made = changes(vec![version(Some("1"), "a"), deletion(), version(Some("1"), "a")]);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|n| made.made_before(n)), [0, 1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn each_state_is_looked_at_once_however_many_there_are() {
        for is_new in [true, false] {
            let text = |n: usize| if is_new { n.to_string() } else { (n % 2).to_string() };
            let versions: Vec<_> = (0..1_000).map(|n| version(Some(&text(n)), &text(n))).collect();
            let mut looked_at = 0;
            let made = steps(Algorithm::Sha256, &versions, |state| {
                looked_at += 1;
                Same::of(state)
            });
            assert_eq!(looked_at, versions.len());
            assert_eq!(made.len(), if is_new { 2_000 } else { 1_002 });
        }
    }

    #[test]
    fn at_most_one_file_is_read_for_a_state() {
        let made = changes(vec![version(Some("1"), "a"), version(Some("2"), "a"), version(Some("2"), "b")]);
        let state = |done: usize| {
            let mut read = Vec::new();
            let state = made.state_with(done, |state| {
                read.push(state.statements.place.display().to_string());
                Ok(Statements::Exported(Vec::new()))
            });
            let bytes = state.unwrap().and_then(|state| state.bytes).map(|bytes| bytes.digest);
            (read, bytes)
        };
        let after = |file: &[&str], bytes: &str| {
            let file: Vec<_> = file.iter().map(|text| format!("file of {text}")).collect();
            (file, Some(digest(Algorithm::Sha256, bytes.as_bytes())))
        };
        assert_eq!(state(0), (Vec::new(), None));
        assert_eq!(state(1), after(&[], "1"), "bytes are created without statements");
        assert_eq!(state(2), after(&["a"], "1"));
        assert_eq!(state(3), after(&["a"], "2"), "the statements stay");
        assert_eq!(state(4), after(&["b"], "2"));
        assert_eq!(state(5), (Vec::new(), None));
    }

    #[test]
    fn what_is_there_in_the_end_is_read_unless_it_is_long_or_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let text = "<info:fedora/a> <urn:p> \"x\" .\n";
        let mut described = version(None, text);
        let place = folder.path().join("statements");
        fs::write(&place, text).unwrap();
        described.state.as_mut().unwrap().statements.place = place;
        let loader = Loader::of(axum::Router::new());
        let last = |versions: Vec<ArchivedVersion>, bytes_max: u64| {
            changes(versions).last(&loader, bytes_max).map(|state| state.unwrap().statements)
        };
        let moved = Statements::Moved(bytes::Bytes::from_static(b"<http://localhost/rest/a> <urn:p> \"x\" .\n"));
        assert_eq!(last(vec![described.clone()], text.len() as u64), Some(moved));
        assert_eq!(last(vec![described.clone()], text.len() as u64 - 1), None);
        assert_eq!(last(vec![described, deletion()], u64::MAX), None);
        // These files are nowhere.
        assert!(last(vec![version(Some("1"), "")], 0).is_some_and(|statements| statements.is_empty()));
        assert!(last(vec![version(None, "")], 0).is_some_and(|statements| statements.is_empty()));
        let missing = changes(vec![version(None, "a")]).last(&loader, u64::MAX);
        assert!(missing.is_some_and(|state| state.is_err()));
    }

    #[test]
    fn the_changes_of_a_version_are_found_by_its_number() {
        let made = changes(vec![version(Some("1"), "a"), deletion(), deletion(), version(Some("1"), "a")]);
        let found = [0, 1, 2, 3, 4].map(|version| made.steps_of(version));
        assert_eq!(found, [0..2, 2..3, 3..3, 3..5, 5..5]);
    }
}
