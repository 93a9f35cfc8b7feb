//! The versions of resources that the history keeps: what was in force at some time, and which
//! members a container had then.

use std::cmp::Ordering;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use heads::as_of::{MembersAsOf, PastMember};
use heads::containment::Container;
use heads::head::ObjectState;
use heads::keys;
use heads::path::ResourcePath;
use heads::received::{ReceivedVersion, ReceivedVersions};
use heads::resource_body::Kind;
use heads::revision::RevisionId;
use heads::timeline::{Shown, Timeline, Version};
use heads::{Head, Keep};
use sha2::{Digest, Sha256};
use store::{Strength, boxed, stored};
use tokio::sync::OnceCell;

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::read::Child;
use crate::received::NO_PLACE;
use crate::resource::Resource;

/// Deletions that are looked up at the same time.
const DELETED_AT_ONCE: usize = 8;

/// The versions at a path: of the resource there, of one that was deleted, and of others that were
/// there before. A version is a [`Resource`] that can be read like the current one. A change that
/// is based on it fails with [`ResourceError::Moved`].
///
/// Most versions are changes that were made here. Others were received with their times
/// (`received.rs`): lists have both kinds, and what there was as of a time is of changes only.
pub struct Versions {
    repository: Repository,
    path: ResourcePath,
    pub(crate) timeline: Timeline,
    /// Changes before this one are not shown.
    from: RevisionId,
    is_shown: Shown,
    /// Whether only received versions of binaries are shown.
    of_binaries: bool,
    /// The incarnation whose received versions are shown; `None`: those of all.
    received_by: Option<RevisionId>,
    received: OnceCell<Received>,
}

/// The received versions at a path.
struct Received {
    list: ReceivedVersions,
    /// Earlier ones are not kept.
    from: RevisionId,
}

/// What happened to a resource, as its heads say. That a version was restored is not in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created, for the first time at its path.
    Created,
    /// It was created, or brought back, where there had been something before.
    CreatedAgain,
    /// Its description changed.
    Description,
    /// Its bytes changed.
    Bytes,
    /// Both changed.
    DescriptionAndBytes,
    /// Nothing changed: a client asked for a version.
    Nothing,
    /// Nothing changed: a client sent a version of this time.
    Received,
    /// It was deleted.
    Deleted,
}

impl Change {
    fn of(head: &Head) -> Self {
        let Some(resource) = head.live_resource() else { return Self::Deleted };
        let has_new_bytes = resource.binary().is_some_and(|binary| binary.revision == head.revision);
        match (head.revision == head.incarnation, resource.description.revision == head.revision, has_new_bytes) {
            (true, ..) if head.logged == 0 => Self::Created,
            (true, ..) => Self::CreatedAgain,
            (false, true, false) => Self::Description,
            (false, false, true) => Self::Bytes,
            (false, true, true) => Self::DescriptionAndBytes,
            (false, false, false) => Self::Nothing,
        }
    }
}

/// What a version says: two versions with the same fingerprint have the same description and the
/// same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of the version which begins with a head. A container has none: its head does not say
    /// what is in it.
    fn of(head: &Head) -> Option<Self> {
        let resource = head.live_resource()?;
        let bytes = match &resource.kind {
            Kind::Container { .. } => return None,
            Kind::RdfSource => None,
            Kind::Binary(binary) => Some((binary.sha256, &binary.media_type, &binary.disposition, binary.elsewhere())),
        };
        let all = stored::encode(&(resource.description.sha256, bytes)).ok()?;
        Some(Self(Sha256::digest(all).into()))
    }
}

/// A moment in the history of a resource: a version begins, or there is none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The version; of [`Change::Deleted`], the head that ended it.
    pub version: Version,
    /// What happened.
    pub change: Change,
    /// The length of the bytes that are stored here from then on.
    pub len_bytes: Option<u64>,
    /// What the version says; `None` of [`Change::Deleted`], and of a container.
    pub fingerprint: Option<Fingerprint>,
}

impl Moment {
    fn of(head: &Head) -> Self {
        let binary = head.live_resource().and_then(|resource| resource.binary());
        let len_bytes = binary.filter(|binary| binary.elsewhere().is_none()).map(|binary| binary.len_bytes);
        Self { version: Version::of(head), change: Change::of(head), len_bytes, fingerprint: Fingerprint::of(head) }
    }
}

/// The members of a container as of a time.
pub struct PastMembers(MembersAsOf);

