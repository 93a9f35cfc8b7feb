//! Frames: any text comes back from its frame. Any bytes taken for a frame give an error or a text
//! of the stated size.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let frame = pack::Framer::new(6).frame(bytes).expect("any text has a frame");
    assert_eq!(pack::inflate(&frame.bytes, frame.size, frame.crc32).expect("its frame inflates"), bytes);
    let _ = pack::inflate(bytes, 100, 0);
});
