//! Reads by a reader that reads everything once (a fixity check): they leave the system's cache of files
//! as it was, so that they do not replace in it what others read.
//!
//! What was in the cache before such a reader came to it stays there: somebody else has read it. So
//! the system reads nothing ahead for it, and [`Ahead`] does, which notes first what was there.

use std::collections::VecDeque;
use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::runtime::Handle;

/// Bytes of a page of the system's cache, or fewer.
const PAGE_BYTES: u64 = 4 << 10;

/// Pieces that the disk reads at a time: the one that is wanted, and those after it.
const AHEAD_PIECES: usize = 8;

/// Pieces that one read adds to these at most, so that a reader that keeps to a rate never lets the
/// disk read many at once.
const MORE_PIECES: usize = 2;

/// Begins: the system need not read ahead in this file, because it could not be seen whose pages
/// those are. It is advice, so a failure does no harm.
pub(crate) fn begin(file: &File) {
    _ = fadvise(file, 0, None, Advice::Random);
}

/// Lets the disk read the next pieces of a file while one of them is read and used.
pub(crate) struct Ahead {
    file: Arc<File>,
    /// The next pieces, in order, as far as the disk has been asked for them. Each with whether it
    /// was in the cache before.
    asked: VecDeque<(Range<u64>, bool)>,
}

impl Ahead {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self { file, asked: VecDeque::new() }
    }

    /// Reads the first of the `coming` pieces with `read`; the others are for the next calls, in
    /// this order. Afterwards the piece is in the cache only if it was before. Blocks the thread.
    pub(crate) fn read<T>(&mut self, coming: impl Iterator<Item = Range<u64>>, read: impl FnOnce() -> T) -> T {
        let asked = self.asked.len();
        for piece in coming.take(AHEAD_PIECES).skip(asked).take(MORE_PIECES) {
            let was_cached = is_cached(&self.file, &piece);
            if !was_cached {
                advise(&self.file, &piece, Advice::WillNeed);
            }
            self.asked.push_back((piece, was_cached));
        }
        let value = read();
        if let Some((piece, false)) = self.asked.pop_front() {
            advise(&self.file, &piece, Advice::DontNeed);
        }
        value
    }
}

/// A reader that stops leaves nothing behind, except what the disk reads at that moment. A task may
/// drop it, on a thread that others need too, so another thread asks the system to forget.
impl Drop for Ahead {
    fn drop(&mut self) {
        let asked = self.asked.drain(..);
        let left: Vec<Range<u64>> = asked.filter(|(_, was_cached)| !was_cached).map(|(piece, _)| piece).collect();
        if left.is_empty() {
            return;
        }
        let file = self.file.clone();
        let forget = move || left.iter().for_each(|piece| advise(&file, piece, Advice::DontNeed));
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(forget)),
            Err(_) => forget(),
        }
    }
}

