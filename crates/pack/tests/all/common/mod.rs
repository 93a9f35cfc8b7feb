//! Archives in memory, and what readers should find in them.
#![allow(dead_code, clippy::unwrap_used)]

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use pack::memory::{MemorySource, MemoryVolume};
use pack::{Archive, Framer, Layout, Level, Source};
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;

pub const LAYOUTS: [Layout; Layout::ALL.len()] = Layout::ALL;
pub const ERRORS: &str = "Caught the following errors\nKeyNotFoundException: Offending key: a.b\n";

/// A volume of these texts, numbered from 1. An archive requests all or some of them.
pub fn volume(name: &str, texts: &[Vec<u8>], selected: Option<Vec<usize>>, mets: Option<&[u8]>) -> MemoryVolume {
    let mut framer = Framer::new(6);
    let pages = (1..).zip(texts).map(|(seq, text)| (seq, framer.frame(text).unwrap())).collect();
    let mets = mets.map(|text| framer.frame(text).unwrap());
    MemoryVolume { name: name.into(), pages, selected, mets }
}

/// An archive of all volumes of a source.
pub fn archive(source: &MemorySource, layout: Layout, level: Level) -> Archive {
    Archive { layout, level, groups: source.groups(), errors: None, descriptors: false }
}

/// The bytes of a range of an archive.
pub async fn bytes<S: Source>(archive: &Arc<Archive>, source: &Arc<S>, range: Range<u64>) -> Vec<u8> {
    collect(pack::stream(archive.clone(), source.clone(), range)).await.unwrap()
}

/// All bytes of a stream.
pub async fn collect<E>(stream: impl Stream<Item = Result<Bytes, E>>) -> Result<Vec<u8>, E> {
    let mut stream = std::pin::pin!(stream);
    let mut all = Vec::new();
    while let Some(piece) = stream.try_next().await? {
        assert!(!piece.is_empty(), "no piece is empty");
        all.extend_from_slice(&piece);
    }
    assert!(stream.next().await.is_none(), "a stream that has ended yields nothing more");
    Ok(all)
}

/// What a reader should find: names and contents in order.
pub type Expected = Vec<(String, Vec<u8>)>;

/// The entries of an archive of all volumes, made without the code under test.
pub fn expected(source: &MemorySource, layout: Layout, errors: Option<&str>) -> Expected {
    let mut entries = Expected::new();
    let mut wordseq = Vec::new();
    for volume in source.volumes() {
        let all = (0..volume.pages.len()).collect();
        let selected = volume.selected.as_ref().unwrap_or(&all);
        let pages = selected.iter().map(|&index| {
            let (seq, frame) = &volume.pages[index];
            (*seq, pack::inflate(&frame.bytes, frame.size, frame.crc32).unwrap())
        });
        let name = &volume.name;
        let mets = volume.mets.as_ref().map(|frame| pack::inflate(&frame.bytes, frame.size, frame.crc32).unwrap());
        match layout {
            Layout::Pages => {
                entries.push((format!("{name}/"), Vec::new()));
                entries.extend(pages.map(|(seq, text)| (format!("{name}/{seq:08}.txt"), text)));
                entries.extend(mets.map(|text| (format!("{name}/mets.xml"), text)));
            }
            Layout::Volumes => {
                entries.push((format!("{name}.txt"), pages.flat_map(|(_, text)| text).collect()));
                entries.extend(mets.map(|text| (format!("{name}.mets.xml"), text)));
            }
            Layout::WordSeq => wordseq.extend(pages.flat_map(|(_, text)| text)),
        }
    }
    if layout == Layout::WordSeq && !source.volumes().is_empty() {
        entries.push(("wordseq.txt".into(), wordseq));
    }
    entries.extend(errors.map(|text| ("ERROR.err".to_owned(), text.as_bytes().to_vec())));
    entries
}

/// What the zip crate finds in an archive.
pub fn read_back(archive: impl std::io::Read + std::io::Seek) -> Expected {
    let mut zip = zip::ZipArchive::new(archive).unwrap();
    let mut entries = Expected::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).unwrap();
        let mut text = Vec::new();
        std::io::copy(&mut entry, &mut text).unwrap();
        entries.push((entry.name().unwrap().into_owned(), text));
    }
    entries
}

/// Names, sizes and the first bytes, for the message of a failed comparison.
pub fn summary(entries: &Expected) -> Vec<String> {
    let line = |(name, text): &(String, Vec<u8>)| format!("{name}\t{}\t{:08x}", text.len(), crc32fast::hash(text));
    entries.iter().map(line).collect()
}

/// A reader, or `None` with a notice that it is missing. If `CI` is set, a missing reader is a
/// failure.
pub fn tool(name: &str) -> Option<Command> {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(name).is_file());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{name} is not installed");
        report_not_run(&format!("archives open in {name}: it is not installed"));
        return None;
    }
    let mut command = Command::new(name);
    command.env("LC_ALL", "C.UTF-8");
    Some(command)
}

/// Reports a test that was left out, in the file that `PENATES_NOT_RUN` names.
fn report_not_run(what: &str) {
    eprintln!("not run: {what}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut list, format!("{what}\n").as_bytes()).unwrap();
    }
}

/// The output of a reader, which must succeed.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}
