//! The contents of a resource's head.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::ContentId;

use crate::container_body::ContainerBody;
use crate::revision::RevisionId;

/// A resource of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceBody {
    /// The kind of resource.
    pub kind: Kind,
    /// The place of its description. A binary's description is about its bytes.
    pub description: StoredDescription,
}

/// The kind of a resource (LDP 1.0, section 2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A description, without children.
    RdfSource,
    /// A description, with other resources as children.
    Container {
        /// The membership statements that follow from its children.
        membership: Membership,
        /// The shards of its children.
        children: ContainerBody,
    },
    /// Bytes, with a description of them.
    Binary(Binary),
}

/// The membership statements that follow from a container's children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Membership {
    /// None besides containment.
    Basic,
    /// One statement per child.
    Direct(MemberRule),
    /// One statement per child, whose member the child's description names by a relation.
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

/// How a membership statement is made. IRIs are kept as given; this crate does not interpret them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRule {
    /// The membership resource: an IRI.
    pub resource: String,
    /// The direction and the relation: an IRI.
    pub relation: Relation,
}

/// The direction of a membership statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// From the resource to the member.
    HasMember(String),
    /// From the member to the resource.
    IsMemberOf(String),
}

/// The bytes of a resource that is not RDF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// The revision that wrote them.
    pub revision: RevisionId,
    /// Where they are stored.
    pub place: BytesPlace,
    /// Their length in bytes.
    pub len_bytes: u64,
    /// SHA-256 of them.
    pub sha256: [u8; 32],
    /// Their media type, as given.
    pub media_type: String,
    /// Their content disposition, as given (RFC 6266).
    pub disposition: Option<String>,
}

/// Where bytes are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BytesPlace {
    /// In a row beside the head.
    Row,
    /// In a content of the store.
    Content(ContentId),
    /// Outside this store. Their length and digest are then unknown and recorded as zero.
    Elsewhere(Elsewhere),
}

/// Bytes that are stored outside this store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Their address, which this crate does not interpret.
    pub url: String,
    /// How a reader gets them.
    pub handling: Handling,
}

/// How a reader gets bytes that are stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Handling {
    /// The server fetches them and passes them on.
    Proxy,
    /// The reader is redirected to them.
    Redirect,
}

impl Binary {
    /// Their outside address, if they are stored elsewhere.
    pub fn elsewhere(&self) -> Option<&Elsewhere> {
        match &self.place {
            BytesPlace::Elsewhere(elsewhere) => Some(elsewhere),
            BytesPlace::Row | BytesPlace::Content(_) => None,
        }
    }
}

/// The place of a description: rows of the revision that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDescription {
    /// The revision that wrote it.
    pub revision: RevisionId,
    /// The number of its rows; 0 if it is empty.
    pub pieces: u32,
    /// SHA-256 of it.
    pub sha256: [u8; 32],
}

impl ResourceBody {
    /// A Basic Container with an empty description.
    pub fn empty_container(shards: u16) -> Self {
        let children = ContainerBody::new(shards);
        Self {
            kind: Kind::Container { membership: Membership::Basic, children },
            description: StoredDescription { revision: RevisionId::ZERO, pieces: 0, sha256: Sha256::digest([]).into() },
        }
    }

    /// The shards of its children, if it can have children.
    pub fn container(&self) -> Option<&ContainerBody> {
        match &self.kind {
            Kind::Container { children, .. } => Some(children),
            Kind::RdfSource | Kind::Binary(_) => None,
        }
    }

    /// The shards of its children, to be changed.
    pub fn container_mut(&mut self) -> Option<&mut ContainerBody> {
        match &mut self.kind {
            Kind::Container { children, .. } => Some(children),
            Kind::RdfSource | Kind::Binary(_) => None,
        }
    }

    /// Its bytes, if it is a binary.
    pub fn binary(&self) -> Option<&Binary> {
        match &self.kind {
            Kind::Binary(binary) => Some(binary),
            Kind::RdfSource | Kind::Container { .. } => None,
        }
    }
}
/// A stored part of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Its description.
    Description,
    /// Its bytes.
    Bytes,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 2] = [Self::Description, Self::Bytes];

    /// The number in the key of its mark.
    pub fn number(self) -> u32 {
        match self {
            Self::Description => 0,
            Self::Bytes => 1,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Bytes => "bytes",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
