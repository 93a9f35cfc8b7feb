//! A backup as one stream: a tar archive of all files, and its description as the last one. For a
//! pipe, a tape, or a file.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tar::{Archive, Builder, Entry as TarEntry, EntryType, Header as TarHeader};
use xxhash_rust::xxh3::Xxh3;

use crate::create::{Created, Options};
use crate::digest::{self, CopyError};
use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{create, make_folders, sync_all};
use crate::manifest::{End, Entry, FORM, Header, Line, Reader, Summary, is_within};
use crate::restore::Restored;
use crate::source::{Found, FoundFile, Source};

/// The name of the description in the archive.
const DESCRIPTION: &str = "backup.jsonl";

/// The most bytes of a name that is too long for the header of its entry. Paths of stores have far
/// fewer.
const NAME_BYTES_MAX: u64 = 64 << 10;

/// What a stream is called in errors.
const STREAM: &str = "of the stream";

/// Computes digests of what is read through it.
struct Digesting<'a, R> {
    inner: R,
    sha256: Sha256,
    checksum: Xxh3,
    bytes: u64,
    /// Whether reading failed, and not writing what was read.
    has_failed: bool,
    took: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Digesting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).inspect_err(|_| self.has_failed = true)?;
        self.sha256.update(&buffer[..read]);
        self.checksum.update(&buffer[..read]);
        self.bytes += read as u64;
        (self.took)(read as u64);
        Ok(read)
    }
}

/// The lines of a description, in a file without a name until they are all there.
struct Lines {
    file: BufWriter<File>,
    sum: Sha256,
}

impl Lines {
    fn write(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        let line = serde_json::to_string(line)? + "\n";
        self.sum.update(&line);
        self.file.write_all(line.as_bytes())
    }
}

/// Writes a backup of a cut into a stream. The description of the backup, some hundred bytes for
/// each file, grows in a file without a name in the folder `scratch` until it is written too.
/// `took` learns of bytes that were written.
///
/// Errors: as of [`Backups::create`](crate::Backups::create). What was written then is no backup.
pub fn write_stream(
    source: &Source,
    options: &Options,
    to: &mut dyn Write,
    scratch: &Path,
    took: &mut dyn FnMut(u64),
) -> BackupResult<Created> {
    let header = Header {
        format: FORM,
        id: options.id.clone(),
        time: options.time.clone(),
        store: source.cut().store.clone(),
        level: source.cut().level,
        program: options.program.clone(),
        folder: options.folder.clone(),
    };
    let listing = |source| io_error("writing the description of the backup in", scratch, source);
    let file = tempfile::tempfile_in(scratch).map_err(listing)?;
    let mut lines = Lines { file: BufWriter::new(file), sum: Sha256::new() };
    lines.write(&header).map_err(listing)?;
    let mut archive = Builder::new(to);
    let mut end = End { files: 0, bytes: 0, copied_files: 0, copied_bytes: 0, sha256: String::new() };
    source.walk(&mut |found| match found {
        Found::Folder(folder) => {
            let mut tar = tar_header(EntryType::Directory, 0, 0);
            archive.append_data(&mut tar, format!("{folder}/"), io::empty()).map_err(stream_error)?;
            lines.write(&Line::Folder { folder }).map_err(listing)
        }
        Found::File(file) => {
            let entry = append(&mut archive, source, file, took)?;
            end.files += 1;
            end.bytes += entry.bytes;
            lines.write(&Line::File(entry)).map_err(listing)
        }
    })?;
    (end.copied_files, end.copied_bytes) = (end.files, end.bytes);
    end.sha256 = hex::encode(lines.sum.clone().finalize());
    lines.write(&Line::End { end: end.clone() }).map_err(listing)?;
    let mut description = lines.file.into_inner().map_err(|error| listing(error.into_error()))?;
    let len = description.stream_position().and_then(|len| description.rewind().map(|()| len)).map_err(listing)?;
    let mut tar = tar_header(EntryType::Regular, len, 0);
    archive.append_data(&mut tar, DESCRIPTION, description).map_err(stream_error)?;
    archive.into_inner().and_then(|to| to.flush()).map_err(stream_error)?;
    Ok(Summary { header, end })
}

fn stream_error(source: io::Error) -> BackupError {
    io_error("writing", Path::new("the stream"), source)
}

fn tar_header(kind: EntryType, bytes: u64, modified: u64) -> TarHeader {
    let mut header = TarHeader::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(if kind == EntryType::Directory { 0o700 } else { 0o600 });
    header.set_mtime(modified / 1_000_000_000);
    header
}

