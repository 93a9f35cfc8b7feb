//! Loads of packages of a DSpace (AIP), written as its sources say.

#[allow(dead_code)]
#[path = "../../../preservation/tests/all/aip/mod.rs"]
mod aip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use aip::{Aip, Bits, library, write_library, write_zip};
use serde_json::Value;

use crate::harness::*;

/// The packages of a small DSpace, and a store for them.
fn written() -> (TestStore, PathBuf) {
    let store = TestStore::vacant();
    let folder = store.beside("aips");
    write_library(&folder);
    (store, folder)
}

/// Loads packages. Returns what the command printed, and the report. It warns if not everyone could
/// read all of them.
fn load(store: &TestStore, source: &Path, code: i32) -> (String, Vec<Value>) {
    let report = store.beside("report.ndjson");
    let ran = store.run(&["load", source.to_str().unwrap(), "--report", report.to_str().unwrap()]).ends_with(code);
    let lines = fs::read_to_string(report).unwrap();
    let report: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = ["restricted", "unstated", "withdrawn"];
    let is_restricted = kinds.iter().any(|what| report.iter().any(|line| line["what"] == *what));
    let is_warned = ran.stderr.contains("warning: everything loaded is readable");
    assert_eq!(is_warned, is_restricted, "{}", ran.stderr);
    (ran.text().to_owned(), report)
}

/// The lines of a report about something.
fn lines<'a>(report: &'a [Value], what: &str) -> Vec<&'a Value> {
    report.iter().filter(|line| line["what"] == what).collect()
}

fn resources<'a>(report: &'a [Value], what: &str) -> Vec<&'a str> {
    let mut paths: Vec<_> = lines(report, what).into_iter().filter_map(|line| line["resource"].as_str()).collect();
    paths.sort_unstable();
    paths
}

/// Why packages were left out, each with the name of its file.
fn left_out(report: &[Value], what: &str) -> Vec<(String, String)> {
    let line = |line: &&Value| {
        let object = Path::new(line["object"].as_str()?).file_name()?.to_str()?.to_owned();
        Some((object, line["why"].as_str()?.to_owned()))
    };
    lines(report, what).iter().filter_map(line).collect()
}

fn tree(store: &TestStore) -> String {
    store.run(&["tree"]).ends_with(0).text().to_owned()
}

/// The statements about a resource, as N-Triples with `/` for the address of the repository.
fn statements(store: &TestStore, path: &str) -> Vec<String> {
    let server = store.serve(&[]);
    let address = format!("{}/rest/{path}", server.url);
    let ran = Ran::of({
        let mut curl = std::process::Command::new("curl");
        let prefer = "Prefer: return=representation; omit=\"http://fedora.info/definitions/fcrepo#ServerManaged\"";
        curl.args(["-sSf", "-H", "Accept: application/n-triples", "-H", prefer, &address]);
        curl
    });
    let root = format!("{}/rest/", server.url);
    let mut lines: Vec<_> = ran.ends_with(0).text().lines().map(|line| line.replace(&root, "/")).collect();
    lines.sort();
    lines
}

#[test]
fn packages_of_a_dspace_are_loaded_at_their_handles_with_bytes_and_metadata() {
    let (store, folder) = written();
    let (output, report) = load(&store, &folder, 0);
    assert!(output.starts_with("loaded 22 resources"), "{output}");
    assert!(output.contains("\nverified 22 resources\n"), "{output}");
    let tree = tree(&store);
    for (path, bytes) in [
        ("123456789/5/1", "%PDF a letter"),
        ("123456789/5/2", "Dear Ada"),
        ("123456789/5/3", "granted"),
        ("123456789/7/1", "Dear diary"),
        ("123456789/1/bitstream_90", "a logo"),
        ("withdrawn/123456789/6/1", "withdrawn"),
    ] {
        assert_eq!(store.run(&["cat", path]).ends_with(0).text(), bytes, "{path}: {tree}");
    }
    let item = library().into_iter().find(|aip| aip.handle == "123456789/5").unwrap();
    assert_eq!(store.run(&["cat", "aip/123456789/5.xml"]).ends_with(0).text(), item.mets(false));
    assert!(!tree.contains("\n    6/\n  aip"), "{tree}");
    assert_eq!(store.run(&["cat", "123456789/6"]).code, 1);
    assert_eq!(lines(&report, "policy").len(), 0);
    assert_eq!(resources(&report, "restricted"), ["/123456789/7", "/123456789/7/1"]);
    let policy = &lines(&report, "restricted")[0]["policies"][0];
    assert_eq!((policy["who"].as_str(), policy["from"].as_str()), (Some("Staff"), Some("2030-01-01")));
    assert_eq!(resources(&report, "withdrawn"), ["/withdrawn/123456789/6"]);
    assert_eq!(resources(&report, "template"), ["/123456789/3"]);
    assert_eq!(resources(&report, "roles"), ["/123456789/0"]);
    assert_eq!(resources(&report, "hidden"), ["/123456789/5"]);
    assert_eq!(report.len(), 6, "{report:?}");
}

