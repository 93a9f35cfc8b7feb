//! The statements of a response, as a stream. The contents of a container are read and written page
//! by page, whatever their number.

use std::collections::VecDeque;
use std::pin::pin;

use ::volumes::{PastVolumes, Volume};
use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use hathi::VolumeId;
use heads::ListToken;
use heads::ResourcePath;
use library::Library;
use rdf::vocab::ldp;
use rdf::{NamedNode, Term, Triple, WriteError, Writer};
use repository::ResourceError;
use repository::{Child, Kind, Membership, Resource};

use crate::address::{Site, kept_volume, kept_volumes};
use crate::arrange::{Arranged, Contents, Section};
use crate::errors::LdpError;
use crate::held::Held;
use crate::stored::{expected_bytes, kept_description, labelled_apart, mapped, refers_to, replace};
use crate::{managed, membership};

/// Children that are read together.
const PAGE_CHILDREN: usize = 1_000;
/// Bytes that statements of children repeat and that are written together, about.
const REPEATED_BYTES: usize = 1 << 20;
/// Descriptions that are read together. Each may be as large as a body.
const DESCRIPTIONS_AT_ONCE: usize = 4;

/// The statements of a response.
pub struct Statements {
    library: Library,
    site: Site,
    writer: Writer,
    described: Arranged,
    /// Where the listing of the first section continues.
    after: Option<ListToken>,
    /// Descriptions of other resources written so far.
    descriptions: u64,
    /// What is held in memory for it, if that may be much.
    held: Option<Held>,
    /// How much of that was held before anything was written.
    own_bytes: u64,
}

/// A response, whole or in part.
pub enum Written {
    /// It is small and complete.
    Whole(Bytes),
    /// It continues.
    Streamed(Body),
}

impl From<Written> for Body {
    fn from(written: Written) -> Self {
        match written {
            Written::Whole(bytes) => Self::from(bytes),
            Written::Streamed(body) => body,
        }
    }
}

impl Statements {
    /// Statements for a writer.
    pub fn new(library: Library, site: Site, writer: Writer, described: impl Into<Arranged>) -> Self {
        let mut described = described.into();
        let lists = std::mem::take(&mut described.lists).map(|item| match item {
            Term::NamedNode(mut node) => {
                replace(&mut node, &|iri| site.shown(iri));
                node.into()
            }
            item => item,
        });
        let writer = writer.with_lists(lists);
        Self { library, site, writer, described, after: None, descriptions: 0, held: None, own_bytes: 0 }
    }

    /// The same with what is held in memory for it. It is held until all is sent.
    pub fn holding(self, held: Held) -> Self {
        Self { own_bytes: held.bytes(), held: Some(held), ..self }
    }

    /// Writes until it is clear whether the response is small.
    pub async fn write(mut self) -> Result<Written, LdpError> {
        loop {
            if !self.advance().await? {
                return Ok(Written::Whole(self.writer.finish()));
            }
            if let Some(first) = self.writer.chunk() {
                return Ok(Written::Streamed(Body::from_stream(stream::try_unfold(
                    (Some(first), Some(self)),
                    |(ready, rest)| async move { next(ready, rest).await },
                ))));
            }
        }
    }

