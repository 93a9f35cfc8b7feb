//! What an update says is to be taken away, as it says it: what is told of a graph elsewhere than in it can be kept safe by that.

use std::fmt::{self, Display};

use oxrdf::{NamedNode, NamedOrBlankNode, Term, Triple};
use spargebra::term::{GroundQuadPattern, GroundTermPattern, NamedNodePattern};

/// Statements with this subject, predicate and object; each may be any where it is not said.
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
    /// Of one statement, which has no blank node: no update can name one.
    pub(super) fn of(triple: &Triple) -> Self {
        let subject = match &triple.subject {
            NamedOrBlankNode::NamedNode(node) => Some(node.clone()),
            NamedOrBlankNode::BlankNode(_) => None,
        };
        Self { subject, predicate: Some(triple.predicate.clone()), object: Some(triple.object.clone()) }
    }

    /// Of all statements that a template makes.
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

    /// The statement, where it is only one.
    #[must_use]
    pub fn triple(&self) -> Option<Triple> {
        Some(Triple::new(self.subject.clone()?, self.predicate.clone()?, self.object.clone()?))
    }
}

impl Display for Removal {
    /// As N-Triples has it, with `?` for what is not said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = || "?".to_owned();
        let node = |node: &Option<NamedNode>| node.as_ref().map_or_else(any, ToString::to_string);
        let object = self.object.as_ref().map_or_else(any, ToString::to_string);
        write!(f, "{} {} {object}", node(&self.subject), node(&self.predicate))
    }
}
