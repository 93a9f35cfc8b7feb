//! The statements of an answer, as a stream: what a container contains is read and written page by page, whatever there is.

use std::collections::VecDeque;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use objects::list::ListToken;
use objects::resources::{Child, Kind, Membership, Resource};
use objects::{Library, ResourcePath, Volume};
use rdf::update::Removal;
use rdf::vocab::ldp;
use rdf::{Graph, NamedNode, NamedOrBlankNode, Term, Triple, WriteError, Writer};

use crate::address::{Site, kept_iri, kept_volume, kept_volumes};
use crate::errors::LdpError;
use crate::membership;

/// Children that are read together.
const PAGE_CHILDREN: usize = 1_000;

/// What is kept as the description of a resource.
pub async fn kept_description(library: &Library, resource: &Resource) -> Result<Graph, LdpError> {
    let stored = library.description(resource).await?;
    rdf::from_stored(&stored).map_err(|error| LdpError::Internal(format!("a description: {error}")))
}

/// A graph with its IRIs changed where `change` says so.
pub fn map(graph: Graph, change: impl Fn(&str) -> Option<String>) -> Graph {
    graph.into_iter().map(|triple| mapped(triple, &change)).collect()
}

fn mapped(mut triple: Triple, change: &impl Fn(&str) -> Option<String>) -> Triple {
    if let NamedOrBlankNode::NamedNode(node) = &mut triple.subject {
        replace(node, change);
    }
    replace(&mut triple.predicate, change);
    if let Term::NamedNode(node) = &mut triple.object {
        replace(node, change);
    }
    triple
}

/// What an update takes away, with its IRIs changed likewise.
pub fn map_removal(mut removal: Removal, change: impl Fn(&str) -> Option<String>) -> Removal {
    let object = removal.object.as_mut().and_then(|object| match object {
        Term::NamedNode(node) => Some(node),
        _ => None,
    });
    for node in [removal.subject.as_mut(), removal.predicate.as_mut(), object].into_iter().flatten() {
        replace(node, &change);
    }
    removal
}

fn replace(node: &mut NamedNode, change: &impl Fn(&str) -> Option<String>) {
    if let Some(changed) = change(node.as_str()) {
        *node = NamedNode::new_unchecked(changed);
    }
}

/// A part of an answer.
pub enum Section {
    /// Statements as they are kept.
    Triples(Vec<Triple>),
    /// What a container contains.
    Contains(Resource),
    /// What follows from what a container contains.
    Members(Membership, Resource),
    /// Of each child, that it is contained and what follows from it: for pages, whose statements belong to the children told on them.
    ContainsAndMembers(Membership, Resource),
    /// That the container of volumes contains them.
    Volumes,
    /// That a volume contains its pages, from this one on.
    Pages(Box<Volume>, u32),
}

/// The statements of an answer.
pub struct Statements {
    library: Library,
    site: Site,
    writer: Writer,
    sections: VecDeque<Section>,
    /// Where the listing of the first section goes on.
    after: Option<ListToken>,
    /// Children that may still be told; `None`: all.
    children_left: Option<usize>,
    /// Where a listing that was cut off by that goes on.
    cut: Option<ListToken>,
}

/// What became of an answer.
pub enum Written {
    /// It is small, and this is all of it.
    Whole(Bytes),
    /// It goes on.
    Streamed(Body),
}

/// A page of a listing.
pub struct WrittenPage {
    /// All of it.
    pub bytes: Bytes,
    /// Where the next one begins; `None`: it is the last one.
    pub next: Option<ListToken>,
}

impl Statements {
    /// Those of these sections, by a writer.
    pub fn new(library: Library, site: Site, writer: Writer, sections: Vec<Section>) -> Self {
        Self { library, site, writer, sections: sections.into(), after: None, children_left: None, cut: None }
    }

    /// Of a page only: the listing begins after a place and tells so many children.
    pub fn page(self, after: Option<ListToken>, max: usize) -> Self {
        Self { after, children_left: Some(max), ..self }
    }

    /// Writes a page whole, and tells where the next one begins.
    pub async fn write_page(mut self) -> Result<WrittenPage, LdpError> {
        while self.advance().await? {}
        Ok(WrittenPage { bytes: self.writer.finish(), next: self.cut })
    }

    /// Writes until it is clear whether the answer is small.
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

