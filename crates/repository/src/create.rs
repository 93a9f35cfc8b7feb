//! Creates resources: at a path of the client's choice, or under a new name in a container.

use bytes::Bytes;
use futures::FutureExt;
use heads::child::Creation;
use heads::claim::{Claim, Holder};
use heads::container_body::ContainerBody;
use heads::containment::{Container, Parent};
use heads::error::ObjectsResult;
use heads::head::{Body, HeadRow, ObjectState};
use heads::keys;
use heads::path::{NAME_BYTES_MAX, ResourcePath};
use heads::resource_body::{Binary, BytesPlace, Kind, Membership, ResourceBody};
use heads::retries::Tries;
use heads::retries::changes_all_the_time;
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::switch::Switched;
use store::{ContentId, NewRow, Random, Step, Table, ValueKind, boxed, envelope};

use crate::describe;
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::read::{End, Located};
use crate::resource::{Resource, Written};
use crate::upload::{Uploaded, UploadedPlace};

/// Characters of the random part of a new name, of 5 bits each.
const FRESH_CHARS: usize = 20;
/// Characters that are appended to a name that is taken.
const ADDED_CHARS: usize = 8;
/// The alphabet of names (Crockford's base 32): easy to read aloud.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A resource to be created.
#[derive(Clone, Debug)]
pub struct NewResource {
    /// Its kind.
    pub kind: NewKind,
    /// Its description.
    pub description: Bytes,
    /// The member that its container derives from it, if that is not the resource itself.
    pub member: Option<String>,
    /// The resource of this repository to which it gives members, if it is a container that gives
    /// members to another resource.
    pub members_for: Option<ResourcePath>,
    /// The resources of this repository that its description refers to, each once.
    pub refers_to: Vec<ResourcePath>,
}

/// The kind of a new resource.
#[derive(Clone, Debug)]
pub enum NewKind {
    /// A description only.
    RdfSource,
    /// A container.
    Container(Membership),
    /// A container that is an archival group.
    Group(Membership),
    /// Bytes.
    Binary(Uploaded),
}

impl NewResource {
    /// A Basic Container with an empty description.
    pub fn empty_container() -> Self {
        Self {
            kind: NewKind::Container(Membership::Basic),
            description: Bytes::new(),
            member: None,
            members_for: None,
            refers_to: Vec::new(),
        }
    }
}

impl Repository {
    /// Creates a resource at a path, and the missing containers above it. Fails with
    /// [`ResourceError::Exists`] if there is a resource, [`ResourceError::Gone`] if one was deleted
    /// there.
    #[boxed]
    pub async fn create(&self, path: &ResourcePath, new: &NewResource) -> ResourceResult<Written> {
        self.create_at(path, new, Over::Nothing).await
    }

    /// The same, also in place of a tombstone at the path: one write ends the tombstone and creates
    /// the resource, so a creation that is refused leaves the tombstone. Fails with
    /// [`ResourceError::Moved`] if what was there is still being deleted, and in a transaction.
    #[boxed]
    pub async fn create_over(&self, path: &ResourcePath, new: &NewResource) -> ResourceResult<Written> {
        if self.transaction.is_some() {
            return Err(ResourceError::NotInTransaction("tombstones are not removed"));
        }
        self.create_at(path, new, Over::Tombstone).await
    }

