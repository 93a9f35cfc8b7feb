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
    /// The numbers of the objects of resources, by their paths.
    places: HashMap<String, usize>,
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
    Ok(Archive { objects: found.into_iter().map(|found| found.folder).collect(), places, order })
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

/// What is known of the objects that were begun.
#[derive(Default)]
struct Progress {
    /// Those that were there already, with the number of their changes that are.
    there: HashMap<usize, usize>,
    /// Those of which this load made everything.
    made: HashSet<usize>,
    /// Volumes with pages that are not those that the METS says.
    replaced: HashSet<usize>,
}

/// Loads all versions. `clock` is that of a new store: it shows the time of each version.
pub async fn load(archive: &Archive, loader: &Loader, clock: Option<Arc<ManualClock>>) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    let mut loading: Option<Loading> = None;
    let mut progress = Progress::default();
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
        match apply(archive, loader, &current, *version, &mut progress, clock.as_deref()).await {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                changed.insert(*object);
                counts.bytes += bytes;
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            Err(error) => {
                eprintln!("/{}: {}", current.path(), told(error.as_ref()));
                failed.insert(*object);
                // It is not known as it is any more.
                progress.made.remove(object);
                progress.there.remove(object);
            }
        }
        loading = Some(current);
    }
    if !progress.replaced.is_empty() {
        let count = progress.replaced.len();
        eprintln!("{count} volumes have pages that differ from their METS in size or MD5, as in the archive");
    }
    counts.failed = failed.len() as u64;
    counts.new = changed.difference(&failed).count() as u64;
    counts.unchanged = archive.objects.len() as u64 - counts.new - counts.failed;
    Ok(counts)
}

/// Makes a version. Returns how many bytes were sent; `None` if all of it is there already.
async fn apply(
    archive: &Archive,
    loader: &Loader,
    loading: &Loading,
    version: usize,
    progress: &mut Progress,
    clock: Option<&ManualClock>,
) -> anyhow::Result<Option<u64>> {
    match &loading.what {
        What::Resource(changes) => {
            let running = Running { archive, loader, object: loading.object, changes };
            running.apply(version, progress, clock).await
        }
        What::Volume(volume) => {
            if version == 0 {
                progress.there.insert(loading.object, volume.loaded(&loader.client).await?);
            }
            let done = progress.there.get(&loading.object).copied().unwrap_or_default();
            match version < done {
                true => Ok(None),
                false => {
                    let (bytes, is_replaced) = volume.import(version, &loader.client).await?;
                    if is_replaced {
                        progress.replaced.insert(loading.object);
                    }
                    Ok(Some(bytes))
                }
            }
        }
    }
}

/// The changes of a resource while they are made.
struct Running<'a> {
    archive: &'a Archive,
    loader: &'a Loader,
    object: usize,
    changes: &'a Changes,
}

