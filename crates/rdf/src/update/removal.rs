//! The statements that an update deletes. With them the caller can protect statements about a graph
//! that are stored elsewhere.

use std::fmt::{self, Display};

use oxrdf::{NamedNode, NamedOrBlankNode, Term, Triple};
use spargebra::term::{GroundQuadPattern, GroundTermPattern, NamedNodePattern};

/// Statements with this subject, predicate and object. `None` matches any term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The subject.
    pub subject: Option<NamedNode>,
    /// The predicate.
    pub predicate: Option<NamedNode>,
    /// The object.
    pub object: Option<Term>,
}

impl Removal {
    /// One statement. It has no blank node, because no update can name one.
    pub(super) fn of(triple: &Triple) -> Self {
        let subject = match &triple.subject {
            NamedOrBlankNode::NamedNode(node) => Some(node.clone()),
            NamedOrBlankNode::BlankNode(_) => None,
        };
        Self { subject, predicate: Some(triple.predicate.clone()), object: Some(triple.object.clone()) }
    }

    /// All statements that a template makes.
    pub(super) fn of_template(template: &GroundQuadPattern) -> Self {
        let term = |pattern: &GroundTermPattern| match pattern {
            GroundTermPattern::NamedNode(node) => Some(Term::from(node.clone())),
            GroundTermPattern::Literal(literal) => Some(literal.clone().into()),
            GroundTermPattern::Variable(_) => None,
        };
        let subject = term(&template.subject).and_then(|subject| match subject {
            Term::NamedNode(node) => Some(node),
            Term::BlankNode(_) | Term::Literal(_) => None,
        });
        let predicate = match &template.predicate {
            NamedNodePattern::NamedNode(node) => Some(node.clone()),
            NamedNodePattern::Variable(_) => None,
        };
        Self { subject, predicate, object: term(&template.object) }
    }

    /// The statement, if it is only one.
    #[must_use]
    pub fn triple(&self) -> Option<Triple> {
        Some(Triple::new(self.subject.clone()?, self.predicate.clone()?, self.object.clone()?))
    }
}

impl Display for Removal {
    /// As in N-Triples, with `?` for any term.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = || "?".to_owned();
        let node = |node: &Option<NamedNode>| node.as_ref().map_or_else(any, ToString::to_string);
        let object = self.object.as_ref().map_or_else(any, ToString::to_string);
        write!(f, "{} {} {object}", node(&self.subject), node(&self.predicate))
    }
}
