//! Makes the versions of objects again, in the order of their times.
//!
//! - `archive.rs`: the objects, and the order of their versions.
//! - `opened.rs`: objects that were read.
//! - `changes.rs`: the changes that make the versions of a resource.
//! - `ahead.rs`: reads versions before their turn comes.

mod ahead;
mod archive;
mod changes;
mod opened;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures::future::try_join_all;
use indicatif::ProgressBar;
use jiff::Timestamp;
use serde_json::json;
use store::{Clock, ManualClock, SystemClock, UnixMillis};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::task::AbortOnDropHandle;

use super::loader::{Counts, IS_DELETED, Loader, Sent, State};
use super::ocfl_volume::There;
use super::report::{Report, What as Note};
use super::volumes::note_replaced;
use crate::client::ClientError;
use crate::exit::full_message;
use crate::progress;

use ahead::{GivenUp, Ready, read_ahead};
pub use archive::{Archive, Found, Place, check_bytes, note_containers, times};
use archive::{Loading, Moment, What};
use changes::{Change, Changes};
pub use opened::{KEPT_BYTES_MAX, len_bytes_of};

/// Tasks that verify resources of a server, or of a store that is elsewhere: they wait for it.
const VERIFIED_AT_ONCE: usize = 8;

/// The greatest number in a store that this process has in a folder.
const VERIFIED_HERE_MAX: usize = 32;

/// Resources that are read together before they are verified: a thread that may wait for a disk is
/// asked once for all of them. A task has twice as many in memory, those that it verifies and the
/// next ones.
const READ_TOGETHER: usize = 8;

/// The most bytes of statements that are read in this way. Longer ones wait for their turn.
const READ_TOGETHER_BYTES_MAX: u64 = 128 << 10;

/// What is known of the objects that were begun.
#[derive(Default)]
struct Progress {
    /// Those that were there already, with the number of their changes that are.
    there: HashMap<usize, usize>,
    /// Those of which this load made everything.
    made: HashSet<usize>,
    /// Volumes with pages that are not those that the METS says.
    replaced: HashSet<usize>,
    /// Deleted volumes that are left out, because the store keeps no versions.
    left_out: HashSet<usize>,
}

/// Loads all versions. `clock` is that of a store in which nothing but loads made changes: it shows
/// the time of each version. It is never before `floor`, the time of the newest change there.
pub async fn load(
    archive: &Arc<Archive>,
    loader: &Arc<Loader>,
    clock: Option<(Arc<ManualClock>, UnixMillis)>,
    report: &Arc<Report>,
) -> anyhow::Result<Loaded> {
    let (archive, loader, report) = (archive.clone(), loader.clone(), report.clone());
    // A server in this process does parts of a change in tasks. A worker of the runtime goes on with them
    // itself. Any other thread hands each to a worker, and waits to be woken.
    let making = tokio::spawn(async move { make(&archive, &loader, clock, &report).await });
    AbortOnDropHandle::new(making).await?
}

