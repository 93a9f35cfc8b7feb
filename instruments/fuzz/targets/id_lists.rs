//! Lists of volume and page ids: each volume once, each page once.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;

/// Page ids are volume ids too.
const ACCEPTED: &str = include_str!("../seeds/id_lists/accepted");

/// Returns whether the text is accepted as a list of volumes and as one of pages.
fn check(text: &str) -> bool {
    let volumes = hathi::parse_volume_ids(text, || true);
    if let Ok(ids) = &volumes {
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }
    let _ = hathi::parse_volume_lines(text, || true);
    let pages = hathi::parse_page_ids(text, || true);
    if let Ok(lists) = &pages {
        assert_eq!(lists.iter().map(|list| &list.volume).collect::<HashSet<_>>().len(), lists.len());
        for list in lists {
            assert_eq!(list.pages.iter().collect::<HashSet<_>>().len(), list.pages.len());
        }
    }
    volumes.is_ok() && pages.is_ok()
}

fuzz_target!(init: assert!(check(ACCEPTED)), |text: &str| { check(text); });
