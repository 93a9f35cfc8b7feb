//! A run in the forms that other tools read.
//!
//! - `k6.rs`: a summary as k6 writes it with `--summary-export`.
//! - `junit.rs`: a report of tests as build servers read it.
//! - `svg.rs`, `late.rs`: charts of a run for papers; `panels.rs`: charts of any points, along its
//!   `axis.rs`; `palette.rs`: the colours of all.
//! - `times.rs`: histograms of all times.

mod axis;
pub mod junit;
pub mod k6;
pub mod late;
mod palette;
pub mod panels;
pub mod svg;
pub mod times;
