//! `ls`, `stat`, `verify`, `delete`, `audit`, `token`.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use store::{Call, Class, Deadline, NewRow, Step, Store, SystemClock, Table};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::harness::*;

#[test]
fn ls_lists_pages_with_their_sequence_size_and_features() {
    let store = TestStore::with(&[SMALL]);
    let pages = store.run(&["ls", "--json", SMALL]).ends_with(0).json_lines();
    assert_eq!(pages.len(), 24);
    let expected = expected_entries(&sample_folder(SMALL));
    for page in &pages {
        let name = format!("psia.ark+=13960=t0ks80527/{:08}.txt", page["seq"].as_u64().unwrap());
        assert_eq!(page["size_bytes"], expected[&name].len());
    }
    let table = store.run(&["ls", SMALL]).ends_with(0);
    assert!(table.text().starts_with("SEQ"), "{}", table.text());
    assert_eq!(table.text().lines().count(), 25);
}

#[test]
fn texts_from_a_mets_or_a_record_command_no_terminal_and_are_no_formulas() {
    let store = TestStore::vacant();
    let labelled = r#"ORDER="1" LABEL="RIGHT, COVER" TYPE="page" ORDERLABEL="#;
    let label = format!("{labelled}\"=HYPERLINK(1)\u{9b}2J\"");
    let volume = changed_sample(&store, "volume", |mets| mets.replace(&format!("{labelled}\"\""), &label));
    let record = file_with_suffix(&volume, ".json");
    let mut described: serde_json::Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    described["title"] = json!("red \u{1b}[31m\nand more");
    fs::write(&record, described.to_string()).unwrap();
    store.run(&["import", volume.to_str().unwrap()]).ends_with(0);

    let csv = store.run(&["ls", "--csv", SMALL]).ends_with(0);
    assert!(csv.text().lines().any(|line| line.starts_with("1,'=HYPERLINK(1) 2J,")), "{}", csv.text());
    let table = store.run(&["ls", SMALL]).ends_with(0);
    assert!(table.text().contains("=HYPERLINK(1) 2J"), "{}", table.text());
    let stat = store.run(&["stat", SMALL]).ends_with(0);
    assert!(stat.text().contains("red  [31m and more"), "{}", stat.text());
    for ran in [csv, table, stat] {
        assert!(!ran.text().contains(|c: char| c.is_control() && c != '\n'), "{:?}", ran.text());
    }
}

#[test]
fn ls_json_prints_one_object_per_volume() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let mut ids: Vec<_> = store.run(&["ls", "--json"]).ends_with(0).json_lines();
    ids.sort_by_key(|volume| volume["id"].as_str().unwrap().to_owned());
    assert_eq!(ids.iter().map(|volume| &volume["id"]).collect::<Vec<_>>(), [SMALL, OTHER]);
}

#[test]
fn stat_describes_the_store_and_a_volume() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let whole = store.run(&["stat", "--json"]).ends_with(0).json();
    assert_eq!((&whole["volumes"], &whole["pages"]), (&json!(2), &json!(24 + 92)));
    let volume = store.run(&["stat", "--json", SMALL]).ends_with(0).json();
    assert_eq!((&volume["id"], &volume["pages"]), (&json!(SMALL), &json!(24)));
    assert!(volume.to_string().contains("Salmon fry"), "{volume}");
    let output = store.run(&["stat", SMALL]).ends_with(0);
    assert!(output.text().lines().any(|line| line.starts_with("pages ") && line.ends_with(" 24")), "{}", output.text());
    let absent = store.run(&["stat", "no.where"]).ends_with(1);
    assert!(absent.stderr.contains("failed: no.where: is not in the store"), "{}", absent.stderr);
}

#[test]
fn verify_reports_each_volume_as_json_and_an_absent_one_as_failed() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let reports = store.run(&["verify", "--json"]).ends_with(0).json_lines();
    let of = |kind: &str| reports.iter().filter(|report| report[kind].is_string()).count();
    assert_eq!((reports.len(), of("id"), of("resource")), (3, 2, 1), "the root is a resource: {reports:?}");
    assert!(reports.iter().all(|report| report["sound"] == json!(true)), "{reports:?}");
    let absent = store.run(&["verify", SMALL, "no.where"]).ends_with(1);
    assert_eq!(absent.text().lines().last(), Some("volumes: 1 sound, 0 damaged, 1 failed"), "{}", absent.text());
}

