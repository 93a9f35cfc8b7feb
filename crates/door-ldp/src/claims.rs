//! Statements of containment and membership in a client's body. The server manages them. They are
//! accepted if they are true, or were true when the client read them, and refused if they never
//! were.
//!
//! A head says whether something is or was a child. Only the listing of an Indirect Container says
//! which members its children name. It is read as far as necessary, which costs what it cost the
//! client to learn of those members.

use std::collections::{BTreeMap, HashSet};

use heads::ResourcePath;
use library::Library;
use rdf::Triple;
use repository::Membership;

use crate::address::path_of_kept;
use crate::errors::LdpError;
use crate::membership::{self, member_in};

/// Such a statement, with stored IRIs. Rules may be many, so what follows from each of them is not
/// held.
pub struct Claim {
    triple: Triple,
    /// It is true if one of these is in the container that its path says.
    children: Vec<ResourcePath>,
}

impl Claim {
    /// A statement that some of the containers' rules could make; `None` if none could.
    pub fn of(triple: &Triple, rules: &[(Membership, ResourcePath)]) -> Option<Self> {
        let mut children: Option<Vec<ResourcePath>> = None;
        // A member is the subject or the object. Each is parsed once, however many rules there are.
        let mut parsed = BTreeMap::new();
        for (membership, container) in rules {
            let Some(member) = membership.rule().and_then(|rule| member_in(rule, triple)) else { continue };
            let children = children.get_or_insert_default();
            if !membership::is_named_by_children(membership)
                && let Some((child, parent)) = parsed.entry(member).or_insert_with(|| child_and_parent(member))
                && *parent == *container
            {
                children.push(child.clone());
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
        let Some(rule) = membership.rule().filter(|_| membership::is_named_by_children(membership)) else { continue };
        let sought: HashSet<_> = open.iter().filter_map(|triple| member_in(rule, triple)).map(str::to_owned).collect();
        if sought.is_empty() {
            continue;
        }
        let never_named = library.repository.never_named(container, sought).await?;
        open.retain(|triple| member_in(rule, triple).is_none_or(|member| never_named.contains(member)));
    }
    Ok(open)
}
