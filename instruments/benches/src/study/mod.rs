//! The HTRC study, repeated: the time of a bulk download, stage by stage.
//!
//! How to read it, from the outside in:
//!
//! - `stages.rs` runs the chosen stages with [`settings`], on the volumes of [`ground`];
//!   [`outcome`] keeps the results, and [`trial`] is the smallest part of them.
//! - The stages: [`store_alone`], [`zip_alone`], [`server_alone`] (its server is [`finished`]),
//!   [`together`], [`links`] (through the proxy of the testbed). All servers are separate processes
//!   ([`served`]), and all are measured with one [`client`], which may [`unpack`].
//! - [`rule`] is the study's rule for when to compress, [`history`] its figures.
//! - [`tables`] and [`figures`] are for readers; figures are drawn as panels by the testbed.
//!
//! `instruments/benches/STUDY.md` explains the figures.

pub mod client;
pub mod figures;
pub mod finished;
pub mod ground;
pub mod history;
pub mod links;
pub mod outcome;
pub mod rule;
pub mod served;
pub mod server_alone;
pub mod settings;
mod stages;
pub mod store_alone;
pub mod tables;
pub mod together;
pub mod trial;
pub mod unpack;
pub mod zip_alone;

pub use stages::{Stage, run};
