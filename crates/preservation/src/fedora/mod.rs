//! The storage root of a Fedora 6: objects of OCFL 1.0 with resources in them.
//!
//! Each object has one resource with its description and its ACL, or an Archival Group with all that
//! is in it. A *header* in `.fcrepo` says what a file is of; where it is in the object follows from
//! that alone. Checked with what Fedora 6.1.0 writes.
//!
//! - `header.rs`: headers.
//! - `object.rs`: the resources in an object, with their versions.

mod header;
mod object;

pub use header::Header;
pub use object::{Acl, FedoraObject, FedoraResource, has_headers};

/// The identifier of the object of the root, and the start of all others.
pub const ROOT: &str = "info:fedora";

/// The folder of headers among the files of an object.
const HEADERS: &str = ".fcrepo/";

/// The address of the root in stored statements, with a slash at its end.
pub const REPOSITORY: &str = "info:fedora/";

/// The path of a resource from the root, by its identifier; `None` if it is of no Fedora.
pub fn path_of(id: &str) -> Option<&str> {
    match id.strip_prefix(ROOT)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}