fn append(
    archive: &mut Builder<&mut dyn Write>,
    source: &Source,
    file: FoundFile,
    took: &mut dyn FnMut(u64),
) -> BackupResult<Entry> {
    let from = source.place(&file);
    let inner = source.read(&file).map_err(|error| io_error("reading", &from, error))?;
    let mut bytes =
        Digesting { inner, sha256: Sha256::new(), checksum: Xxh3::new(), bytes: 0, has_failed: false, took };
    let mut tar = tar_header(EntryType::Regular, file.bytes, file.modified);
    let appended = archive.append_data(&mut tar, &file.path, &mut bytes);
    appended.map_err(|error| match bytes.has_failed {
        true => io_error("reading", &from, error),
        false => stream_error(error),
    })?;
    let checksum = format!("{:032x}", bytes.checksum.digest128());
    if bytes.bytes != file.bytes || file.checksum.as_ref().is_some_and(|expected| *expected != checksum) {
        return Err(BackupError::DamagedSource(file.path));
    }
    let sha256 = hex::encode(bytes.sha256.finalize());
    Ok(Entry { path: file.path, bytes: file.bytes, sha256, modified: file.modified, checksum: file.checksum })
}

/// Writes the files of a backup that comes as a stream into a folder, which must be empty or
/// missing, and compares each with its digest. `took` learns of the bytes that were written.
///
/// Errors: [`BackupError::Damaged`] if the stream ends early, a file has other bytes, or it has
/// entries that [`write_stream`] does not write. The folder is then to be deleted.
pub fn restore_stream(from: &mut dyn Read, to: &Path, took: &mut dyn FnMut(u64)) -> BackupResult<Restored> {
    let damaged = |what: &str| BackupError::Damaged { backup: STREAM.to_owned(), what: what.to_owned() };
    let reading = |error: io::Error| damaged(&format!("it cannot be read to its end: {error}"));
    let writing = |source| io_error("writing into", to, source);
    make_folders(to).map_err(writing)?;
    let mut found = BufWriter::new(tempfile::tempfile_in(to).map_err(writing)?);
    let mut archive = Archive::new(from);
    let mut long_name = None;
    // Otherwise the library reads names and extensions into memory, however long they say they are.
    for entry in archive.entries().map_err(reading)?.raw(true) {
        let mut entry = entry.map_err(reading)?;
        let kind = entry.header().entry_type();
        if kind == EntryType::GNULongName {
            long_name = Some(name_in(&mut entry).map_err(reading)?);
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let path = String::from_utf8_lossy(&name).trim_end_matches(['/', '\0']).to_owned();
        if !matches!(kind, EntryType::Regular | EntryType::Directory) {
            return Err(damaged(&format!("{path:?} is neither a file nor a folder")));
        }
        if !is_within(&path) {
            return Err(damaged(&format!("{path:?} is no path of a file of a store")));
        }
        let place = to.join(&path);
        if kind == EntryType::Directory {
            make_folders(&place).map_err(writing)?;
            continue;
        }
        place.parent().map_or(Ok(()), make_folders).map_err(writing)?;
        let mut file = create(&place).map_err(writing)?;
        let promised = entry.size();
        let digests = digest::copy(&mut entry, &mut file, took).map_err(|error| match error {
            CopyError::Reading(error) => reading(error),
            CopyError::Writing(source) => io_error("writing", &place, source),
        })?;
        if digests.bytes != promised {
            return Err(damaged("it ends early"));
        }
        if path != DESCRIPTION {
            writeln!(found, "{} {} {path}", digests.bytes, digests.sha256).map_err(writing)?;
        }
    }
    let description = to.join(DESCRIPTION);
    if !description.exists() {
        return Err(damaged("it ends early: its description is missing"));
    }
    let mut found = found.into_inner().map_err(|error| writing(error.into_error()))?;
    found.rewind().map_err(writing)?;
    let summary = compare(&description, BufReader::new(found), to)?;
    fs::remove_file(&description).map_err(writing)?;
    sync_all(to)?;
    Ok(summary)
}

/// The name of the next entry, of an entry that has nothing else.
fn name_in(entry: &mut TarEntry<'_, impl Read>) -> io::Result<Vec<u8>> {
    let bytes = entry.size();
    if bytes > NAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a name in it has {bytes} bytes")));
    }
    let mut name = Vec::new();
    match entry.read_to_end(&mut name)? as u64 == bytes {
        true => Ok(name),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Compares what was found with a description.
fn compare(description: &Path, found: impl BufRead, to: &Path) -> BackupResult<Restored> {
    let damaged = |what: String| BackupError::Damaged { backup: STREAM.to_owned(), what };
    let mut reader = Reader::open(description)?;
    let mut found = found.lines();
    let end = loop {
        let entry = match reader.next()? {
            Line::File(entry) => entry,
            Line::Folder { .. } => continue,
            Line::End { end } => break end,
        };
        let expected = format!("{} {} {}", entry.bytes, entry.sha256, entry.path);
        let line = found.next().transpose().map_err(|source| io_error("reading what was written in", to, source))?;
        if line.is_none_or(|line| line != expected) {
            return Err(damaged(format!(
                "{} is missing, or does not have the bytes that its digest names",
                entry.path
            )));
        }
        let place = to.join(&entry.path);
        let modified = UNIX_EPOCH + Duration::from_nanos(entry.modified);
        let set = File::options().write(true).open(&place).and_then(|file| file.set_modified(modified));
        set.map_err(|source| io_error("writing", &place, source))?;
    };
    match found.next() {
        None => Ok(Summary { header: reader.header, end }),
        Some(_) => Err(damaged("it has files that its description does not name".to_owned())),
    }
}
