//! Packages of a DSpace (AIP), as `dspace packager -d -a -t AIP` writes them since DSpace 1.7.
//!
//! Each object (site, community, collection, item) is a ZIP of its own: `mets.xml` says what is
//! known of it, and the bytes of its bitstreams are beside that. An export of manifests only has
//! the METS files alone. Written from DSpace's documentation ("DSpace AIP Format") and its sources:
//! `AbstractMETSDisseminator`, `DSpaceAIPDisseminator`, `AIPTechMDCrosswalk`,
//! `METSRightsCrosswalk`.
//!
//! - `field.rs`: fields of metadata, and the properties that they become.
//! - `manifest.rs`: what a `mets.xml` says.
//! - `parser.rs`: reading a `mets.xml`.
//! - `metadata.rs`: the metadata in it.
//! - `xml.rs`: reading XML within bounds.
//! - `packed.rs`: files in a ZIP.
//! - `package.rs`: packages, checked against their `mets.xml`.

mod field;
mod manifest;
mod metadata;
mod package;
mod packed;
mod parser;
mod xml;

pub use field::{Field, Property};
pub use manifest::{Bitstream, Bundle, Child, Kind, Manifest, Policy};
pub use package::{Checked, Other, Package};
pub use packed::Packed;

/// The name of the METS in a package.
pub const METS: &str = "mets.xml";

/// The namespace of relations between objects, as DSpace's own RDF has them.
pub const ONTOLOGY: &str = "http://digital-repositories.org/ontologies/dspace/0.1.0#";

/// The namespace of fields that no common vocabulary has: that of DSpace's metadata in XML, and the
/// name of the field.
pub const DIM: &str = "http://www.dspace.org/xmlns/dspace/dim#";