#[test]
fn what_has_no_policy_is_reported_and_so_is_a_package_without_a_word_about_policies() {
    let store = TestStore::vacant();
    let folder = store.beside("aips");
    fs::create_dir(&folder).unwrap();
    let item = |handle: &str| Aip::new("ITEM", handle, Some("1/2"), "An item");
    let shown = Bits::new(1, "shown.txt", "text/plain", b"shown");
    let hidden = Bits { readers: Vec::new(), ..Bits::new(2, "hidden.txt", "text/plain", b"hidden") };
    Aip { bitstreams: vec![shown, hidden], ..item("1/3") }.write(&folder);
    let mut files = item("1/4").files();
    let mets = String::from_utf8(files[0].1.clone()).unwrap();
    files[0].1 = mets.replace("http://cosimo.stanford.edu/sdr/metsrights/", "http://example.org/").into_bytes();
    write_zip(&folder.join("ITEM@1-4.zip"), &files);
    let (output, report) = load(&store, &folder, 0);
    assert_eq!(resources(&report, "restricted"), ["/1/3/2"]);
    assert_eq!(lines(&report, "restricted")[0]["policies"], serde_json::json!([]));
    assert_eq!(resources(&report, "unstated"), ["/1/4"]);
    assert!(output.contains("1 objects whose packages do not say who could read them"), "{output}");
}

#[test]
fn metadata_of_a_dspace_become_statements_and_all_of_it_is_kept() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    let item = statements(&store, "123456789/5");
    let said = |property: &str, object: &str| format!("</123456789/5> <{property}> {object} .");
    let dc = |name: &str| format!("http://purl.org/dc/elements/1.1/{name}");
    let dcterms = |name: &str| format!("http://purl.org/dc/terms/{name}");
    let dim = |name: &str| format!("http://www.dspace.org/xmlns/dspace/dim#{name}");
    let ontology = |name: &str| format!("http://digital-repositories.org/ontologies/dspace/0.1.0#{name}");
    for expected in [
        said("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", &format!("<{}>", ontology("Item"))),
        said(&dcterms("title"), "\"Letters & notes\"@en-us"),
        said(&dcterms("creator"), "\"Lovelace, Ada\""),
        said(&dim("dc.contributor.advisor"), "\"De Morgan, Augustus\""),
        said(&dc("contributor"), "\"De Morgan, Augustus\""),
        said(&dim("dc.date.accessioned"), "\"2020-01-02T03:04:05Z\""),
        said(&dcterms("issued"), "\"1842\""),
        said(&dcterms("rights"), "<http://creativecommons.org/licenses/by/4.0/>"),
        said(&dim("local.shelf"), "\"A 7\""),
        said(&dcterms("identifier"), "\"hdl:123456789/5\""),
        said(&dcterms("identifier"), "\"http://hdl.handle.net/123456789/5\""),
        said(&dcterms("modified"), "\"2023-05-04T03:02:01Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>"),
        said(&dcterms("isPartOf"), "</123456789/3>"),
        said(&ontology("isPartOfCollection"), "</123456789/3>"),
        said(&ontology("isPartOfCollection"), "</123456789/4>"),
        said(&dcterms("isReferencedBy"), "</123456789/4>"),
        said(&dim("primaryBitstream"), "</123456789/5/1>"),
        said(&dcterms("source"), "</aip/123456789/5.xml>"),
    ] {
        let is_there = item.iter().any(|line| line.eq_ignore_ascii_case(&expected));
        assert!(is_there, "{expected}\n{}", item.join("\n"));
    }
    assert!(!item.iter().any(|line| line.contains("ada@example.org")), "{}", item.join("\n"));
    let text = statements(&store, "123456789/5/2/fcr:metadata");
    for expected in [
        format!("</123456789/5/2> <{}> </123456789/5/1> .", dcterms("isFormatOf")),
        format!("</123456789/5/2> <{}> \"letter.pdf.txt\" .", dcterms("title")),
        format!("</123456789/5/2> <{}> \"TEXT\" .", dim("bundle")),
        format!("</123456789/5/2> <{}> </123456789/5> .", ontology("isPartOfItem")),
    ] {
        assert!(text.contains(&expected), "{expected}\n{}", text.join("\n"));
    }
    let community = statements(&store, "123456789/2");
    let expected = format!("</123456789/2> <{}> </123456789/1> .", ontology("isSubcommunityOf"));
    assert!(community.contains(&expected), "{}", community.join("\n"));
}

