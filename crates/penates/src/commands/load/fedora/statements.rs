//! Statements that Fedora stores, as a client would send them.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use preservation::about::About;
use preservation::fedora::{REPOSITORY, ROOT};
use preservation::read::at_most;
use rdf::{Graph, NamedNode, NamedOrBlankNode, Term, Triple};

use super::super::loader::{DESCRIPTION_BYTES_MAX, parsed};

const FEDORA: &str = "http://fedora.info/definitions/v4/repository#";
const LDP: &str = "http://www.w3.org/ns/ldp#";
const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// What is said about bytes by the server.
const OF_BYTES: [&str; 4] = [
    "http://www.loc.gov/premis/rdf/v1#hasSize",
    "http://www.loc.gov/premis/rdf/v1#hasMessageDigest",
    "http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#hasMimeType",
    "http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#filename",
];

/// The name of descriptions, below the bytes that they are of.
const METADATA: &str = "/fcr:metadata";

/// Longer statements are checked one at a time, so that objects side by side do not take much memory.
const CHECKED_AT_ONCE_BYTES_MAX: u64 = 16 << 20;

/// Held by the reader of long statements.
static TURN: Mutex<()> = Mutex::new(());

/// Reads a file of statements.
pub fn read(place: &Path) -> anyhow::Result<Vec<u8>> {
    let named = || place.display().to_string();
    let file = File::open(place).with_context(named)?;
    let is_short = |len_bytes: u64| len_bytes <= DESCRIPTION_BYTES_MAX;
    let too_long = || format!("its statements have more than {DESCRIPTION_BYTES_MAX} bytes");
    let len_bytes = file.metadata().with_context(named)?.len();
    ensure!(is_short(len_bytes), too_long());
    // It may grow meanwhile.
    let statements = at_most(file, len_bytes, DESCRIPTION_BYTES_MAX).with_context(named)?;
    ensure!(is_short(statements.len() as u64), too_long());
    Ok(statements)
}

/// How many of the statements in a file a server makes itself.
pub(super) fn left_out(place: &Path, about: &About) -> anyhow::Result<usize> {
    in_turn(place, || Ok(cleaned(parsed(about, &read(place)?)?, about).1))
}

/// Calls `with`; if a file of statements is long, while no other thread does so for another one.
fn in_turn<T>(place: &Path, with: impl FnOnce() -> T) -> T {
    let is_long = fs::metadata(place).is_ok_and(|file| file.len() > CHECKED_AT_ONCE_BYTES_MAX);
    let _turn = is_long.then(|| TURN.lock());
    with()
}

/// Statements without those that a server makes itself, and how many these are. A description speaks
/// about the bytes that it is of, as it does when Fedora sends it; the root ends with a slash.
pub fn cleaned(statements: Graph, about: &About) -> (Graph, usize) {
    let count = statements.len();
    let cleaner = Cleaner { path: &about.path, is_binary: about.is_binary() };
    let kept: Graph =
        statements.into_iter().map(|triple| cleaner.renamed(triple)).filter(|it| cleaner.is_kept(it)).collect();
    let left_out = count.saturating_sub(kept.len());
    (kept, left_out)
}

struct Cleaner<'a> {
    path: &'a str,
    is_binary: bool,
}