#[test]
fn the_failure_of_one_volume_is_among_the_json_objects() {
    let store = TestStore::with(&[SMALL]);
    for command in ["stat", "verify", "delete"] {
        let output = store.run(&[command, "--json", "no.where", SMALL]).ends_with(1);
        let objects = output.json_lines();
        let absent = objects.iter().find(|object| object["id"] == "no.where").unwrap();
        assert!(absent["error"].as_str().unwrap().contains("not in the store"), "{command}: {absent}");
        assert!(
            objects.iter().any(|object| object["id"] == SMALL && object["error"].is_null()),
            "{command}: {objects:?}"
        );
    }
}

#[test]
fn a_deleted_volume_is_gone_and_can_be_imported_again() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let ran = store.run(&["delete", "--json", SMALL, "no.where"]).ends_with(1);
    assert_eq!(ran.json_lines()[0], json!({"id": SMALL, "deleted": true}));
    assert_eq!(store.ids(), [OTHER]);
    let again = store.run(&["delete", SMALL]).ends_with(1);
    assert!(again.stderr.contains("deleted"), "{}", again.stderr);
    let imported = store.run(&["import", "--json", sample_folder(SMALL).to_str().unwrap()]).ends_with(0).json();
    assert_eq!(imported["new"], 1);
    assert_eq!(unzip(&store.run(&["get", SMALL]).ends_with(0).stdout), expected_entries(&sample_folder(SMALL)));
}

/// Copies the sample volume [`SMALL`] into a folder of its own beside a store, with another METS.
fn changed_sample(store: &TestStore, name: &str, change: impl FnOnce(String) -> String) -> PathBuf {
    let volume = store.beside(name);
    copy_folder(&sample_folder(SMALL), &volume);
    let mets = file_with_suffix(&volume, ".mets.xml");
    let text = fs::read_to_string(&mets).unwrap();
    let changed = change(text.clone());
    assert!(changed != text, "nothing is changed");
    fs::write(mets, changed).unwrap();
    volume
}

#[test]
fn an_id_that_looks_like_the_cleaned_form_of_another_is_of_its_own_volume() {
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let served = store.serve(&[]);
    let ids = ["x.a/b", "x.a=b"];
    for (name, id) in ["one", "other"].into_iter().zip(ids) {
        let objid = format!("OBJID=\"{id}\"");
        let volume = changed_sample(&store, name, |mets| mets.replace(&format!("OBJID=\"{SMALL}\""), &objid));
        fs::remove_file(file_with_suffix(&volume, ".json")).unwrap();
        // Through the server, which gets the id in the path.
        assert_eq!(store.run(&["import", "--json", volume.to_str().unwrap()]).ends_with(0).json()["new"], 1, "{id}");
    }
    assert_eq!(store.ids(), ids);
    for id in ids {
        assert_eq!(store.run(&["stat", "--json", id]).ends_with(0).json()["id"], id);
    }
    assert_eq!(store.run(&["delete", ids[1]]).ends_with(0).text(), "deleted x.a=b\n");
    assert_eq!(store.ids(), [ids[0]]);
    served.stop("TERM");
}

/// A time with a fraction of a second. Without one it would mean the whole second.
pub fn with_fraction(time: &str) -> String {
    if time.contains('.') { time.to_owned() } else { time.replace('Z', ".0Z") }
}

