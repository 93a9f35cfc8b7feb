//! Large contents: a file each, a guarded header row with its state, and rows with the checksums of
//! its blocks (`sums.rs`).
//!
//! The header is written before the file and removed after it, so a file without a header is a
//! leftover. A content is sealed only after its file and the file's name are synced. The last
//! checksums appear with the header that says that it is sealed, and are removed with the header.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use store::lifecycle::{self, ToCondemn, ToDelete};
use store::{
    Call, Class, Condition, ContentHeader, ContentId, ContentState, ContentStream, Deadline, Expect, Guard, NewRow,
    Outcome, Stamp, Step, StoreError, StoreResult, Table,
};
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use tokio::time::{timeout, timeout_at};

use crate::engine::EmbeddedStore;
use crate::files::{io_error, sync_folder};
use crate::header::{HEADER, corrupt, encode_header, header_in, path};
use crate::key;
use crate::once;
use crate::plan::{Change, Plan, RowAddress};
use crate::private;
use crate::reading::Reading;
use crate::sums::{self, BLOCK_BYTES, Summing, SumsRow, sums_in};
use crate::tables::View;

/// Bytes of an upload after which the free disk space is checked again.
const ROOM_CHECK_BYTES: u64 = 8 << 20;

impl EmbeddedStore {
    /// The header of a content, and its stamp. The lease of an upload that no longer runs has
    /// ended: only this process holds the folder, so no other one can continue the upload.
    pub(crate) async fn header(
        &self,
        deadline: Deadline,
        id: ContentId,
    ) -> StoreResult<Option<(Stamp, ContentHeader)>> {
        self.header_of(Call::new(Class::Content, deadline), id).await
    }

    /// The same for a call.
    pub(crate) async fn header_of(&self, call: Call, id: ContentId) -> StoreResult<Option<(Stamp, ContentHeader)>> {
        let now = self.now();
        let found = self.read_of(call, Table::Contents.lane(), move |view| header_in(view, id, now)).await?;
        Ok(found.map(|(stamp, mut header)| {
            if header.state == ContentState::Uploading && !self.uploads.lock().contains(&id) {
                header.lease_until = header.lease_until.min(now);
            }
            (stamp, header)
        }))
    }

    /// Changes a header and puts rows with it; `None`: the header is not as expected.
    pub(crate) async fn change_header(
        &self,
        deadline: Deadline,
        id: ContentId,
        expect: Expect,
        header: &ContentHeader,
        rows: Vec<NewRow>,
    ) -> StoreResult<Option<Stamp>> {
        let guard = Guard { stamp: Stamp::fresh(), tag: Bytes::new() };
        let stamp = guard.stamp;
        let (table, partition) = (Table::Contents, Bytes::copy_from_slice(&id.0));
        let write = Step::CompareAndWrite {
            table,
            partition: partition.clone(),
            sort: HEADER,
            expect,
            guard,
            value: encode_header(id, header)?,
        };
        let plan = Plan::new(vec![write, Step::Put { table, partition, rows }])?;
        let plan = if header.state == ContentState::Condemned { plan.removing() } else { plan };
        match self.submit(deadline, plan).await? {
            Outcome::Applied => Ok(Some(stamp)),
            Outcome::Refused { .. } => Ok(None),
            Outcome::Unknown { reason } => Err(StoreError::Unavailable(format!("content {id}: {reason}"))),
        }
    }

    pub(crate) async fn upload(
        &self,
        call: Call,
        id: ContentId,
        owner: Bytes,
        content: ContentStream,
    ) -> StoreResult<()> {
        let mut upload = Upload::begin(self, call.deadline.remaining(), id, owner).await?;
        match upload.take(content).await {
            Ok(()) => Ok(()),
            Err(error) => {
                upload.abandon().await;
                Err(error)
            }
        }
    }

