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
use rdf::Triple;
use repository::Membership;

use crate::address::path_of_kept;
use crate::errors::LdpError;
use crate::membership::{self, member_in};

/// Such a statement, with stored IRIs.
pub struct Claim {
    triple: Triple,
    /// It is true if one of these is.
    grounds: Vec<Ground>,
}

/// A possible reason for a statement.
enum Ground {
    /// Something is in the container that its path says.
    Child(ResourcePath),
    /// Something in a container names a member.
    Named { container: ResourcePath, member: String },
}

impl Claim {
    /// A statement that some of the containers' rules could make; `None` if none could.
    pub fn of(triple: &Triple, rules: &[(Membership, ResourcePath)]) -> Option<Self> {
        let mut grounds = None;
        for (membership, container) in rules {
            let Some(member) = membership.rule().and_then(|rule| member_in(rule, triple)) else { continue };
            let ground = match membership::is_named_by_children(membership) {
                true => Some(Ground::Named { container: container.clone(), member: member.to_owned() }),
                false => child_in(container, member),
            };
            grounds.get_or_insert_with(Vec::new).extend(ground);
        }
        Some(Self { triple: triple.clone(), grounds: grounds? })
    }

    /// The statement.
    pub fn into_triple(self) -> Triple {
        self.triple
    }

    fn children(&self) -> impl Iterator<Item = &ResourcePath> {
        self.grounds.iter().filter_map(|ground| match ground {
            Ground::Child(path) => Some(path),
            Ground::Named { .. } => None,
        })
    }

    fn named(&self) -> impl Iterator<Item = (&ResourcePath, &String)> {
        self.grounds.iter().filter_map(|ground| match ground {
            Ground::Child(_) => None,
            Ground::Named { container, member } => Some((container, member)),
        })
    }
}

fn child_in(container: &ResourcePath, iri: &str) -> Option<Ground> {
    // A part of a child is not a child.
    let path = path_of_kept(iri).filter(|_| !iri.contains(['#', '?']))?;
    (path.parent().as_ref() == Some(container)).then_some(Ground::Child(path))
}

/// Those of the statements that never were true.
pub async fn never_so(library: &Library, claims: Vec<Claim>) -> Result<Vec<Triple>, LdpError> {
    let children: Vec<_> = claims.iter().flat_map(Claim::children).cloned().collect();
    let known = library.repository.were_children(&children).await?;
    let were: HashSet<_> = children.iter().zip(known).filter(|(_, was)| *was).map(|(child, _)| child).collect();
    let mut open: Vec<_> =
        claims.into_iter().filter(|claim| !claim.children().any(|child| were.contains(child))).collect();

    let mut sought: HashMap<ResourcePath, HashSet<String>> = HashMap::new();
    for (container, member) in open.iter().flat_map(Claim::named) {
        sought.entry(container.clone()).or_default().insert(member.clone());
    }
    for (container, members) in &mut sought {
        *members = library.repository.never_named(container, std::mem::take(members)).await?;
    }
    open.retain(|claim| claim.named().all(|(container, member)| sought[container].contains(member)));
    Ok(open.into_iter().map(Claim::into_triple).collect())
}