/// Makes all versions, one after the other.
async fn make(
    archive: &Arc<Archive>,
    loader: &Arc<Loader>,
    clock: Option<(Arc<ManualClock>, UnixMillis)>,
    report: &Report,
) -> anyhow::Result<Loaded> {
    let mut counts = Counts::default();
    let mut loading: Option<Loading> = None;
    let mut progress = Progress::default();
    let (mut changed, mut failed) = (HashSet::new(), HashSet::new());
    let bar = progress::versions(archive.versions());
    let given_up = GivenUp::default();
    let (mut versions, reader) = read_ahead(archive, loader, &given_up);
    while let Some(Ready { number, moment, loading: read, state }) = versions.recv().await {
        let Moment { created, object, version } = moment;
        bar.set_position(number + 1);
        // It was read ahead.
        if failed.contains(&object) || progress.left_out.contains(&object) {
            continue;
        }
        let mut shown = UnixMillis(created);
        if let Some((clock, floor)) = &clock {
            // No change of the store may come from the future.
            shown = shown.max(*floor).min(SystemClock.now());
            clock.set(shown);
        }
        let clock = clock.as_ref().map(|(clock, _)| clock.as_ref());
        let current = match (read, loading.take().filter(|loading| loading.object == object)) {
            (Some(read), _) => read,
            (None, Some(current)) => Ok(current),
            (None, None) => open(archive, object).await,
        };
        let applied = match &current {
            Ok(current) => apply(archive, loader, current, (version, state), &mut progress, clock).await,
            Err(error) => Err(anyhow!("{}", full_message(error.as_ref()))),
        };
        match applied {
            Ok(None) if progress.left_out.contains(&object) => {
                let why = "it was deleted, and this store keeps no versions of volumes (history.volumes)";
                report.resource(Note::Deleted, &archive.path(object, current.as_ref().ok()), why);
                given_up.lock().insert(object);
            }
            Ok(None) => {}
            Ok(Some(bytes)) => {
                changed.insert(object);
                counts.bytes += bytes;
                if shown.0 > created {
                    let why = "a version is later here, because an earlier load brought newer ones of other resources";
                    note_time(report, &archive.path(object, current.as_ref().ok()), why, created, shown);
                }
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            Err(error) => {
                let path = archive.path(object, current.as_ref().ok());
                let why = full_message(error.as_ref());
                bar.suspend(|| note!("/{path}: {why}"));
                report.resource(Note::Failed, &path, &why);
                failed.insert(object);
                given_up.lock().insert(object);
                // It is not known as it is any more.
                progress.made.remove(&object);
                progress.there.remove(&object);
            }
        }
        loading = current.ok();
    }
    reader.await?;
    bar.finish_and_clear();
    note_replaced(progress.replaced.len());
    counts.failed = failed.len() as u64;
    counts.new = changed.difference(&failed).count() as u64;
    counts.unchanged = archive.len() as u64 - counts.new - counts.failed - progress.left_out.len() as u64;
    Ok(Loaded { counts, failed })
}

/// Opens an object, on a thread that may wait for a disk if it has to be read.
async fn open(archive: &Arc<Archive>, object: usize) -> anyhow::Result<Loading> {
    match Loading::known(archive, object) {
        Some(known) => Ok(known),
        None => {
            let archive = archive.clone();
            spawn_blocking(move || Loading::open(&archive, object)).await?
        }
    }
}

/// Reports a version that has another time than in the archive.
fn note_time(report: &Report, path: &str, why: &str, created: u64, shown: UnixMillis) {
    report.more(Note::Time, path, why, json!({"there": time(created), "here": time(shown.0)}));
}

/// A time as in RFC 3339.
fn time(millis: u64) -> String {
    i64::try_from(millis)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::MAX)
        .to_string()
}

/// What came of a load.
pub struct Loaded {
    /// How many objects were loaded, and how many bytes.
    pub counts: Counts,
    /// The objects that were not.
    pub failed: HashSet<usize>,
}

/// Compares all versions that are there with those of an archive, except those of objects that failed.
/// `is_here`: whether this process has the store in a folder. Returns how many resources are the same.
pub async fn verify(
    archive: &Arc<Archive>,
    loader: &Arc<Loader>,
    is_here: bool,
    failed: HashSet<usize>,
    report: &Arc<Report>,
) -> anyhow::Result<u64> {
    // A store here reads on the threads that ask, as many at once as there are processors. For more,
    // other threads would read. Each holds statements in memory, so their number has an end.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let at_once = if is_here { processors.min(VERIFIED_HERE_MAX) } else { VERIFIED_AT_ONCE };
    let bar = progress::verified(archive.len() as u64);
    let (archive, loader, report, next) = (archive.clone(), loader.clone(), report.clone(), AtomicUsize::new(0));
    let verifying = Arc::new(Verifying { archive, loader, failed, report, bar, next });
    let tasks = (0..at_once).map(|_| {
        let task = AbortOnDropHandle::new(tokio::spawn(verifying.clone().work()));
        async move { task.await.unwrap_or_else(|error| Err(error.into())) }
    });
    let counts: Vec<u64> = try_join_all(tasks).await?;
    verifying.bar.finish_and_clear();
    Ok(counts.into_iter().sum())
}

/// A verification, which several tasks work on.
struct Verifying {
    archive: Arc<Archive>,
    loader: Arc<Loader>,
    /// The objects that are left out.
    failed: HashSet<usize>,
    report: Arc<Report>,
    bar: ProgressBar,
    /// The first object that no task has taken.
    next: AtomicUsize,
}

/// A resource that is to be verified.
struct Expected {
    changes: Arc<Changes>,
    /// What is there in the end; `None` if it is read when it is needed.
    last: Option<anyhow::Result<State>>,
}

/// An object that was read, with what should be there of it; `None` if that is not verified.
type Read = (usize, anyhow::Result<Option<Expected>>);

impl Verifying {
    /// Verifies what no other task has taken, until nothing is left. Returns how many resources are the
    /// same.
    async fn work(self: Arc<Self>) -> anyhow::Result<u64> {
        let mut count = 0;
        let mut coming = self.read_next();
        while let Some(reading) = coming {
            let read = reading.await?;
            // They are read while these are verified.
            coming = self.read_next();
            for (object, expected) in read {
                let verified = match expected {
                    Ok(Some(Expected { changes, last })) => changes.verify(&self.loader, last).await,
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                };
                self.bar.inc(1);
                match verified {
                    Ok(()) => count += 1,
                    Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
                    Err(error) => {
                        let (path, why) = (self.archive.path(object, None), full_message(error.as_ref()));
                        self.bar.suspend(|| note!("/{path}: {why}"));
                        self.report.resource(Note::Differs, &path, &why);
                    }
                }
            }
        }
        Ok(count)
    }

