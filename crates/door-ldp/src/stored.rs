//! Stored graphs: reading them, changing their IRIs, and what they refer to.

use std::collections::BTreeSet;

use heads::ResourcePath;
use heads::VOLUMES;
use library::Library;
use rdf::update::Removal;
use rdf::{BlankNode, Graph, NamedNode, NamedOrBlankNode, Term, Triple};
use repository::Resource;
use repository::describe::PIECE_BYTES;

use crate::address::path_of_kept;
use crate::body::bytes_of;
use crate::errors::LdpError;
use crate::held::Held;

/// Bytes that a response holds for each byte of a stored description, about. A statement often has a
/// hundred bytes of text, and takes more than twice as many besides.
const TIMES_STORED: u64 = 10;

/// Graphs that a response holds at the same time: as it was read, arranged, and as text.
const GRAPHS_AT_ONCE: u64 = 3;

/// The stored description of a resource.
pub async fn kept_description(library: &Library, resource: &Resource) -> Result<Graph, LdpError> {
    let stored = library.repository.description(resource).await?;
    rdf::from_stored(&stored).map_err(|error| LdpError::Internal(format!("a description: {error}")))
}

/// The same for a response that holds it within its share of the memory.
pub async fn held_description(library: &Library, resource: &Resource, held: &mut Held) -> Result<Graph, LdpError> {
    let (others, expected) = (held.bytes(), expected_bytes(resource));
    held.set(others + expected).await?;
    let description = kept_description(library, resource).await?;
    let bytes = others + GRAPHS_AT_ONCE * bytes_of(&description);
    match held.set(bytes).await {
        Ok(()) => return Ok(description),
        // It has waited for all of it already.
        Err(overloaded) if expected == 0 => return Err(overloaded.into()),
        Err(_) => drop(description),
    }
    // Short statements take more than expected. A share that is held does not wait for more: it is
    // given back first.
    held.set(others).await?;
    held.set(bytes).await?;
    kept_description(library, resource).await
}

/// Bytes that the description of a resource is going to take in a response, about. A small one, of
/// one row, counts once it was read.
pub fn expected_bytes(resource: &Resource) -> u64 {
    match resource.body().description.pieces {
        0 | 1 => 0,
        pieces => TIMES_STORED * PIECE_BYTES as u64 * u64::from(pieces),
    }
}

/// A graph with its IRIs mapped by `change`.
pub fn map(graph: Graph, change: impl Fn(&str) -> Option<String>) -> Graph {
    graph.into_iter().map(|triple| mapped(triple, &change)).collect()
}

/// A statement with its IRIs mapped by `change`.
pub fn mapped(mut triple: Triple, change: &impl Fn(&str) -> Option<String>) -> Triple {
    if let NamedOrBlankNode::NamedNode(node) = &mut triple.subject {
        replace(node, change);
    }
    replace(&mut triple.predicate, change);
    if let Term::NamedNode(node) = &mut triple.object {
        replace(node, change);
    }
    triple
}

/// The removals of an update, with their IRIs mapped likewise.
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

/// Maps one IRI, if `change` has another for it.
pub fn replace(node: &mut NamedNode, change: &impl Fn(&str) -> Option<String>) {
    if let Some(changed) = change(node.as_str()) {
        *node = NamedNode::new_unchecked(changed);
    }
}

/// The resource of this repository that a statement (with stored IRIs) refers to, or to a part of
/// it. `None` if there is none, or only the data door changes it.
pub fn refers_to(triple: &Triple) -> Option<ResourcePath> {
    let Term::NamedNode(object) = &triple.object else { return None };
    path_of_kept(object.as_str()).filter(|path| path.names().next() != Some(VOLUMES))
}

/// The other resources that a graph (with stored IRIs) refers to.
pub fn references<'a>(graph: impl IntoIterator<Item = &'a Triple>, own: &ResourcePath) -> BTreeSet<ResourcePath> {
    graph.into_iter().filter_map(refers_to).filter(|path| path != own).collect()
}

/// A graph with blank nodes that are distinct from those of graphs with another number.
pub fn labelled_apart(graph: Graph, number: u64) -> Graph {
    let label = |node: BlankNode| BlankNode::new_unchecked(format!("g{number}x{}", node.as_str()));
    let label_in = |mut triple: Triple| {
        if let NamedOrBlankNode::BlankNode(node) = triple.subject {
            triple.subject = label(node).into();
        }
        if let Term::BlankNode(node) = triple.object {
            triple.object = label(node).into();
        }
        triple
    };
    graph.into_iter().map(label_in).collect()
}
