//! HTTP for every door: negotiation (`accept.rs`), ranges (`ranges.rs`), conditions
//! (`conditional.rs`), bodies held in memory (`body.rs`), forms with files (`form.rs`), what server
//! and doors pass to each other about a client (`client.rs`), requests and responses of many lines
//! (`lines.rs`, `in_order.rs`, `spooled.rs` over `spool.rs`), digests of request bodies
//! (`digests.rs`), what handlers take of an address (`extract.rs`), times of whole seconds
//! (`second.rs`), names of parameters (`parameters.rs`), the look of pages for people (`page.rs`),
//! errors as problems (`problem.rs`) with the table of their reasons (`reason.rs`), and TLS to
//! other servers (`trust.rs`). The crate knows the domain's errors. It does not know what any door
//! does.

pub mod accept;
pub mod body;
pub mod client;
pub mod conditional;
pub mod digests;
pub mod extract;
pub mod form;
pub mod in_order;
pub mod lines;
pub mod one_value;
pub mod page;
pub mod parameters;
pub mod problem;
pub mod ranges;
pub mod reason;
pub mod second;
mod spool;
pub mod spooled;
pub mod trust;

pub use accept::{Coding, Offer};
pub use body::{BodyError, Held};
pub use client::{Acted, Made, MayRead, ReadsOnly};
pub use conditional::{Condition, PreconditionFailed};
pub use digests::DigestError;
pub use extract::{Path, Query};
pub use form::{Form, NoForm};
pub use in_order::in_order;
pub use one_value::{Ambiguous, one_value};
pub use page::{Page, Place};
pub use problem::Problem;
pub use ranges::{BodyStream, RangeNotSatisfiable, Validators};
pub use reason::Reason;
pub use second::Second;