#[test]
fn the_version_of_a_time_within_a_second_is_restored_although_another_one_began_in_that_second() {
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let _served = store.serve(&["--set=history.volumes=all"]);
    let later = changed_sample(&store, "later", |mets| mets.replace("</METS:mets>", "<!-- later --></METS:mets>"));
    let whole = || unzip(&store.run(&["get", "--mets", SMALL]).ends_with(0).stdout);
    store.run(&["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    let first = whole();
    store.run(&["import", later.to_str().unwrap()]).ends_with(0);
    assert!(whole() != first);
    let versions = store.run(&["history", "--volume", SMALL, "--json"]).ends_with(0).json_lines();
    let time = with_fraction(versions[0]["time"].as_str().unwrap());
    store.run(&["restore", "--volume", SMALL, "--at", &time]).ends_with(0);
    assert!(whole() == first, "{versions:?}");
}

#[test]
fn the_audit_lists_who_requested_what_and_the_most_requested_volumes() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let token = store.run(&["token", "create", "reader-seven"]).ends_with(0).text().trim().to_owned();
    let served = store.serve(&[]);
    for ids in [&[SMALL][..], &[SMALL, OTHER]] {
        let args = [&["get", "--server", &served.url, "--token", &token], ids].concat();
        Ran::of(penates(&args)).ends_with(0);
    }
    served.stop("TERM");
    let records = store.run(&["audit", "--json"]).ends_with(0).json_lines();
    let of = |action: &str, id: &str| {
        let named = |record: &&serde_json::Value| record["action"] == action && record["name"] == "reader-seven";
        records.iter().filter(named).filter(|record| record["volumes"].to_string().contains(id)).count()
    };
    // A download makes a selection and reads it.
    assert_eq!((of("SELECTED", SMALL), of("SELECTED", OTHER)), (2, 1), "{records:?}");
    assert_eq!((of("REQUESTED", SMALL), of("REQUESTED", OTHER)), (2, 1), "{records:?}");
    assert_eq!((of("ACCESSED", SMALL), of("ACCESSED", OTHER)), (2, 1), "{records:?}");
    let output = store.run(&["audit"]).ends_with(0);
    assert!(output.text().lines().any(|line| line.contains("ACCESSED") && line.ends_with(OTHER)), "{}", output.text());
    let top = store.run(&["audit", "--top", "1", "--json"]).ends_with(0).json();
    assert_eq!(top["volumes"], json!([{"id": SMALL, "requests": 2}]), "each download once");
    let past = store.run(&["audit", "--to", "2001-01-01T00:00:00Z"]).ends_with(0);
    assert_eq!(past.text(), "");
}

#[tokio::test]
async fn an_unreadable_audit_entry_is_reported_and_the_others_are_listed() {
    let store = TestStore::with(&[SMALL]);
    store.run(&["get", SMALL]).ends_with(0);
    let sound = store.run(&["audit", "--json", "--kind", "text"]).ends_with(0).json_lines();
    let engine = EmbeddedStore::open(&store.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
    // One time in 1970, and one in the future.
    for millis in [1_u64 << 20, 1 << 42] {
        let hour = u32::try_from(millis / 3_600_000).unwrap().to_be_bytes();
        let row = NewRow::new([&millis.to_be_bytes()[2..], &[0_u8; 10][..]].concat(), "no record");
        let put = Step::Put {
            table: Table::Audit,
            partition: [b"h/".as_slice(), &hour, b"a writer", &[0; 4]].concat().into(),
            rows: vec![row],
        };
        let call = Call::new(Class::Audit, Deadline::within(PATIENCE));
        assert!(engine.run(call, vec![put]).await.unwrap().is_applied());
    }
    engine.close().await.unwrap();
    let output = store.run(&["audit", "--json", "--kind", "text"]).ends_with(1).json_lines();
    assert_eq!(output[1..output.len() - 1], sound);
    assert_eq!(output[0]["at"], "1970-01-01T00:17:28.576Z");
    assert!(output[output.len() - 1]["damage"].is_string());
    let lines = store.run(&["audit"]).ends_with(1);
    assert_eq!(lines.text().lines().filter(|line| line.contains("cannot be read")).count(), 2, "{}", lines.text());
    let top = store.run(&["audit", "--top", "1", "--json"]).ends_with(1).json();
    assert_eq!((&top["damaged"], &top["requests"]), (&json!(2), &json!(1)));
    assert!(store.run(&["audit", "--top", "1"]).ends_with(1).text().contains("2 records cannot be read"));
}

#[test]
fn a_token_is_listed_by_name_and_useless_once_revoked() {
    let store = TestStore::with(&[SMALL]);
    let created = store.run(&["token", "create", "writer", "--json"]).ends_with(0).json();
    let token = created["token"].as_str().unwrap().to_owned();
    let listed = store.run(&["token", "list", "--json"]).ends_with(0);
    assert_eq!(listed.json()["name"], "writer");
    assert!(!listed.text().contains(&token));
    store.run(&["token", "create", "writer"]).ends_with(1);

    let served = store.serve(&[]);
    let delete = |id: &str| Ran::of(penates(&["delete", "--server", &served.url, "--token", &token, id]));
    assert!(delete("no.where").ends_with(1).stderr.contains("404"));
    store.run(&["token", "revoke", "writer"]).ends_with(0);
    assert!(delete(SMALL).ends_with(1).stderr.contains("401"));
    assert_eq!(store.ids(), [SMALL]);
}

#[test]
fn commands_for_the_administrator_are_not_sent_to_a_server_elsewhere() {
    for command in [&["token", "list"][..], &["token", "create", "me"], &["token", "revoke", "me"], &["audit"]] {
        let ran = Ran::of(penates(&[command, &["--server", "http://127.0.0.1:1"]].concat())).ends_with(2);
        assert!(ran.stderr.contains("--server"), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn a_flipped_byte_on_the_disk_is_found_reported_and_never_served() {
    let store = TestStore::vacant();
    // Enough that the rows are in files of the database, and not in its journal alone.
    store.run(&["synth", "--volumes", "30", "--pages", "300"]).ends_with(0);
    let ids = store.ids();
    let list = store.beside("ids.txt").display().to_string();
    fs::write(&list, ids.join("\n")).unwrap();
    let whole = store.run(&["get", "--ids", &list]).ends_with(0).stdout;
    let damaged = flip_a_byte_of_a_page(&store.path(), &whole, &ids);

    // The damage is not known yet: the download that finds it breaks, and one without the damaged
    // pages replaces it.
    let target = store.beside("got.zip");
    let ran = store.run(&["get", "--ids", &list, "--tries", "2", "-o", target.to_str().unwrap()]).ends_with(1);
    assert!(ran.stderr.contains("starting again without it"), "{}", ran.stderr);
    assert_damage_is_left_out(&fs::read(target).unwrap(), &whole, &damaged);

    let verified = store.run(&["verify"]).ends_with(1);
    let named = verified.text().lines().find(|line| line.starts_with(&format!("damaged {damaged}: page")));
    assert!(named.is_some_and(|line| line.contains(" (printed ")), "{}", verified.text());
    let reports = store.run(&["verify", "--json"]).ends_with(1).json_lines();
    let unsound: Vec<_> = reports.iter().filter(|report| report["sound"] != json!(true)).collect();
    assert_eq!((unsound.len(), &unsound[0]["id"]), (1, &json!(damaged)));
    let pages = unsound[0]["damaged"].as_array().unwrap();
    let is_it = |page: &&serde_json::Value| page["seq"] == json!(150) && page["label"] == json!("150");
    assert_eq!(pages.iter().filter(is_it).count(), 1, "{pages:?}");

    assert_damage_is_left_out(&store.run(&["get", "--ids", &list]).ends_with(1).stdout, &whole, &damaged);
}

/// The ZIP has the entries of the sound one, except for pages of the damaged volume, which it
/// names.
fn assert_damage_is_left_out(got: &[u8], sound: &[u8], damaged: &str) {
    let (mut got, sound) = (unzip(got), unzip(sound));
    let errors = String::from_utf8(got.remove("ERROR.err").unwrap()).unwrap();
    assert!(errors.contains(&format!("RepositoryException: damaged: {damaged}")), "{errors}");
    assert!(got.len() >= 29 * 300 && got.len() < sound.len());
    assert!(got.iter().all(|(name, text)| sound[name] == *text));
}

/// Flips a byte in the frame of a page, in a file of the database. Returns the volume.
fn flip_a_byte_of_a_page(store: &Path, zip: &[u8], ids: &[String]) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    let tables: Vec<PathBuf> = files_below(store).into_iter().filter(|path| path.extension().is_none()).collect();
    for id in ids {
        let cleaned = hathi::VolumeId::parse(id).unwrap().cleaned();
        // In the middle of a volume no head and no directory is near.
        let entry = archive.by_name(&format!("{cleaned}/00000150.txt")).unwrap();
        let start = usize::try_from(entry.data_start().unwrap()).unwrap();
        let frame = &zip[start..start + usize::try_from(entry.compressed_size()).unwrap() - 2];
        for table in &tables {
            let mut bytes = fs::read(table).unwrap();
            let found = bytes.windows(frame.len()).position(|window| window == frame);
            if let Some(at) = found.filter(|_| frame.len() > 100) {
                bytes[at + frame.len() / 2] ^= 1;
                fs::write(table, bytes).unwrap();
                return id.clone();
            }
        }
    }
    panic!("no page lies in a file of the database");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

#[test]
fn ls_finds_sorts_and_describes_volumes() {
    let store = TestStore::with(&[SMALL, OTHER]);
    assert_eq!(store.run(&["ls", "--where", "title~salmon and year>1970"]).ends_with(0).text().trim(), SMALL);
    let long = store.run(&["ls", "--long", "--sort", "year"]).ends_with(0);
    let lines: Vec<&str> = long.text().lines().collect();
    assert!(lines[0].starts_with("ID ") && lines.len() == 3, "{lines:?}");
    assert!(lines[1].starts_with(OTHER) && lines[1].contains("1920  eng   pd"), "{lines:?}");
    assert!(lines[1].contains("MacMahon, Percy Alexander 185…  An introduction"), "{lines:?}");
    let csv = store.run(&["ls", "--csv", "--sort", "pages", "--reverse", "--limit", "1"]).ends_with(0);
    let lines: Vec<&str> = csv.text().lines().collect();
    assert_eq!(lines[0].trim_end(), "id,title,author,year,language,rights,pages,bytes");
    assert!(lines[1].starts_with(OTHER) && lines.len() == 2, "{lines:?}");
    let json = store.run(&["ls", "--json", "--where", "author~macmahon"]).ends_with(0).json();
    assert_eq!((&json["year"], &json["pages"]), (&json!(1920), &json!(92)));
    let pages = store.run(&["ls", "--csv", SMALL]).ends_with(0);
    assert!(pages.text().starts_with("seq,label,size_bytes,features\n1,,"), "{}", pages.text());
}

#[test]
fn an_error_in_conditions_points_at_its_column() {
    let store = TestStore::with(&[SMALL]);
    for command in [&["ls", "--where", "year<abc"][..], &["get", "--where", "year<abc"]] {
        let wrong = store.run(command).ends_with(2);
        let output = "--where: column 6: `abc` is no whole number\n  year<abc\n       ^\n";
        assert!(wrong.stderr.contains(output), "{}", wrong.stderr);
    }
}

#[test]
fn tokens_prints_counts_as_csv_and_json() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let csv = store.run(&["tokens", SMALL, "--words", "--sort", "count", "--desc"]).ends_with(0);
    let lines: Vec<&str> = csv.text().lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "volume,token,count,problem");
    assert!(lines[1].starts_with(&format!("{SMALL},the,")), "{}", lines[1]);
    let rows = store.run(&["tokens", "--where", "title~salmon", "--json", "--level", "page"]).ends_with(0).json_lines();
    assert!(rows.iter().all(|row| row["volume"] == SMALL && row["seq"].is_u64() && row["count"].is_u64()));
    let missing = store.run(&["tokens", SMALL, "no.where"]).ends_with(1);
    assert!(missing.text().contains("no.where,,,it is not in the store"));
    store.run(&["tokens"]).ends_with(2);
    store.run(&["tokens", SMALL, "--where", "year=1"]).ends_with(2);
}