    async fn create_at(&self, path: &ResourcePath, new: &NewResource, over: Over) -> ResourceResult<Written> {
        if path.is_root() {
            return Err(ResourceError::Exists(path.clone()));
        }
        let chain: Vec<_> = path.chain().collect();
        let mut tries = Tries::default();
        loop {
            let located = self.locate(path).await?;
            let group = located.group(path);
            let Located { live, end, at_end } = located;
            let at = chain.get(live.len()).unwrap_or(path);
            match end {
                End::There => return Err(ResourceError::Exists(path.clone())),
                End::Gone if over == Over::Tombstone && at == path => {
                    // A container that is still being deleted has no tombstone yet.
                    if at_end.as_ref().is_none_or(|row| row.head.state != ObjectState::Deleted) {
                        return Err(ResourceError::Moved(path.clone()));
                    }
                }
                End::Gone => return Err(ResourceError::Gone { tombstone: at.clone() }),
                End::Vacant => {}
            }
            self.may_be_in(group.as_ref(), path, new)?;
            let above = live.len().checked_sub(1).and_then(|last| Some((chain.get(last)?, live.last()?)));
            let parent = self.container_above(above).await?;
            let is_path = at == path;
            let is_new = match above {
                Some((above, row)) => self.is_new_here(above, &row.head).await?,
                None => false,
            };
            let parent = Above { parent: &parent, is_new, group: group.as_ref() };
            let made = match is_path {
                true => self.try_create(parent, at.name(), at_end, new, false).await?,
                false => self.try_create(parent, at.name(), at_end, &NewResource::empty_container(), true).await?,
            };
            match made {
                Made::Created(revision) if is_path => return Ok(Written { path: path.clone(), revision }),
                Made::Created(_) => continue,
                Made::Not => {}
            }
            if !tries.again().await {
                return Err(changes_all_the_time(format!("/{path}"), false).into());
            }
        }
    }

    /// Creates a resource in a container, under the requested name if it was never used, otherwise
    /// under a new one. The resource may depend on its path: `make` is called for each path that is
    /// tried.
    pub async fn create_in<E: From<ResourceError>>(
        &self,
        container: &ResourcePath,
        wish: Option<&str>,
        make: impl Fn(&Resource, &ResourcePath) -> Result<NewResource, E>,
    ) -> Result<Written, E> {
        let random = &*self.heads.surroundings().random;
        let mut wish = wish.map(shortened);
        let mut name = None;
        let mut tries = Tries::default();
        loop {
            let resource = self.resource(container).await?;
            let parent = Parent::of(&Container::At(container.clone()), &resource.row, self.heads.rules())
                .ok_or_else(|| ResourceError::NotAContainer(container.clone()))?;
            let (tried, base) = match (name.take(), wish) {
                (Some(fresh), _) => (fresh, None),
                (None, Some(wish)) => match self.vacancy(&parent, wish).await.map_err(ResourceError::from)? {
                    Some(base) => (wish.to_owned(), base),
                    None => (beside(random, wish), None),
                },
                (None, None) => (fresh(random, FRESH_CHARS), None),
            };
            let path = container.child(&tried).map_err(ResourceError::from)?;
            let new = make(&resource, &path)?;
            self.may_be_in(resource.group.as_ref(), &path, &new)?;
            let is_new = self.is_new_here(container, resource.head()).await.map_err(ResourceError::from)?;
            let above = Above { parent: &parent, is_new, group: resource.group.as_ref() };
            match self.try_create(above, &tried, base, &new, false).await? {
                Made::Created(revision) => return Ok(Written { path, revision }),
                Made::Not => {}
            }
            // Another writer took the name, or the container changed: another name does no harm in
            // either case.
            name = Some(wish.take().map_or_else(|| fresh(random, FRESH_CHARS), |wish| beside(random, wish)));
            if !tries.again().await {
                let error = changes_all_the_time(format!("/{container}"), false);
                return Err(ResourceError::from(error).into());
            }
        }
    }

