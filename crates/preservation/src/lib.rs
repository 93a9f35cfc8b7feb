//! Formats in which archives exchange what they keep. The crate knows files, and no store and no
//! HTTP.
//!
//! - `names.rs`: names of any characters and length as names of files, and back.
//! - `about.rs`: what an export says about a resource.
//! - `bagit/`: bags (BagIt 1.0, RFC 8493).
//! - `bagged.rs`: resources in the payload of a bag.

pub mod about;
pub mod bagged;
pub mod bagit;
pub mod names;