impl Cleaner<'_> {
    /// Whether an address is that of the resource.
    fn is_own(&self, address: &str) -> bool {
        let Some(path) = address.strip_prefix(ROOT) else { return false };
        let path = percent_decode_str(path).decode_utf8_lossy();
        path.trim_start_matches('/') == self.path
    }

    fn renamed(&self, mut triple: Triple) -> Triple {
        if let NamedOrBlankNode::NamedNode(node) = &mut triple.subject {
            self.rename(node);
        }
        if let Term::NamedNode(node) = &mut triple.object {
            self.rename(node);
        }
        triple
    }

    fn rename(&self, node: &mut NamedNode) {
        let address = node.as_str();
        if address == ROOT {
            *node = NamedNode::new_unchecked(REPOSITORY);
            return;
        }
        let (itself, fragment) = address.split_once('#').map_or((address, None), |(it, part)| (it, Some(part)));
        let of = itself.strip_suffix(METADATA).filter(|of| self.is_binary && self.is_own(of));
        if let Some(of) = of {
            let fragment = fragment.map(|part| format!("#{part}")).unwrap_or_default();
            *node = NamedNode::new_unchecked(format!("{of}{fragment}"));
        }
    }

    fn is_kept(&self, triple: &Triple) -> bool {
        let is_own = matches!(&triple.subject, NamedOrBlankNode::NamedNode(subject) if self.is_own(subject.as_str()));
        if !is_own {
            return true;
        }
        match triple.predicate.as_str() {
            TYPE => !matches!(&triple.object, Term::NamedNode(class)
                if class.as_str().starts_with(LDP) || class.as_str().starts_with(FEDORA)),
            predicate if self.is_binary && OF_BYTES.contains(&predicate) => false,
            predicate => !predicate.starts_with(FEDORA) && predicate != "http://www.w3.org/ns/ldp#contains",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn about(path: &str, class: &str) -> About {
        About {
            repository: REPOSITORY.to_owned(),
            path: path.to_owned(),
            types: vec![format!("{LDP}{class}")],
            content_type: None,
            content_disposition: None,
            last_modified: None,
            stored_at: None,
            handling: None,
        }
    }

    fn cleaned_text(statements: &str, about: &About) -> (String, usize) {
        let (kept, left_out) = cleaned(parsed(about, statements.as_bytes()).unwrap(), about);
        (String::from_utf8(rdf::to_stored(&kept)).unwrap(), left_out)
    }

    #[test]
    fn long_statements_are_checked_while_no_other_ones_are() {
        let folder = tempfile::tempdir().unwrap();
        let is_free = |len_bytes: u64| {
            let place = folder.path().join("statements");
            File::create(&place).unwrap().set_len(len_bytes).unwrap();
            in_turn(&place, || TURN.try_lock().is_some())
        };
        assert!(is_free(CHECKED_AT_ONCE_BYTES_MAX) && !is_free(CHECKED_AT_ONCE_BYTES_MAX + 1));
    }

    #[test]
    fn a_description_speaks_about_its_bytes() {
        let said = "<info:fedora/a%20b/fcr:metadata> <urn:p> <info:fedora/other/fcr:metadata> .\n\
                    <info:fedora/a%20b/fcr:metadata#x> <urn:p> \"/fcr:metadata\" .\n";
        let expected = "<info:fedora/a%20b#x> <urn:p> \"/fcr:metadata\" .\n\
                        <info:fedora/a%20b> <urn:p> <info:fedora/other/fcr:metadata> .\n";
        assert_eq!(cleaned_text(said, &about("a b", "NonRDFSource")), (expected.to_owned(), 0));
    }

    #[test]
    fn statements_of_the_server_are_left_out_and_those_about_others_stay() {
        let said = format!(
            "<info:fedora/a> <{FEDORA}created> \"2020\" .\n<info:fedora/a> <{TYPE}> <{LDP}Container> .\n\
             <info:fedora/a> <{TYPE}> <urn:class> .\n<info:fedora/b> <{FEDORA}created> \"2020\" .\n"
        );
        let (text, left_out) = cleaned_text(&said, &about("a", "BasicContainer"));
        assert_eq!((text.lines().count(), left_out), (2, 2), "{text}");
    }

    #[test]
    fn the_root_ends_with_a_slash() {
        let text = cleaned_text("<info:fedora> <urn:p> <info:fedora> .\n", &about("", "BasicContainer")).0;
        assert_eq!(text, "<info:fedora/> <urn:p> <info:fedora/> .\n");
    }
}
