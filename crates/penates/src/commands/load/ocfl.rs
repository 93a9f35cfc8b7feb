//! Loads the versions of an OCFL storage root that `penates export` wrote, oldest first.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use heads::VOLUMES;
use jiff::Timestamp;
use preservation::about::About;
use preservation::archived::{ArchivedState, ArchivedVersion};
use preservation::ocfl::{Object, each_object};
use preservation::read::{ReadError, ReadResult};
use store::{Clock, ManualClock, SystemClock, UnixMillis};
use tokio::task::spawn_blocking;

use super::loader::{Bytes, Counts, DESCRIPTION_BYTES_MAX, IS_DELETED, Loader, Sent, State};
use super::ocfl_volume::Volume;
use crate::client::ClientError;
use crate::exit::told;

/// A checked storage root.
pub struct Archive {
    /// The folders of its objects, containers before what is in them.
    objects: Vec<PathBuf>,
    /// The versions of all objects, in the order of their times.
    order: Vec<Moment>,
}

/// A version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    /// In milliseconds since 1970.
    created: u64,
    object: usize,
    version: usize,
}

/// A change that makes a version from the one before. A version with other bytes and other
/// statements takes two, unless it is an earlier one that was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
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
    fn sets_bytes(self) -> bool {
        matches!(self, Self::Create | Self::CreateAgain | Self::Bytes | Self::Restore(_))
    }

    fn makes_version(self) -> bool {
        self != Self::Delete
    }

    fn sets_statements(self) -> bool {
        matches!(self, Self::Create | Self::CreateAgain | Self::Statements | Self::Restore(_))
    }
}

impl Archive {
    /// The time of the first version, or now if that is in the future.
    pub fn begin(&self) -> UnixMillis {
        UnixMillis(self.order.first().map_or(0, |first| first.created)).min(SystemClock.now())
    }
}

/// Checks all of a storage root, before anything of it is loaded.
pub async fn checked(folder: &Path) -> anyhow::Result<Archive> {
    let folder = folder.to_owned();
    let shown = folder.display().to_string();
    spawn_blocking(move || read(&folder)).await?.with_context(|| format!("{shown}: nothing was loaded"))
}

/// An object that was found.
struct Found {
    /// The resource, by its path; a volume by the identifier of its object.
    name: String,
    /// The path of the container above a resource.
    above: Option<String>,
    /// How deep it is.
    depth: usize,
    folder: PathBuf,
    /// The times of its versions.
    times: Vec<u64>,
}

impl Found {
    /// Checks an object, with all of its files.
    fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        let object = Arc::new(Object::open(folder)?);
        object.check_files()?;
        let times = times(&object)?;
        let folder = folder.to_owned();
        if let Some(volume) = Volume::of(&object)? {
            volume.check()?;
            return Ok(Some(Self { name: object.id().to_owned(), above: None, depth: 2, folder, times }));
        }
        let versions = ArchivedVersion::all(&object)?;
        let Some(first) = versions.into_iter().next() else { return Ok(None) };
        let Some(first) = first.state else { return Ok(None) };
        let name = first.about.path;
        let above = (!name.is_empty()).then(|| name.rsplit_once('/').map_or("", |(above, _)| above).to_owned());
        let depth = name.split('/').filter(|name| !name.is_empty()).count();
        Ok(Some(Self { name, above, depth, folder, times }))
    }
}

