//! The testbed's generator beside others: k6, wrk and hey make loads on the same server, which does nothing.
//!
//! How to read it:
//!
//! - [`tool`] lists the generators, with their command lines; [`said`] reads what they print.
//! - [`bench`] runs them in turn; [`report`] is the table.

pub mod bench;
pub mod report;
pub mod said;
pub mod tool;