    /// Writes more. Returns false if everything is written.
    async fn advance(&mut self) -> Result<bool, LdpError> {
        let Some(section) = self.described.sections.pop_front() else { return self.push_held() };
        let rest = match section {
            Section::Triples(triples) => {
                for triple in triples {
                    self.push(triple)?;
                }
                None
            }
            Section::Children(membership, mut contents) => {
                let goes_on = self.list(&membership, &mut contents).await?;
                goes_on.then_some(Section::Children(membership, contents))
            }
            Section::ContainedDescriptions(container) => {
                let page = self.library.repository.children(&container, self.after.as_ref(), PAGE_CHILDREN).await?;
                let descriptions = Section::Descriptions(paths_of(&container, &page.children), None);
                self.after = page.next;
                let rest = self.after.is_some().then_some(Section::ContainedDescriptions(container));
                rest.into_iter().for_each(|rest| self.described.sections.push_front(rest));
                Some(descriptions)
            }
            Section::InboundReferences(mut referrers, area) => {
                match self.library.repository.more_backlinks(&mut referrers).await? {
                    Some(mut paths) => {
                        let target = referrers.path().clone();
                        // A statement of a resource about itself is no reference to it.
                        paths.retain(|path| *path != target && area.has_resource(path));
                        self.described.sections.push_front(Section::InboundReferences(referrers, area));
                        Some(Section::Descriptions(paths.into(), Some(target)))
                    }
                    None => None,
                }
            }
            Section::Descriptions(mut paths, about) => {
                let some = paths.drain(..paths.len().min(DESCRIPTIONS_AT_ONCE)).collect();
                self.describe(some, about.as_ref()).await?;
                (!paths.is_empty()).then_some(Section::Descriptions(paths, about))
            }
            Section::Volumes => self.list_volumes().await?.then_some(Section::Volumes),
            Section::VolumesThen(mut volumes, turns, party) => {
                let turn = turns.turn(&party).await?;
                let goes_on = self.list_volumes_then(&mut volumes).await?;
                drop(turn);
                goes_on.then_some(Section::VolumesThen(volumes, turns, party))
            }
            Section::Pages(volume, from) => {
                self.list_pages(&volume, from).await?.map(|next| Section::Pages(volume, next))
            }
        };
        if let Some(rest) = rest {
            self.described.sections.push_front(rest);
        }
        Ok(true)
    }

    /// Writes the statements that follow from some more children. Returns false if these were the
    /// last.
    async fn list(&mut self, membership: &Membership, contents: &mut Contents) -> Result<bool, LdpError> {
        let at_once = children_at_once(membership, contents.container());
        let (path, children) = match contents {
            Contents::Now(container) => {
                let page = self.library.repository.children(container, self.after.as_ref(), at_once).await?;
                self.after = page.next;
                (container.path(), page.children)
            }
            Contents::Then(path, members) => match members.more(at_once).await? {
                Some(children) => (&*path, children),
                None => return Ok(false),
            },
            Contents::Read(path, children) => {
                let some: Vec<_> = children.drain(..children.len().min(at_once)).collect();
                (&*path, some)
            }
        };
        for child in &children {
            if let Some(triple) = membership::statement(membership, path, child) {
                self.push_with_held(triple)?;
            }
        }
        Ok(match contents {
            Contents::Now(_) => self.after.is_some(),
            Contents::Then(..) => true,
            Contents::Read(_, children) => !children.is_empty(),
        })
    }

    /// Writes the descriptions of some resources, or only the statements in them that refer to one.
    /// Skips what was deleted meanwhile.
    async fn describe(&mut self, paths: Vec<ResourcePath>, about: Option<&ResourcePath>) -> Result<(), LdpError> {
        let library = self.library.clone();
        let found = stream::iter(paths).map(|path| {
            let library = library.clone();
            async move {
                match library.repository.resource(&path).await {
                    Ok(resource) => Ok(Some(resource)),
                    Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => Ok(None),
                    Err(error) => Err(LdpError::from(error)),
                }
            }
        });
        let found: Vec<Option<Resource>> = found.buffered(DESCRIPTIONS_AT_ONCE).try_collect().await?;
        let resources: Vec<_> = found.into_iter().flatten().collect();
        self.hold(resources.iter().map(expected_bytes).sum()).await?;
        let read = stream::iter(resources).map(|resource| {
            let library = library.clone();
            async move { Ok::<_, LdpError>((kept_description(&library, &resource).await?, resource)) }
        });
        let mut read = pin!(read.buffered(DESCRIPTIONS_AT_ONCE));
        while let Some(read) = read.next().await {
            let (description, resource) = read?;
            self.descriptions += 1;
            let description = labelled_apart(description, self.descriptions);
            match about {
                None => {
                    managed::statements(&resource).into_iter().chain(description).try_for_each(|it| self.push(it))?
                }
                Some(target) => {
                    let is_about = |triple: &Triple| refers_to(triple).as_ref() == Some(target);
                    description.into_iter().filter(is_about).try_for_each(|it| self.push(it))?;
                }
            }
        }
        Ok(())
    }

    /// Takes a share of the memory for descriptions of other resources, instead of that for earlier
    /// ones.
    async fn hold(&mut self, bytes: u64) -> Result<(), LdpError> {
        let Some(held) = &mut self.held else { return Ok(()) };
        // They come last, so what was held before is written, unless it waits for a member.
        let own_bytes = if self.described.held.is_empty() { 0 } else { self.own_bytes };
        // Without a share one is waited for.
        held.set(own_bytes).await?;
        Ok(held.set(own_bytes + bytes).await?)
    }

