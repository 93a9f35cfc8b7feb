//! Loads what other programs wrote: files become resources with bytes, folders become containers.
//! `bag.rs` loads bags, `ocfl.rs` loads objects of OCFL with their versions.

pub mod bag;
pub mod ocfl;

use std::path::Path;

use heads::ResourcePath;
use preservation::about::About;
use rdf::{Literal, NamedNode, Triple};

use super::loader::{State, Statements};
use super::source::Bytes;
use crate::commands::put::media_type_of;
use crate::resources::encoded;

/// The address of the repository in statements that are made here.
pub(super) const REPOSITORY: &str = "http://load.invalid/";

pub(super) const DCTERMS: &str = "http://purl.org/dc/terms/";
const LDP: &str = "http://www.w3.org/ns/ldp#";

/// The containers above a resource, without the root.
fn containers_to(path: &ResourcePath) -> Vec<String> {
    path.as_str().match_indices('/').map(|(end, _)| path.as_str()[..end].to_owned()).collect()
}

pub(super) fn about(path: &str, model: &str) -> About {
    About {
        repository: REPOSITORY.to_owned(),
        path: path.to_owned(),
        types: vec![format!("{LDP}{model}")],
        content_type: None,
        content_disposition: None,
        last_modified: None,
        stored_at: None,
        handling: None,
    }
}

pub(super) fn container(path: &str, statements: Vec<u8>) -> State {
    State { about: about(path, "BasicContainer"), statements: statements.into(), bytes: None }
}

fn binary(path: &str, bytes: Bytes) -> State {
    // With this model a graph is stored as its bytes.
    let content_type = media_type_of(Path::new(path)).to_owned();
    let about = About { content_type: Some(content_type), ..about(path, "NonRDFSource") };
    State { about, statements: Statements::Exported(Vec::new()), bytes: Some(bytes) }
}

/// Statements about a resource, as properties and texts.
fn statements_about(path: &str, statements: impl Iterator<Item = (String, String)>) -> Vec<u8> {
    let subject = node(path);
    let statements = statements.map(|(property, value)| {
        Triple::new(subject.clone(), NamedNode::new_unchecked(property), Literal::from(value))
    });
    rdf::to_stored(&statements.collect())
}

/// A resource in statements that are made here.
pub(super) fn node(path: &str) -> NamedNode {
    let names = path.split('/').map(encoded);
    NamedNode::new_unchecked(format!("{REPOSITORY}{}", names.collect::<Vec<_>>().join("/")))
}