impl PastMembers {
    /// About `max` more members; `None` if there are no more.
    #[boxed]
    pub async fn more(&mut self, max: usize) -> ResourceResult<Option<Vec<Child>>> {
        let members = self.0.more(max).await?;
        Ok(members.map(|members| members.into_iter().map(|member| Child::of(member.found)).collect()))
    }

    /// The same, with the incarnations that were the members.
    #[boxed]
    pub async fn more_incarnations(&mut self, max: usize) -> ResourceResult<Option<Vec<(String, RevisionId)>>> {
        let named = |PastMember { found, incarnation }| (found.name, incarnation);
        Ok(self.0.more(max).await?.map(|members| members.into_iter().map(named).collect()))
    }
}

impl Repository {
    /// Whether earlier versions of the resource at a path are kept.
    pub fn keeps_versions(&self, path: &ResourcePath) -> bool {
        self.heads.options().kept_at(path).keeps_versions()
    }

    /// Whether only those versions of the resource at a path are kept that a client asked for.
    pub fn are_versions_explicit(&self, path: &ResourcePath) -> bool {
        self.heads.options().kept_at(path) == Keep::Explicit
    }

    /// Whether it is known what was at a path when exactly the revisions below `below` had been
    /// made: the version and, of a container, all members. If a number of versions is kept, that
    /// depends on each member.
    pub fn knows_as_of(&self, path: &ResourcePath, below: RevisionId) -> bool {
        match self.heads.options().kept_at(path) {
            Keep::All => true,
            Keep::For(time) => self.heads.now().since(below.time()) < time,
            Keep::None | Keep::Newest(_) | Keep::Explicit => false,
        }
    }

    /// Begins to list the members that a version of a container had when exactly the revisions
    /// below `below` had been made.
    #[boxed]
    pub async fn members_as_of(&self, version: &Resource, below: RevisionId) -> ResourceResult<PastMembers> {
        let container = Container::At(version.path().clone());
        Ok(PastMembers(self.heads.members_as_of(&container, version.incarnation(), below).await?))
    }

    /// Begins to list the members that a container had when it was deleted: `version` is a version
    /// of it, and `deleted` the revision of that.
    #[boxed]
    pub async fn last_members(&self, version: &Resource, deleted: RevisionId) -> ResourceResult<PastMembers> {
        let container = Container::At(version.path().clone());
        Ok(PastMembers(self.heads.last_members(&container, version.incarnation(), deleted).await?))
    }

    /// Begins to list the members that a container ever had, as far as they are kept. `version` is the
    /// newest of `versions`. A name that was used several times may be there several times. Of a
    /// container that is there, most members that are there are left out.
    #[boxed]
    pub async fn members_ever(&self, versions: &Versions, version: &Resource) -> ResourceResult<PastMembers> {
        match versions.timeline.current().head.state {
            ObjectState::Live => {
                let container = Container::At(version.path().clone());
                Ok(PastMembers(self.heads.lost_members(&container, version.incarnation()).await?))
            }
            // None was removed before the first revision.
            _ => self.last_members(version, RevisionId::ZERO).await,
        }
    }

    /// The revisions that deleted what was at these paths, as [`Repository::deleted`] says them.
    #[boxed]
    pub async fn deleted_among(&self, paths: &[ResourcePath]) -> ResourceResult<Vec<Option<RevisionId>>> {
        let partitions: Vec<_> = paths.iter().map(keys::resource_partition).collect();
        let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
        let mut lookups = Vec::with_capacity(paths.len());
        for (path, head) in paths.iter().zip(heads) {
            let is_deleted = head?.is_some_and(|row| row.head.state == ObjectState::Deleted);
            lookups.push(self.deleted_if(is_deleted, path).boxed());
        }
        stream::iter(lookups).buffered(DELETED_AT_ONCE).try_collect().await
    }

    async fn deleted_if(&self, is_deleted: bool, path: &ResourcePath) -> ResourceResult<Option<RevisionId>> {
        if is_deleted { self.deleted(path).await } else { Ok(None) }
    }

    /// The revision that deleted what was at a path; `None` if there is no tombstone, or no version is
    /// kept.
    #[boxed]
    pub async fn deleted(&self, path: &ResourcePath) -> ResourceResult<Option<RevisionId>> {
        if !self.keeps_versions(path) {
            return Ok(None);
        }
        let versions = match self.versions(path).await {
            Err(ResourceError::Absent(_)) => return Ok(None),
            versions => versions?,
        };
        if versions.timeline.current().head.state != ObjectState::Deleted {
            return Ok(None);
        }
        match versions.newest_change_below(RevisionId::LAST).await? {
            // The deletion of a container begins before that of its members.
            Some(newest) => self.end_of(&newest).await,
            None => Ok(None),
        }
    }

