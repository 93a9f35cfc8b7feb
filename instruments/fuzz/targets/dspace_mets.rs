//! METS of packages of a DSpace: what is read is bounded, and refers only to itself.
#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use preservation::dspace::Manifest;

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

/// The METS of an item with a primary bitstream.
const ACCEPTED: &[u8] = include_bytes!("../seeds/dspace_mets/accepted");

/// Returns whether the text is a METS with fields and a primary bitstream.
fn check(text: &[u8]) -> bool {
    let Ok(manifest) = Manifest::read(text, "fuzzed") else { return false };
    assert!(!manifest.handle.is_empty());
    for bitstream in &manifest.bitstreams {
        assert!(bitstream.bundle < manifest.bundles.len() && !bitstream.file.is_empty());
    }
    assert!(manifest.primary.is_none_or(|primary| primary < manifest.bitstreams.len()));
    for field in &manifest.fields {
        let property = field.property();
        // It is an address whatever the names of the field are.
        assert!(property.address.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"{}|^`\\".contains(&byte)));
    }
    !manifest.fields.is_empty() && manifest.primary.is_some()
}

fuzz_target!(init: assert!(check(ACCEPTED)), |text: &[u8]| { check(text); });
