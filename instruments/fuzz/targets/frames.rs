//! Frames: any text comes back from its frame. Any bytes taken for a frame give an error or a text
//! of the stated size.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The size of a text, and its CRC-32.
const SIZE: u32 = 100;
const CRC32: u32 = 0;

/// A frame of such a text.
const ACCEPTED: &[u8] = include_bytes!("../seeds/frames/accepted");

/// Returns whether the bytes are taken for a frame.
fn check(bytes: &[u8]) -> bool {
    let frame = pack::Framer::new(6).frame(bytes).expect("any text has a frame");
    assert_eq!(pack::inflate(&frame.bytes, frame.size, frame.crc32).expect("its frame inflates"), bytes);
    let Ok(text) = pack::inflate(bytes, SIZE, CRC32) else { return false };
    assert_eq!(text.len(), SIZE as usize);
    true
}

fuzz_target!(init: assert!(check(ACCEPTED)), |bytes: &[u8]| { check(bytes); });
