//! Lines of the files of a bag: no path leaves the bag.
#![no_main]

use std::alloc::System;
use std::path::{Component, Path};

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use preservation::bagit::text::{Algorithm, declared, manifest_line, payload_oxum};

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

fuzz_target!(|text: &str| {
    let _ = (declared(text), payload_oxum(text));
    for (algorithm, line) in Algorithm::ALL.into_iter().flat_map(|known| text.lines().map(move |line| (known, line))) {
        let Ok((digest, path)) = manifest_line(line, algorithm) else { continue };
        assert_eq!(digest.len(), algorithm.begin().output_size());
        assert!(Path::new(&path).components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
        assert!(!path.is_empty() && !path.contains('\0'));
    }
});
