//! Pairtree paths: no id leads out of the root.
#![no_main]

use std::path::Component;

use hathi::VolumeId;
use libfuzzer_sys::fuzz_target;

const ACCEPTED: &str = include_str!("../seeds/pairtree/accepted");

/// Returns whether the text is accepted.
fn check(text: &str) -> bool {
    let Ok(id) = VolumeId::parse(text) else { return false };
    let path = hathi::pairtree_path(&id);
    assert!(path.components().all(|component| matches!(component, Component::Normal(_))), "{}", path.display());
    true
}

fuzz_target!(init: assert!(check(ACCEPTED)), |text: &str| { check(text); });
