//! Volume ids of every form: an accepted id survives cleaning and being a path segment.
#![no_main]

use hathi::VolumeId;
use libfuzzer_sys::fuzz_target;

const ACCEPTED: &str = include_str!("../seeds/volume_ids/accepted");

/// Returns whether the text is accepted.
fn check(text: &str) -> bool {
    let _ = VolumeId::from_path_segment(text);
    let Ok(id) = VolumeId::parse(text) else { return false };
    assert_eq!(VolumeId::parse(id.as_str()).as_ref(), Ok(&id));
    let cleaned = id.cleaned();
    assert_eq!(VolumeId::from_cleaned(cleaned.as_str()).as_ref(), Ok(&id), "cleaned: {}", cleaned.as_str());
    true
}

fuzz_target!(init: assert!(check(ACCEPTED)), |text: &str| { check(text); });