fn read(folder: &Path) -> anyhow::Result<Archive> {
    let mut found = Vec::new();
    let mut wrong = None;
    let each = each_object(folder, &mut |folder| match Found::read(folder) {
        Ok(object) => {
            found.extend(object);
            Ok(())
        }
        Err(error) => {
            wrong = Some(error);
            Err(ReadError::Stopped)
        }
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    each?;
    found.sort_by(|one, other| one.depth.cmp(&other.depth).then_with(|| one.name.cmp(&other.name)));
    let mut places = HashMap::new();
    for (n, Found { name, .. }) in found.iter().enumerate() {
        ensure!(places.insert(name.clone(), n).is_none(), "there are two objects for /{name}");
    }
    // A container of which the first versions were not kept must still be there before its contents.
    for n in (0..found.len()).rev() {
        let Found { above, times, .. } = &found[n];
        let above = above.as_ref().and_then(|above| places.get(above));
        let (Some(above), Some(first)) = (above, times.first().copied()) else { continue };
        if let Some(begin) = found[*above].times.first_mut() {
            *begin = first.min(*begin);
        }
    }
    let mut order = Vec::new();
    for (object, Found { times, .. }) in found.iter().enumerate() {
        order.extend(times.iter().enumerate().map(|(version, created)| Moment { created: *created, object, version }));
    }
    order.sort_unstable();
    Ok(Archive { objects: found.into_iter().map(|found| found.folder).collect(), order })
}

/// The times of versions, none before the one before it.
fn times(object: &Object) -> ReadResult<Vec<u64>> {
    let versions = object.versions();
    let mut times: Vec<u64> = Vec::with_capacity(versions.len());
    for version in versions {
        let wrong = |why: String| ReadError::Invalid { name: object.id().to_owned(), why };
        let time: Timestamp = version.created.parse().map_err(|error| wrong(format!("a time: {error}")))?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| wrong("a time before 1970".to_owned()))?;
        times.push(times.last().map_or(millis, |before| millis.max(*before)));
    }
    Ok(times)
}

/// The changes that make the versions, each with the number of its version.
fn changes(versions: &[ArchivedVersion]) -> Vec<(usize, Change)> {
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
    let About { content_type, content_disposition, stored_at, .. } = &state.about;
    (state.bytes.as_ref().map(|bytes| &bytes.digest), content_type, content_disposition, stored_at)
}

fn is_same_state(one: &ArchivedState, other: &ArchivedState) -> bool {
    let is_same_kind = kind(one) == kind(other);
    is_same_kind && bytes_of(one) == bytes_of(other) && one.statements.digest == other.statements.digest
}

fn kind(state: &ArchivedState) -> Option<String> {
    super::loader::model(&state.about).ok()
}

/// Whether there are no statements. An empty file is known by its length.
fn is_empty(state: &ArchivedState) -> bool {
    std::fs::metadata(&state.statements.place).is_ok_and(|file| file.len() == 0)
}

/// An object that is being loaded.
struct Loading {
    object: usize,
    what: What,
}

/// What an object is of.
enum What {
    Resource(Changes),
    Volume(Volume),
}

/// The versions of a resource, and the changes that make them.
struct Changes {
    algorithm: preservation::bagit::text::Algorithm,
    versions: Vec<ArchivedVersion>,
    changes: Vec<(usize, Change)>,
}

impl Loading {
    fn open(archive: &Archive, object: usize) -> anyhow::Result<Self> {
        let opened = Arc::new(Object::open(&archive.objects[object])?);
        if let Some(volume) = Volume::of(&opened)? {
            return Ok(Self { object, what: What::Volume(volume) });
        }
        let versions = ArchivedVersion::all(&opened)?;
        let changes = changes(&versions);
        Ok(Self { object, what: What::Resource(Changes { algorithm: opened.algorithm(), versions, changes }) })
    }

    /// Its path in messages.
    fn path(&self) -> String {
        match &self.what {
            What::Volume(volume) => format!("{VOLUMES}/{}", volume.id()),
            What::Resource(changes) => changes.path().to_owned(),
        }
    }
}

impl Changes {
    /// The path of the resource.
    fn path(&self) -> &str {
        let first = self.versions.first().and_then(|version| version.state.as_ref());
        first.map_or("", |first| &first.about.path)
    }

    /// The state of a version, or of the one before if that is a deletion.
    async fn state(&self, version: usize) -> anyhow::Result<State> {
        let state = self.versions[..=version].iter().rev().find_map(|version| version.state.as_ref());
        let ArchivedState { about, statements, bytes } = state.context("its first version has no files")?;
        let place = statements.place.clone();
        let named = || place.display().to_string();
        let len_bytes = tokio::fs::metadata(&place).await.with_context(named)?.len();
        ensure!(len_bytes <= DESCRIPTION_BYTES_MAX, "its statements have more than {DESCRIPTION_BYTES_MAX} bytes");
        let statements = tokio::fs::read(&place).await.with_context(named)?;
        let bytes = bytes.as_ref().map(|bytes| Bytes {
            place: bytes.place.clone(),
            algorithm: self.algorithm,
            digest: bytes.digest.clone(),
        });
        Ok(State { about: about.clone(), statements, bytes })
    }
}

/// Loads all versions. `clock` is that of a new store: it shows the time of each version.
pub async fn load(archive: &Archive, loader: &Loader, clock: Option<Arc<ManualClock>>) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    let mut loading: Option<Loading> = None;
    // Objects that were there already, with the number of their changes that are.
    let mut there: HashMap<usize, usize> = HashMap::new();
    let (mut changed, mut failed) = (HashSet::new(), HashSet::new());
    for Moment { created, object, version } in &archive.order {
        if failed.contains(object) {
            continue;
        }
        if let Some(clock) = &clock {
            // No change of the store may come from the future.
            clock.set(UnixMillis(*created).min(SystemClock.now()));
        }
        let current = match loading.take().filter(|loading| loading.object == *object) {
            Some(current) => current,
            None => Loading::open(archive, *object)?,
        };
        match apply(loader, &current, *version, &mut there, clock.as_deref()).await {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                changed.insert(*object);
                counts.bytes += bytes;
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            Err(error) => {
                eprintln!("/{}: {}", current.path(), told(error.as_ref()));
                failed.insert(*object);
            }
        }
        loading = Some(current);
    }
    counts.failed = failed.len() as u64;
    counts.new = changed.difference(&failed).count() as u64;
    counts.unchanged = archive.objects.len() as u64 - counts.new - counts.failed;
    Ok(counts)
}

