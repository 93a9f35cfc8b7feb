//! Adds versions whose states and times clients state. `heads/src/received.rs` says how they are
//! stored.

use bytes::Bytes;
use heads::ContainerBody;
use heads::error::{ObjectsError, ObjectsResult, held_up_for_too_long};
use heads::head::{self, Body, Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::queues::Queue;
use heads::received::{RECEIVED_MAX, ReceivedState, ReceivedVersion, ReceivedVersions};
use heads::resource_body::{BytesPlace, Kind, Membership, Part, ResourceBody};
use heads::revision::RevisionId;
use heads::switch::Amends;
use store::{Class, ContentId, NewRow, Removal, Stamp, Step, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::describe;
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::resource::{Resource, Written};
use crate::upload::Uploaded;

/// What a record says of which the work is a received version whose parts are written first.
const RECEIVING: &[u8] = b"v";

/// The number of heads before a received version, for those that compare it with that of others: it
/// follows none, and none follows it.
pub(crate) const NO_PLACE: u64 = u64::MAX - 1;

/// A version with a stated time.
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// Its time: the beginning of a second.
    pub at: UnixMillis,
    /// Its description.
    pub description: Bytes,
    /// Its membership rule, if the resource is a container.
    pub membership: Membership,
    /// Its bytes, if the resource is a binary.
    pub bytes: Option<Uploaded>,
}

/// Whether a record is that of a writer of a received version.
pub(crate) fn is_receiving(value: &Bytes) -> bool {
    envelope::open(ValueKind::SupersededWork, value).is_ok_and(|payload| &payload[..] == RECEIVING)
}

fn refused(why: impl Into<String>) -> ResourceError {
    ResourceError::NotReceived(why.into())
}

/// The state of a received version as a head with a revision. A writer that compares with it is
/// refused.
fn as_head(state: ReceivedState, incarnation: RevisionId, revision: RevisionId) -> Head {
    Head {
        state: ObjectState::Live,
        incarnation,
        revision,
        logged: NO_PLACE,
        body: Body::Resource(state.body),
        is_group: state.is_group,
        ..Head::free()
    }
}

impl Repository {
    /// Fails with [`ResourceError::NotReceived`] if a resource cannot have a version at a time, as
    /// it is now. A version is before the present state, and in no second that has an address
    /// already: one in which another version begins, or in which a container was there.
    #[boxed]
    pub async fn check_receivable(&self, resource: &Resource, at: UnixMillis) -> ResourceResult<()> {
        if self.transaction.is_some() {
            return Err(ResourceError::NotInTransaction("versions are not added"));
        }
        self.heads.store().check_home().map_err(ObjectsError::from)?;
        let [first, end] = [at, UnixMillis(at.0.saturating_add(1_000))].map(RevisionId::first_at);
        if first == RevisionId::ZERO {
            return Err(refused("a version has a time after the first second of 1970"));
        }
        if end > resource.revision() {
            return Err(refused("the present state is that of this time: a version with a time of its own is earlier"));
        }
        let versions = self.versions(&resource.path).await?;
        if versions.in_force(end).await?.is_some_and(|there| there.body.container().is_some()) {
            return Err(refused(
                "a container was there, and its state in each second has an address already, which does not change",
            ));
        }
        if versions.timeline.first_ever(first).await?.is_some_and(|there| there < end) {
            return Err(refused("another version begins in this second"));
        }
        let (object, keep) = (keys::resource_partition(&resource.path), self.heads.options().kept_at(&resource.path));
        if first < self.heads.received_kept_from(&object, resource.head(), keep).await? {
            return Err(refused("no version of this time is kept (history.resources, history.trees)"));
        }
        let list = self.heads.received(&object).await?;
        if list.at(first).is_some() {
            return Err(refused("a version with this time was added before"));
        }
        if list.versions.len() >= RECEIVED_MAX {
            return Err(refused(format!("at most {RECEIVED_MAX} versions with a time of their own can be added")));
        }
        Ok(())
    }

    /// Adds a version with a stated time to a resource. It never becomes the current state, and
    /// changes nothing of what there was as of a time. Fails with [`ResourceError::NotReceived`] if
    /// the version cannot have this time, and with [`ObjectsError::Overloaded`] if its parts took too
    /// long to write: then it is not listed.
    #[boxed]
    pub async fn receive_version(&self, resource: &Resource, new: &NewVersion) -> ResourceResult<Written> {
        self.check_receivable(resource, new.at).await?;
        let (path, base) = (&resource.path, resource.head());
        let object = keys::resource_partition(path);
        let floor = self.heads.received(&object).await?.floor;
        let written = self.heads.revisions().mint_above(base.revision.max(base.floor).max(floor));
        let (now, sort) = (self.heads.now(), keys::superseded(written, path));
        let work = envelope::seal(ValueKind::SupersededWork, RECEIVING);
        let record = self.heads.queued(Queue::Superseded, now, path.as_str().as_bytes(), sort, work);
        let (mut rows, description) = describe::put(&object, written, &new.description)?;
        let kind = match (&resource.body.kind, &new.bytes) {
            (Kind::Binary(_), Some(uploaded)) => Kind::Binary(uploaded.keep(&object, written, &mut rows)),
            (Kind::Container { .. }, None) => {
                Kind::Container { membership: new.membership.clone(), children: ContainerBody::new(0) }
            }
            (Kind::RdfSource, None) => Kind::RdfSource,
            _ => return Err(ObjectsError::Internal("a received version of another kind".to_owned()).into()),
        };
        let state = ReceivedState { body: ResourceBody { kind, description }, is_group: base.is_group };
        let content = content_of(&state);
        let row = NewRow::new(keys::received_version(written), head::seal(&state)?);
        let partition = keys::version(&object, written);
        // The record is first, so that whatever is written is also listed or deleted.
        rows.insert(0, record.put());
        rows.push(Step::Put { table: Table::Objects, partition, rows: vec![row] });
        self.heads.put_acknowledged(Class::Description, rows).await?;
        let version = ReceivedVersion {
            at: new.at,
            written,
            incarnation: base.incarnation,
            is_binary: new.bytes.is_some(),
            content,
            is_removed: false,
        };
        // Like a switch of a head. A server that was suspended meanwhile does not list a version whose
        // content was collected.
        let until = now.plus(self.heads.options().switch_within);
        let in_time = |list: &ReceivedVersions| (self.heads.now() < until).then(|| list.with(version)).flatten();
        let added = self.heads.change_received(&object, Amends::Adding, &in_time).await;
        // What the list names must stay, and after an error it may name this version.
        let list = added.map_err(|error| error.if_unsure(true))?;
        if !list.has(written) {
            self.check_receivable(resource, new.at).await?;
            if list.floor < written && self.heads.now() >= until {
                return Err(held_up_for_too_long().into());
            }
            return Err(ResourceError::Moved(path.clone()));
        }
        let as_written = as_head(state, base.incarnation, written);
        self.heads.announce_received(&object, &as_written, base).await;
        Ok(Written { path: path.clone(), revision: version.revision() })
    }

    /// A received version as a resource that can be read; its revision says where it is among the
    /// versions.
    pub(crate) async fn received_version(
        &self,
        path: &ResourcePath,
        version: &ReceivedVersion,
    ) -> ObjectsResult<Resource> {
        let state = self.received_state(&keys::resource_partition(path), version.written).await?;
        let state = state.ok_or_else(|| self.missing(Table::Objects, "the state of a received version"))?;
        let head = as_head(state, version.incarnation, version.revision());
        let strange = || ObjectsError::corrupt(Table::Objects, "the state of a received version is no resource's");
        Resource::of(path.clone(), HeadRow { head, stamp: Stamp([0; 16]) }).ok_or_else(strange)
    }

    /// The state of the received version that a revision wrote, if there is one.
    async fn received_state(&self, object: &Bytes, written: RevisionId) -> ObjectsResult<Option<ReceivedState>> {
        let (partition, sort) = (keys::version(object, written), keys::received_version(written));
        let read = || async {
            let call = self.heads.call(Class::Description).strong();
            Ok(self.heads.store().get(call, Table::Objects, &partition, &sort).await?)
        };
        let row = self.heads.retry_transient(read).await?;
        row.map(|row| head::open(Table::Objects, &row.value)).transpose()
    }

    /// Removes a received version for good. `path`, `current` are those of its resource.
    pub(crate) async fn remove_received(
        &self,
        path: &ResourcePath,
        version: &ReceivedVersion,
        current: &Head,
    ) -> ResourceResult<()> {
        let object = keys::resource_partition(path);
        self.mark_received_removed(path, &[version.revision()], current).await?;
        match self.received_state(&object, version.written).await {
            Ok(Some(state)) => {
                let as_written = as_head(state, version.incarnation, version.written);
                self.heads.announce_received(&object, &as_written, current).await;
            }
            // The whole pass of a copy brings it.
            Ok(None) => {}
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Marks received versions as removed, each with a record by which its parts are deleted.
    pub(crate) async fn mark_received_removed(
        &self,
        path: &ResourcePath,
        removed: &[RevisionId],
        current: &Head,
    ) -> ObjectsResult<()> {
        let floor = current.revision.max(current.floor);
        // The records are first, so that whatever is marked is also deleted.
        let noted = removed.iter().map(|revision| self.removing(path, *revision, floor)).collect();
        self.heads.put_owed(noted).await?;
        let object = keys::resource_partition(path);
        self.heads.change_received(&object, Amends::Removing, &|list| list.without(removed)).await?;
        Ok(())
    }

    /// Records again that received versions were removed, for a store whose records may be lost.
    #[boxed]
    pub async fn record_received_removals(&self, path: &ResourcePath) -> ObjectsResult<()> {
        let list = self.heads.received(&keys::resource_partition(path)).await?;
        let removed = list.versions.iter().filter(|version| version.is_removed);
        let noted: Vec<_> =
            removed.map(|version| self.removing(path, version.revision(), version.written.max(list.floor))).collect();
        if noted.is_empty() {
            return Ok(());
        }
        self.heads.put_acknowledged(Class::Description, noted).await
    }

    /// Deletes what a received version wrote that was removed or is not listed: its state last,
    /// which names its content. `listed` is the content that the list names.
    pub(crate) async fn delete_received(
        &self,
        object: &Bytes,
        written: RevisionId,
        listed: Option<ContentId>,
    ) -> ObjectsResult<()> {
        let state = match self.received_state(object, written).await {
            // A content that no list names is collected.
            Err(error) if error.is_damage() => None,
            state => state?,
        };
        let content = listed.or_else(|| content_of(state.as_ref()?));
        self.remove_written(object, vec![((written, Part::Description), None), ((written, Part::Bytes), content)])
            .await?;
        let rows = Removal::Rows(vec![keys::received_version(written)]);
        let step = Step::Remove { table: Table::Objects, partition: keys::version(object, written), rows };
        self.heads.put_acknowledged(Class::Description, vec![step]).await
    }

    /// Whether a received version of an object names a content, removed or not: that of a removed
    /// one is deleted with its parts, a grace later.
    pub(crate) async fn is_received(&self, id: ContentId, object: &Bytes) -> ObjectsResult<bool> {
        Ok(self.heads.received(object).await?.versions.iter().any(|version| version.content == Some(id)))
    }
}

fn content_of(state: &ReceivedState) -> Option<ContentId> {
    match &state.body.binary()?.place {
        BytesPlace::Content(id) => Some(*id),
        BytesPlace::Row | BytesPlace::Elsewhere(_) => None,
    }
}
