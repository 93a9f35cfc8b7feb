//! Finds resources and reads their contents.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use heads::children::Children;
use heads::containment::{Container, Parent};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{HeadRow, ObjectState};
use heads::keys;
use heads::list::{Found, ListToken};
use heads::path::ResourcePath;
use heads::resource_body::Part;
use heads::resource_body::{Binary, BytesPlace};
use heads::revision::RevisionId;
use heads::rules::{Rule, Rules};
use store::{Call, Class, StoreError, Strength, Table, ValueKind, boxed};

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::resource::Resource;

/// Paths that are looked up in one batch.
const BATCH_PATHS: usize = 500;

/// A child of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The member that follows from it, if it was created with a member other than itself.
    pub member: Option<String>,
}

/// Some children of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildPage {
    /// In a stable order, which is not alphabetical.
    pub children: Vec<Child>,
    /// Where the page begins; `None`: at the first child.
    pub begins: Option<ListToken>,
    /// Where the listing continues; `None` on the last page.
    pub next: Option<ListToken>,
}

/// The heads on a path.
pub(super) struct Located {
    /// The live heads from the first name on, each in the current incarnation of the one above. If
    /// there is one per name, the resource exists.
    pub live: Vec<HeadRow>,
    /// Why the path ends there.
    pub end: End,
    /// The head where it ends, if there is one.
    pub at_end: Option<HeadRow>,
}

/// Why a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It does not end: the resource exists.
    There,
    /// There is nothing, and a resource could be created.
    Vacant,
    /// A resource was deleted there.
    Gone,
}

impl Located {
    /// Evaluates the heads of `path.chain()`.
    fn of(heads: Vec<Option<HeadRow>>, rules: Rules) -> Self {
        let mut live: Vec<HeadRow> = Vec::with_capacity(heads.len());
        for head in heads {
            let Some(row) = head else { return Self { live, end: End::Vacant, at_end: None } };
            // The root is never deleted, so its children are always in its only incarnation.
            let is_current = live.last().is_none_or(|above| row.head.parent_incarnation == above.head.incarnation);
            match row.head.state {
                ObjectState::Live if is_current => live.push(row),
                ObjectState::Deleting | ObjectState::Deleted if is_current || !rules.keep(Rule::PIncFree) => {
                    return Self { live, end: End::Gone, at_end: Some(row) };
                }
                // It belongs to an earlier incarnation of its container, so it counts as free.
                _ => return Self { live, end: End::Vacant, at_end: Some(row) },
            }
        }
        Self { live, end: End::There, at_end: None }
    }

    /// The archival group on the path that was located.
    pub fn group(&self, path: &ResourcePath) -> Option<ResourcePath> {
        path.chain().nth(self.live.iter().position(|row| row.head.is_group)?)
    }
}

impl Repository {
    /// The live resource at a path. Reads it and all containers above it strongly.
    #[boxed]
    pub async fn resource(&self, path: &ResourcePath) -> ResourceResult<Resource> {
        let absent = || ResourceError::Absent(path.clone());
        if path.is_root() {
            let partition = keys::resource_partition(path);
            let row = self.heads.retry_transient(|| self.heads.head_at(&partition)).await?;
            let row = self.one_as_staged(path, row.ok_or_else(absent)?).await?;
            return Resource::of(path.clone(), row).ok_or_else(absent);
        }
        Self::located(path, self.locate(path).await?)
    }

    /// The live resource at a path that is not the root, of the heads on it.
    fn located(path: &ResourcePath, located: Located) -> ResourceResult<Resource> {
        let absent = || ResourceError::Absent(path.clone());
        let group = located.group(path);
        let Located { mut live, end, .. } = located;
        match end {
            End::There => {
                let resource = live.pop().and_then(|row| Resource::of(path.clone(), row)).ok_or_else(absent)?;
                Ok(Resource { group, ..resource })
            }
            End::Vacant => Err(absent()),
            End::Gone => {
                Err(ResourceError::Gone { tombstone: path.chain().nth(live.len()).unwrap_or_else(|| path.clone()) })
            }
        }
    }

    /// The live resources at many paths, in their order. Heads above several of them are read once.
    #[boxed]
    pub async fn resources_at(&self, paths: &[ResourcePath]) -> ObjectsResult<Vec<ResourceResult<Resource>>> {
        let mut found = Vec::with_capacity(paths.len());
        for paths in paths.chunks(BATCH_PATHS) {
            let chains: Vec<Vec<_>> = paths.iter().map(|path| path.chain().collect()).collect();
            let mut places = HashMap::new();
            let mut above = Vec::new();
            for path in chains.iter().flatten() {
                places.entry(path.clone()).or_insert_with(|| {
                    above.push(path.clone());
                    above.len() - 1
                });
            }
            let partitions: Vec<_> = above.iter().map(keys::resource_partition).collect();
            let read = || self.heads.heads_at(&partitions, Strength::Strong);
            let heads = self.heads.retry_transient(read).await?;
            for (path, chain) in paths.iter().zip(chains) {
                let of_chain = chain.iter().map(|path| match &heads[places[path]] {
                    Ok(head) => Ok(head.clone()),
                    Err(error) => Err(error),
                });
                // Damage above is an error of this path alone, which a read of its own reports.
                found.push(match of_chain.collect::<Result<Vec<_>, _>>() {
                    Ok(of_chain) if !path.is_root() => {
                        Self::located(path, Located::of(self.as_staged(chain, of_chain).await?, self.heads.rules()))
                    }
                    Ok(_) | Err(_) => self.resource(path).await,
                });
            }
        }
        Ok(found)
    }

