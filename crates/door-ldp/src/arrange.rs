//! The order of a resource's statements: all of one subject together, and within it all of one
//! predicate. So flattened JSON-LD has one node object per subject (JSON-LD 1.1, section 5.3), and
//! the other formats are short.
//!
//! Listings are streams. Containment, and members of a resource, have one subject and one
//! predicate, and are written in their place. Statements from the member (`ldp:isMemberOfRelation`)
//! have a subject each. They come after all others, and other statements about a member are held
//! until it comes.
//!
//! Two cases would need the whole listing in memory, and break the order instead. Children of an
//! Indirect Container may name the same member, or the resource itself, with statements from the
//! member: then it is a subject once for each. Descriptions of other resources (`Prefer`) come
//! last, each as stored, and may repeat a subject.

use std::collections::VecDeque;

use ::volumes::{PastVolumes, Volume};
use area::Area;
use budget::{Party, Turns};
use heads::ResourcePath;
use indexmap::IndexMap;
use rdf::{Graph, Lists, NamedNode, NamedOrBlankNode, Triple};
use repository::{Backlinks, Child, Membership, PastMembers, Relation, Resource};

/// A section of a response.
pub enum Section {
    /// Statements with stored IRIs.
    Triples(Vec<Triple>),
    /// Statements that follow by a rule, of containment or membership, from the contents of a
    /// container.
    Children(Membership, Contents),
    /// The descriptions of a container's children.
    ContainedDescriptions(Box<Resource>),
    /// The statements of other resources within an area that refer to one.
    InboundReferences(Backlinks, Area),
    /// The descriptions of these; or only the statements in them that refer to one resource.
    Descriptions(VecDeque<ResourcePath>, Option<ResourcePath>),
    /// Containment of the container of volumes.
    Volumes,
    /// The same as of a time. Each page of it is read in a turn of the party.
    VolumesThen(Box<PastVolumes>, Turns, Party),
    /// Containment of a volume's pages, from this one on.
    Pages(Box<Volume>, u32),
}

/// The contents of a container that are listed.
pub enum Contents {
    /// The present ones.
    Now(Box<Resource>),
    /// Those of a container at a path as of a time.
    Then(ResourcePath, Box<PastMembers>),
    /// Some of a container at a path, which were read already.
    Read(ResourcePath, VecDeque<Child>),
}

impl Contents {
    /// The path of the container.
    pub fn container(&self) -> &ResourcePath {
        match self {
            Self::Now(container) => container.path(),
            Self::Then(path, _) | Self::Read(path, _) => path,
        }
    }
}

impl From<Resource> for Contents {
    fn from(container: Resource) -> Self {
        Self::Now(Box::new(container))
    }
}

/// The sections of a response, in order.
#[derive(Default)]
pub struct Arranged {
    /// The parts.
    pub sections: VecDeque<Section>,
    /// Statements to write with the first one of the same subject in a listing, or else at the end.
    pub held: IndexMap<NamedOrBlankNode, Vec<Triple>>,
    /// Lists to write as lists, if the format has them.
    pub lists: Lists,
}

/// Statements of one subject with one predicate.
#[derive(Default)]
struct Group {
    triples: Vec<Triple>,
    listings: Vec<Section>,
}

/// Arranges statements, and those that follow by these rules from the contents of containers. The
/// subject of the first statement is the described resource.
pub fn arranged<C: Into<Contents>>(triples: Graph, listings: Vec<(Membership, C)>) -> Arranged {
    let lists = Lists::of(&triples);
    let mut subjects: IndexMap<NamedOrBlankNode, IndexMap<NamedNode, Group>> = IndexMap::new();
    for triple in triples {
        let groups = subjects.entry(triple.subject.clone()).or_default();
        groups.entry(triple.predicate.clone()).or_default().triples.push(triple);
    }
    let mut of_members = Vec::new();
    for (membership, container) in listings {
        let subject_and_predicate = of_one_subject(&membership);
        let listing = Section::Children(membership, container.into());
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

/// Subject and predicate of all statements of a rule; `None` if each has another subject.
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
