//! N-Quads in pieces: the same resources for any pieces.
#![no_main]

use std::alloc::System;

use cap::Cap;
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

fuzz_target!(|input: (u8, &[u8])| {
    let (piece_bytes, text) = input;
    assert_eq!(read(text, usize::from(piece_bytes).max(1)), read(text, text.len().max(1)));
});