#[test]
fn a_bitstream_has_the_media_type_and_the_name_of_its_file() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    let server = store.serve(&[]);
    for (path, media_type, name) in [
        ("5/1", "application/pdf", "attachment; filename=\"letter.pdf\""),
        ("7/1", "text/plain", "attachment; filename*=UTF-8''diary%20%C3%BC%2Etxt"),
    ] {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sSfI", &format!("{}/rest/123456789/{path}", server.url)]);
        let ran = Ran::of(curl).ends_with(0);
        let head = ran.text().to_ascii_lowercase();
        assert!(head.contains(&format!("content-type: {media_type}\r\n")), "{head}");
        assert!(head.contains(&format!("content-disposition: {}\r\n", name.to_ascii_lowercase())), "{head}");
    }
}

#[test]
fn a_second_load_of_packages_finds_all_of_it_and_loads_what_is_new() {
    let (store, folder) = written();
    let diary = folder.join("ITEM@123456789-7.zip");
    let aside = store.beside("aside.zip");
    fs::rename(&diary, &aside).unwrap();
    let (output, report) = load(&store, &folder, 1);
    assert!(output.contains("1 objects of which there is no package"), "{output}");
    assert_eq!(resources(&report, "missing"), ["/123456789/7"]);
    fs::rename(&aside, &diary).unwrap();
    let (output, _) = load(&store, &folder, 0);
    assert!(output.starts_with("loaded 3 resources"), "{output}");
    let (output, _) = load(&store, &folder, 0);
    assert!(output.starts_with("loaded 0 resources (0 B of bytes), 22 unchanged, 0 failed"), "{output}");
}

/// The item with several bitstreams.
fn letters() -> Aip {
    library().into_iter().find(|aip| aip.handle == "123456789/5").unwrap()
}

#[test]
fn what_changed_in_dspace_since_the_last_load_is_brought_over() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    let mut item = letters();
    item.fields.push(("dc.subject", None, "Engines".to_owned()));
    item.bitstreams.retain(|bits| bits.id != 53);
    item.bitstreams[0].name = "first letter.pdf";
    item.bitstreams.push(Bits { sequence: Some(4), ..Bits::new(54, "new.txt", "text/plain", b"new") });
    item.write(&folder);
    let (output, report) = load(&store, &folder, 0);
    assert!(output.starts_with("loaded 1 resources (3 B of bytes), 21 unchanged, 0 failed"), "{output}");
    assert!(output.contains("\nverified 22 resources\n1 packages changed: "), "{output}");
    assert!(output.contains(" resources replaced, 1 deleted\n"), "{output}");
    assert_eq!(resources(&report, "failed"), [""; 0]);
    let said = statements(&store, "123456789/5");
    assert!(said.iter().any(|line| line.contains("\"Engines\"")), "{}", said.join("\n"));
    let said = statements(&store, "123456789/5/1/fcr:metadata");
    assert!(said.iter().any(|line| line.contains("\"first letter.pdf\"")), "{}", said.join("\n"));
    assert_eq!(store.run(&["cat", "123456789/5/4"]).ends_with(0).text(), "new");
    assert_eq!(store.run(&["cat", "123456789/5/3"]).code, 1);
    let (output, _) = load(&store, &folder, 0);
    assert!(output.starts_with("loaded 0 resources (0 B of bytes), 22 unchanged, 0 failed"), "{output}");
    assert!(!output.contains("packages changed"), "{output}");
}

#[test]
fn an_object_that_dspace_has_deleted_is_kept_and_reported() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    fs::remove_file(folder.join("ITEM@123456789-7.zip")).unwrap();
    let mut collection = library().into_iter().find(|aip| aip.handle == "123456789/4").unwrap();
    collection.children.retain(|(_, handle)| handle != "123456789/7");
    collection.write(&folder);
    let (output, report) = load(&store, &folder, 0);
    assert!(output.contains("1 objects kept here that DSpace seems to have deleted"), "{output}");
    assert_eq!(resources(&report, "gone"), ["/123456789/7"]);
    assert_eq!(store.run(&["cat", "123456789/7/1"]).ends_with(0).text(), "Dear diary");
}

