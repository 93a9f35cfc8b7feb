//! ZIP64: archives and entries of more than 4 GiB, and more than 65,535 entries, as streams without
//! files.
//!
//! Big frames are repeated, and readers that seek get a file made of ranges of the stream.
use crate::common::*;
use bytes::Bytes;
use futures::TryStreamExt;
use pack::memory::{MemorySource, MemoryVolume};
use pack::{Archive, Framer, Layout, Level, WHOLE};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use tokio::runtime::Runtime;

const PAGE_BYTES: usize = 16 << 20;
const LIMIT32: u64 = 0xffff_ffff;

/// Bytes that one read of the virtual file fetches.
const READ_AHEAD_BYTES: u64 = 256 * 1024;

/// A file that exists only as a stream: each read is a range of it.
struct Virtual {
    archive: Arc<Archive>,
    source: Arc<MemorySource>,
    runtime: Runtime,
    len: u64,
    position: u64,
    buffer: Bytes,
}

impl Virtual {
    fn new(archive: Archive, source: MemorySource) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let len = runtime.block_on(archive.len(&source)).unwrap().unwrap();
        let (archive, source) = (Arc::new(archive), Arc::new(source));
        Self { archive, source, runtime, len, position: 0, buffer: Bytes::new() }
    }

    /// Streams everything and counts the bytes.
    fn streamed_len(&self) -> u64 {
        let stream = pack::stream(self.archive.clone(), self.source.clone(), WHOLE);
        let sum = stream.try_fold(0, |sum, piece| std::future::ready(Ok(sum + piece.len() as u64)));
        self.runtime.block_on(sum).unwrap()
    }
}

impl Read for Virtual {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            let range = self.position..self.len.min(self.position + READ_AHEAD_BYTES);
            self.buffer = self.runtime.block_on(bytes(&self.archive, &self.source, range)).into();
        }
        let read = buffer.len().min(self.buffer.len());
        buffer[..read].copy_from_slice(&self.buffer.split_to(read));
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Virtual {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.len.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(std::io::ErrorKind::InvalidInput)?;
        self.buffer.clear();
        Ok(self.position)
    }
}

/// Lists an archive with Python's zipfile, which requests each part of it over a pipe. For each
/// entry it returns the name, the sizes, the place, and the text if it is short.
fn python_lists(mut file: Virtual) -> Option<Vec<String>> {
    let script = "
import sys, io, zipfile
class Remote(io.RawIOBase):
    def __init__(self, length): self.length, self.at = length, 0
    def readable(self): return True
    def seekable(self): return True
    def tell(self): return self.at
    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, self.length)[whence]
        return self.at
    def read(self, count=-1):
        count = self.length - self.at if count < 0 else min(count, self.length - self.at)
        print('read', self.at, count, flush=True)
        self.at += count
        return sys.stdin.buffer.read(count)
with zipfile.ZipFile(Remote(int(sys.argv[1]))) as archive:
    for entry in archive.infolist():
        text = archive.read(entry).decode() if entry.file_size < 100 else ''
        print('entry', entry.filename, entry.file_size, entry.compress_size, entry.header_offset, text.strip(), flush=True)
";
    let mut python = tool("python3")?;
    let python = python.arg("-c").arg(script).arg(file.len.to_string());
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut requests = BufReader::new(python.stdout.take().unwrap()).lines();
    let mut answers = python.stdin.take().unwrap();
    let mut entries = Vec::new();
    while let Some(line) = requests.next().transpose().unwrap() {
        if let Some(entry) = line.strip_prefix("entry ") {
            entries.push(entry.trim_end().to_owned());
            continue;
        }
        let mut numbers = line.strip_prefix("read ").unwrap().split(' ').map(|number| number.parse::<u64>().unwrap());
        file.seek(SeekFrom::Start(numbers.next().unwrap())).unwrap();
        let mut answer = Vec::new();
        file.by_ref().take(numbers.next().unwrap()).read_to_end(&mut answer).unwrap();
        answers.write_all(&answer).unwrap();
        answers.flush().unwrap();
    }
    assert!(python.wait().unwrap().success());
    Some(entries)
}

/// Repeats one page. A last page of a few bytes names its volume.
fn repeated(name: &str, page: &[u8], count: u32) -> MemoryVolume {
    let mut framer = Framer::new(1);
    let frame = framer.frame(page).unwrap();
    let mut pages: Vec<_> = (1..=count).map(|seq| (seq, frame.clone())).collect();
    pages.push((count + 1, framer.frame(format!("the last of {name}").as_bytes()).unwrap()));
    MemoryVolume { name: name.into(), pages, selected: None, mets: Some(framer.frame(b"<mets/>").unwrap()) }
}

