//! The vocabulary of Fedora, for its clients.

use rdf::NamedNodeRef;

/// The namespace.
const NAMESPACE: &str = "http://fedora.info/definitions/v4/repository#";

macro_rules! terms {
    ($($(#[$comment:meta])* $name:ident = $local:literal;)*) => {$(
        $(#[$comment])*
        pub const $name: NamedNodeRef<'static> =
            NamedNodeRef::new_unchecked(concat!("http://fedora.info/definitions/v4/repository#", $local));
    )*};
}

terms! {
    /// When something was created.
    CREATED = "created";
    /// When its description changed last.
    LAST_MODIFIED = "lastModified";
    /// Anything in a repository.
    RESOURCE = "Resource";
    /// A container.
    CONTAINER = "Container";
    /// Bytes.
    BINARY = "Binary";
    /// The container that all others are in.
    REPOSITORY_ROOT = "RepositoryRoot";
    /// A container that is stored and versioned as one with its contents.
    ARCHIVAL_GROUP = "ArchivalGroup";
    /// Preference: server-managed statements.
    SERVER_MANAGED = "ServerManaged";
}

/// Whether a term is of the vocabulary.
pub fn is_of(term: NamedNodeRef<'_>) -> bool {
    term.as_str().starts_with(NAMESPACE)
}