    /// Whether nothing can happen any more that has a revision below `below`.
    pub fn is_settled(&self, below: RevisionId) -> bool {
        below.time() <= self.heads.horizon()
    }

    /// The revision that ended the incarnation of a version, if it ended.
    #[boxed]
    pub async fn end_of(&self, version: &Resource) -> ResourceResult<Option<RevisionId>> {
        let partition = keys::resource_partition(version.path());
        let end = || async { self.heads.end_of(&partition, version.incarnation()).await };
        Ok(self.heads.retry_transient(end).await?.map(|head| head.revision))
    }

    /// The versions at a path, also if what was there is deleted. Fails with
    /// [`ResourceError::Absent`] if there never was a resource.
    #[boxed]
    pub async fn versions(&self, path: &ResourcePath) -> ResourceResult<Versions> {
        let keep = self.heads.options().kept_at(path);
        let timeline = self.heads.timeline(&keys::resource_partition(path), keep).await?;
        let timeline = timeline.ok_or_else(|| ResourceError::Absent(path.clone()))?;
        let (repository, from) = (self.clone(), timeline.kept_from());
        let (of_binaries, received_by, received) = (false, None, OnceCell::new());
        let path = path.clone();
        Ok(Versions { repository, path, timeline, from, is_shown: |_| true, of_binaries, received_by, received })
    }

    /// The versions of the resource that exists at a path, since it was created last. Fails like
    /// [`Repository::resource`].
    pub async fn versions_of_existing(&self, path: &ResourcePath) -> ResourceResult<Versions> {
        let resource = self.resource(path).await?;
        let versions = self.versions(path).await?;
        let received_by = Some(resource.incarnation());
        Ok(Versions { from: versions.from.max(resource.incarnation()), received_by, ..versions })
    }

    /// The versions at a path of which clients may know: all ([`Repository::versions`]), or none of
    /// what was deleted ([`Repository::versions_of_existing`]).
    #[boxed]
    pub async fn versions_shown(&self, path: &ResourcePath, shows_deleted: bool) -> ResourceResult<Versions> {
        match shows_deleted {
            true => self.versions(path).await,
            false => self.versions_of_existing(path).await,
        }
    }
}

impl Versions {
    /// Only those of binaries, which alone have a description of their own.
    #[must_use]
    pub fn of_binaries(self) -> Self {
        let is_shown = |head: &Head| head.body.resource().is_some_and(|resource| resource.binary().is_some());
        Self { is_shown, of_binaries: true, ..self }
    }

    /// The path.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// Whether there is a resource now.
    pub fn is_live(&self) -> bool {
        self.timeline.current().head.state == ObjectState::Live
    }

    /// The first revision whose version is kept.
    pub fn from(&self) -> RevisionId {
        self.from
    }

    /// The revision of the newest head: of the last version, or of a deletion after it.
    pub fn newest(&self) -> RevisionId {
        self.timeline.current().head.revision
    }

    /// The current version; `None` if it is deleted.
    pub(super) fn current(&self) -> Option<Resource> {
        Resource::of(self.path.clone(), self.timeline.current().clone())
    }

    /// The list of received versions, which is read once.
    async fn all_received(&self) -> ResourceResult<&Received> {
        let read = || async {
            let (heads, object) = (&self.repository.heads, keys::resource_partition(&self.path));
            let list = heads.received(&object).await?;
            let from = match list.versions.is_empty() {
                true => RevisionId::ZERO,
                false => {
                    let keep = heads.options().kept_at(&self.path);
                    heads.received_kept_from(&object, &self.timeline.current().head, keep).await?
                }
            };
            Ok::<_, ResourceError>(Received { list, from })
        };
        self.received.get_or_try_init(read).await
    }

    /// The received versions that can be read, oldest first.
    pub(crate) async fn received(&self) -> ResourceResult<Vec<ReceivedVersion>> {
        let Received { list, from } = self.all_received().await?;
        let is_shown = |version: &&ReceivedVersion| {
            !version.is_removed
                && version.revision() >= *from
                && (version.is_binary || !self.of_binaries)
                && self.received_by.is_none_or(|incarnation| version.incarnation == incarnation)
        };
        Ok(list.versions.iter().filter(is_shown).copied().collect())
    }

