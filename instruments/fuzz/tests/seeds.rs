//! Each fuzz target runs over its seeds, with its limits of memory and time. The targets are built
//! without instrumentation, so that they share what other tests are built of.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The smallest of the sample volumes, a seed of all targets.
const SAMPLE: &str = "../samples/pairtree/psia";

/// Of each target; `cargo xtask fuzz` has the same limit of memory. Programs of tests are not
/// optimized, and machines may be busy.
const LIMITS: [&str; 2] = ["-rss_limit_mb=768", "-timeout=300"];

/// Runs a target over its seeds.
fn replay(target: &str, program: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = [root.join("seeds").join(target), root.join(SAMPLE)].map(|folder| files(&folder)).concat();
    assert!(!seeds.is_empty(), "there is no seed");
    let ended = Command::new(program).args(LIMITS).args(seeds).current_dir(root).output().unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
}

/// All files below a folder; none if it does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

macro_rules! targets {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target), env!(concat!("CARGO_BIN_EXE_", stringify!($target))));
        })*

        #[test]
        fn each_target_has_a_test() {
            let tested: BTreeSet<_> = [$(concat!(stringify!($target), ".rs")),*].map(str::to_owned).into();
            let targets = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("targets")).unwrap();
            let names = targets.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.collect::<BTreeSet<_>>(), tested);
        }
    };
}

targets! {
    accept bag_manifest broker_frames dspace_mets forms frames id_lists mets mets_outline ocfl_inventory pairtree
    rdf_parse rdf_quads rdf_repeated rdf_update records_commands volume_ids volume_zip
}
