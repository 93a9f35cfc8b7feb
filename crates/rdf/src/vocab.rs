//! Vocabularies of a linked data platform, and their prefixes.

pub use oxrdf::vocab::{rdf, rdfs, xsd};

/// Prefixes for output: of [`crate::Writer`], and of the built-in context of compacted JSON-LD.
pub const PREFIXES: &[(&str, &str)] = &[
    ("acl", "http://www.w3.org/ns/auth/acl#"),
    ("as", "https://www.w3.org/ns/activitystreams#"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("ebucore", "http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#"),
    ("fedora", "http://fedora.info/definitions/v4/repository#"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("iana", "http://www.iana.org/assignments/relation/"),
    ("ldp", "http://www.w3.org/ns/ldp#"),
    ("memento", "http://mementoweb.org/ns#"),
    ("premis", "http://www.loc.gov/premis/rdf/v1#"),
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("skos", "http://www.w3.org/2004/02/skos/core#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
];

/// [Linked Data Platform 1.0](https://www.w3.org/TR/ldp/), section 2.1 and its vocabulary document.
pub mod ldp {
    use oxrdf::NamedNodeRef;

    /// The namespace.
    pub const NAMESPACE: &str = "http://www.w3.org/ns/ldp#";

    macro_rules! terms {
        ($($(#[$comment:meta])* $name:ident = $local:literal;)*) => {$(
            $(#[$comment])*
            pub const $name: NamedNodeRef<'_> =
                NamedNodeRef::new_unchecked(concat!("http://www.w3.org/ns/ldp#", $local));
        )*};
    }

    terms! {
        /// Any resource of the platform.
        RESOURCE = "Resource";
        /// A resource whose state is a graph.
        RDF_SOURCE = "RDFSource";
        /// A resource whose state is bytes.
        NON_RDF_SOURCE = "NonRDFSource";
        /// Any container.
        CONTAINER = "Container";
        /// A container that lists what it contains and nothing else.
        BASIC_CONTAINER = "BasicContainer";
        /// A container that also makes membership triples with what it contains.
        DIRECT_CONTAINER = "DirectContainer";
        /// A container whose membership triples name members that the contained resources state.
        INDIRECT_CONTAINER = "IndirectContainer";
        /// Container to contained resource.
        CONTAINS = "contains";
        /// Resource to member, if no other relation was chosen.
        MEMBER = "member";
        /// Subject (or object) of a container's membership triples.
        MEMBERSHIP_RESOURCE = "membershipResource";
        /// Predicate of membership triples that lead to the member.
        HAS_MEMBER_RELATION = "hasMemberRelation";
        /// Predicate of membership triples that come from the member.
        IS_MEMBER_OF_RELATION = "isMemberOfRelation";
        /// Which property of a contained resource names the member.
        INSERTED_CONTENT_RELATION = "insertedContentRelation";
        /// The contained resource itself is the member.
        MEMBER_SUBJECT = "MemberSubject";
        /// Link relation to the constraints on a resource.
        CONSTRAINED_BY = "constrainedBy";
        /// One page of a resource (LDP Paging).
        PAGE = "Page";
        /// Preference: containment triples.
        PREFER_CONTAINMENT = "PreferContainment";
        /// Preference: membership triples.
        PREFER_MEMBERSHIP = "PreferMembership";
        /// Preference: what an empty container would show.
        PREFER_MINIMAL_CONTAINER = "PreferMinimalContainer";
        /// The older name of [`PREFER_MINIMAL_CONTAINER`].
        PREFER_EMPTY_CONTAINER = "PreferEmptyContainer";
    }
}
