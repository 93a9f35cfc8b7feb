//! The outline of any METS, as pages show it: little memory, and nothing without bounds.
#![no_main]

use std::alloc::System;

use cap::Cap;
use hathi::outline::{ENTRIES_MAX, Outline};
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

/// A METS of one page.
const ACCEPTED: &[u8] = include_bytes!("../seeds/mets_outline/accepted");

/// Returns the number of entries of the outline.
fn check((xml, is_cut): (&[u8], bool)) -> usize {
    let Some(outline) = Outline::of(xml, is_cut) else { return 0 };
    assert!(outline.entries.len() <= ENTRIES_MAX && outline.is_cut == is_cut);
    assert!(!outline.has_more || outline.entries.len() == ENTRIES_MAX);
    assert!(outline.title.is_none_or(|title| !title.trim().is_empty() && title.len() <= xml.len()));
    let texts = outline.entries.iter().flat_map(|entry| [&entry.order, &entry.label, &entry.file]).flatten();
    // Each name of a file may be that of many entries.
    assert!(texts.map(String::len).sum::<usize>() <= (ENTRIES_MAX + 2) * xml.len());
    outline.entries.len()
}

fn check_seed() {
    let input = <(&[u8], bool)>::arbitrary_take_rest(Unstructured::new(ACCEPTED));
    assert_eq!(input.map(check).ok(), Some(1));
}

fuzz_target!(init: check_seed(), |input: (&[u8], bool)| { check(input); });