fn advise(file: &File, range: &Range<u64>, advice: Advice) {
    if let Some(len) = NonZeroU64::new(range.end - range.start) {
        _ = fadvise(file, range.start, Some(len), advice);
    }
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

    const PIECE: u64 = 64 << 10;
    const PIECES: u64 = 4;

    fn pieces() -> impl Iterator<Item = Range<u64>> {
        (0..PIECES).map(piece)
    }

    fn piece(number: u64) -> Range<u64> {
        number * PIECE..(number + 1) * PIECE
    }

    /// A synced file of which nothing is cached. It is in the folder of this program, which is on a
    /// disk as a rule.
    fn uncached() -> tempfile::NamedTempFile {
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
        file.write_all(&vec![7; (PIECES * PIECE) as usize]).unwrap();
        file.as_file().sync_all().unwrap();
        fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
        file
    }

    /// Whether the system drops pages of such a file on request. In memory it does not:
    /// that is reported, and is a failure if `CI` is set. (Looking may make the system read, so
    /// each file is looked at once.)
    fn forgets() -> bool {
        let forgets = !is_cached(uncached().as_file(), &(0..PIECES * PIECE));
        if !forgets {
            let missing = "what is read once leaves the cache (the folder of the tests is in memory)";
            assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
            eprintln!("not run: {missing}");
            if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
                let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
                list.write_all(format!("{missing}\n").as_bytes()).unwrap();
            }
        }
        forgets
    }

    /// A reader of the file that reads everything once.
    fn reader(file: &tempfile::NamedTempFile) -> Ahead {
        let file = file.reopen().unwrap();
        begin(&file);
        Ahead::new(Arc::new(file))
    }

    fn read_once(file: &tempfile::NamedTempFile) {
        let mut reader = reader(file);
        for number in 0..PIECES {
            let (file, mut bytes) = (reader.file.clone(), vec![0; PIECE as usize]);
            let read = || file.read_exact_at(&mut bytes, piece(number).start);
            reader.read(pieces().skip(number as usize), read).unwrap();
            assert_eq!(bytes, vec![7; PIECE as usize]);
        }
    }

    /// Whether something is so with one of twenty files. Now and then the system keeps pages that
    /// it was asked to drop, or reads one so fast that it counts as cached before.
    fn with_one_of_some_files(is_so: impl FnMut(tempfile::NamedTempFile) -> bool) -> bool {
        std::iter::repeat_with(uncached).take(20).any(is_so)
    }

    fn read_by_another(file: &tempfile::NamedTempFile) {
        file.reopen().unwrap().read_to_end(&mut Vec::new()).unwrap();
    }

    #[test]
    fn what_is_read_once_is_not_in_the_cache_afterwards() {
        if !forgets() {
            return;
        }
        for number in 0..PIECES {
            let leaves_it = |file: tempfile::NamedTempFile| {
                read_once(&file);
                !is_cached(file.as_file(), &piece(number))
            };
            assert!(with_one_of_some_files(leaves_it), "piece {number}");
        }
    }

    #[test]
    fn what_others_have_read_stays_in_the_cache() {
        let file = uncached();
        read_by_another(&file);
        read_once(&file);
        assert!(is_cached(file.as_file(), &(0..PIECES * PIECE)));
    }

    #[test]
    fn a_reader_that_stops_leaves_nothing_of_what_was_read_ahead_for_it() {
        if !forgets() {
            return;
        }
        let ways: [fn(Ahead); 2] = [drop, drop_in_a_task];
        for drop_it in ways {
            let leaves_nothing = |file: tempfile::NamedTempFile| {
                let mut reader = reader(&file);
                reader.read(pieces(), || ());
                assert!(reader.asked.iter().map(|(piece, _)| piece).eq([&piece(1)]), "one more is on its way");
                // Waits until the disk has read it.
                read_by_another(&file);
                drop_it(reader);
                assert!(is_cached(file.as_file(), &piece(3)), "the other reader's");
                !is_cached(file.as_file(), &piece(1))
            };
            assert!(with_one_of_some_files(leaves_nothing));
        }
    }

    /// Drops a reader in a task, and waits until another thread has forgotten what it left.
    fn drop_in_a_task(reader: Ahead) {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            drop(reader);
            // There is one such thread, which does one thing after the other.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        });
    }

    #[test]
    fn no_more_is_asked_for_than_may_be_and_each_read_asks_for_little_more() {
        let file = uncached();
        let mut reader = reader(&file);
        let pieces = |from: u64| (from..100).map(|number| number..number + 1);
        let mut asked = Vec::new();
        for number in 0..12 {
            reader.read(pieces(number), || ());
            asked.push(reader.asked.len());
        }
        assert_eq!(asked, [1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7]);
        assert_eq!(reader.asked.front().map(|(piece, _)| piece.clone()), Some(12..13));
        for number in 12..100 {
            reader.read(pieces(number), || ());
        }
        assert_eq!(reader.asked.len(), 0);
    }
}