#[test]
fn what_changed_here_too_is_kept_and_reported() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    let other = store.beside("other.txt");
    fs::write(&other, "changed here").unwrap();
    for path in ["123456789/5/1", "123456789/5/3"] {
        store.run(&["put", path, other.to_str().unwrap()]).ends_with(0);
    }
    let mut item = letters();
    item.bitstreams.retain(|bits| bits.id != 53);
    item.bitstreams[0].bytes = b"changed there".to_vec();
    item.write(&folder);
    // It is said until it is decided: the METS of the earlier load stays.
    for _ in 0..2 {
        let (_, report) = load(&store, &folder, 1);
        let expected = ["/123456789/5/1", "/123456789/5/3", "/aip/123456789/5.xml"];
        assert_eq!(resources(&report, "failed"), expected, "{report:?}");
    }
    for path in ["123456789/5/1", "123456789/5/3"] {
        assert_eq!(store.run(&["cat", path]).ends_with(0).text(), "changed here");
    }
}

#[test]
fn an_item_that_is_withdrawn_later_and_reinstated_moves_with_all_that_is_in_it() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    let is_there = |path: &str| store.run(&["cat", path]).code == 0;
    for is_withdrawn in [true, false, true] {
        Aip { is_withdrawn, ..letters() }.write(&folder);
        let (output, report) = load(&store, &folder, 0);
        assert!(output.contains("1 packages changed: 1 resources replaced, 4 deleted"), "{output}{report:?}");
        assert_eq!(is_there("123456789/5/1"), !is_withdrawn);
        assert_eq!(is_there("withdrawn/123456789/5/1"), is_withdrawn);
    }
}

#[test]
fn a_check_of_packages_makes_no_store() {
    let (store, folder) = written();
    let output = store.run(&["load", folder.to_str().unwrap(), "--check"]).ends_with(0);
    assert!(output.text().starts_with("checked 8 packages with 14 files\n"), "{}", output.text());
    assert!(!store.path().exists());
}

#[test]
fn a_package_alone_is_loaded_without_what_is_above_it() {
    let (store, folder) = written();
    let (output, report) = load(&store, &folder.join("COLLECTION@123456789-3.zip"), 0);
    assert!(output.starts_with("loaded 2 resources"), "{output}");
    assert_eq!(resources(&report, "missing"), [""; 0]);
    assert!(tree(&store).contains("123456789/\n    3/"), "{}", tree(&store));
}

#[test]
fn manifests_alone_are_loaded_and_their_bytes_reported_as_missing() {
    let store = TestStore::vacant();
    let folder = store.beside("manifests");
    fs::create_dir(&folder).unwrap();
    for aip in library() {
        fs::write(folder.join(aip.file_name("xml")), aip.mets(true)).unwrap();
    }
    let (output, report) = load(&store, &folder, 1);
    assert!(output.contains("6 bitstreams without their bytes"), "{output}");
    let letter = lines(&report, "bytes").into_iter().find(|line| line["resource"] == "/123456789/5/1").unwrap();
    assert_eq!(letter["at"], "https://dspace.example.org/bitstreams/51/download");
    let item = statements(&store, "123456789/5");
    assert!(item.iter().any(|line| line.contains("Letters & notes")), "{}", item.join("\n"));
}

#[test]
fn a_resource_that_was_changed_here_is_kept_and_reported() {
    let (store, folder) = written();
    load(&store, &folder, 0);
    let other = store.beside("other.txt");
    fs::write(&other, "changed here").unwrap();
    store.run(&["put", "123456789/5/2", other.to_str().unwrap()]).ends_with(0);
    store.run(&["rm", "123456789/5/3"]).ends_with(0);
    let (output, report) = load(&store, &folder, 1);
    assert!(output.contains("failed"), "{output}");
    assert_eq!(resources(&report, "failed"), ["/123456789/5/2", "/123456789/5/3"], "{report:?}");
    assert_eq!(store.run(&["cat", "123456789/5/2"]).ends_with(0).text(), "changed here");
}