    /// Refuses an archival group in another one. The containers above a resource are what they are
    /// for as long as it exists, so it is enough to look at them once.
    fn may_be_in(&self, group: Option<&ResourcePath>, path: &ResourcePath, new: &NewResource) -> ResourceResult<()> {
        match (&new.kind, group) {
            (NewKind::Group(_), Some(group)) => {
                Err(ResourceError::InGroup { path: path.clone(), group: group.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether a name was never used in a container, or may be used again; then also returns the
    /// head to compare with.
    async fn vacancy(&self, parent: &Parent, name: &str) -> ObjectsResult<Option<Option<HeadRow>>> {
        let partition = parent.container().child_partition(name);
        let row = self.heads.retry_transient(|| self.heads.head_at(&partition)).await?;
        let own = row.as_ref().and_then(|row| self.own_claim(&row.head));
        if let (Some(other), None) = (row.as_ref().and_then(|row| row.head.claim), own)
            && self.heads.claim_is_over(other).await?.is_err()
        {
            // Another transaction may be about to use it.
            return Ok(None);
        }
        let is_current = |row: &HeadRow| row.head.parent_incarnation == parent.incarnation();
        let row = match (row, parent.container()) {
            (Some(row), Container::At(above)) => match above.child(name) {
                Ok(path) => Some(self.one_as_staged(&path, row).await?),
                Err(_) => Some(row),
            },
            (row, _) => row,
        };
        Ok(match row {
            None => Some(None),
            Some(row) if row.head.state == ObjectState::Free => Some(Some(row)),
            // The transaction created it in a container that it deleted since.
            Some(row) if row.head.state == ObjectState::Live && own.is_some() && !is_current(&row) => Some(Some(row)),
            Some(row) if row.head.state == ObjectState::Deleted && !is_current(&row) => Some(Some(row)),
            Some(_) => None,
        })
    }

    /// The container for the new resource: the one that was found, or the root.
    async fn container_above(&self, above: Option<(&ResourcePath, &HeadRow)>) -> ResourceResult<Parent> {
        let Some((path, row)) = above else {
            let root = Container::At(ResourcePath::root());
            return Ok(self.heads.retry_transient(|| self.heads.parent(&root)).await?);
        };
        let parent = Parent::of(&Container::At(path.clone()), row, self.heads.rules());
        parent.ok_or_else(|| ResourceError::NotAContainer(path.clone()))
    }

    /// Tries once to create a resource. `is_implied`: only to create something in it.
    async fn try_create(
        &self,
        Above { parent, is_new: is_in_new, group }: Above<'_>,
        name: &str,
        base: Option<HeadRow>,
        new: &NewResource,
        is_implied: bool,
    ) -> ResourceResult<Made> {
        let (Some(id), Container::At(above)) = (self.transaction, parent.container()) else {
            self.refuse_in_held(group).await?;
            return self.try_create_as(parent, name, base, new, Holder::Nobody).await;
        };
        if let Some(group) = group {
            self.hold_group(id, group).boxed().await?;
        }
        let container = (above, parent.incarnation(), is_in_new);
        let staged = self.stage_new(id, container, name, base.as_ref(), new, is_implied).boxed().await?;
        Ok(staged.map_or(Made::Not, Made::Created))
    }

    /// Tries once to create a resource, in the name of a holder.
    pub(crate) async fn try_create_as(
        &self,
        parent: &Parent,
        name: &str,
        base: Option<HeadRow>,
        new: &NewResource,
        holder: Holder,
    ) -> ResourceResult<Made> {
        let above = base.as_ref().filter(|_| self.heads.keeps(Rule::FloorRead));
        let floor = above.map_or(RevisionId::ZERO, |row| row.head.floor.max(row.head.revision));
        let incarnation = self.heads.revisions().mint_above(floor);
        let partition = parent.container().child_partition(name);
        let (mut rows, description) = describe::put(&partition, incarnation, &new.description)?;
        let kind = match &new.kind {
            NewKind::RdfSource => Kind::RdfSource,
            NewKind::Container(membership) | NewKind::Group(membership) => Kind::Container {
                membership: membership.clone(),
                children: ContainerBody::new(self.heads.options().resource_shards),
            },
            NewKind::Binary(uploaded) => Kind::Binary(uploaded.keep(&partition, incarnation, &mut rows)),
        };
        if let Container::At(above) = parent.container() {
            let path = above.child(name)?;
            if let Some(resource) = &new.members_for {
                rows.extend(self.gives_members(resource, &path).await?);
            }
            rows.extend(self.refer(&path, &new.refers_to).await?);
            if let (Holder::Claim(claim), NewKind::Container(_) | NewKind::Group(_)) = (holder, &new.kind) {
                rows.push(made_container(claim, &path, incarnation));
            }
        }
        let creation = Creation {
            parent: parent.clone(),
            name: name.to_owned(),
            incarnation,
            base,
            body: Body::Resource(ResourceBody { kind, description }),
            is_group: matches!(new.kind, NewKind::Group(_)),
            note: new.member.clone().map(Bytes::from).unwrap_or_default(),
            rows,
            after: Vec::new(),
            holder,
        };
        Ok(match self.heads.create_child(creation).await? {
            Switched::Applied => Made::Created(incarnation),
            Switched::Required { .. } | Switched::Moved | Switched::Fenced => Made::Not,
        })
    }
}

/// What a new resource may take the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Nothing,
    /// The tombstone at its path.
    Tombstone,
}

/// The container of a new resource.
struct Above<'a> {
    parent: &'a Parent,
    /// Whether the transaction of the handle creates it.
    is_new: bool,
    /// The archival group that it is or is in.
    group: Option<&'a ResourcePath>,
}

/// The record that a transaction is about to create a container. Whoever creates what is in it
/// recognizes the container by it: somebody else may have deleted it since, and created another
/// one.
fn made_container(claim: Claim, path: &ResourcePath, incarnation: RevisionId) -> Step {
    let row = NewRow::new(keys::made_container(path, incarnation), envelope::seal(ValueKind::MadeContainer, &[]));
    Step::Put { table: Table::Work, partition: keys::transaction(claim.transaction), rows: vec![row] }
}

/// The outcome of one try.
pub(crate) enum Made {
    /// The resource was created, with this incarnation.
    Created(RevisionId),
    /// It was not created, and never will be.
    Not,
}

impl Uploaded {
    /// Makes what a head says about these bytes, and adds a row with the bytes if they are few.
    pub(super) fn keep(&self, object: &Bytes, revision: RevisionId, rows: &mut Vec<Step>) -> Binary {
        let place = match &self.place {
            UploadedPlace::Small(bytes) => {
                let row = NewRow::new(keys::small_content(revision), envelope::seal(ValueKind::SmallContent, bytes));
                let partition = keys::version(object, revision);
                rows.push(Step::Put { table: Table::Objects, partition, rows: vec![row] });
                BytesPlace::Row
            }
            UploadedPlace::Content(id) => {
                rows.push(keeper(*id, object));
                BytesPlace::Content(*id)
            }
            UploadedPlace::Elsewhere(elsewhere) => BytesPlace::Elsewhere(elsewhere.clone()),
        };
        Binary {
            revision,
            place,
            len_bytes: self.len_bytes,
            sha256: self.sha256,
            media_type: self.media_type.clone(),
            disposition: self.disposition.clone(),
        }
    }
}

/// The record that an object's head is about to name a content. It may exist without such a head:
/// heads decide.
pub(crate) fn keeper(id: ContentId, object: &Bytes) -> Step {
    let row = NewRow::new(object.clone(), envelope::seal(ValueKind::Keeper, &[]));
    Step::Put { table: Table::Objects, partition: keys::keepers(id), rows: vec![row] }
}

/// An unused name of that many random characters.
fn fresh(random: &dyn Random, chars: usize) -> String {
    let drawn = random.bytes::<FRESH_CHARS>().into_iter().take(chars);
    drawn.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

/// Appends random characters to a name that is taken.
fn beside(random: &dyn Random, wish: &str) -> String {
    format!("{wish}-{}", fresh(random, ADDED_CHARS))
}

/// A requested name, cut so that characters can be appended.
fn shortened(wish: &str) -> &str {
    let end = NAME_BYTES_MAX - ADDED_CHARS - 1;
    if wish.len() <= end { wish } else { &wish[..wish.floor_char_boundary(end)] }
}