/// A page that does not compress.
fn noise() -> Vec<u8> {
    let mut noise = vec![0; PAGE_BYTES];
    rand::RngCore::fill_bytes(&mut <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(7), &mut noise);
    noise
}

/// Three volumes. The second crosses 4 GiB, and the third comes after it.
fn beyond_4_gib() -> MemorySource {
    let noise = noise();
    MemorySource::new(vec![
        repeated("a.1", &noise, 200),
        repeated("a.2", &noise, 100),
        repeated("a.3", b"a short page", 3),
    ])
}

#[test]
fn an_archive_of_more_than_4_gib_has_the_computed_length_and_opens() {
    for level in [Level::Frames, Level::Stored] {
        let source = beyond_4_gib();
        let archive = archive(&source, Layout::Pages, level);
        let file = Virtual::new(archive, source);
        assert!(file.len > LIMIT32);
        assert_eq!(
            file.source.members_read(),
            101,
            "the length asks for the volume in which 4 GiB is passed, no other"
        );
        if level == Level::Frames {
            assert_eq!(file.streamed_len(), file.len);
        }
        let mut zip = zip::ZipArchive::new(file).unwrap();
        let entries = (200 + 100 + 3) + 3 + 3 + 3; // pages, last pages, METS, directories
        assert_eq!(zip.len(), entries);
        for (name, text) in [
            ("a.1/00000201.txt", "the last of a.1"),
            ("a.2/00000101.txt", "the last of a.2"),
            ("a.2/mets.xml", "<mets/>"),
            ("a.3/00000002.txt", "a short page"),
            ("a.3/mets.xml", "<mets/>"),
        ] {
            let mut read = String::new();
            zip.by_name(name).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, text, "{name}");
        }
    }
}

#[test]
fn python_finds_every_entry_of_an_archive_of_more_than_4_gib() {
    let source = beyond_4_gib();
    let groups = source.groups();
    let Some(entries) = python_lists(Virtual::new(archive(&source, Layout::Pages, Level::Frames), source)) else {
        return;
    };
    let last = entries.last().unwrap();
    assert!(last.starts_with("a.3/mets.xml 7 ") && last.ends_with("<mets/>"), "{last}");
    assert_eq!(entries.len() as u64, groups.iter().map(|group| group.pages.sums().count + 2).sum::<u64>());
    let beyond = entries.iter().filter(|entry| entry.split(' ').nth(3).unwrap().parse::<u64>().unwrap() >= LIMIT32);
    assert!(beyond.count() > 10);
}

#[test]
fn one_entry_of_more_than_4_gib_has_zip64_sizes() {
    for layout in [Layout::Volumes, Layout::WordSeq] {
        let (source, noise) = (beyond_4_gib(), noise());
        let source = if layout == Layout::Volumes {
            // 4 GiB in a single volume, and another one after it.
            MemorySource::new(vec![repeated("a.1", &noise, 257), repeated("a.2", b"short", 2)])
        } else {
            source
        };
        let file = Virtual::new(archive(&source, layout, Level::Frames), source);
        let Some(entries) = python_lists(file) else { return };
        let fields: Vec<&str> = entries[0].split(' ').collect();
        assert!(fields[1].parse::<u64>().unwrap() > LIMIT32 && fields[2].parse::<u64>().unwrap() > LIMIT32);
        if layout == Layout::Volumes {
            assert!(
                entries[2].starts_with("a.2.txt ") && entries[2].ends_with("shortshortthe last of a.2"),
                "{entries:?}"
            );
        }
    }
}

#[test]
fn zip64_begins_exactly_where_an_offset_no_longer_fits() {
    let noise = noise();
    let frame_len = Framer::new(1).frame(&noise[..4 << 20]).unwrap().bytes.len() as u64;
    let filled = repeated("a.1", &noise[..4 << 20], ((LIMIT32 - 2_000_000) / (frame_len + 100)) as u32);
    let offset_of_last = |filler_bytes: u64| {
        let mut volume = filled.clone();
        volume.pages.push((900, Framer::new(0).frame(&noise[..filler_bytes as usize]).unwrap()));
        volume.pages.push((901, Framer::new(0).frame(b"at the limit").unwrap()));
        let source = MemorySource::new(vec![volume]);
        let file = Virtual::new(archive(&source, Layout::Pages, Level::Frames), source);
        let mut zip = zip::ZipArchive::new(file).unwrap();
        let mut entry = zip.by_name("a.1/00000901.txt").unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(text, "at the limit");
        entry.header_start()
    };
    // A frame grows by a little more than its text; the second try allows for that.
    let mut filler_bytes = 1_000_000;
    for _ in 0..2 {
        filler_bytes = filler_bytes + LIMIT32 - offset_of_last(filler_bytes);
    }
    let offsets = [filler_bytes - 1, filler_bytes, filler_bytes + 1].map(offset_of_last);
    assert_eq!(offsets, [LIMIT32 - 1, LIMIT32, LIMIT32 + 1]);
}