/// Makes a version. Returns how many bytes were sent; `None` if all of it is there already.
async fn apply(
    loader: &Loader,
    loading: &Loading,
    version: usize,
    there: &mut HashMap<usize, usize>,
    clock: Option<&ManualClock>,
) -> anyhow::Result<Option<u64>> {
    match &loading.what {
        What::Resource(changes) => changes.apply(loader, loading.object, version, there, clock).await,
        What::Volume(volume) => {
            if version == 0 {
                there.insert(loading.object, volume.loaded(&loader.client).await?);
            }
            let done = there.get(&loading.object).copied().unwrap_or_default();
            match version < done {
                true => Ok(None),
                false => volume.import(version, &loader.client).await.map(Some),
            }
        }
    }
}

impl Changes {
    async fn apply(
        &self,
        loader: &Loader,
        object: usize,
        version: usize,
        there: &mut HashMap<usize, usize>,
        clock: Option<&ManualClock>,
    ) -> anyhow::Result<Option<u64>> {
        let state = self.state(version).await?;
        let mut sent = None;
        for (n, (of, change)) in self.changes.iter().enumerate() {
            if *of != version || there.get(&object).is_some_and(|done| n < *done) {
                continue;
            }
            let bytes = match change {
                Change::Create => match loader.create_unless_deleted(&state).await? {
                    Some((Sent::Made, bytes)) => bytes,
                    None if self.is_deleted(loader).await? => {
                        there.insert(object, self.changes.len());
                        continue;
                    }
                    None => bail!(IS_DELETED),
                    Some((Sent::IsThere, _)) => {
                        let (done, is_changed) = self.compare(loader).await?;
                        there.insert(object, done);
                        if is_changed {
                            sent = sent.or(Some(0));
                        }
                        continue;
                    }
                },
                Change::CreateAgain => {
                    // A moment before, so that the version is the first of its millisecond and has the
                    // name that it had.
                    if let Some(clock) = clock {
                        clock.set(UnixMillis(clock.now().0.saturating_sub(1)));
                    }
                    loader.forget(&state.about).await?;
                    if let Some(clock) = clock {
                        clock.advance(Duration::from_millis(1));
                    }
                    loader.create(&state).await?.1
                }
                Change::Bytes => loader.replace_bytes(&state).await?,
                Change::Statements => loader.replace_statements(&state).await.map(|()| 0)?,
                Change::Restore(earlier) => loader.restore(&state, *earlier).await?,
                Change::Nothing => loader.snapshot(&state.about).await.map(|()| 0)?,
                Change::Delete => loader.remove(&state.about).await.map(|()| 0)?,
            };
            sent = Some(sent.unwrap_or(0) + bytes);
        }
        Ok(sent)
    }

    /// How many of the changes make so many versions; more than there are if they do not.
    fn until(&self, versions: usize) -> usize {
        let made = self.changes.iter().enumerate().filter(|(_, (_, change))| change.makes_version());
        match versions.checked_sub(1) {
            Some(before) => made.map(|(n, _)| n + 1).nth(before).unwrap_or(self.changes.len() + 1),
            None => 0,
        }
    }

    /// Whether all versions are there, and the resource is deleted as it is here at last.
    async fn is_deleted(&self, loader: &Loader) -> anyhow::Result<bool> {
        let is_last = self.changes.last().is_some_and(|(_, change)| *change == Change::Delete);
        let count = loader.version_count(self.path()).await?;
        Ok(is_last && count.is_none_or(|count| self.until(count) + 1 == self.changes.len()))
    }

    /// Compares what is there with the versions. Returns how many of the changes were made, and whether
    /// this made one.
    async fn compare(&self, loader: &Loader) -> anyhow::Result<(usize, bool)> {
        let path = self.path();
        let done = match loader.version_count(path).await? {
            Some(count) => self.until(count),
            None => self.changes.len(),
        };
        let Some(made) = self.changes.get(..done).filter(|made| !made.is_empty()) else {
            bail!("there is a resource with more versions");
        };
        // The bytes and the statements may be those of different versions.
        let last = |sets: fn(Change) -> bool| made.iter().rev().find(|(_, change)| sets(*change)).copied();
        let (Some((bytes_of, _)), Some((statements_of, change))) =
            (last(Change::sets_bytes), last(Change::sets_statements))
        else {
            bail!("there is a resource with other versions");
        };
        let mut state = self.state(bytes_of).await?;
        state.statements = self.state(statements_of).await?.statements;
        if state.about.is_binary() && matches!(change, Change::Create | Change::CreateAgain) {
            state.statements = Vec::new();
        }
        loader.compare_bytes(&state).await?;
        let is_root_that_every_repository_has = path.is_empty() && done == 1;
        Ok((done, loader.compare_statements(&state, is_root_that_every_repository_has).await?))
    }
}