impl Running<'_> {
    async fn apply(
        &self,
        version: usize,
        progress: &mut Progress,
        clock: Option<&ManualClock>,
    ) -> anyhow::Result<Option<u64>> {
        let Self { loader, object, changes, .. } = *self;
        let state = changes.state(version).await?;
        let mut sent = None;
        for (n, (of, change)) in changes.changes.iter().enumerate() {
            if *of != version || progress.there.get(&object).is_some_and(|done| n < *done) {
                continue;
            }
            let bytes = match change {
                Change::Create => match self.create(&state).await? {
                    Began::Made(bytes) => {
                        progress.made.insert(object);
                        bytes
                    }
                    Began::IsThere { done, is_changed } => {
                        progress.there.insert(object, done);
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
                    self.refuse_losses(&state, n, progress).await?;
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
                Change::Delete => {
                    self.refuse_losses(&state, n, progress).await?;
                    loader.remove(&state.about).await.map(|()| 0)?
                }
            };
            sent = Some(sent.unwrap_or(0) + bytes);
        }
        Ok(sent)
    }

    /// Creates the resource, unless it is there, or was already.
    async fn create(&self, state: &State) -> anyhow::Result<Began> {
        let Self { loader, changes, .. } = *self;
        // A load that was interrupted may have freed the name of what it deleted.
        let is_again = changes.changes.iter().any(|(_, change)| *change == Change::CreateAgain);
        if is_again
            && !loader.is_there(&state.about).await?
            && let Some(done) = changes.deleted_until(loader).await?
            && changes.changes.get(done).is_some_and(|(_, change)| *change == Change::CreateAgain)
        {
            return Ok(Began::IsThere { done, is_changed: false });
        }
        match loader.create_unless_deleted(state).await? {
            Some((Sent::Made, bytes)) => Ok(Began::Made(bytes)),
            Some((Sent::IsThere, _)) => {
                let (done, is_changed) = changes.compare(loader).await?;
                Ok(Began::IsThere { done, is_changed })
            }
            None => {
                let done = changes.deleted_until(loader).await?.context(IS_DELETED)?;
                Ok(Began::IsThere { done, is_changed: false })
            }
        }
    }

    /// Refuses to delete what the archive does not have: versions of a resource that was there
    /// already, or resources in a container. `n` is the number of the change that deletes.
    async fn refuse_losses(&self, state: &State, n: usize, progress: &Progress) -> anyhow::Result<()> {
        let Self { loader, changes, .. } = *self;
        if progress.there.contains_key(&self.object) && loader.is_there(&state.about).await? {
            changes.compare_versions(loader, n).await?;
        }
        let is_expected = async |path: &str| self.is_deleted_too(path, progress).await;
        match loader.others_within(changes.path(), is_expected).await? {
            Some(other) => bail!("it is not deleted: the archive does not have /{other} as it is here"),
            None => Ok(()),
        }
    }

    /// Whether a resource may be deleted with the container that it is in: this load made it, or it
    /// is there with all versions that the archive has until it is deleted.
    async fn is_deleted_too(&self, path: &str, progress: &Progress) -> anyhow::Result<bool> {
        let Some(object) = self.archive.places.get(path) else { return Ok(false) };
        if progress.made.contains(object) || !progress.there.contains_key(object) {
            return Ok(progress.made.contains(object));
        }
        match Loading::open(self.archive, *object)?.what {
            What::Resource(changes) => {
                let is_next = changes.is_deleted_next(self.loader).await;
                is_next.with_context(|| format!("it is not deleted: /{path} is in it"))
            }
            What::Volume(_) => Ok(false),
        }
    }
}

/// How the first version was made.
enum Began {
    /// It was created, with so many bytes.
    Made(u64),
    /// So many changes are made already. `is_changed` if this made one.
    IsThere { done: usize, is_changed: bool },
}

impl Changes {
    /// How many of the changes make so many versions; more than there are if they do not.
    fn until(&self, versions: usize) -> usize {
        let made = self.changes.iter().enumerate().filter(|(_, (_, change))| change.makes_version());
        match versions.checked_sub(1) {
            Some(before) => made.map(|(n, _)| n + 1).nth(before).unwrap_or(self.changes.len() + 1),
            None => 0,
        }
    }

    /// How many of the changes were made to a resource that is deleted; `None` if the archive has it
    /// otherwise.
    async fn deleted_until(&self, loader: &Loader) -> anyhow::Result<Option<usize>> {
        let change = |n: usize| self.changes.get(n).map(|(_, change)| *change);
        let Some(count) = loader.version_count(self.path()).await? else {
            let last = self.changes.len().checked_sub(1).and_then(change);
            return Ok((last == Some(Change::Delete)).then_some(self.changes.len()));
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
    async fn is_deleted_next(&self, loader: &Loader) -> anyhow::Result<bool> {
        let made = self.until(loader.version_count(self.path()).await?.context(OTHER_VERSIONS)?);
        if self.changes.get(made).is_none_or(|(_, change)| *change != Change::Delete) {
            return Ok(false);
        }
        self.compare_versions(loader, made).await?;
        Ok(true)
    }

    /// The state after so many changes; `None` if they make none.
    async fn state_after(&self, done: usize) -> anyhow::Result<Option<State>> {
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
    async fn compare(&self, loader: &Loader) -> anyhow::Result<(usize, bool)> {
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

    /// Compares each version that is there with those that the first `done` changes make.
    async fn compare_versions(&self, loader: &Loader, done: usize) -> anyhow::Result<()> {
        let names = loader.version_names(self.path()).await?.context(OTHER_VERSIONS)?;
        let made = self.changes.iter().take(done).enumerate().filter(|(_, (_, change))| change.makes_version());
        let made: Vec<_> = made.map(|(n, _)| n + 1).collect();
        ensure!(made.len() == names.len(), OTHER_VERSIONS);
        for (done, name) in made.into_iter().zip(names) {
            let state = self.state_after(done).await?.context(OTHER_VERSIONS)?;
            loader.compare_version(&state, &name).await.with_context(|| format!("version {name}"))?;
        }
        Ok(())
    }
}

/// Why a resource is left as it is.
const OTHER_VERSIONS: &str = "there is a resource with other versions";
