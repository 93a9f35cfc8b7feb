//! Keeps directories of volumes that were sent: the end of an archive needs them again, and a kept
//! directory is not read twice.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::read::VolumeRows;

/// Directories by group: those of the first groups, as many as fit.
#[derive(Default)]
pub(super) struct KeptDirectories(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_group: HashMap<usize, Arc<VolumeRows>>,
    bytes: usize,
}

impl KeptDirectories {
    /// Keeps a group's directory if all kept directories then have at most `max_bytes`. If they
    /// exceed it already, because other requests now share the memory, all are dropped first.
    pub(super) fn keep(&self, group: usize, rows: &VolumeRows, max_bytes: usize) {
        let mut kept = self.0.lock();
        if kept.bytes > max_bytes {
            *kept = Kept::default();
        }
        let bytes = kept.bytes + size_of_val(&rows.entries[..]);
        if bytes <= max_bytes && !kept.by_group.contains_key(&group) {
            kept.by_group.insert(group, Arc::new(rows.directory()));
            kept.bytes = bytes;
        }
    }

    /// The directory of a group; `None` if it was not kept.
    pub(super) fn of(&self, group: usize) -> Option<Arc<VolumeRows>> {
        self.0.lock().by_group.get(&group).cloned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use heads::volume_body::Entry;
    use heads::volume_body::FramePlace;

    fn rows(pages: u32) -> VolumeRows {
        let member = pack::Member { size: 1, frame_len: 1, crc32: 0 };
        let entry = |seq| Entry { seq, member, place: FramePlace { pack: 0, offset: 0 } };
        VolumeRows::of_directory((1..=pages).map(entry).collect())
    }

    #[test]
    fn what_fits_is_kept_once_and_the_rest_is_not() {
        let (kept, max_bytes) = (KeptDirectories::default(), 10 * size_of::<Entry>());
        kept.keep(0, &rows(6), max_bytes);
        kept.keep(0, &rows(6), max_bytes);
        kept.keep(1, &rows(5), max_bytes);
        kept.keep(2, &rows(4), max_bytes);
        kept.keep(3, &rows(1), max_bytes);
        let pages = [0, 1, 2, 3].map(|group| kept.of(group).map(|rows| rows.entries.len()));
        assert_eq!(pages, [Some(6), None, Some(4), None]);
    }

    #[test]
    fn what_is_kept_is_given_up_when_there_is_less_room() {
        let kept = KeptDirectories::default();
        kept.keep(0, &rows(6), 10 * size_of::<Entry>());
        kept.keep(1, &rows(1), 5 * size_of::<Entry>());
        assert!(kept.of(0).is_none() && kept.of(1).is_some());
    }
}
