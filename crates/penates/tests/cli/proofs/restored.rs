//! The drill of docs/cassandra.md: a keyspace is snapshotted while its servers go on, is lost, and is
//! restored from the copied snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cluster::NodeId;
use scylla::client::session_builder::SessionBuilder;
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

#[test]
#[ignore = "nodetool starts a Java machine for each table: `cargo xtask proofs` runs it"]
fn a_keyspace_is_restored_from_the_copy_of_a_snapshot() {
    let Some(node) = testing::node() else { return };
    let keyspace = format!("cassandra://{}/{KEYSPACE}", node.contact_points()[0]);
    let run = |args: &[&str]| Ran::of(penates(&[args, &["--store", &keyspace]].concat()));
    let done = |args: &[&str]| run(args).ends_with(0);
    let files = tempfile::tempdir().unwrap();
    let letter = files.path().join("letter.txt");
    fs::write(&letter, "a letter ".repeat(4_000)).unwrap();
    done(&["init"]);
    done(&["import", sample_folder(SMALL).to_str().unwrap()]);
    done(&["put", "letter", letter.to_str().unwrap()]);

    let serve = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--store", &keyspace];
    let server = Served::start(penates(&serve));
    done(&["read-only", "on", "--reason", "a snapshot is being made"]);
    let copied = files.path().join("copied");
    node.nodetool(NODE, &["snapshot", "-t", "drill", KEYSPACE]).unwrap();
    done(&["read-only", "off"]);
    let data = node.folder().join("node1/data");
    for (table, folder) in tables(&data) {
        copy_folder(&folder.join("snapshots/drill"), &copied.join(table));
    }
    node.nodetool(NODE, &["clearsnapshot", "-t", "drill", KEYSPACE]).unwrap();

    // What comes later is lost with the rest.
    done(&["import", sample_folder(OTHER).to_str().unwrap()]);
    done(&["delete", SMALL]);
    done(&["rm", "letter"]);
    // A reader of the change feed has come so far.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let cursor = format!("{now:012x}{:020x}", 0);
    assert_eq!(server.stop("TERM").0, 0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let session = SessionBuilder::new().known_node_addr(node.contact_points()[0]).build().await.unwrap();
        for (table, _) in tables(&data) {
            session.query_unpaged(format!("TRUNCATE {KEYSPACE}.{table}"), ()).await.unwrap();
        }
    });

    for (table, _) in tables(&data) {
        node.nodetool(NODE, &["import", KEYSPACE, &table, copied.join(&table).to_str().unwrap()]).unwrap();
    }
    done(&["read-only", "off"]);
    done(&["stat", "--set", "feed.keep=0s"]);
    assert_eq!(done(&["ls"]).text().trim(), SMALL);
    done(&["verify"]);
    assert_eq!(done(&["cat", "letter"]).stdout, fs::read(&letter).unwrap());
    let refused = run(&["feed", "--from", &cursor]).ends_with(1);
    assert!(refused.stderr.contains("no longer has"), "{}", refused.stderr);
    // It takes changes, also of what was changed after the snapshot.
    done(&["import", sample_folder(OTHER).to_str().unwrap()]);
    done(&["delete", SMALL]);
    done(&["verify"]);
}
