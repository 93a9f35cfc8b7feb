//! The candidates that come with the program.

use include_dir::{Dir, include_dir};

/// The file that describes a candidate.
pub const FILE: &str = "candidate.toml";

static CANDIDATES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/candidates");

/// The files of a candidate, and the text that describes it.
pub fn find(name: &str) -> Option<(&'static Dir<'static>, &'static str)> {
    let files = CANDIDATES.get_dir(name)?;
    Some((files, files.get_file(files.path().join(FILE))?.contents_utf8()?))
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    CANDIDATES.dirs().filter_map(|files| files.path().to_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Candidate;
    use crate::record::FACTS;

    #[test]
    fn every_shipped_candidate_says_what_a_record_needs() {
        let names: Vec<_> = super::names().collect();
        assert!(names.len() >= 6, "{names:?}");
        for name in names {
            let spec = Candidate::shipped(name).unwrap().spec;
            assert_eq!(spec.name, name);
            assert!(!spec.description.is_empty(), "{name}");
            if spec.not_run.is_some() {
                continue;
            }
            assert!(spec.version.is_some() && spec.commit.is_some() && spec.configuration.is_some(), "{name}");
            assert!(FACTS.iter().all(|fact| spec.facts.contains_key(*fact)), "{name}");
            assert_eq!(spec.needs.is_empty() && spec.folders.is_empty(), spec.install.is_none(), "{name}");
        }
        let error = Candidate::shipped("nobody").unwrap_err().to_string();
        assert!(error.contains("null") && error.contains("penates-records, "), "{error}");
    }
}