    /// Writes the containment of some more volumes. Returns false if these were the last.
    async fn list_volumes(&mut self) -> Result<bool, LdpError> {
        let page = self.library.volumes.list(self.after.as_ref(), PAGE_CHILDREN).await?;
        for id in &page.volumes {
            self.push(volume_contained(id))?;
        }
        self.after = page.next;
        Ok(self.after.is_some())
    }

    /// Does the same with volumes as of a time.
    async fn list_volumes_then(&mut self, volumes: &mut PastVolumes) -> Result<bool, LdpError> {
        let Some(some) = volumes.more(PAGE_CHILDREN).await? else { return Ok(false) };
        for id in &some {
            self.push(volume_contained(id))?;
        }
        Ok(true)
    }

    /// Writes the containment of some pages from `from` on. Returns where to continue.
    async fn list_pages(&mut self, volume: &Volume, from: u32) -> Result<Option<u32>, LdpError> {
        let count = u32::try_from(volume.body.pages.count).unwrap_or(u32::MAX);
        let to = count.min(from.saturating_add(PAGE_CHILDREN as u32));
        let subject = NamedNode::new_unchecked(kept_volume(&volume.id));
        for entry in self.library.volumes.entries(&volume.id, volume.body.generation, from..to).await? {
            let page = NamedNode::new_unchecked(format!("{}/pages/{}", subject.as_str(), entry.seq));
            self.push(Triple::new(subject.clone(), ldp::CONTAINS.into_owned(), page))?;
        }
        Ok((to < count).then_some(to))
    }

    /// Writes a statement with all held statements of its subject.
    fn push_with_held(&mut self, triple: Triple) -> Result<(), LdpError> {
        let mut triples = self.described.held.swap_remove(&triple.subject).unwrap_or_default();
        let same = triples.iter().rposition(|held| held.predicate == triple.predicate);
        triples.insert(same.map_or(triples.len(), |at| at + 1), triple);
        triples.into_iter().try_for_each(|triple| self.push(triple))
    }

    /// Writes held statements whose subject no listing contained. Returns false if there are none.
    fn push_held(&mut self) -> Result<bool, LdpError> {
        let held = std::mem::take(&mut self.described.held);
        let is_any = !held.is_empty();
        held.into_values().flatten().try_for_each(|triple| self.push(triple))?;
        Ok(is_any)
    }

    fn push(&mut self, triple: Triple) -> Result<(), LdpError> {
        let triple = mapped(triple, &|iri| self.site.shown(iri));
        let refused = |error: WriteError| LdpError::NotAcceptable(error.to_string());
        self.writer.push(triple.as_ref()).map_err(refused)
    }
}

/// Children whose statements are written together. They are fewer if each statement repeats long
/// IRIs.
fn children_at_once(membership: &Membership, container: &ResourcePath) -> usize {
    let repeated_bytes = membership::bytes_of(membership) + container.as_str().len();
    (REPEATED_BYTES / repeated_bytes.max(1)).clamp(1, PAGE_CHILDREN)
}

/// The containment of a volume in the container of volumes.
pub fn volume_contained(id: &VolumeId) -> Triple {
    let subject = NamedNode::new_unchecked(kept_volumes());
    Triple::new(subject, ldp::CONTAINS.into_owned(), NamedNode::new_unchecked(kept_volume(id)))
}

type Rest = Option<Statements>;

/// The next piece of a response that continues.
async fn next(ready: Option<Bytes>, rest: Rest) -> Result<Option<(Bytes, (Option<Bytes>, Rest))>, LdpError> {
    if let Some(ready) = ready {
        return Ok(Some((ready, (None, rest))));
    }
    let Some(mut rest) = rest else { return Ok(None) };
    while rest.advance().await? {
        if let Some(piece) = rest.writer.chunk() {
            return Ok(Some((piece, (None, Some(rest)))));
        }
    }
    Ok(Some((rest.writer.finish(), (None, None))))
}

/// The paths of children.
pub fn paths_of(container: &Resource, children: &[Child]) -> VecDeque<ResourcePath> {
    children.iter().filter_map(|child| container.path().child(&child.name).ok()).collect()
}

/// Whether a resource can contain others.
pub fn is_container(resource: &Resource) -> bool {
    matches!(resource.kind(), Kind::Container { .. })
}