/// A volume whose text is longer than 4 GiB although its frames are small: 16 MiB of the same byte,
/// repeated.
fn long_text() -> Arc<MemorySource> {
    Arc::new(MemorySource::new(vec![repeated("a.1", &vec![b'x'; PAGE_BYTES], 256)]))
}

/// Pipes an archive through a process. Returns the number of bytes it writes, and their last line.
fn pipe_through(child: &mut Child, archive: Archive, source: Arc<MemorySource>) -> (u64, String) {
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let counting = std::thread::spawn(move || {
        let (mut count, mut last, mut buffer) = (0, Vec::new(), vec![0; 1 << 20]);
        loop {
            let read = stdout.read(&mut buffer).unwrap();
            if read == 0 {
                let last_line = last.rsplit(|byte| *byte == b'\n').next().unwrap();
                return (count, String::from_utf8_lossy(last_line).into_owned());
            }
            count += read as u64;
            // Short reads come at the end.
            last.extend_from_slice(&buffer[..read]);
            last.drain(..last.len().saturating_sub(100));
        }
    });
    let stream = pack::stream(Arc::new(archive), source, WHOLE);
    let all =
        stream.try_for_each(|piece| std::future::ready(stdin.write_all(&piece).map_err(|error| panic!("{error}"))));
    Runtime::new().unwrap().block_on(all).unwrap();
    drop(stdin);
    counting.join().unwrap()
}

#[test]
fn streaming_readers_read_an_entry_of_more_than_4_gib_with_and_without_descriptor() {
    for descriptors in [false, true] {
        let Some(mut bsdtar) = tool("bsdtar") else { return };
        let source = long_text();
        let mut archive = archive(&source, Layout::Volumes, Level::Frames);
        archive.descriptors = descriptors;
        let text_bytes = archive.groups[0].pages.sums().bytes + "<mets/>".len() as u64;
        let mut bsdtar = bsdtar.args(["-xOf", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (read_bytes, last) = pipe_through(&mut bsdtar, archive, source);
        assert!(bsdtar.wait().unwrap().success());
        assert_eq!(read_bytes, text_bytes);
        assert!(last.ends_with("the last of a.1<mets/>"), "{last}");
    }
}

#[test]
fn java_reads_an_entry_of_more_than_4_gib_with_descriptor() {
    let Some(mut java) = tool("java") else { return };
    let source = long_text();
    let mut archive = archive(&source, Layout::WordSeq, Level::Frames);
    archive.descriptors = true;
    let planned = archive.groups[0].pages.clone();
    let whole = Runtime::new().unwrap().block_on(bytes(&Arc::new(archive), &source, WHOLE));
    let file = tempfile::NamedTempFile::with_suffix(".zip").unwrap();
    std::fs::write(file.path(), &whole).unwrap();
    let read = output(java.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/ReadZips.java")).arg(file.path()));
    let found = format!("{}\t{:08x}", planned.sums().bytes, planned.crc32());
    assert_eq!(read.lines().filter(|line| line.ends_with(&found)).count(), 2, "{read}");
}

#[test]
fn more_than_65535_entries_are_all_found() {
    let texts: Vec<Vec<u8>> = (0..35_000).map(|page: u32| page.to_string().into_bytes()).collect();
    let first = volume("a.1", &texts, None, None);
    let second = MemoryVolume { name: "a.2".into(), ..first.clone() };
    let source = MemorySource::new(vec![first, second]);
    let archive = archive(&source, Layout::Pages, Level::Frames);
    let names = expected(&source, Layout::Pages, None);
    let whole = tokio::runtime::Runtime::new().unwrap().block_on(bytes(&Arc::new(archive), &Arc::new(source), WHOLE));
    assert_eq!(summary(&read_back(std::io::Cursor::new(&whole))), summary(&names));

    let file = tempfile::NamedTempFile::with_suffix(".zip").unwrap();
    std::fs::write(file.path(), &whole).unwrap();
    if let Some(mut bsdtar) = tool("bsdtar") {
        assert_eq!(output(bsdtar.arg("-tf").arg(file.path())).lines().count(), 70_002);
    }
    if let Some(mut seven_zip) = tool("7z") {
        assert!(output(seven_zip.arg("t").arg(file.path())).contains("Everything is Ok"));
    }
    if let Some(mut unzip) = tool("unzip") {
        assert!(output(unzip.arg("-tqq").arg(file.path())).is_empty());
    }
    if let Some(mut java) = tool("java") {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/ReadZips.java");
        assert_eq!(output(java.arg(program).arg(file.path())).lines().count(), 2 * 70_002);
    }
}
