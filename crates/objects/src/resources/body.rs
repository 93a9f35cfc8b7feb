//! What the head of a resource says.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::ContentId;

use crate::head::ContainerBody;
use crate::revision::RevisionId;

/// A resource of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceBody {
    /// What it is.
    pub kind: Kind,
    /// Where its description is: its own, or that of its bytes.
    pub description: StoredDescription,
}

/// What a resource is (LDP 1.0, section 2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Statements, and nothing in it.
    RdfSource,
    /// Statements, and other resources in it.
    Container {
        /// Which statements follow from what is in it.
        membership: Membership,
        /// Where its children are.
        children: ContainerBody,
    },
    /// Bytes, with statements about them.
    Binary(Binary),
}

/// Which statements follow from what is in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Membership {
    /// None but that it is in it.
    Basic,
    /// One of each child.
    Direct(MemberRule),
    /// One of each child's member, which the child's description names by a relation.
    Indirect(MemberRule, String),
}

impl Membership {
    /// The rule, if there is one.
    pub fn rule(&self) -> Option<&MemberRule> {
        match self {
            Self::Basic => None,
            Self::Direct(rule) | Self::Indirect(rule, _) => Some(rule),
        }
    }
}

/// How a statement of membership is made. IRIs are kept as they were given; this crate does not look into them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRule {
    /// The resource that has members: an IRI.
    pub resource: String,
    /// Which way, and by which relation: an IRI.
    pub relation: Relation,
}

/// Which way a statement of membership points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// From the resource to the member.
    HasMember(String),
    /// From the member to the resource.
    IsMemberOf(String),
}

/// Bytes of a resource that is not statements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// The revision that wrote them.
    pub revision: RevisionId,
    /// Where they are.
    pub place: Place,
    /// How many.
    pub len_bytes: u64,
    /// SHA-256 of them.
    pub sha256: [u8; 32],
    /// Their media type, as it was given.
    pub media_type: String,
    /// How they want to be presented, as it was given (RFC 6266).
    pub disposition: Option<String>,
}

/// Where bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// In a row beside the head.
    Row,
    /// In a content of the store.
    Content(ContentId),
    /// Not here: length and digest are not known then, and stand as nothing.
    Elsewhere(Elsewhere),
}

/// Bytes that are kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Where: an address that this crate does not look into.
    pub url: String,
    /// How who asks for them gets them.
    pub handling: Handling,
}

/// How who asks for bytes that are kept elsewhere gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Handling {
    /// They are fetched and passed on.
    Proxy,
    /// They are left to be fetched there.
    Redirect,
}

impl Binary {
    /// Where they are, if that is not here.
    pub fn elsewhere(&self) -> Option<&Elsewhere> {
        match &self.place {
            Place::Elsewhere(elsewhere) => Some(elsewhere),
            Place::Row | Place::Content(_) => None,
        }
    }
}

/// Where a description is: in rows of the revision that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDescription {
    /// The revision that wrote it.
    pub revision: RevisionId,
    /// How many rows it takes; an empty one takes none.
    pub pieces: u32,
    /// SHA-256 of it.
    pub sha256: [u8; 32],
}

impl ResourceBody {
    /// A Basic Container of which nothing is said.
    pub fn empty_container(shards: u16) -> Self {
        let children = ContainerBody::new(shards);
        Self {
            kind: Kind::Container { membership: Membership::Basic, children },
            description: StoredDescription { revision: RevisionId::ZERO, pieces: 0, sha256: Sha256::digest([]).into() },
        }
    }

    /// Where its children are, if it can have some.
    pub fn container(&self) -> Option<&ContainerBody> {
        match &self.kind {
            Kind::Container { children, .. } => Some(children),
            Kind::RdfSource | Kind::Binary(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn container_mut(&mut self) -> Option<&mut ContainerBody> {
        match &mut self.kind {
            Kind::Container { children, .. } => Some(children),
            Kind::RdfSource | Kind::Binary(_) => None,
        }
    }

    /// Its bytes, if it has some.
    pub fn binary(&self) -> Option<&Binary> {
        match &self.kind {
            Kind::Binary(binary) => Some(binary),
            Kind::RdfSource | Kind::Container { .. } => None,
        }
    }
}