    /// Begins to read what no other task has taken; `None`: nothing is left.
    fn read_next(self: &Arc<Self>) -> Option<JoinHandle<Vec<Read>>> {
        let first = self.next.fetch_add(READ_TOGETHER, Ordering::Relaxed);
        let reading = self.clone();
        (first < self.archive.len()).then(|| spawn_blocking(move || reading.read(first)))
    }

    /// Reads the objects from `first` on that are verified together.
    fn read(&self, first: usize) -> Vec<Read> {
        let objects = first..self.archive.len().min(first + READ_TOGETHER);
        let kept = objects.filter(|object| !self.failed.contains(object));
        kept.map(|object| (object, self.expected(object))).collect()
    }

    /// What should be there of an object; `None` if that is not verified.
    fn expected(&self, object: usize) -> anyhow::Result<Option<Expected>> {
        let What::Resource(changes) = Loading::open(&self.archive, object)?.what else { return Ok(None) };
        let last = changes.last(&self.loader, READ_TOGETHER_BYTES_MAX);
        Ok(Some(Expected { changes, last }))
    }
}

/// Makes a version, whose state may have been read already. Returns how many bytes were sent; `None`
/// if all of it is there already.
async fn apply(
    archive: &Arc<Archive>,
    loader: &Arc<Loader>,
    loading: &Loading,
    (version, state): (usize, Option<anyhow::Result<State>>),
    progress: &mut Progress,
    clock: Option<&ManualClock>,
) -> anyhow::Result<Option<u64>> {
    match &loading.what {
        What::Resource(changes) => {
            if changes.steps_of(version).is_empty() {
                return Ok(None);
            }
            let state = match state {
                Some(state) => state?,
                None => {
                    let (changes, loader) = (changes.clone(), loader.clone());
                    spawn_blocking(move || changes.state(version, &loader)).await??
                }
            };
            let running = Running { archive, loader, object: loading.object, changes };
            running.apply(version, &state, progress, clock).await
        }
        What::Volume(volume) => {
            if version == 0 {
                match volume.loaded(&loader.client).await? {
                    There::Versions(done) => drop(progress.there.insert(loading.object, done)),
                    There::NotKept => {
                        progress.left_out.insert(loading.object);
                        return Ok(None);
                    }
                }
            }
            let done = progress.there.get(&loading.object).copied().unwrap_or_default();
            match version < done {
                true => Ok(None),
                false if volume.is_deleted_in(version) => {
                    // The first version is none, and what was deleted is not deleted again.
                    if !volume.is_deleted_in(version.saturating_sub(1)) {
                        volume.delete(version, &loader.client).await?;
                    }
                    Ok(Some(0))
                }
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
    archive: &'a Arc<Archive>,
    loader: &'a Arc<Loader>,
    object: usize,
    changes: &'a Arc<Changes>,
}

impl Running<'_> {
    async fn apply(
        &self,
        version: usize,
        state: &State,
        progress: &mut Progress,
        clock: Option<&ManualClock>,
    ) -> anyhow::Result<Option<u64>> {
        let Self { loader, object, changes, .. } = *self;
        let mut sent = None;
        for n in changes.steps_of(version) {
            let Some(change) = changes.change(n) else { break };
            if progress.there.get(&object).is_some_and(|done| n < *done) {
                continue;
            }
            let bytes = match change {
                Change::Create => match self.create(state).await? {
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
                    self.refuse_losses(n, progress).await?;
                    loader.forget(&state.about).await?;
                    if let Some(clock) = clock {
                        clock.advance(Duration::from_millis(1));
                    }
                    loader.create(state).await?.1
                }
                Change::Bytes => loader.replace_bytes(state).await?,
                Change::Statements => loader.replace_statements(state).await.map(|()| 0)?,
                Change::Restore(earlier) => loader.restore(state, earlier, changes.made_before(n)).await?,
                Change::Nothing => loader.snapshot(&state.about).await.map(|()| 0)?,
                Change::Delete => {
                    self.refuse_losses(n, progress).await?;
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
        let is_again = changes.steps.iter().any(|step| step.change == Change::CreateAgain);
        if is_again
            && !loader.is_there(changes.path()).await?
            && let Some(done) = changes.deleted_until(loader).await?
            && changes.change(done) == Some(Change::CreateAgain)
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
                let Some(done) = changes.deleted_until(loader).await? else {
                    bail!(match loader.is_known_as_deleted(changes.path()).await? {
                        true => IS_DELETED,
                        false => "the container above it is deleted",
                    });
                };
                Ok(Began::IsThere { done, is_changed: false })
            }
        }
    }

    /// Refuses to delete what the archive does not have: versions of a resource that was there
    /// already, or resources in a container. `n` is the number of the change that deletes.
    async fn refuse_losses(&self, n: usize, progress: &Progress) -> anyhow::Result<()> {
        let Self { loader, changes, .. } = *self;
        if progress.there.contains_key(&self.object) && loader.is_there(changes.path()).await? {
            changes.compare_versions(loader, n).await?;
        }
        let mut within = loader.within(changes.path());
        while let Some(path) = within.next().await? {
            if !self.is_deleted_too(&path, progress).await? {
                bail!("it is not deleted: the archive does not have /{path} as it is here");
            }
        }
        Ok(())
    }

    /// Whether a resource may be deleted with the container that it is in: this load made it, or it
    /// is there with all versions that the archive has until it is deleted.
    async fn is_deleted_too(&self, path: &str, progress: &Progress) -> anyhow::Result<bool> {
        let Some(object) = self.archive.places.get(path) else { return Ok(false) };
        if progress.made.contains(object) || !progress.there.contains_key(object) {
            return Ok(progress.made.contains(object));
        }
        match open(self.archive, *object).await?.what {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::thread::ThreadId;

    use axum::Router;
    use axum::extract::Request;
    use http::StatusCode;
    use parking_lot::Mutex;
    use tempfile::TempDir;

    use super::super::fedora::{self, recorded};
    use super::*;

    /// What a server was asked for: the paths, and the threads that asked.
    type Asked = Arc<Mutex<Vec<(String, ThreadId)>>>;

    /// A loader for a server that takes all that it is sent, and has nothing of it.
    fn loader() -> (Arc<Loader>, Asked) {
        let asked = Asked::default();
        let noted = asked.clone();
        let answer = move |request: Request| {
            noted.lock().push((request.uri().path().to_owned(), thread::current().id()));
            async { StatusCode::CREATED }
        };
        (Arc::new(Loader::of(Router::new().fallback(answer))), asked)
    }

    async fn checked() -> (TempDir, Arc<Archive>, Arc<Report>) {
        let folder = recorded::unpacked();
        let report = Arc::new(Report::create(None).unwrap());
        let archive = fedora::checked(folder.path(), report.clone()).await.unwrap().archive;
        (folder, archive, report)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn workers_of_the_runtime_ask_and_not_the_thread_that_waits_for_them() {
        let (_folder, archive, report) = checked().await;
        let (loader, asked) = loader();
        load(&archive, &loader, None, &report).await.unwrap();
        let made = asked.lock().len();
        assert!(made >= archive.len(), "{made}");
        verify(&archive, &loader, true, HashSet::new(), &report).await.unwrap();
        let asked = asked.lock();
        assert!(asked.len() > made);
        assert!(asked.iter().all(|(_, thread)| *thread != thread::current().id()));
    }

    #[tokio::test]
    async fn each_resource_is_verified_once_except_those_that_failed() {
        let (_folder, archive, report) = checked().await;
        let (loader, asked) = loader();
        let verified = verify(&archive, &loader, false, HashSet::from([1]), &report).await.unwrap();
        assert_eq!(verified, 0, "the server has no versions");
        let list = |object: usize| loader.base.versions(&archive.path(object, None));
        let mut expected: Vec<_> = (0..archive.len()).filter(|object| *object != 1).map(list).collect();
        let mut lists: Vec<_> = asked.lock().iter().map(|(path, _)| path.clone()).collect();
        expected.sort_unstable();
        lists.sort_unstable();
        assert_eq!(lists, expected);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_that_is_here_is_asked_by_as_many_at_once_as_there_are_processors() {
        let (_folder, archive, report) = checked().await;
        let (asking, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (asking.clone(), most.clone());
        let answer = move |_: Request| {
            let (asking, most) = counts.clone();
            async move {
                most.fetch_max(asking.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Others ask meanwhile.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                asking.fetch_sub(1, Ordering::SeqCst);
                StatusCode::CREATED
            }
        };
        let loader = Arc::new(Loader::of(Router::new().fallback(answer)));
        verify(&archive, &loader, true, HashSet::new(), &report).await.unwrap();
        let processors = thread::available_parallelism().unwrap().get();
        let most = most.load(Ordering::SeqCst);
        assert!((1..=processors).contains(&most), "{most}");
    }
}