    /// Reads the heads on a path, which is not the root.
    pub(super) async fn locate(&self, path: &ResourcePath) -> ObjectsResult<Located> {
        let partitions: Vec<_> = path.chain().map(|path| keys::resource_partition(&path)).collect();
        let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
        let heads = self.as_staged(path.chain().collect(), heads.into_iter().collect::<ObjectsResult<_>>()?).await?;
        Ok(Located::of(heads, self.heads.rules()))
    }

    /// Streams bytes of a binary, of the revision that was read; a range is clipped at their end.
    /// The first piece is read before this returns, so that a failure to begin is an error of this
    /// call.
    ///
    /// Fails with [`ObjectsError::DamagedResource`] if the bytes are damaged, and marks the damage.
    /// If they are marked already, a request for all of them is refused at once, and a range is
    /// tried. Damage found later ends the stream with that error.
    #[boxed]
    pub async fn content(
        &self,
        resource: &Resource,
        binary: &Binary,
        range: Range<u64>,
    ) -> ObjectsResult<BoxStream<'static, ObjectsResult<Bytes>>> {
        let (path, revision) = (&resource.path, binary.revision);
        if range.start == 0 && range.end >= binary.len_bytes {
            self.refuse_marked(resource, Part::Bytes).await?;
        }
        let opened = async {
            let mut pieces = self.read_content(self.heads.call(Class::Content), resource, binary, range).await?;
            let first = pieces.next().await.transpose()?;
            Ok((first, pieces))
        };
        let (first, rest) = match opened.await {
            Ok(opened) => opened,
            Err(error) => return Err(self.noted(path, Part::Bytes, revision, error).await),
        };
        let noting = Arc::new((self.clone(), path.clone()));
        let rest = rest.then(move |piece| {
            let noting = noting.clone();
            async move {
                let (repository, path) = &*noting;
                match piece {
                    Ok(piece) => Ok(piece),
                    Err(error) => Err(repository.noted(path, Part::Bytes, revision, error).await),
                }
            }
        });
        Ok(futures::stream::iter(first.map(Ok)).chain(rest).boxed())
    }

    pub(super) async fn read_content(
        &self,
        call: Call,
        resource: &Resource,
        binary: &Binary,
        range: Range<u64>,
    ) -> ObjectsResult<BoxStream<'static, ObjectsResult<Bytes>>> {
        match &binary.place {
            BytesPlace::Row => {
                let partition = keys::version(&keys::resource_partition(&resource.path), binary.revision);
                let staged = match self.own_claim(resource.head()) {
                    Some(claim) => self.staged_content(claim.transaction, binary).await?,
                    None => None,
                };
                let sort = keys::small_content(binary.revision);
                let payload = match staged {
                    Some(staged) => staged,
                    None => self.payload(ValueKind::SmallContent, &partition, &sort).await?,
                };
                let clip = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(payload.len());
                let (from, to) = (clip(range.start), clip(range.end));
                let piece = payload.slice(from..to.max(from));
                Ok(futures::stream::iter([Ok(piece)]).boxed())
            }
            BytesPlace::Content(id) => {
                let read = |call| self.heads.store().read_content(call, *id, range.clone());
                let stream = match read(call).await {
                    Ok(Some(stream)) => Some(stream),
                    // As with rows: the content is read strongly before it counts as damaged, and
                    // one that is not there never does away from home.
                    Ok(None) | Err(StoreError::Corrupt { .. }) => {
                        let again = Call { deadline: self.heads.call(Class::Content).deadline, ..call };
                        read(again.strong()).await?
                    }
                    Err(error) => return Err(error.into()),
                };
                let stream = stream.ok_or_else(|| self.missing(Table::Contents, &format!("content {id}")))?;
                Ok(stream.map(|piece| piece.map_err(ObjectsError::from)).boxed())
            }
            BytesPlace::Elsewhere(elsewhere) => {
                Err(ObjectsError::Invalid(format!("the bytes of /{} are kept at {}", resource.path, elsewhere.url)))
            }
        }
    }

    /// A page of at most `max` children of a container; empty if the resource is not a container. It
    /// has fewer if the members that they name have very long IRIs.
    #[boxed]
    pub async fn children(
        &self,
        resource: &Resource,
        after: Option<&ListToken>,
        max: usize,
    ) -> ObjectsResult<ChildPage> {
        let (found, next) = match self.listed(resource).await? {
            Some(parent) => self.heads.list_children(&parent, after, max).await?,
            None => (Vec::new(), None),
        };
        self.child_page(resource, found, after.cloned(), next).await
    }

    /// A page of at most `max` children of a container that ends where another page begins
    /// ([`ChildPage::begins`]); `None`: the last page. What a transaction creates is on the last page
    /// of its listing.
    #[boxed]
    pub async fn children_before(
        &self,
        resource: &Resource,
        before: Option<&ListToken>,
        max: usize,
    ) -> ObjectsResult<ChildPage> {
        let (found, begins) = match self.listed(resource).await? {
            Some(parent) => self.heads.children_before(&parent, before, max).await?,
            None => (Vec::new(), None),
        };
        self.child_page(resource, found, begins, before.cloned()).await
    }

    /// The container whose children a page lists. Shards may have been rewritten since the resource
    /// was read, so each page reads the container again. `None`: the transaction creates it, so it
    /// has no other children.
    async fn listed(&self, resource: &Resource) -> ObjectsResult<Option<Parent>> {
        let container = Container::At(resource.path.clone());
        match self.heads.parent(&container).await {
            Ok(parent) if parent.incarnation() == resource.incarnation() => Ok(Some(parent)),
            Ok(_) | Err(ObjectsError::Gone(_)) if self.own_claim(resource.head()).is_some() => Ok(None),
            Ok(_) => Err(ObjectsError::Gone(container.name())),
            Err(error) => Err(error),
        }
    }

    async fn child_page(
        &self,
        resource: &Resource,
        found: Vec<Found>,
        begins: Option<ListToken>,
        next: Option<ListToken>,
    ) -> ObjectsResult<ChildPage> {
        let mut children = found.into_iter().map(Child::of).collect();
        if self.transaction.is_some() {
            // What the transaction creates is on the last page.
            Self::with_staged(self.staged_children(resource, next.is_none()).await?, &mut children);
        }
        Ok(ChildPage { children, begins, next })
    }

    /// For each path, whether it is or was a child of the container that exists now.
    #[boxed]
    pub async fn were_children(&self, paths: &[ResourcePath]) -> ObjectsResult<Vec<bool>> {
        let mut known = Vec::with_capacity(paths.len());
        for paths in paths.chunks(BATCH_PATHS) {
            let of = |path: ResourcePath| keys::resource_partition(&path);
            let partitions: Vec<_> =
                paths.iter().flat_map(|path| [of(path.clone()), of(path.parent().unwrap_or_default())]).collect();
            let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
            let of_these = paths.iter().flat_map(|path| [path.clone(), path.parent().unwrap_or_default()]).collect();
            let heads = heads.into_iter().collect::<ObjectsResult<_>>()?;
            let mut heads = self.as_staged(of_these, heads).await?.into_iter();
            while let (Some(child), Some(parent)) = (heads.next(), heads.next()) {
                known.push(match (child, parent) {
                    (Some(child), Some(parent)) => {
                        child.head.state != ObjectState::Free
                            && child.head.parent_incarnation == parent.head.incarnation
                    }
                    _ => false,
                });
            }
        }
        Ok(known)
    }

    /// Returns those of `members` that no present or past child of the container at a path names.
    /// Reads marks until all are found. A deleted container has no known members, so the result is
    /// empty for it.
    #[boxed]
    pub async fn never_named(
        &self,
        path: &ResourcePath,
        mut members: HashSet<String>,
    ) -> ObjectsResult<HashSet<String>> {
        let parent = match self.heads.parent(&Container::At(path.clone())).await {
            Err(ObjectsError::Gone(_)) => return Ok(HashSet::new()),
            parent => parent?,
        };
        for shard in 0..parent.shards() {
            let children = Children::new(parent.partitions(shard), Bytes::new(), Strength::Strong);
            self.strike_named(children, &mut members).await?;
        }
        let mut rest = None;
        while !members.is_empty() {
            let (partitions, next) = self.heads.past_partitions(parent.container(), parent.incarnation(), rest).await?;
            for (_, past) in partitions {
                let children = Children::new(std::iter::once(past), Bytes::new(), Strength::Strong);
                self.strike_named(children, &mut members).await?;
            }
            rest = match next {
                Some(next) => Some(next),
                None => break,
            };
        }
        Ok(members)
    }

    /// Removes from `members` those that some children name; stops reading when none are left.
    async fn strike_named(&self, mut children: Children, members: &mut HashSet<String>) -> ObjectsResult<()> {
        while !members.is_empty()
            && let Some(child) = children.next(&self.heads).await?
        {
            members.remove(&*String::from_utf8_lossy(&child.marked.note));
        }
        Ok(())
    }

    /// When a container's listing changed last; `None` if it never had a child.
    #[boxed]
    pub async fn last_change(&self, resource: &Resource) -> ObjectsResult<Option<RevisionId>> {
        let Some(parent) = Parent::of(&Container::At(resource.path.clone()), &resource.row, self.heads.rules()) else {
            return Ok(None);
        };
        let newest = self.heads.newest_change(parent.all_partitions().collect()).await?;
        Ok(newest.max(self.last_staged(resource).await?))
    }
}

impl Child {
    pub(super) fn of(Found { name, note }: Found) -> Self {
        let member = (!note.is_empty()).then(|| String::from_utf8_lossy(&note).into_owned());
        Self { name, member }
    }
}
