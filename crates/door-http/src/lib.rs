//! What HTTP asks of every door: ranges (`ranges.rs`), conditions (`conditional.rs`), and errors as problems (`problem.rs`). It
//! knows what the domain can answer, and nothing of what a door is for.

pub mod conditional;
pub mod problem;
pub mod ranges;

pub use conditional::{Condition, PreconditionFailed};
pub use problem::Problem;
pub use ranges::{BodyStream, RangeNotSatisfiable, Validators};
