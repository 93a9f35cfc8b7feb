//! A run in the forms that other tools read.
//!
//! - `k6.rs`: a summary as k6 writes it with `--summary-export`.
//! - `junit.rs`: a report of tests as build servers read it.
//! - `svg.rs`, `late.rs`: charts for papers.
//! - `times.rs`: histograms of all times.

pub mod junit;
pub mod k6;
pub mod late;
pub mod svg;
pub mod times;