    pub(crate) async fn download(
        &self,
        call: Call,
        id: ContentId,
        range: Range<u64>,
    ) -> StoreResult<Option<ContentStream>> {
        let Some(sealed) = self.sealed(call, id, range.start).await? else { return Ok(None) };
        let range = range.start.min(sealed.len)..range.end.min(sealed.len);
        let database = self.database()?;
        let path = path(&database.folder.contents(), id);
        let opened = timeout_at(call.deadline.0, File::open(&path)).await;
        let file = match opened.map_err(|_| StoreError::DeadlinePassed)? {
            Ok(file) => file.into_std().await,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Removed since the header was read, or lost.
                return match self.sealed(call, id, range.start).await? {
                    Some(_) => Err(corrupt(id, "its file is missing")),
                    None => Ok(None),
                };
            }
            Err(error) => return Err(io_error("opening", &path, error)),
        };
        let reading = Reading {
            id,
            file: Arc::new(file),
            len: sealed.len,
            left: range,
            sums: sealed.sums,
            database: Arc::downgrade(&database),
            now: self.now(),
            step: call.deadline.remaining(),
            is_once: call.is_once,
        };
        if reading.is_once {
            once::begin(&reading.file);
        }
        Ok(Some(reading.pieces()))
    }

    /// A sealed content, with the checksums of the block that holds the byte at `from`.
    async fn sealed(&self, call: Call, id: ContentId, from: u64) -> StoreResult<Option<Sealed>> {
        let now = self.now();
        let read = move |view: &View<'_>| {
            let header = header_in(view, id, now)?.map(|(_, header)| header);
            let Some(header) = header.filter(|header| header.state == ContentState::Sealed) else { return Ok(None) };
            let sums = match from < header.len {
                true => Some(sums_in(view, id, sums::row_of(from / BLOCK_BYTES), now)?),
                false => None,
            };
            Ok(Some(Sealed { len: header.len, sums }))
        };
        self.read_of(call, Table::Contents.lane(), read).await
    }

    pub(crate) async fn condemn(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        loop {
            match lifecycle::to_condemn(self.header(deadline, id).await?, self.now()) {
                ToCondemn::Answer(answer) => return Ok(answer),
                ToCondemn::Write(stamp, header) => {
                    if self.change_header(deadline, id, Expect::Stamp(stamp), &header, Vec::new()).await?.is_some() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    pub(crate) async fn delete(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        let stamp = match lifecycle::to_delete(self.header(deadline, id).await?) {
            ToDelete::Answer(answer) => return Ok(answer),
            ToDelete::Delete(stamp) => stamp,
        };
        self.remove_file(id).await?;
        let target = RowAddress::new(Table::Contents, &id.0, HEADER)?;
        let drop_sums = Change::RemoveRange { table: target.table, range: key::range(&id.0, &[], None) };
        let drop_header = Change::DropGuarded { target, expect: Expect::Stamp(stamp) };
        match self.submit(deadline, Plan::of(Table::Contents.lane(), vec![drop_sums, drop_header])).await? {
            // Refused: somebody else has deleted it.
            Outcome::Applied | Outcome::Refused { .. } => Ok(true),
            Outcome::Unknown { reason } => Err(StoreError::Unavailable(format!("content {id}: {reason}"))),
        }
    }

    /// Deletes the file of a content, if there is one.
    pub(crate) async fn remove_file(&self, id: ContentId) -> StoreResult<()> {
        let path = path(&self.database()?.folder.contents(), id);
        let _no_cut = self.removals.read().await;
        match fs::remove_file(&path).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error("removing", &path, error)),
            _ => Ok(()),
        }
    }
}

/// What is known of a sealed content before its file is opened.
struct Sealed {
    len: u64,
    /// Those of the first wanted blocks; `None`: no byte is wanted.
    sums: Option<SumsRow>,
}

/// An entry in the list of uploads that this process runs.
struct Running {
    uploads: Arc<Mutex<HashSet<ContentId>>>,
    id: ContentId,
}

impl Running {
    fn begin(store: &EmbeddedStore, id: ContentId) -> StoreResult<Arc<Self>> {
        let uploads = store.uploads.clone();
        let is_new = uploads.lock().insert(id);
        if is_new { Ok(Arc::new(Self { uploads, id })) } else { Err(lifecycle::taken(id)) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.uploads.lock().remove(&self.id);
    }
}

/// An upload under way.
struct Upload<'a> {
    store: &'a EmbeddedStore,
    id: ContentId,
    /// Until the upload has ended, or its client has gone.
    running: Arc<Running>,
    /// How long each step may take.
    step: Duration,
    header: ContentHeader,
    stamp: Stamp,
    path: PathBuf,
    summing: Summing,
}

impl<'a> Upload<'a> {
    /// Writes the header before there is a file, so that no file is ever unknown.
    async fn begin(store: &'a EmbeddedStore, step: Duration, id: ContentId, owner: Bytes) -> StoreResult<Self> {
        store.check_room(0)?;
        // Before there is a header, so that no header of it is ever without its entry.
        let running = Running::begin(store, id)?;
        let header = lifecycle::begun(owner, store.now(), store.options().content_lease);
        let path = path(&store.database()?.folder.contents(), id);
        let stamp = store
            .change_header(Deadline::within(step), id, Expect::Absent, &header, Vec::new())
            .await?
            .ok_or_else(|| lifecycle::taken(id))?;
        Ok(Self { store, id, running, step, header, stamp, path, summing: Summing::new(id) })
    }

    async fn take(&mut self, mut content: ContentStream) -> StoreResult<()> {
        let mut file =
            make_file(&self.path, self.running.clone()).await.map_err(|error| io_error("making", &self.path, error))?;
        let mut unchecked_bytes = 0;
        while let Some(piece) = self.in_time(content.next()).await? {
            let piece = piece?;
            unchecked_bytes += piece.len() as u64;
            if unchecked_bytes >= ROOM_CHECK_BYTES {
                self.store.check_room(unchecked_bytes)?;
                unchecked_bytes = 0;
            }
            let written = self.in_time(file.write_all(&piece)).await?;
            written.map_err(|error| io_error("writing", &self.path, error))?;
            self.header.len += piece.len() as u64;
            for row in self.summing.update(&piece)? {
                self.put_sums(row).await?;
            }
            self.renew_lease().await?;
        }
        self.sync(file).await?;
        let summing = std::mem::replace(&mut self.summing, Summing::new(self.id));
        self.write_header(lifecycle::sealed(&self.header), summing.end()?.into_iter().collect()).await
    }

    /// Puts a row of checksums, unless the upload was condemned meanwhile: then nothing would
    /// remove the row.
    async fn put_sums(&self, row: NewRow) -> StoreResult<()> {
        let (table, partition) = (Table::Contents, Bytes::copy_from_slice(&self.id.0));
        let condition = Condition::Stamp(self.stamp);
        let still_ours = Step::Require { table, partition: partition.clone(), sort: HEADER, condition };
        let put = Step::Put { table, partition, rows: vec![row] };
        match self.store.submit(Deadline::within(self.step), Plan::new(vec![still_ours, put])?).await? {
            Outcome::Applied => Ok(()),
            Outcome::Refused { .. } => Err(lifecycle::lost(self.id)),
            Outcome::Unknown { reason } => Err(StoreError::Unavailable(format!("content {}: {reason}", self.id))),
        }
    }

    /// Makes the file and its name durable.
    async fn sync(&self, mut file: File) -> StoreResult<()> {
        let synced = self.in_time(async {
            file.flush().await?;
            file.sync_all().await
        });
        synced.await?.map_err(|error| io_error("syncing", &self.path, error))?;
        let path = self.path.clone();
        // The shard's folder may be as new as the file.
        let synced = tokio::task::spawn_blocking(move || path.ancestors().skip(1).take(2).try_for_each(sync_folder));
        self.in_time(synced).await?.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    async fn renew_lease(&mut self) -> StoreResult<()> {
        match lifecycle::renewed(&self.header, self.store.now(), self.store.options().content_lease) {
            Some(header) => self.write_header(header, Vec::new()).await,
            None => Ok(()),
        }
    }

    /// Writes the next header, and puts rows with it.
    async fn write_header(&mut self, header: ContentHeader, rows: Vec<NewRow>) -> StoreResult<()> {
        let expect = Expect::Stamp(self.stamp);
        let deadline = Deadline::within(self.step);
        let changed = self.store.change_header(deadline, self.id, expect, &header, rows).await?;
        self.stamp = changed.ok_or_else(|| lifecycle::lost(self.id))?;
        self.header = header;
        Ok(())
    }

    /// Waits for one step of the upload.
    async fn in_time<T>(&self, step: impl Future<Output = T>) -> StoreResult<T> {
        timeout(self.step, step).await.map_err(|_| StoreError::DeadlinePassed)
    }

    /// Deletes what the upload has written. If that fails, a sweep does it.
    async fn abandon(mut self) {
        let abandoned = async {
            self.write_header(lifecycle::condemned(&self.header), Vec::new()).await?;
            self.store.delete(Deadline::within(self.step), self.id).await
        };
        if let Err(error) = abandoned.await {
            tracing::warn!(content = %self.id, %error, "an abandoned upload cannot be deleted now; a sweep deletes it later");
        }
    }
}

/// Makes a file, and its shard's folder if it does not exist. The upload runs at least until it is
/// made, so that no sweep comes before.
async fn make_file(path: &Path, running: Arc<Running>) -> std::io::Result<File> {
    let path = path.to_owned();
    let made = tokio::task::spawn_blocking(move || {
        path.parent().map_or(Ok(()), private::create_folders)?;
        let file = private::create_new(&path);
        drop(running);
        file
    });
    made.await.map_err(std::io::Error::other)?.map(File::from_std)
}