    /// Whether a version was ever received, removed or not.
    #[boxed]
    pub async fn has_received(&self) -> ResourceResult<bool> {
        Ok(!self.all_received().await?.list.versions.is_empty())
    }

    /// That of two versions which is `preferred`: a change, and one that was received.
    async fn either(
        &self,
        change: Option<Resource>,
        received: Option<ReceivedVersion>,
        preferred: Ordering,
    ) -> ResourceResult<Option<Resource>> {
        let Some(received) = received else { return Ok(change) };
        match change {
            Some(change) if change.revision().cmp(&received.revision()) == preferred => Ok(Some(change)),
            _ => Ok(Some(self.repository.received_version(&self.path, &received).await?)),
        }
    }

    /// The newest version below a revision.
    #[boxed]
    pub async fn newest_below(&self, below: RevisionId) -> ResourceResult<Option<Resource>> {
        let received = self.received().await?.into_iter().rev().find(|version| version.revision() < below);
        self.either(self.newest_change_below(below).await?, received, Ordering::Greater).await
    }

    /// The revision of the newest version below another. Unlike the version, it is also known for
    /// a received version whose state is damaged, or has not arrived yet away from the home of heads.
    #[boxed]
    pub async fn revision_below(&self, below: RevisionId) -> ResourceResult<Option<RevisionId>> {
        let received = self.received().await?.into_iter().map(|version| version.revision());
        let received = received.filter(|revision| *revision < below).max();
        let change = self.newest_change_below(below).await?.map(|change| change.revision());
        Ok(received.max(change))
    }

    /// The newest version below a revision that is a change.
    #[boxed]
    pub async fn newest_change_below(&self, below: RevisionId) -> ResourceResult<Option<Resource>> {
        let row = self.timeline.newest_below(below, self.is_shown).await?.filter(|row| row.head.revision >= self.from);
        Ok(row.and_then(|row| Resource::of(self.path.clone(), row)))
    }

