//! Formats in which archives exchange what they keep. The crate knows files, and no store and no
//! HTTP.
//!
//! - `names.rs`: names of any characters and length as names of files, and back.
//! - `about.rs`: what an export says about a resource.
//! - `read.rs`: reading what strangers wrote.
//! - `write.rs`: writing files so that they last.
//! - `bagit/`: bags (BagIt 1.0, RFC 8493).
//! - `bagged.rs`: resources in the payload of a bag.
//! - `archived.rs`: resources as objects of OCFL.
//! - `archived_volume.rs`: volumes as objects of OCFL.
//! - `dspace/`: packages of a DSpace (AIP).
//! - `fedora/`: resources in the storage root of a Fedora 6.
//! - `ocfl/`: storage roots of OCFL 1.1, with the versions of each object.

pub mod about;
pub mod archived;
pub mod archived_volume;
pub mod bagged;
pub mod bagit;
pub mod dspace;
pub mod fedora;
pub mod names;
pub mod ocfl;
pub mod read;
pub mod write;