#[test]
fn an_interrupted_load_of_packages_goes_on() {
    let (store, folder) = written();
    let many: Vec<_> = (0..300)
        .map(|n| Bits {
            sequence: Some(n + 1),
            ..Bits::new(1_000 + n, "a.bin", "application/octet-stream", &vec![7; 20_000])
        })
        .collect();
    let item = Aip { bitstreams: many, ..Aip::new("ITEM", "123456789/8", Some("123456789/3"), "Many") };
    item.write(&folder);
    let mut command = store.command(&["load", folder.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The store is made after the check, and the load takes longer than this.
    wait_until(|| store.path().exists() || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let (output, _) = load(&store, &folder, 0);
    assert!(output.contains("verified 324 resources"), "{output}");
}

#[test]
fn packages_that_are_damaged_or_foreign_are_left_out_and_the_rest_is_loaded() {
    let (store, folder) = written();
    let mut flipped = library()[7].files();
    flipped[1].1[0] ^= 1;
    write_zip(&folder.join("ITEM@123456789-7.zip"), &flipped);
    write_zip(&folder.join("foreign.zip"), &[("a.txt".to_owned(), Vec::new())]);
    fs::write(folder.join("torn.zip"), "PK\u{3}\u{4}and no more").unwrap();
    fs::write(folder.join("md5sums.txt"), "no package").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link.zip")).unwrap();
    fs::copy(folder.join("ITEM@123456789-5.zip"), folder.join("again.zip")).unwrap();
    let (output, report) = load(&store, &folder, 1);
    let damaged = left_out(&report, "damaged");
    let names: Vec<_> = damaged.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["link.zip", "ITEM@123456789-7.zip", "torn.zip", "ITEM@123456789-5.zip", "again.zip"];
    assert_eq!(names, expected, "{damaged:?}");
    assert!(damaged[0].1.contains("links are not followed"), "{damaged:?}");
    assert!(damaged[1].1.contains("has another md5 than mets.xml says"), "{damaged:?}");
    assert!(damaged[3].1.contains("another package is of hdl:123456789/5 too"), "{damaged:?}");
    assert_eq!(left_out(&report, "foreign").len(), 1, "{report:?}");
    assert_eq!(resources(&report, "missing"), ["/123456789/5", "/123456789/7"]);
    assert!(output.contains("verified"), "{output}");
    assert!(tree(&store).contains("bitstream_90"), "{}", tree(&store));
}

#[test]
fn handles_that_are_no_paths_and_circles_are_left_out() {
    let store = TestStore::vacant();
    let folder = store.beside("aips");
    fs::create_dir(&folder).unwrap();
    let item = |handle: &str| Aip::new("ITEM", handle, Some("1/2"), "An item");
    for (n, handle) in ["../1", "a\u{7f}b/1", "volumes/1", "aip/1", "withdrawn", "1/fcr:versions"].iter().enumerate() {
        write_zip(&folder.join(format!("{n}.zip")), &item(handle).files());
    }
    Aip::new("COMMUNITY", "1/10", Some("1/11"), "One").write(&folder);
    Aip::new("COMMUNITY", "1/11", Some("1/10"), "The other").write(&folder);
    Aip::new("COMMUNITY", "1/12", Some("1/10"), "Below them").write(&folder);
    Aip::new("COMMUNITY", "1/13", Some("1/13"), "Itself").write(&folder);
    item("1/20").write(&folder);
    let (_, report) = load(&store, &folder, 1);
    assert_eq!(left_out(&report, "name").len(), 6, "{report:?}");
    let mut circles: Vec<_> = left_out(&report, "damaged").into_iter().map(|(name, _)| name).collect();
    circles.sort();
    assert_eq!(circles, ["COMMUNITY@1-10.zip", "COMMUNITY@1-11.zip", "COMMUNITY@1-13.zip"]);
    assert_eq!(resources(&report, "parent"), ["/1/12", "/1/20"]);
    assert!(tree(&store).contains("12/") && tree(&store).contains("20/"), "{}", tree(&store));
}

#[test]
fn files_that_no_mets_names_are_reported_and_never_unpacked() {
    let (store, folder) = written();
    let mut files = library()[5].files();
    files.push(("../../../escaped".to_owned(), b"x".to_vec()));
    write_zip(&folder.join("ITEM@123456789-5.zip"), &files);
    let (output, report) = load(&store, &folder, 1);
    assert!(output.contains("1 files of packages left out because no mets.xml names them"), "{output}");
    assert_eq!(lines(&report, "unnamed")[0]["file"], "../../../escaped");
    assert!(!store.beside("escaped").exists() && !folder.join("escaped").exists());
}
