//! What is not loaded: broken or hostile exports, and clients without the right to.

use std::fs;
use std::path::Path;

use preservation::about::{ABOUT, About, DESCRIPTION};
use preservation::bagit::BagWriter;

use super::{change_file, exported_note, put, tree};
use crate::harness::*;

#[test]
fn a_token_that_is_limited_to_a_tree_loads_nothing_and_one_for_the_whole_repository_does() {
    let store = TestStore::vacant();
    put(&store, "letters/1.txt", "a letter");
    let bag = store.beside("bag");
    let bag = bag.to_str().unwrap();
    store.run(&["export", "letters", bag, "--as", "bagit"]).ends_with(0);

    let copy = TestStore::vacant();
    put(&copy, "other.txt", "another");
    let [of_tree, of_all] = ["rest:/letters", "rest:/"].map(|limit| {
        let name = if limit == "rest:/" { "all" } else { "tree" };
        let made = copy.run(&["token", "create", name, "--scope", "write", "--scope", limit]).ends_with(0);
        made.text().trim().to_owned()
    });
    let server = copy.serve(&["--set=auth.read=token", "--set=auth.write=token"]);
    let load = |token: &str| Ran::of(penates(&["load", bag, "--server", &server.url, "--token", token]));
    let refused = load(&of_tree);
    assert!(refused.code != 0 && refused.stderr.contains("limited"), "{}", refused.stderr);
    let loaded = load(&of_all).ends_with(0);
    assert!(loaded.text().starts_with("loaded 2 resources"), "{}", loaded.text());
}

#[test]
fn nothing_of_a_bag_is_loaded_if_a_byte_of_it_is_wrong() {
    let store = tree();
    let bag = store.beside("bag");
    store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    fs::write(bag.join("data/letters/deep/graph.nt"), b"NO graph").unwrap();
    let copy = TestStore::vacant();
    let refused = copy.run(&["load", bag.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("nothing was loaded") && refused.stderr.contains("graph.nt"), "{}", refused.stderr);
    assert!(!copy.path().exists(), "a store was made");
    let refused = |place: &Path| copy.run(&["load", place.to_str().unwrap()]).ends_with(1).stderr;
    let printed = refused(&copy.beside("nowhere"));
    assert!(
        printed.contains("there is no ") && printed.contains("nowhere") && !printed.contains("neither a bag"),
        "{printed}"
    );
    fs::write(copy.beside("file"), "").unwrap();
    let printed = refused(&copy.beside("file"));
    assert!(printed.contains("neither a bag") && printed.contains("0=ocfl_1.0"), "{printed}");
    store.run(&["export", "letters", store.beside("archive").to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = store.beside("archive").join(preservation::ocfl::layout::place("penates:/letters"));
    let printed = refused(&object);
    assert!(printed.contains("is an object of OCFL") && !printed.contains("neither a bag"), "{printed}");
}

#[test]
fn a_media_type_that_no_header_may_have_is_named_before_anything_is_loaded() {
    let (_store, root, object) = exported_note();
    change_file(&object, "v1/content/about.json", |about| {
        let mut about: About = serde_json::from_str(about).unwrap();
        about.content_type = Some("text/plain\r\nx: y".to_owned());
        String::from_utf8(about.written()).unwrap()
    });
    let copy = TestStore::vacant();
    let printed = copy.run(&["load", root.to_str().unwrap(), "--check"]).ends_with(1).stderr;
    assert!(
        printed.contains("/note: its media type has characters that are not allowed: \"text/plain\\r\\nx: y\""),
        "{printed}"
    );
    assert!(!copy.path().exists(), "a store was made");
}

#[test]
fn a_bag_with_paths_of_the_servers_own_changes_nothing_there() {
    let store = TestStore::with(&[SMALL]);
    let place = store.beside("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    let page = format!("volumes/{}/pages/1", SMALL.replace([':', '/'], "="));
    for path in [page.as_str(), "a/fcr:tombstone", "fcr:metadata"] {
        let about = About {
            repository: "http://localhost/rest/".to_owned(),
            path: path.to_owned(),
            types: vec!["http://www.w3.org/ns/ldp#RDFSource".to_owned()],
            content_type: None,
            content_disposition: None,
            last_modified: None,
            stored_at: None,
            handling: None,
        };
        for (ending, content) in [(ABOUT, about.written()), (DESCRIPTION, Vec::new())] {
            let mut file = bag.file(about.names(), ending).unwrap();
            file.write(&content).unwrap();
            bag.finish_file(file).unwrap();
        }
    }
    bag.finish(&[]).unwrap();
    let printed = store.run(&["load", place.to_str().unwrap()]).ends_with(1);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 0 unchanged, 3 failed");
    assert_eq!(printed.stderr.matches("is the server's own").count(), 3, "{}", printed.stderr);
    store.run(&["verify"]).ends_with(0);
}

#[test]
fn an_object_that_lost_its_declaration_is_named_before_anything_is_loaded() {
    let store = TestStore::vacant();
    put(&store, "note", "a note");
    put(&store, "other", "another");
    let root = store.beside("archive");
    store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = root.join(preservation::ocfl::layout::place("penates:/note"));
    fs::remove_file(object.join("0=ocfl_object_1.1")).unwrap();
    let copy = TestStore::vacant();
    for more in [&["--check"][..], &[]] {
        let printed = copy.run(&[&["load", root.to_str().unwrap()][..], more].concat()).ends_with(1).stderr;
        assert!(printed.contains("does not declare itself an object"), "{printed}");
    }
    assert!(!copy.path().exists(), "a store was made");
}
