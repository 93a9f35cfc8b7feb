//! OCFL 1.1 (<https://ocfl.io/1.1/spec/>): objects with all of their versions, as files.
//!
//! - `layout.rs`: the place of an object in a storage root.
//! - `inventory.rs`: what an object has, as its inventory says it.
//! - `root.rs`: writes a storage root, and continues or updates one.
//! - `object.rs`: writes an object, version by version.
//! - `reader.rs`: checks objects before anything of them is used.

pub mod inventory;
pub mod layout;
mod object;
mod reader;
mod root;

pub use object::{ContentFile, ObjectWriter};
pub use reader::{Content, Object, each_object, each_object_or_wrong, is_root, parsed};
pub use root::RootWriter;
