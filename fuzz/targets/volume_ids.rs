//! Volume ids of every form: an accepted id survives cleaning and being a path segment.
#![no_main]

use hathi::VolumeId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = VolumeId::from_path_segment(text);
    if let Ok(id) = VolumeId::parse(text) {
        assert_eq!(VolumeId::parse(id.as_str()).as_ref(), Ok(&id));
        let cleaned = id.cleaned();
        assert_eq!(VolumeId::from_cleaned(cleaned.as_str()).as_ref(), Ok(&id), "cleaned: {}", cleaned.as_str());
    }
});
