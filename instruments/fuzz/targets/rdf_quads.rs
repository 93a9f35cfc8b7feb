//! N-Quads in pieces: the same resources for any pieces.
#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use rdf::Limits;
use rdf::quads::{Resource, Resources};

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

fn read(text: &[u8], piece_bytes: usize) -> (Vec<Resource>, bool) {
    let mut resources = Resources::new(Limits::default());
    let mut read = Vec::new();
    for piece in text.chunks(piece_bytes).map(Some).chain([None]) {
        match piece {
            Some(piece) => resources.feed(piece),
            None => resources.end(),
        }
        while let Some(resource) = resources.next_resource() {
            match resource {
                Ok(resource) => read.push(resource),
                Err(_) => return (read, false),
            }
        }
    }
    (read, true)
}

/// Statements of two graphs.
const ACCEPTED: &[u8] = include_bytes!("../seeds/rdf_quads/accepted");

/// Returns the number of resources, if all of the text is accepted.
fn check((piece_bytes, text): (u8, &[u8])) -> Option<usize> {
    let whole = read(text, text.len().max(1));
    assert_eq!(read(text, usize::from(piece_bytes).max(1)), whole);
    let (resources, is_accepted) = whole;
    is_accepted.then_some(resources.len())
}

fn check_seed() {
    let input = <(u8, &[u8])>::arbitrary_take_rest(Unstructured::new(ACCEPTED));
    assert_eq!(input.ok().and_then(check), Some(2));
}

fuzz_target!(init: check_seed(), |input: (u8, &[u8])| { check(input); });
