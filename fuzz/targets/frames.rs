//! Frames: any text comes back from its frame; any bytes taken for a frame end in an error or in text of the size told.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let frame = pack::Framer::new(6).frame(bytes).expect("any text has a frame");
    assert_eq!(pack::inflate(&frame.bytes, frame.size, frame.crc32).expect("its frame inflates"), bytes);
    let _ = pack::inflate(bytes, 100, 0);
});
