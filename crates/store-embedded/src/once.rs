//! Reads by one who reads everything once (a fixity check): they leave the system's cache of files
//! as it was, so that they do not replace in it what others read.
//!
//! What was in the cache before such a read stays there: somebody else has read it.

use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

/// Bytes of a page of the system's cache, or fewer.
const PAGE_BYTES: u64 = 4 << 10;

/// Begins: the system need not read ahead in this file, because it could not be seen whose pages
/// those are. It is advice, so a failure does no harm.
pub(crate) fn begin(file: &File) {
    _ = fadvise(file, 0, None, Advice::Random);
}

/// Reads a range of a file with `read`. Afterwards the range is in the cache only if it was before.
pub(crate) fn read<T>(file: &File, range: Range<u64>, read: impl FnOnce() -> T) -> T {
    let was_cached = is_cached(file, &range);
    let value = read();
    if !was_cached && let Some(len) = NonZeroU64::new(range.end - range.start) {
        _ = fadvise(file, range.start, Some(len), Advice::DontNeed);
    }
    value
}

/// Whether the first and the last page of a range can be read without the disk. Where the system
/// cannot tell, they count as cached: then nothing is taken from others.
fn is_cached(file: &File, range: &Range<u64>) -> bool {
    let last = range.end.saturating_sub(1).max(range.start) / PAGE_BYTES * PAGE_BYTES;
    [range.start, last.max(range.start)].into_iter().all(|at| is_byte_cached(file, at))
}

fn is_byte_cached(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let mut buffers = [std::io::IoSliceMut::new(&mut byte)];
    match preadv2(file, &mut buffers, at, ReadWriteFlags::NOWAIT) {
        Err(rustix::io::Errno::AGAIN) => false,
        Ok(_) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::os::unix::fs::FileExt;

    use super::*;

    const LEN: usize = 256 << 10;

    /// A synced file of which nothing is cached.
    fn uncached() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; LEN]).unwrap();
        file.as_file().sync_all().unwrap();
        fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
        file
    }

    /// Whether the file system of temporary files forgets what it is told to forget. One in memory
    /// does not. (Looking may make the system read, so each file is looked at once.)
    fn forgets() -> bool {
        let forgets = !is_cached(uncached().as_file(), &(0..LEN as u64));
        if !forgets {
            eprintln!("not checked: the temporary folder is in memory");
        }
        forgets
    }

    fn read_once(file: &File) {
        let mut bytes = vec![0; LEN];
        begin(file);
        read(file, 0..LEN as u64, || file.read_exact_at(&mut bytes, 0)).unwrap();
        assert_eq!(bytes, vec![7; LEN]);
    }

    #[test]
    fn what_is_read_once_is_not_in_the_cache_afterwards() {
        let file = uncached();
        read_once(&file.reopen().unwrap());
        assert!(!forgets() || !is_cached(file.as_file(), &(0..LEN as u64)));
    }

    #[test]
    fn what_others_have_read_stays_in_the_cache() {
        let file = uncached();
        file.reopen().unwrap().read_to_end(&mut Vec::new()).unwrap();
        read_once(&file.reopen().unwrap());
        assert!(is_cached(file.as_file(), &(0..LEN as u64)));
    }
}
