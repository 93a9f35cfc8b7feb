//! Stored graphs: reading them, changing their IRIs, and what they refer to.

use std::collections::BTreeSet;

use heads::ResourcePath;
use heads::VOLUMES;
use library::Library;
use rdf::update::Removal;
use rdf::{BlankNode, Graph, NamedNode, NamedOrBlankNode, Term, Triple};
use repository::Resource;

use crate::address::path_of_kept;
use crate::errors::LdpError;

/// The stored description of a resource.
pub async fn kept_description(library: &Library, resource: &Resource) -> Result<Graph, LdpError> {
    let stored = library.repository.description(resource).await?;
    rdf::from_stored(&stored).map_err(|error| LdpError::Internal(format!("a description: {error}")))
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
