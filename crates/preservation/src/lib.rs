//! Formats in which archives exchange what they keep. The crate knows files, and no store and no
//! HTTP.
//!
//! - `names.rs`: names of any characters and length as names of files, and back.
//! - `bagit.rs`: writes a bag (BagIt 1.0, RFC 8493).

pub mod bagit;
pub mod names;
