//! METS and records: pages in order of their sequence, each once.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mets) = hathi::Mets::parse(bytes) {
        assert!(mets.pages.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    }
    let _ = hathi::Record::parse(bytes);
});
