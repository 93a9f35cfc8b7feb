//! What HTTP asks of every door: ranges (`ranges.rs`), conditions (`conditional.rs`), bodies that are held (`body.rs`), digests of what
//! comes in (`digests.rs`), and errors as problems (`problem.rs`). It knows what the domain can answer, and nothing of what a door is for.

pub mod body;
pub mod conditional;
pub mod digests;
pub mod problem;
pub mod ranges;

pub use body::{BodyError, Held};
pub use conditional::{Condition, PreconditionFailed};
pub use digests::DigestError;
pub use problem::Problem;
pub use ranges::{BodyStream, RangeNotSatisfiable, Validators};
