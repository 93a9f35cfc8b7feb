//! Bags (BagIt 1.0, RFC 8493).
//!
//! - `text.rs`: the lines of a bag's own files.
//! - `writer.rs`: writes a bag.
//! - `reader.rs`: checks all of a bag before anything of it is used.

mod reader;
pub mod text;
mod writer;

pub use reader::Bag;
pub use writer::{BagWriter, PayloadFile};
