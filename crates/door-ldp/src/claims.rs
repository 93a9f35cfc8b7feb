//! Statements of containment and membership in a client's body. The server manages them. They are
//! accepted if they are true, or were true when the client read them, and refused if they never
//! were.
//!
//! A head says whether something is or was a child. Only the listing of an Indirect Container says
//! which members its children name. It is read as far as necessary, which costs what it cost the
//! client to learn of those members.

use std::collections::{HashMap, HashSet};

use heads::ResourcePath;
use library::Library;
use rdf::{NamedOrBlankNode, Term, Triple};
use repository::{MemberRule, Membership, Relation};

use crate::address::path_of_kept;
use crate::errors::LdpError;
use crate::membership::{self, member_in};

/// What all statements of a rule have: whether the relation leads to the member, the relation, and
/// the membership resource.
pub type Key<'a> = (bool, &'a str, &'a str);

/// What all statements of this rule have.
pub fn key(rule: &MemberRule) -> Key<'_> {
    match &rule.relation {
        Relation::HasMember(relation) => (true, relation.as_str(), rule.resource.as_str()),
        Relation::IsMemberOf(relation) => (false, relation.as_str(), rule.resource.as_str()),
    }
}

/// Rules by what their statements have. Rules may be many and long, so a statement is looked up
/// instead of compared with each.
pub struct Index<'a> {
    /// For each key, the containers whose children are members themselves.
    containers: HashMap<Key<'a>, HashSet<&'a ResourcePath>>,
}

impl<'a> Index<'a> {
    /// The index of some rules, with the containers from whose children their statements follow.
    pub fn of(rules: &'a [(Membership, ResourcePath)]) -> Self {
        let mut containers: HashMap<Key<'a>, HashSet<&'a ResourcePath>> = HashMap::new();
        for (membership, container) in rules {
            let Some(rule) = membership.rule() else { continue };
            let of_key = containers.entry(key(rule)).or_default();
            if !membership::is_named_by_children(membership) {
                of_key.insert(container);
            }
        }
        Self { containers }
    }
}

/// Such a statement, with stored IRIs. Rules may be many, so what follows from each of them is not
/// held.
pub struct Claim {
    triple: Triple,
    /// It is true if one of these is in the container that its path says.
    children: Vec<ResourcePath>,
}

impl Claim {
    /// A statement that some of the rules could make; `None` if none could.
    pub fn of(triple: &Triple, rules: &Index<'_>) -> Option<Self> {
        let NamedOrBlankNode::NamedNode(subject) = &triple.subject else { return None };
        let Term::NamedNode(object) = &triple.object else { return None };
        let (subject, relation, object) = (subject.as_str(), triple.predicate.as_str(), object.as_str());
        let mut children: Option<Vec<ResourcePath>> = None;
        // A member is the subject or the object.
        for (key, member) in [((true, relation, subject), object), ((false, relation, object), subject)] {
            let Some(containers) = rules.containers.get(&key) else { continue };
            let children = children.get_or_insert_default();
            if let Some((child, parent)) = child_and_parent(member)
                && containers.contains(&parent)
            {
                children.push(child);
            }
        }
        Some(Self { triple: triple.clone(), children: children? })
    }

    /// The statement.
    pub fn into_triple(self) -> Triple {
        self.triple
    }
}

/// The resource that an IRI names, and the container that it is in.
fn child_and_parent(iri: &str) -> Option<(ResourcePath, ResourcePath)> {
    // A part of a child is not a child.
    let child = path_of_kept(iri).filter(|_| !iri.contains(['#', '?']))?;
    let parent = child.parent()?;
    Some((child, parent))
}

/// Those of the statements that never were true. `rules` are those by which they are claims.
pub async fn never_so(
    library: &Library,
    claims: Vec<Claim>,
    rules: &[(Membership, ResourcePath)],
) -> Result<Vec<Triple>, LdpError> {
    let children: Vec<_> = claims.iter().flat_map(|claim| &claim.children).cloned().collect();
    let known = library.repository.were_children(&children).await?;
    let were: HashSet<_> = children.iter().zip(known).filter(|(_, was)| *was).map(|(child, _)| child).collect();
    let is_open = |claim: &Claim| !claim.children.iter().any(|child| were.contains(child));
    let mut open: Vec<_> = claims.into_iter().filter(is_open).map(Claim::into_triple).collect();
    // One container after the other, so that the members that are sought are held once.
    for (membership, container) in rules {
        if open.is_empty() {
            break;
        }
        let Some(rule) = membership.rule().filter(|_| membership::is_named_by_children(membership)) else { continue };
        // Other requests go on between two comparisons of many statements.
        tokio::task::yield_now().await;
        let sought: HashSet<_> = open.iter().filter_map(|triple| member_in(rule, triple)).map(str::to_owned).collect();
        if sought.is_empty() {
            continue;
        }
        let never_named = library.repository.never_named(container, sought).await?;
        open.retain(|triple| member_in(rule, triple).is_none_or(|member| never_named.contains(member)));
    }
    Ok(open)
}
