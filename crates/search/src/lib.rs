//! The search index: finds resources by path, type, media type, size and time. No HTTP, no RDF.
//!
//! The index is a set of rows in [`store::Table::Work`], below `local/search`, so that a copy of
//! the store makes its own. It follows the change feed ([`Indexer`]). A *document* says of a path
//! what can be searched for, at a revision. An *entry* is a row of a sorted list: a value, a path
//! and a revision. Rows are written once. Of several documents of a path the one with the highest
//! revision counts, and an entry counts if that document has its value. So it does no harm if a
//! change is applied twice, late, by two servers, or in part.
//!
//! Files in reading order: `keys.rs` has partitions and sort keys; `document.rs` documents, with
//! `kinds.rs` for the types that the server gives; `state.rs` what is stored of the index as a
//! whole. To write: `describe.rs` makes the document of a resource, `apply.rs` writes documents and
//! entries, `indexer.rs` follows the feed and rebuilds. To read: `glob.rs` and `query.rs` are what
//! is asked, `plan.rs` chooses the lists to read, `merge.rs` reads their shards in one order,
//! `find.rs` searches, and `cursors.rs` says where a page begins. `handle.rs` has [`Search`], the handle for all calls.

mod apply;
mod cursors;
mod describe;
mod document;
mod find;
mod glob;
mod handle;
mod indexer;
pub mod keys;
mod kinds;
mod merge;
mod plan;
mod query;
mod state;

pub use cursors::Cursors;
pub use document::{DOCUMENT_BYTES_MAX, Document, OWN_TYPES_BYTES_MAX, Shape};
pub use find::{Found, Hit, Limits, TIME_MAX};
pub use glob::Glob;
pub use handle::{Search, SearchError};
pub use indexer::{Indexer, Measures, Pacing, Turn};
pub use keys::Facet;
pub use kinds::Kind;
pub use query::{Comparison, Condition, Field, Place, Query};
pub use state::{GENERATION_BYTES, Status};
