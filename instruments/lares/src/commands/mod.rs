//! One module per command: its arguments, its help, its run.

pub mod cluster;
pub mod conformance;
pub mod documents;
pub mod lab;
pub mod testbed;
