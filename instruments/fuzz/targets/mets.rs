//! METS and records: pages in order of their sequence, each once.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// A METS of two pages, the second one first.
const ACCEPTED: &[u8] = include_bytes!("../seeds/mets/accepted");

/// Returns how many pages the METS has.
fn check(bytes: &[u8]) -> usize {
    let _ = hathi::Record::parse(bytes);
    let Ok(mets) = hathi::Mets::parse(bytes) else { return 0 };
    assert!(mets.pages.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    mets.pages.len()
}

fuzz_target!(init: assert_eq!(check(ACCEPTED), 2), |bytes: &[u8]| { check(bytes); });
