//! Sizes and variables of terms, and which triples match a pattern.

use oxrdf::{Literal, NamedOrBlankNode, Term, Triple, Variable};
use spargebra::term::{GroundTerm, GroundTermPattern, NamedNodePattern, TermPattern, TriplePattern};

/// Bytes of a literal with its type, and at least those of a usual type.
pub(super) fn literal_bytes(literal: &Literal) -> usize {
    literal.value().len() + literal.datatype().as_str().len().max(64)
}

/// Bytes of the terms of a triple.
pub(super) fn terms_bytes(triple: &Triple) -> [usize; 3] {
    let subject = match &triple.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNode::BlankNode(node) => node.as_str().len(),
    };
    let object = match &triple.object {
        Term::NamedNode(node) => node.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => literal_bytes(literal),
    };
    [subject, triple.predicate.as_str().len(), object]
}

/// Bytes of a term or of the name of a variable.
pub(super) fn text_bytes(term: &TermPattern) -> usize {
    match term {
        TermPattern::NamedNode(node) => node.as_str().len(),
        TermPattern::BlankNode(node) => node.as_str().len(),
        TermPattern::Literal(literal) => literal_bytes(literal),
        TermPattern::Variable(variable) => variable.as_str().len(),
    }
}

pub(super) fn verb_bytes(verb: &NamedNodePattern) -> usize {
    match verb {
        NamedNodePattern::NamedNode(node) => node.as_str().len(),
        NamedNodePattern::Variable(variable) => variable.as_str().len(),
    }
}

pub(super) fn ground_bytes(term: &GroundTerm) -> usize {
    match term {
        GroundTerm::NamedNode(node) => node.as_str().len(),
        GroundTerm::Literal(literal) => literal_bytes(literal),
    }
}

pub(super) fn variable(term: &TermPattern) -> Option<&Variable> {
    if let TermPattern::Variable(variable) = term { Some(variable) } else { None }
}

pub(super) fn ground_variable(term: &GroundTermPattern) -> Option<&Variable> {
    if let GroundTermPattern::Variable(variable) = term { Some(variable) } else { None }
}

pub(super) fn verb_variable(verb: &NamedNodePattern) -> Option<&Variable> {
    if let NamedNodePattern::Variable(variable) = verb { Some(variable) } else { None }
}

/// Whether a triple matches a pattern alone.
pub(super) fn fits(pattern: &TriplePattern, triple: &Triple) -> bool {
    let subject = match &pattern.subject {
        TermPattern::NamedNode(node) => matches!(&triple.subject, NamedOrBlankNode::NamedNode(other) if node == other),
        TermPattern::Literal(_) => false,
        TermPattern::BlankNode(_) | TermPattern::Variable(_) => true,
    };
    let predicate = match &pattern.predicate {
        NamedNodePattern::NamedNode(node) => *node == triple.predicate,
        NamedNodePattern::Variable(_) => true,
    };
    let object = match &pattern.object {
        TermPattern::NamedNode(node) => matches!(&triple.object, Term::NamedNode(other) if node == other),
        TermPattern::Literal(literal) => matches!(&triple.object, Term::Literal(other) if literal == other),
        TermPattern::BlankNode(_) | TermPattern::Variable(_) => true,
    };
    subject && predicate && object
}
