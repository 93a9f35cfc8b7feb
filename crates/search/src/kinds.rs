//! What a result is, and the types that the server gives it.

/// The namespace of LDP.
macro_rules! ldp {
    ($local:literal) => {
        concat!("http://www.w3.org/ns/ldp#", $local)
    };
}

/// The namespace of Fedora.
macro_rules! fedora {
    ($local:literal) => {
        concat!("http://fedora.info/definitions/v4/repository#", $local)
    };
}

/// What a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A graph.
    RdfSource,
    /// A Basic Container.
    BasicContainer,
    /// A Direct Container.
    DirectContainer,
    /// An Indirect Container.
    IndirectContainer,
    /// Bytes.
    Binary,
    /// The description of bytes.
    Description,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::RdfSource,
        Self::BasicContainer,
        Self::DirectContainer,
        Self::IndirectContainer,
        Self::Binary,
        Self::Description,
    ];

    /// Its number in keys. It is never changed, and not 0.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::RdfSource => 1,
            Self::BasicContainer => 2,
            Self::DirectContainer => 3,
            Self::IndirectContainer => 4,
            Self::Binary => 5,
            Self::Description => 6,
        }
    }

    /// The types that the server gives it.
    pub fn types(self) -> &'static [&'static str] {
        const RESOURCE: &str = ldp!("Resource");
        const SOURCE: &str = ldp!("RDFSource");
        const CONTAINER: &str = ldp!("Container");
        const FEDORA_RESOURCE: &str = fedora!("Resource");
        const FEDORA_CONTAINER: &str = fedora!("Container");
        match self {
            Self::RdfSource => &[RESOURCE, SOURCE, FEDORA_RESOURCE],
            Self::BasicContainer => {
                &[RESOURCE, SOURCE, CONTAINER, ldp!("BasicContainer"), FEDORA_RESOURCE, FEDORA_CONTAINER]
            }
            Self::DirectContainer => {
                &[RESOURCE, SOURCE, CONTAINER, ldp!("DirectContainer"), FEDORA_RESOURCE, FEDORA_CONTAINER]
            }
            Self::IndirectContainer => {
                &[RESOURCE, SOURCE, CONTAINER, ldp!("IndirectContainer"), FEDORA_RESOURCE, FEDORA_CONTAINER]
            }
            Self::Binary => &[RESOURCE, ldp!("NonRDFSource"), FEDORA_RESOURCE, fedora!("Binary")],
            Self::Description => &[RESOURCE, SOURCE, FEDORA_RESOURCE, fedora!("NonRdfSourceDescription")],
        }
    }
}
