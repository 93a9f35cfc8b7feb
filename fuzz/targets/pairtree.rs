//! Pairtree paths: no id leads out of the root.
#![no_main]

use std::path::Component;

use hathi::VolumeId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(id) = VolumeId::parse(text) {
        let path = hathi::pairtree_path(&id);
        assert!(path.components().all(|component| matches!(component, Component::Normal(_))), "{}", path.display());
    }
});
