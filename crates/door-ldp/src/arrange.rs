//! The order in which a resource is told: all statements of one subject together, and of these all with one predicate. So flattened JSON-LD
//! has one node object for each subject (JSON-LD 1.1, section 5.3), and the other formats are short.
//!
//! Listings are streams. What a container contains, and members that a resource has, are said of one subject by one predicate, and are told
//! where that is. Statements that lead from the member (`ldp:isMemberOfRelation`) are each of another subject: they come after all others, and
//! what else is said of a member is held until it comes.
//!
//! One thing is not possible without keeping the whole listing: where children of an Indirect Container name the same member, or the
//! resource itself, and the statements lead from it, it is a subject once for each. Nor with the descriptions of others that a client asks for
//! (`Prefer`): they come last, each as it is stored, and may be about a subject that came before.

use std::collections::VecDeque;

use indexmap::IndexMap;
use objects::resources::{Membership, Relation, Resource};
use rdf::{Graph, Lists, NamedNode, NamedOrBlankNode, Triple};

use crate::statements::Section;

/// What is told, in order.
#[derive(Default)]
pub struct Arranged {
    /// The parts.
    pub sections: VecDeque<Section>,
    /// Statements that are told with the first one of the same subject that a listing tells, or else in the end.
    pub held: IndexMap<NamedOrBlankNode, Vec<Triple>>,
    /// What of it is told as lists, where the format has such a thing.
    pub lists: Lists,
}

/// Statements of one subject with one predicate.
#[derive(Default)]
struct Group {
    triples: Vec<Triple>,
    listings: Vec<Section>,
}

/// Arranges statements, and what follows by these rules from what is in containers. The first statement's subject is what is told of.
pub fn arranged(triples: Graph, listings: Vec<(Membership, Resource)>) -> Arranged {
    let lists = Lists::of(&triples);
    let mut subjects: IndexMap<NamedOrBlankNode, IndexMap<NamedNode, Group>> = IndexMap::new();
    for triple in triples {
        let groups = subjects.entry(triple.subject.clone()).or_default();
        groups.entry(triple.predicate.clone()).or_default().triples.push(triple);
    }
    let mut of_members = Vec::new();
    for (membership, container) in listings {
        let subject_and_predicate = of_one_subject(&membership);
        let listing = Section::Children(membership, Box::new(container));
        match subject_and_predicate {
            Some((subject, predicate)) => {
                let groups = subjects.entry(subject.into()).or_default();
                groups.entry(predicate).or_default().listings.push(listing);
            }
            None => of_members.push(listing),
        }
    }
    let mut arranged = Arranged { lists, ..Arranged::default() };
    for (n, (subject, groups)) in subjects.into_iter().enumerate() {
        let is_listed = groups.values().any(|group| !group.listings.is_empty());
        if n > 0 && !is_listed && !of_members.is_empty() {
            arranged.held.insert(subject, groups.into_values().flat_map(|group| group.triples).collect());
            continue;
        }
        for Group { triples, listings } in groups.into_values() {
            arranged.sections.push_back(Section::Triples(triples));
            arranged.sections.extend(listings);
        }
    }
    arranged.sections.extend(of_members);
    arranged
}

/// Subject and predicate of all that follows from a rule; `None`: each statement is of another subject.
fn of_one_subject(membership: &Membership) -> Option<(NamedNode, NamedNode)> {
    let rule = membership.rule()?;
    match &rule.relation {
        Relation::HasMember(relation) => {
            Some((NamedNode::new_unchecked(&rule.resource), NamedNode::new_unchecked(relation)))
        }
        Relation::IsMemberOf(_) => None,
    }
}

impl From<Vec<Section>> for Arranged {
    /// In the order in which they are.
    fn from(sections: Vec<Section>) -> Self {
        Self { sections: sections.into(), ..Self::default() }
    }
}
