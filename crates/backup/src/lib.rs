//! Folders of backups.
//!
//! A backup is all files of a store at one moment. It is made from a [`Cut`](store::Cut), for which
//! the store need not stop. A folder has any number of backups, and each file only once, under its
//! SHA-256. So each backup is whole, takes only the space of what is new, and can be deleted
//! without harm to the others.
//!
//! ```text
//! penates-backups     the form of the folder, one line
//! lock                shared: somebody reads or adds backups; exclusive: somebody deletes some
//! backups/ID.jsonl    a backup: its files by name, with digests (`manifest.rs`)
//! files/AB/SHA256     the bytes of a file
//!                     (SHA256.damaged: other bytes, which a check set aside)
//! unfinished/         what a backup under way writes; it is moved to its place when it is whole
//! ```
//!
//! What dies half way leaves no file under `backups/`, so nobody takes it for a backup. The next
//! backup uses what was copied.
//!
//! The folders are no links: nothing is made or deleted behind one. Only regular files with such
//! names are deleted.
//!
//! How to read it: [`Backups`] (`folder.rs`) is the folder; `manifest.rs` the description of a
//! backup; `create.rs`, with `source.rs`, `check.rs`, `restore.rs` and `delete.rs` what is done;
//! `stream.rs` a backup as one stream; `place.rs` the data folder into which one is restored;
//! `file.rs` how files are made and opened, and `lock.rs` how long one is locked. This crate knows no
//! engine, and of a store only that its files are in a folder, and how that is locked.

mod check;
mod create;
mod delete;
mod digest;
mod error;
mod file;
mod folder;
mod lock;
mod manifest;
mod place;
mod restore;
mod source;
mod stream;

pub use check::{Checked, Problem};
pub use create::{Created, Options};
pub use delete::Deleted;
pub use error::{BackupError, BackupResult};
pub use file::sync_folder;
pub use folder::{Access, Backups};
pub use manifest::{End, Entry, Header, Summary};
pub use place::{Place, VACANT_FOR_RESTORE};
pub use restore::Restored;
pub use source::Source;
pub use stream::{restore_stream, write_stream};
