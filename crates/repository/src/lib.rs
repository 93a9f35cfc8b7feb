//! The repository: resources at paths, containers in containers. Their contents are opaque here: a
//! description is a string of bytes, relations are texts. There is no HTTP and no RDF.
//!
//! A resource is an object. Its head has its kind ([`ResourceBody`]) and names the rows of its
//! description and its bytes. A resource is reachable as long as every container above it is live,
//! under the incarnation in which the next lower one was created. So one write of a container's
//! head makes the container and its contents unreachable.
//!
//! Files in reading order: `handle.rs` has [`Repository`], the handle for all calls; `resource.rs`
//! and `error.rs` define what a call returns; `read.rs` (with `describe.rs`) finds and reads
//! resources, `versions.rs` their earlier versions; `received.rs` adds versions with stated times;
//! `create.rs`, `update.rs`, `delete.rs` (with `empty.rs` for what a deletion leaves and `jobs.rs`
//! for those that run) and `upload.rs` change them; `backlinks.rs` records links to them;
//! `verify.rs` and `damage.rs` check whether they are sound; `collect.rs` and `history.rs` collect
//! what nothing names. `transactions.rs` begins and ends transactions (`open_count.rs` and
//! `tallies.rs` count them, `decide.rs` commits them), `stage.rs` and `claim.rs` add to them,
//! `staged.rs` shows what they have added, and `carry_out.rs` makes it happen. A writer passes the
//! [`Resource`] that it read, and gets [`ResourceError::Moved`] if another writer changed it
//! meanwhile. So a condition that was checked beforehand still holds.

pub mod backlinks;
mod carry_out;
mod claim;
mod collect;
mod create;
mod damage;
mod decide;
mod delete;
pub mod describe;
mod empty;
mod error;
mod handle;
mod history;
mod jobs;
mod open_count;
mod read;
mod received;
mod resource;
mod stage;
mod staged;
mod tallies;
mod transactions;
mod update;
pub mod upload;
mod verify;
mod versions;

pub use backlinks::Backlinks;
pub use create::{NewKind, NewResource};
pub use error::{ResourceError, ResourceResult};
pub use handle::Repository;
pub use heads::claim::TransactionId;
pub use heads::path::{InvalidPath, ResourcePath};
pub use heads::resource_body::{
    Binary, BytesPlace, Elsewhere, Handling, Kind, MemberRule, Membership, Part, Relation, ResourceBody,
    StoredDescription,
};
pub use heads::transaction::{Phase, Transaction};
pub use read::{Child, ChildPage};
pub use received::NewVersion;
pub use resource::{Resource, Written};
pub use transactions::{REMEMBERED, TransactionCounts};
pub use update::Update;
pub use upload::{DigestAlgorithm, UploadError, Uploaded};
pub use verify::{DamagedPart, ResourcePage, VerifiedResource, VerifiedVersions};
pub use versions::{Change, Fingerprint, Moment, PastMembers, Versions};
