//! Lists of volume and page ids: each volume once, each page once.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(ids) = hathi::parse_volume_ids(text, || true) {
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }
    let _ = hathi::parse_volume_lines(text, || true);
    if let Ok(lists) = hathi::parse_page_ids(text, || true) {
        assert_eq!(lists.iter().map(|list| &list.volume).collect::<HashSet<_>>().len(), lists.len());
        for list in &lists {
            assert_eq!(list.pages.iter().collect::<HashSet<_>>().len(), list.pages.len());
        }
    }
});
