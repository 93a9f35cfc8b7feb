//! The statements of a description, grouped as people read them: by subject, and within it by
//! property.

use indexmap::IndexMap;
use maud::{Markup, html};
use rdf::{Graph, NamedNode, NamedOrBlankNode, Term};

use super::terms;
use crate::address::Site;

/// Most statements on a page. The other formats have all of them.
const STATEMENTS_MAX: usize = 2_000;

/// Statements with stored IRIs. `own` is the resource that the page is about; its statements come
/// first, without a heading. Links to blank nodes begin with `section`, which is unique on a page.
pub fn statements(site: &Site, own: &str, section: &str, graph: Graph) -> Markup {
    let count = graph.len();
    let mut subjects: IndexMap<NamedOrBlankNode, IndexMap<NamedNode, Vec<Term>>> = IndexMap::new();
    let own = NamedOrBlankNode::from(NamedNode::new_unchecked(own));
    subjects.insert(own.clone(), IndexMap::new());
    for triple in graph.into_iter().take(STATEMENTS_MAX) {
        subjects.entry(triple.subject).or_default().entry(triple.predicate).or_default().push(triple.object);
    }
    html! {
        @for (subject, properties) in &subjects {
            @if *subject != own {
                h3 id=[anchor(section, subject)] { (name(site, subject)) }
            }
            @if !properties.is_empty() {
                dl.statements {
                    @for (property, objects) in properties {
                        dt { (terms::iri(site, property.as_str())) }
                        @for object in objects { dd { (term(site, section, object)) } }
                    }
                }
            }
        }
        @if count > STATEMENTS_MAX {
            p.note { "The first " (STATEMENTS_MAX) " of " (count) " statements are shown. Ask for Turtle to get all." }
        }
    }
}

/// What links to a blank node lead to.
fn anchor(section: &str, subject: &NamedOrBlankNode) -> Option<String> {
    match subject {
        NamedOrBlankNode::NamedNode(_) => None,
        NamedOrBlankNode::BlankNode(node) => Some(format!("{section}_{}", node.as_str())),
    }
}

fn name(site: &Site, subject: &NamedOrBlankNode) -> Markup {
    match subject {
        NamedOrBlankNode::NamedNode(node) => terms::iri(site, node.as_str()),
        NamedOrBlankNode::BlankNode(node) => html! { "_:" (node.as_str()) },
    }
}

fn term(site: &Site, section: &str, term: &Term) -> Markup {
    match term {
        Term::NamedNode(node) => terms::iri(site, node.as_str()),
        Term::BlankNode(node) => html! { a href={ "#" (section) "_" (node.as_str()) } { "_:" (node.as_str()) } },
        Term::Literal(literal) => terms::literal(literal),
    }
}
