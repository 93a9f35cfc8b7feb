//! The embedded engine: the seam over fjall, in one data folder that one process holds.
//!
//! Each [`store::Lane`] has a database of its own, in which all rows of a table are one ordered keyspace. One committer thread a lane
//! writes: it takes the lists of steps that wait, checks their conditions, writes them as one batch, syncs once, and answers. A
//! list keeps to one lane (others are refused), so it is applied whole or not at all, and what is acknowledged survives the
//! death of the process and the loss of power. A failed write or sync poisons the lane: it is read on, but refuses writes until
//! the store is opened again, because nobody knows what the disk has kept. The other lane goes on.
//!
//! It is not for many processes (a second one gets [`store::StoreError::Held`]), not for another machine's disk, and its
//! partitions have no order but that of their bytes.
//!
//! Damage on the disk is told, not served: fjall keeps a checksum of each block and of each batch in its journal. But fjall takes what is
//! missing for what never was, and deletes what it does not know. So `opening/` looks at all of a database before fjall does, and refuses
//! one of which something is missing, foreign, cut or older than the rest; nothing is changed then, and [`salvage`] copies what is left.
//!
//! What damage costs: every row of the block that was hit, of whatever partition. All others are read as before. But fjall merges
//! files in the background, and when it comes to a broken block it refuses all further writes of the database, and does so again
//! after each start; [`store::Store::health`] says so. That is why there are lanes: a broken block among the text stops imports and
//! deletions, but not the audit, tokens and selections that downloads have to write. A lane with a broken block cannot be mended
//! in place; [`salvage`] copies what can still be read into a new folder.
//!
//! How to read it, from the outside in: `engine.rs` (the [`EmbeddedStore`], each call on its way to a thread that may block),
//! `folder.rs` (format, lock and making of the data folder), `opening/` (what is checked at the start) and `recorder.rs` (what is written
//! down for it), `read.rs`; for writes `plan.rs` (steps encoded by their submitter), `writer.rs`
//! and `queue.rs` (the way to a lane's committer),
//! `committer.rs`, `evaluate.rs` (does a list apply?); `contents.rs`, `reading.rs` and `sums.rs` (large contents), `sweep.rs` and
//! `unknown.rs`; `salvage/`; at the bottom `tables.rs`, which alone knows fjall's interface (`opening/` knows its files), and `key.rs`,
//! `value.rs`, `expiry.rs`, which are the stored format.

mod committer;
mod contents;
mod engine;
mod evaluate;
mod expiry;
mod folder;
mod key;
mod opening;
mod options;
mod plan;
mod private;
mod prompt;
mod queue;
mod read;
mod reading;
mod recorder;
mod room;
mod salvage;
mod sums;
mod sweep;
mod tables;
mod unknown;
mod value;
mod writer;

pub use engine::EmbeddedStore;
pub use options::EmbeddedOptions;
pub use salvage::{Loss, SalvageProgress, Salvaged, salvage};