    /// Writes some more; false: all of it is written.
    async fn advance(&mut self) -> Result<bool, LdpError> {
        let Some(section) = self.sections.pop_front() else { return Ok(false) };
        match section {
            Section::Triples(triples) => {
                for triple in triples {
                    self.push(triple)?;
                }
            }
            Section::Contains(container) => {
                let contains = contains_in(container.path());
                if self.list(&container, contains).await? {
                    self.sections.push_front(Section::Contains(container));
                }
            }
            Section::ContainsAndMembers(membership, container) => {
                let contains = contains_in(container.path());
                let member = |child: &_| membership::statement(&membership, container.path(), child);
                if self.list(&container, |child| contains(child).into_iter().chain(member(child))).await? {
                    self.sections.push_front(Section::ContainsAndMembers(membership, container));
                }
            }
            Section::Members(membership, container) => {
                let statement = |child: &_| membership::statement(&membership, container.path(), child);
                if self.list(&container, statement).await? {
                    self.sections.push_front(Section::Members(membership, container));
                }
            }
            Section::Volumes => {
                if self.list_volumes().await? {
                    self.sections.push_front(Section::Volumes);
                }
            }
            Section::Pages(volume, from) => {
                if let Some(next) = self.list_pages(&volume, from).await? {
                    self.sections.push_front(Section::Pages(volume, next));
                }
            }
        }
        Ok(true)
    }

    /// Writes that some more volumes are contained; false: these were the last.
    async fn list_volumes(&mut self) -> Result<bool, LdpError> {
        let page = self.library.list(self.after.as_ref(), self.children_max()).await?;
        let subject = NamedNode::new_unchecked(kept_volumes());
        for id in &page.volumes {
            let volume = NamedNode::new_unchecked(kept_volume(id));
            self.push(Triple::new(subject.clone(), ldp::CONTAINS.into_owned(), volume))?;
        }
        Ok(self.goes_on(page.volumes.len(), page.next))
    }

    /// How many children are read with the next call.
    fn children_max(&self) -> usize {
        self.children_left.unwrap_or(PAGE_CHILDREN).min(PAGE_CHILDREN)
    }

    /// Whether a listing of which so many children were told goes on, and where.
    fn goes_on(&mut self, told: usize, next: Option<ListToken>) -> bool {
        self.after = next;
        if let Some(left) = &mut self.children_left {
            *left -= told.min(*left);
            if *left == 0 {
                self.cut = self.after.take();
            }
        }
        self.after.is_some()
    }

    /// Writes that some pages from `from` on are contained; answers where to go on.
    async fn list_pages(&mut self, volume: &Volume, from: u32) -> Result<Option<u32>, LdpError> {
        let count = u32::try_from(volume.body.pages.count).unwrap_or(u32::MAX);
        let to = count.min(from.saturating_add(PAGE_CHILDREN as u32));
        let subject = NamedNode::new_unchecked(kept_volume(&volume.id));
        for entry in self.library.entries(&volume.id, volume.body.generation, from..to).await? {
            let page = NamedNode::new_unchecked(format!("{}/pages/{}", subject.as_str(), entry.seq));
            self.push(Triple::new(subject.clone(), ldp::CONTAINS.into_owned(), page))?;
        }
        Ok((to < count).then_some(to))
    }

    /// Writes what follows from some more children; false: these were the last.
    async fn list<T: IntoIterator<Item = Triple>>(
        &mut self,
        container: &Resource,
        statements: impl Fn(&Child) -> T,
    ) -> Result<bool, LdpError> {
        let page = self.library.children(container, self.after.as_ref(), self.children_max()).await?;
        for child in &page.children {
            for triple in statements(child) {
                self.push(triple)?;
            }
        }
        Ok(self.goes_on(page.children.len(), page.next))
    }

    fn push(&mut self, triple: Triple) -> Result<(), LdpError> {
        let triple = mapped(triple, &|iri| self.site.shown(iri));
        let refused = |error: WriteError| LdpError::NotAcceptable(error.to_string());
        self.writer.push(triple.as_ref()).map_err(refused)
    }
}

/// Of a child of the container at `path`, that it is contained.
fn contains_in(path: &ResourcePath) -> impl Fn(&Child) -> Option<Triple> + use<> {
    let subject = NamedNode::new_unchecked(kept_iri(path));
    let path = path.clone();
    move |child| {
        let child = NamedNode::new_unchecked(kept_iri(&path.child(&child.name).ok()?));
        Some(Triple::new(subject.clone(), ldp::CONTAINS.into_owned(), child))
    }
}

type Rest = Option<Statements>;

/// The next piece of an answer that goes on.
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

/// Takes statements about the resource itself apart from all others.
pub fn about(triples: impl IntoIterator<Item = Triple>, path: &ResourcePath) -> (Vec<Triple>, Vec<Triple>) {
    let own = kept_iri(path);
    triples
        .into_iter()
        .partition(|triple| matches!(&triple.subject, NamedOrBlankNode::NamedNode(subject) if subject.as_str() == own))
}

/// Whether a resource can have something in it.
pub fn is_container(resource: &Resource) -> bool {
    matches!(resource.kind(), Kind::Container { .. })
}