    /// Whether a container is there that is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.timeline.current().head.state == ObjectState::Deleting
    }

    /// The newest version of an incarnation.
    #[boxed]
    pub async fn newest_of(&self, incarnation: RevisionId) -> ResourceResult<Option<Resource>> {
        let row = self.timeline.newest_of(incarnation).await?;
        let row = row.filter(|row| row.head.revision >= self.from && (self.is_shown)(&row.head));
        Ok(row.and_then(|row| Resource::of(self.path.clone(), row)))
    }

    /// The version that was in force when exactly the revisions below `below` had been made.
    #[boxed]
    pub async fn in_force(&self, below: RevisionId) -> ResourceResult<Option<Resource>> {
        let row = self.timeline.in_force(below).await?;
        let row = row.filter(|row| row.head.revision >= self.from && (self.is_shown)(&row.head));
        Ok(row.and_then(|row| Resource::of(self.path.clone(), row)))
    }

    /// Whether a client removed the version that was in force then.
    #[boxed]
    pub async fn was_removed(&self, below: RevisionId) -> ResourceResult<bool> {
        Ok(self.timeline.was_removed(below).await?)
    }

    /// Whether the version that begins with a revision can be read.
    #[boxed]
    pub async fn has(&self, revision: RevisionId) -> ResourceResult<bool> {
        if revision >= self.from && self.timeline.version(revision).await?.is_some() {
            return Ok(true);
        }
        Ok(self.received().await?.iter().any(|version| version.revision() == revision))
    }

    /// The version that begins with a revision, if it can be read. The current one can be read also
    /// if versions are explicit and no client asked for it.
    #[boxed]
    pub async fn at(&self, revision: RevisionId) -> ResourceResult<Option<Resource>> {
        if self.newest() == revision {
            return Ok(self.current());
        }
        let row = self.timeline.version(revision).await?.filter(|row| row.head.revision >= self.from);
        if let Some(change) = row.and_then(|row| Resource::of(self.path.clone(), row)) {
            return Ok(Some(change));
        }
        match self.received().await?.iter().find(|version| version.revision() == revision) {
            Some(received) => Ok(Some(self.repository.received_version(&self.path, received).await?)),
            None => Ok(None),
        }
    }

    /// The oldest version from a revision on.
    #[boxed]
    pub async fn oldest_from(&self, from: RevisionId) -> ResourceResult<Option<Resource>> {
        let received = self.received().await?.into_iter().find(|version| version.revision() >= from);
        self.either(self.oldest_change_from(from).await?, received, Ordering::Less).await
    }

    /// The revision of the oldest version from another on, like [`Versions::revision_below`].
    #[boxed]
    pub async fn revision_from(&self, from: RevisionId) -> ResourceResult<Option<RevisionId>> {
        let received = self.received().await?.into_iter().map(|version| version.revision());
        let received = received.filter(|revision| *revision >= from).min();
        let change = self.oldest_change_from(from).await?.map(|change| change.revision());
        Ok(change.into_iter().chain(received).min())
    }

    async fn oldest_change_from(&self, from: RevisionId) -> ResourceResult<Option<Resource>> {
        let row = self.timeline.oldest_from(from.max(self.from), self.is_shown).await?;
        Ok(row.and_then(|row| Resource::of(self.path.clone(), row)))
    }

    /// At most `max` versions from a revision on and below another, oldest first.
    #[boxed]
    pub async fn page(&self, from: RevisionId, to: RevisionId, max: usize) -> ResourceResult<Vec<Version>> {
        let mut page = self.changes(from, to, max).await?;
        let received = self.received().await?.into_iter();
        let received: Vec<_> = received.filter(|version| (from..to).contains(&version.revision())).collect();
        if !received.is_empty() {
            page.extend(received.iter().map(listed));
            page.sort_unstable_by_key(|version| version.revision);
            page.truncate(max);
        }
        Ok(page)
    }

    /// The same without received versions.
    pub(crate) async fn changes(&self, from: RevisionId, to: RevisionId, max: usize) -> ResourceResult<Vec<Version>> {
        Ok(self.timeline.page(from.max(self.from), to, max, self.is_shown, Version::of).await?)
    }

    /// What happened from a revision on and below another, newest first, with at most `max` versions.
    /// A deletion is there if a version before it is; where versions are explicit, none is.
    #[boxed]
    pub async fn newest_first(&self, from: RevisionId, to: RevisionId, max: usize) -> ResourceResult<Vec<Moment>> {
        let revisions = from.max(self.from)..to;
        let changes = self.timeline.newest_first(revisions, max, self.is_shown, Moment::of).await?;
        let received = self.received().await?.into_iter().rev();
        let received: Vec<_> = received.filter(|version| (from..to).contains(&version.revision())).collect();
        if received.is_empty() {
            return Ok(changes);
        }
        let (mut changes, mut received) = (changes.into_iter().peekable(), received.into_iter().peekable());
        let (mut found, mut versions) = (Vec::new(), 0);
        while versions < max {
            let is_received = match (changes.peek(), received.peek()) {
                (None, None) => break,
                (Some(change), Some(version)) => version.revision() > change.version.revision,
                (_, version) => version.is_some(),
            };
            if !is_received && let Some(change) = changes.next() {
                versions += usize::from(change.change != Change::Deleted);
                found.push(change);
            }
            if is_received && let Some(version) = received.next() {
                let (len_bytes, fingerprint) = match self.repository.received_version(&self.path, &version).await {
                    // Whoever reads it learns why.
                    Err(error) if error.is_damage() => (None, None),
                    state => {
                        let state = Moment::of(state?.head());
                        (state.len_bytes, state.fingerprint)
                    }
                };
                let change = Change::Received;
                found.push(Moment { version: listed(&version), change, len_bytes, fingerprint });
                versions += 1;
            }
        }
        Ok(found)
    }

    /// The first version from a revision on and below another that there ever was; `None` if there
    /// was none. It need be neither kept nor of the chosen kind, and may have been removed.
    #[boxed]
    pub async fn first_ever(&self, from: RevisionId, to: RevisionId) -> ResourceResult<Option<RevisionId>> {
        // Each received version is the first of its second.
        if from >= to {
            return Ok(None);
        }
        let received = self.all_received().await?.list.versions.iter().map(ReceivedVersion::revision);
        let received = received.filter(|revision| (from..to).contains(revision)).min();
        let change = self.timeline.first_ever(from).await?.filter(|revision| *revision < to);
        Ok(change.into_iter().chain(received).min())
    }
}

/// A received version in a list.
fn listed(version: &ReceivedVersion) -> Version {
    Version { revision: version.revision(), incarnation: version.incarnation, place: NO_PLACE }
}
