//! Bags of resources: what is exported from one store and loaded into another.

use std::fs;
use std::path::Path;

use preservation::about::{ABOUT, About, DESCRIPTION};
use preservation::bagit::BagWriter;

use super::{cat, is_group, payload, put, tree};
use crate::harness::*;

#[test]
fn a_bag_is_loaded_into_another_store_as_the_same_tree() {
    let store = tree();
    let path = |store: &TestStore, name: &str| store.beside(name).to_str().unwrap().to_owned();
    let bag = path(&store, "bag");
    store.run(&["export", "", &bag, "--as", "bagit"]).ends_with(0);
    let copy = TestStore::vacant();
    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 8 resources (300.0 kB of bytes), 1 unchanged, 0 failed");
    let again = path(&copy, "again");
    copy.run(&["export", "", &again, "--as", "bagit"]).ends_with(0);
    assert_eq!(payload(Path::new(&again)), payload(Path::new(&bag)));
    let list = |store: &TestStore| store.run(&["tree"]).ends_with(0).text().to_owned();
    assert_eq!(list(&copy), list(&store));
    copy.run(&["verify"]).ends_with(0);

    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    assert_eq!(copy.run(&["history", "letters"]).ends_with(0).text().lines().count(), 1, "it was written again");
}

#[test]
fn an_archival_group_is_one_again_after_it_was_exported_and_loaded() {
    let store = TestStore::vacant();
    store.run(&["put", "group", "--model", "archival-group"]).ends_with(0);
    put(&store, "group/part", "a part");
    store.run(&["put", "group/sub", "--model", "basic"]).ends_with(0);
    let refused = store.run(&["put", "group/inner", "--model", "archival-group"]).ends_with(1);
    assert!(refused.stderr.contains("/group, which is an archival group"), "{}", refused.stderr);
    assert!(is_group(&store, "group") && !is_group(&store, "group/sub"));
    for format in ["bagit", "ocfl"] {
        let exported = store.beside(format);
        store.run(&["export", "", exported.to_str().unwrap(), "--as", format]).ends_with(0);
        let copy = TestStore::vacant();
        copy.run(&["load", exported.to_str().unwrap()]).ends_with(0);
        assert!(is_group(&copy, "group") && !is_group(&copy, "group/sub"), "{format}");
        assert_eq!(cat(&copy, "group/part"), "a part", "{format}");
        // It compares what is there: the same command again changes nothing.
        copy.run(&["load", exported.to_str().unwrap()]).ends_with(0);
    }
    let copy = TestStore::vacant();
    copy.run(&["put", "group", "--model", "basic"]).ends_with(0);
    let refused = copy.run(&["load", store.beside("bagit").to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("/group: there is a resource of another kind"), "{}", refused.stderr);
}

#[test]
fn statements_about_the_exported_repository_become_those_about_the_one_they_are_loaded_into() {
    let store = tree();
    let bag = store.beside("bag");
    store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    let copy = TestStore::vacant();
    let server = copy.serve(&[]);
    let token = copy.run(&["token", "create", "loader"]).ends_with(0).text().trim().to_owned();
    let refused = Ran::of(penates(&["load", bag.to_str().unwrap(), "--server", &server.url]));
    assert!(refused.code != 0 && refused.stderr.contains("token"), "{}", refused.stderr);
    let there = ["--server", &server.url, "--token", &token];
    Ran::of(penates(&[&["load", bag.to_str().unwrap()][..], &there].concat())).ends_with(0);
    let graph = Ran::of(penates(&["cat", "letters", "--server", &server.url, "--accept", "application/n-triples"]));
    let graph = graph.ends_with(0).text().to_owned();
    let url = &server.url;
    assert!(graph.contains(&format!("<http://purl.org/dc/terms/hasPart> <{url}/rest/letters/1.txt>")), "{graph}");
    assert!(graph.contains(&format!("<http://purl.org/dc/terms/hasPart> <{url}/rest/letters#part>")), "{graph}");
    assert!(graph.contains("\"<http://localhost/rest/x>\""), "a text is no address: {graph}");
}

#[test]
fn containers_with_members_and_links_to_bytes_elsewhere_are_loaded_as_such() {
    let about = |path: &str, class: &str, stored_at: Option<&str>| About {
        repository: "https://old.example.org/repository/".to_owned(),
        path: path.to_owned(),
        types: vec![format!("http://www.w3.org/ns/ldp#{class}")],
        content_type: stored_at.map(|_| "image/tiff".to_owned()),
        content_disposition: stored_at.map(|_| "attachment; filename=\"1.tif\"".to_owned()),
        last_modified: None,
        stored_at: stored_at.map(str::to_owned),
        handling: None,
    };
    let store = TestStore::vacant();
    let place = store.beside("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    let mut add = |about: About, statements: &str| {
        for (ending, content) in [(ABOUT, serde_json::to_string(&about).unwrap()), (DESCRIPTION, statements.to_owned())]
        {
            let mut file = bag.file(about.names(), ending).unwrap();
            file.write(content.as_bytes()).unwrap();
            bag.finish_file(file).unwrap();
        }
    };
    let root = "https://old.example.org/repository/";
    add(about("thesis", "BasicContainer", None), "");
    let member = format!(
        "<{root}thesis/parts> <http://www.w3.org/ns/ldp#membershipResource> <{root}thesis> .\n\
         <{root}thesis/parts> <http://www.w3.org/ns/ldp#hasMemberRelation> <http://purl.org/dc/terms/hasPart> .\n"
    );
    add(about("thesis/parts", "DirectContainer", None), &member);
    add(about("thesis/parts/one", "RDFSource", None), "");
    add(about("thesis/parts/two", "NonRDFSource", Some("https://example.org/scans/1.tif")), "");
    bag.finish(&[]).unwrap();
    let mut load = store.command(&["load", place.to_str().unwrap()]);
    load.env("PENATES_LDP__EXTERNAL", "[\"https://example.org/scans/\"]");
    let printed = Ran::of(load).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 4 resources (0 B of bytes), 0 unchanged, 0 failed");
    let graph = store.run(&["cat", "thesis", "--accept", "application/n-triples"]).ends_with(0).text().to_owned();
    for part in ["one", "two"] {
        let member = format!("<http://purl.org/dc/terms/hasPart> <http://localhost/rest/thesis/parts/{part}>");
        assert!(graph.contains(&member), "{graph}");
    }
    let again = store.beside("again");
    store.run(&["export", "thesis", again.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    let about = fs::read(again.join("data/thesis/parts/two=about.json")).unwrap();
    let about: About = serde_json::from_slice(&about).unwrap();
    assert_eq!(about.stored_at.as_deref(), Some("https://example.org/scans/1.tif"));
    assert_eq!(about.content_disposition.as_deref(), Some("attachment; filename=\"1.tif\""));
    let said = fs::read_to_string(again.join("data/thesis/parts=description.nt")).unwrap();
    assert_eq!(said.replace("http://localhost/rest/", root).lines().count(), 2);
    assert!(said.contains("hasMemberRelation> <http://purl.org/dc/terms/hasPart>"), "{said}");
}
