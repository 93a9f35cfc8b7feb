//! Metadata as statements.

use preservation::dspace::{DIM, Field, Manifest, ONTOLOGY};
use rdf::{Graph, Iri, Literal, NamedNode, Term, Triple};

use super::super::foreign::{DCTERMS, node};
use super::place;

const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const DATE_TIME: &str = "http://www.w3.org/2001/XMLSchema#dateTime";

/// Statements about a resource.
pub(super) struct About {
    subject: NamedNode,
    graph: Graph,
}

impl About {
    pub(super) fn new(path: &str) -> Self {
        Self { subject: node(path), graph: Graph::default() }
    }

    pub(super) fn written(&self) -> Vec<u8> {
        rdf::to_stored(&self.graph)
    }

    fn state(&mut self, property: &str, object: impl Into<Term>) {
        let property = NamedNode::new_unchecked(property);
        self.graph.insert(Triple::new(self.subject.clone(), property, object));
    }

    /// States what a DSpace calls itself.
    pub(super) fn class(&mut self, name: &str) {
        self.state(TYPE, NamedNode::new_unchecked(format!("{ONTOLOGY}{name}")));
    }

    /// States a relation to another resource.
    pub(super) fn relation(&mut self, property: &str, path: &str) {
        self.state(property, node(path));
    }

    /// States a text under a name that only DSpace has.
    pub(super) fn own(&mut self, name: &str, text: &str) {
        self.state(&format!("{DIM}{name}"), Literal::from(text));
    }

    /// States the fields that everyone could see.
    pub(super) fn fields(&mut self, fields: &[Field]) {
        let shown = fields.iter().filter(|field| !field.is_hidden() && !field.value.is_empty());
        for field in shown {
            let property = field.property();
            let value = value(field, property.may_be_resource);
            if let Some(wider) = &property.wider {
                self.state(wider, value.clone());
            }
            self.state(&property.address, value);
        }
    }
}

/// A value of a field.
fn value(field: &Field, may_be_resource: bool) -> Term {
    let text = field.value.as_str();
    let is_address = may_be_resource && (text.starts_with("http://") || text.starts_with("https://"));
    if is_address && let Ok(address) = Iri::parse(text.to_owned()) {
        return NamedNode::new_unchecked(address.into_inner()).into();
    }
    let tagged = field.language_tag().and_then(|tag| Literal::new_language_tagged_literal(text, tag).ok());
    tagged.unwrap_or_else(|| Literal::from(text)).into()
}

/// The statements about an object. `primary` is the path of its primary bitstream, or of its logo.
pub(super) fn of_object(path: &str, manifest: &Manifest, primary: Option<&str>) -> Vec<u8> {
    let mut about = About::new(path);
    about.class(manifest.kind.class());
    about.fields(&manifest.fields);
    about.state(&format!("{DCTERMS}identifier"), Literal::from(format!("hdl:{}", manifest.handle)));
    about.relation(&format!("{DCTERMS}source"), &place::mets(manifest));
    if let Some(modified) = &manifest.modified {
        let date_time = NamedNode::new_unchecked(DATE_TIME);
        about.state(&format!("{DCTERMS}modified"), Literal::new_typed_literal(modified, date_time));
    }
    let relation = manifest.kind.relation().map(|name| format!("{ONTOLOGY}{name}"));
    if let (Some(parent), Some(relation)) = (&manifest.parent, &relation) {
        about.relation(&format!("{DCTERMS}isPartOf"), parent);
        about.relation(relation, parent);
        for other in manifest.also_in() {
            about.relation(&format!("{DCTERMS}isReferencedBy"), other);
            about.relation(relation, other);
        }
    }
    if let Some(primary) = primary {
        about.relation(&format!("{DIM}primaryBitstream"), primary);
    }
    if manifest.is_withdrawn() {
        about.state(&format!("{DCTERMS}accessRights"), Literal::from("WITHDRAWN"));
    }
    about.written()
}
