//! Every layout at every level opens in common ZIP readers, each with the right names, sizes and
//! contents.
use crate::common::*;
use pack::memory::MemorySource;
use pack::{Layout, Level, WHOLE};
use std::fs::File;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;

/// Archives on disk, with what should be in them.
struct Archives {
    _folder: TempDir,
    files: Vec<(PathBuf, Expected)>,
}

fn source() -> Arc<MemorySource> {
    let texts: Vec<Vec<u8>> =
        (0..30).map(|page| format!("It was page {page}.\n").repeat(page * 5).into_bytes()).collect();
    let mets = "<mets>é</mets>".repeat(9_000);
    Arc::new(MemorySource::new(vec![
        volume("uc2.ark+=13960=t8ff3zh99", &texts, None, Some(mets.as_bytes())),
        volume("hvd.a", &texts, Some(vec![9, 0, 3]), None),
        volume("mdp.größe", &texts[..2], None, Some(b"")),
        volume("mdp.none", &[], None, None),
    ]))
}

async fn archives() -> Archives {
    let folder = tempfile::tempdir().unwrap();
    let source = source();
    let mut files = Vec::new();
    let levels = [0, 1, 6, 9].map(|number| Level::of_number(number).unwrap());
    for layout in LAYOUTS {
        for level in [Level::Frames].into_iter().chain(levels) {
            for descriptors in [false, true] {
                let mut archive = archive(&source, layout, level);
                archive.errors = Some(ERRORS.into());
                archive.descriptors = descriptors;
                let path = folder.path().join(format!("{layout:?}-{level:?}-{descriptors}.zip"));
                std::fs::write(&path, bytes(&Arc::new(archive), &source, WHOLE).await).unwrap();
                files.push((path, expected(&source, layout, Some(ERRORS))));
            }
        }
    }
    Archives { _folder: folder, files }
}

#[tokio::test]
async fn the_zip_crate_reads_every_archive() {
    for (path, expected) in archives().await.files {
        let entries = read_back(Cursor::new(std::fs::read(&path).unwrap()));
        assert_eq!(summary(&entries), summary(&expected), "{path:?}");
    }
}

#[tokio::test]
async fn unzip_tests_every_archive() {
    let Some(_) = tool("unzip") else { return };
    for (path, expected) in &archives().await.files {
        let listed = output(tool("unzip").unwrap().arg("-t").arg(path));
        let ok = listed.lines().filter(|line| line.trim_end().ends_with("OK")).count();
        assert_eq!(ok, expected.len(), "{listed}");
        assert!(listed.contains("No errors detected"), "{listed}");
    }
}

#[tokio::test]
async fn seven_zip_tests_every_archive() {
    let Some(_) = tool("7z") else { return };
    for (path, expected) in &archives().await.files {
        let tested = output(tool("7z").unwrap().arg("t").arg(path));
        assert!(tested.contains("Everything is Ok") && !tested.contains("Warning"), "{tested}");
        let listed = output(tool("7z").unwrap().args(["l", "-slt", "-ba"]).arg(path));
        let names = listed.lines().filter_map(|line| line.strip_prefix("Path = "));
        let expected = expected.iter().map(|(name, _)| name.trim_end_matches('/'));
        assert_eq!(names.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{path:?}");
    }
}

#[tokio::test]
async fn bsdtar_reads_every_archive_from_a_file_and_from_a_pipe() {
    let Some(_) = tool("bsdtar") else { return };
    for (path, expected) in &archives().await.files {
        let listed = output(tool("bsdtar").unwrap().arg("-tf").arg(path));
        let names = expected.iter().map(|(name, _)| name.as_str());
        assert_eq!(listed.lines().collect::<Vec<_>>(), names.collect::<Vec<_>>(), "{path:?}");
        let contents: Vec<u8> = expected.iter().flat_map(|(_, text)| text.clone()).collect();
        let piped = Stdio::from(File::open(path).unwrap());
        for command in
            [tool("bsdtar").unwrap().arg("-xOf").arg(path), tool("bsdtar").unwrap().arg("-xOf").arg("-").stdin(piped)]
        {
            assert!(output(command).as_bytes() == contents, "{path:?}: {command:?}");
        }
    }
}

#[tokio::test]
async fn python_reads_every_archive() {
    let Some(mut python) = tool("python3") else { return };
    let script = "
import sys, zipfile, zlib
for path in sys.argv[1:]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for entry in archive.infolist():
            text = archive.read(entry)
            assert entry.date_time == (1980, 1, 1, 0, 0, 0) and entry.create_system == 3
            assert entry.external_attr >> 16 == (0o40755 if entry.is_dir() else 0o100644)
            assert entry.compress_type == (0 if entry.is_dir() else 8)
            assert bool(entry.flag_bits & 0x800) == (not entry.filename.isascii())
            sys.stdout.buffer.write(f'{path}\\t{entry.filename}\\t{len(text)}\\t{zlib.crc32(text):08x}\\n'.encode())
";
    let archives = archives().await;
    let read = output(python.arg("-c").arg(script).args(archives.files.iter().map(|(path, _)| path)));
    let lines = archives.files.iter().flat_map(|(path, expected)| {
        summary(expected).into_iter().map(move |line| format!("{}\t{line}", path.display()))
    });
    assert_eq!(read.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}

#[tokio::test]
async fn both_readers_of_java_read_every_archive() {
    let Some(mut java) = tool("java") else { return };
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/ReadZips.java");
    let archives = archives().await;
    let read = output(java.arg(program).args(archives.files.iter().map(|(path, _)| path)));
    let lines = archives.files.iter().flat_map(|(path, expected)| {
        ["ZipFile", "ZipInputStream"].into_iter().flat_map(move |reader| {
            summary(expected).into_iter().map(move |line| format!("{reader}\t{}\t{line}", path.display()))
        })
    });
    assert_eq!(read.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reader_detects_a_flipped_bit_in_an_entry() {
    // Shows that the readers above verify: they all trust the same CRC.
    let Some(mut unzip) = tool("unzip") else { return };
    let source = source();
    let archive = Arc::new(archive(&source, Layout::Volumes, Level::Stored));
    let mut flipped = bytes(&archive, &source, WHOLE).await;
    flipped[5_000] ^= 1;
    let file = tempfile::NamedTempFile::with_suffix(".zip").unwrap();
    std::fs::write(file.path(), flipped).unwrap();
    assert!(!unzip.arg("-tqq").arg(file.path()).output().unwrap().status.success());
}
