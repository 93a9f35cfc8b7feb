//! The drill of docs/cassandra.md: a keyspace is snapshotted while its servers go on, is lost, and
//! is restored from the copied snapshot, without and with what was flushed since. Its tables are
//! empty, or the keyspace itself is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cluster::{Cluster, NodeId};
use scylla::client::session_builder::SessionBuilder;
use serde_json::{Value, json};
use store_cassandra::testing;

use crate::harness::*;

const NODE: NodeId = NodeId(1);

const KEYSPACE: &str = "restored";

/// The folders of the tables of the keyspace in the data folder of the node, and their names.
fn tables(node: &Path) -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(node.join(KEYSPACE)).unwrap().map(|entry| entry.unwrap().path());
    let named =
        folders.map(|path| (path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned(), path));
    named.collect()
}

/// The names of the tables. Of those of a keyspace that is gone the folders are left.
fn names(node: &Path) -> BTreeSet<String> {
    tables(node).into_iter().map(|(table, _)| table).collect()
}

/// Copies files of every table, each into a folder of its name: those below `from` of its folder.
fn copy_out(data: &Path, from: &str, to: &Path) {
    for (table, folder) in tables(data) {
        let from = folder.join(from);
        // A table without rows has none.
        if from.exists() {
            copy_folder(&from, &to.join(table));
        }
    }
}

/// Runs statements on the node.
fn query(node: &Cluster, statements: impl IntoIterator<Item = String>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let session = SessionBuilder::new().known_node_addr(node.contact_points()[0]).build().await.unwrap();
        for statement in statements {
            session.query_unpaged(statement, ()).await.unwrap();
        }
    });
}

/// Empties every table.
fn lose(node: &Cluster, data: &Path) {
    query(node, names(data).into_iter().map(|table| format!("TRUNCATE {KEYSPACE}.{table}")));
}

/// Loads copied files into every table.
fn load(node: &Cluster, data: &Path, copied: &Path) {
    for table in names(data) {
        let folder = copied.join(&table);
        if folder.exists() {
            // It keeps the copies, for another drill.
            let import = ["import", "--copy-data", KEYSPACE, &table, folder.to_str().unwrap()];
            node.nodetool(NODE, &import).unwrap();
        }
    }
}

#[test]
#[ignore = "nodetool starts a Java machine for each table: `cargo xtask proofs` runs it"]
fn a_keyspace_is_restored_from_the_copy_of_a_snapshot_and_of_what_was_flushed_since() {
    let Some(node) = testing::node_with_mbeans() else { return };
    let keyspace = format!("cassandra://{}/{KEYSPACE}", node.contact_points()[0]);
    let run = |args: &[&str]| Ran::of(penates(&[args, &["--store", &keyspace]].concat()));
    let done = |args: &[&str]| run(args).ends_with(0);
    let nodetool = |command: &[&str]| node.nodetool(NODE, command).unwrap();
    let files = tempfile::tempdir().unwrap();
    let letter = files.path().join("letter.txt");
    fs::write(&letter, "a letter ".repeat(4_000)).unwrap();
    let letter_file = letter.to_str().unwrap();
    // As `incremental_backups: true` in cassandra.yaml does.
    nodetool(&["enablebackup"]);
    done(&["init"]);
    done(&["import", sample_folder(SMALL).to_str().unwrap()]);
    done(&["put", "letter", letter_file]);
    done(&["records", "set", "user:1", "city=Ulm"]);

    let serve = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--store", &keyspace];
    let server = Served::start(penates(&serve));
    done(&["read-only", "on", "--reason", "a snapshot is being made"]);
    let [copied, flushed] = ["copied", "flushed"].map(|name| files.path().join(name));
    nodetool(&["snapshot", "-t", "drill", KEYSPACE]);
    done(&["read-only", "off"]);
    let data = node.folder().join("node1/data");
    copy_out(&data, "snapshots/drill", &copied);
    nodetool(&["clearsnapshot", "-t", "drill", KEYSPACE]);
    // What is in them is in the snapshot.
    tables(&data).iter().for_each(|(_, folder)| drop(fs::remove_dir_all(folder.join("backups"))));

    // What is flushed since is copied too.
    done(&["import", sample_folder(OTHER).to_str().unwrap()]);
    done(&["put", "second", letter_file]);
    done(&["rm", "letter"]);
    done(&["records", "set", "user:1", "city=Bonn"]);
    done(&["records", "set", "user:2", "city=Kiel"]);
    nodetool(&["flush", KEYSPACE]);
    copy_out(&data, "backups", &flushed);
    assert!(fs::read_dir(&flushed).unwrap().count() > 3, "hardly anything was flushed");
    nodetool(&["disablebackup"]);

    // What comes later is lost with the rest.
    done(&["delete", SMALL]);
    done(&["put", "third", letter_file]);
    done(&["records", "set", "user:2", "city=Bremen"]);
    // A reader of the change feed has come so far.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let cursor = format!("{now:012x}{:020x}", 0);
    assert_eq!(server.stop("TERM").0, 0);

    // The snapshot alone.
    let record = |id: &str| -> Value { done(&["records", "get", id, "--json"]).json() };
    lose(node, &data);
    load(node, &data, &copied);
    done(&["read-only", "off"]);
    done(&["stat", "--set", "feed.keep=0s"]);
    assert_eq!(done(&["ls"]).text().trim(), SMALL);
    done(&["verify"]);
    assert_eq!(done(&["cat", "letter"]).stdout, fs::read(&letter).unwrap());
    run(&["cat", "second"]).ends_with(1);
    assert_eq!(record("user:1"), json!({"city": "Ulm"}));
    run(&["records", "get", "user:2"]).ends_with(1);
    let refused = run(&["feed", "--from", &cursor]).ends_with(1);
    assert!(refused.stderr.contains("no longer has"), "{}", refused.stderr);

    // The snapshot and what was flushed since.
    let restore_all = || {
        load(node, &data, &copied);
        load(node, &data, &flushed);
        done(&["stat", "--set", "feed.keep=0s"]);
        assert_eq!(sorted_lines(done(&["ls"]).text()), sorted_lines(&format!("{SMALL}\n{OTHER}\n")));
        done(&["verify"]);
        assert_eq!(done(&["cat", "second"]).stdout, fs::read(&letter).unwrap());
        for path in ["letter", "third"] {
            run(&["cat", path]).ends_with(1);
        }
        assert_eq!(["user:1", "user:2"].map(record), [json!({"city": "Bonn"}), json!({"city": "Kiel"})]);
    };
    lose(node, &data);
    restore_all();
    // The keyspace itself is gone.
    query(node, [format!("DROP KEYSPACE {KEYSPACE}")]);
    done(&["init"]);
    done(&["upgrade"]);
    restore_all();
    // It takes changes, also of what was changed after the snapshot.
    done(&["put", "third", letter_file]);
    done(&["delete", SMALL]);
    done(&["verify"]);
}
