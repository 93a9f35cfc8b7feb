//! Inventories of OCFL: no path leaves the object, and what is accepted is read back the same.
#![no_main]

use std::alloc::System;
use std::path::{Component, Path};

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use preservation::ocfl::parsed;

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

/// An inventory of two versions.
const ACCEPTED: &[u8] = include_bytes!("../seeds/ocfl_inventory/accepted");

/// Returns whether the text is an inventory.
fn check(text: &[u8]) -> bool {
    let Ok(inventory) = parsed(text) else { return false };
    let logical = inventory.versions.values().flat_map(|version| version.state.values().flatten());
    for path in inventory.manifest.values().flatten().chain(logical) {
        assert!(Path::new(path).components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
    }
    assert!(inventory.newest_version().is_some());
    for digest in inventory.versions.values().flat_map(|version| version.state.keys()) {
        assert!(inventory.manifest.get(digest).is_some_and(|paths| !paths.is_empty()));
    }
    assert_eq!(parsed(&inventory.written().0).as_ref(), Ok(&inventory));
    true
}

fuzz_target!(init: assert!(check(ACCEPTED)), |text: &[u8]| { check(text); });
