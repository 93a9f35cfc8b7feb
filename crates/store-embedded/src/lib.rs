//! The embedded engine: the seam over fjall, in one data folder that one process holds.
//!
//! Each [`store::Lane`] has a database of its own, in which each table is one ordered keyspace. One
//! committer thread per lane writes (in a store that lets all syncs wait, also its callers; in any
//! store, also the writer of the audit). It takes the waiting lists of steps, checks their
//! conditions, writes them as one batch, syncs once, and answers. A list that crosses lanes is
//! refused, so a list is applied as a whole or not at all. An acknowledged list survives the death
//! of the process and a power failure, unless its call lets the sync wait. A failed write or sync
//! poisons the lane, because nobody knows what the disk has stored: the lane stays readable, but
//! refuses writes until the store is opened again. The other lanes continue.
//!
//! The engine is for one process (a second one gets [`store::StoreError::Held`]) and a local disk.
//! Its partitions are ordered by their bytes only.
//!
//! Damage on the disk is reported and never served: fjall has a checksum of each block and of each
//! batch in its journal. But fjall treats a missing file as one that never existed, and deletes
//! files that it does not know. So `opening/` examines a whole database before fjall does. It
//! refuses one of which something is missing, foreign, truncated or older than the rest, and
//! changes nothing. [`salvage`] copies what is left.
//!
//! Damage costs every row of the broken block, of any partition. All other rows stay readable. But
//! when fjall's background compaction reaches a broken block, it refuses all further writes of the
//! database, also after each restart; [`store::Store::health`] reports it. That is why there are
//! lanes: a broken block among the text stops imports and deletions, but not the audit, tokens and
//! selections that downloads must write. A lane with a broken block cannot be repaired in place;
//! [`salvage`] copies what can be read into a new folder.
//!
//! How to read it, from the outside in:
//!
//! - `settings.rs`: what a configuration says; `options.rs`: what the engine needs to know;
//! - `engine.rs`: the [`EmbeddedStore`], which sends each call to a thread that may block;
//!   `blocking.rs`: how many read there; `database.rs`: what is open;
//! - `folder.rs`: format, lock and creation of the data folder; `last_use.rs`: whether it is a
//!   copy; `opening/`: the checks at start, those of all lanes (`at_once.rs`) before any is opened;
//!   `recorder.rs`: the record for them;
//! - `read.rs`: reads; `row_cache.rs`: records that are read again and again; `once_rows.rs`: rows
//!   for a reader that reads everything once;
//! - `measures.rs`: what monitors learn of it;
//! - for writes `plan.rs` (steps encoded by their submitter), `writer.rs` and `queue.rs` (the way
//!   to a lane's committer), `committer.rs`, `evaluate.rs` (whether a list applies);
//! - `contents.rs`, `header.rs`, `reading.rs` (with `once.rs`) and `sums.rs`: large contents;
//!   `cut/`: what backups read; `sweep.rs`, `unknown.rs`, `unread.rs` and `swept.rs`;
//!   `first_due.rs`: where a sweep begins; `forecast.rs`: what is going to expire; `salvage/`;
//! - `priority.rs`: threads that merge leave the processors to those that serve;
//! - at the bottom `tables/`, with `once_rows.rs` and `replaced.rs` the only users of fjall's
//!   interface (`opening/` knows its files), `space.rs` and `files.rs`, and `key.rs`, `value.rs`,
//!   `expiry.rs`, the stored format.

mod at_once;
mod blocking;
mod committer;
mod contents;
mod cut;
mod database;
mod engine;
mod evaluate;
mod expiry;
mod files;
mod first_due;
mod folder;
mod forecast;
mod header;
mod key;
mod last_use;
mod measures;
mod once;
mod once_rows;
mod opening;
mod options;
mod plan;
mod priority;
mod private;
mod prompt;
mod queue;
mod read;
mod reading;
mod recorder;
mod replaced;
mod room;
mod row_cache;
mod salvage;
mod settings;
mod space;
mod sums;
mod sweep;
mod swept;
mod tables;
mod unknown;
mod unread;
mod value;
mod writer;

pub use engine::EmbeddedStore;
pub use folder::has_unfinished_restore;
pub use last_use::is_refused_copy;
pub use options::EmbeddedOptions;
pub use salvage::{Loss, SalvageProgress, Salvaged, salvage};
pub use settings::EmbeddedSettings;
