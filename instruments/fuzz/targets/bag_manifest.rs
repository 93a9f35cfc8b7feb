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

/// The declaration of a bag, what it promises, and a line of a manifest for each algorithm.
const ACCEPTED: &str = include_str!("../seeds/bag_manifest/accepted");

/// Returns how many lines are accepted as those of a manifest, if the rest is accepted too.
fn check(text: &str) -> Option<usize> {
    let mut lines = 0;
    for (algorithm, line) in Algorithm::ALL.into_iter().flat_map(|known| text.lines().map(move |line| (known, line))) {
        let Ok((digest, path)) = manifest_line(line, algorithm) else { continue };
        assert_eq!(digest.len(), algorithm.begin().output_size());
        assert!(Path::new(&path).components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
        assert!(!path.is_empty() && !path.contains('\0'));
        lines += 1;
    }
    let (declared, promised) = (declared(text), payload_oxum(text));
    (declared.is_ok() && promised.is_some()).then_some(lines)
}

fuzz_target!(init: assert_eq!(check(ACCEPTED), Some(Algorithm::ALL.len())), |text: &str| { check(text); });
