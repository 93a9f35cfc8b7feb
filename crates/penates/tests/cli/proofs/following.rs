//! Webhooks and a following site over Cassandra, while a server is killed. A change appears once no
//! server can still be at work on an earlier one, which takes more than a minute.

use std::fs;

use store_cassandra::testing;

use crate::follow::{Follower, PATHS, change, put, seen};
use crate::harness::*;
use crate::webhooks::{self, Receiver};

#[test]
#[ignore = "changes appear after more than a minute: `cargo xtask proofs` runs it"]
fn a_webhook_and_a_following_site_miss_nothing_of_a_keyspace_whose_server_is_killed() {
    let Some(node) = testing::node() else { return };
    let keyspace = format!("cassandra://{}/followed", node.contact_points()[0]);
    let in_keyspace = |args: &[&str]| penates(&[args, &["--store", &keyspace]].concat());
    let run = |args: &[&str]| Ran::of(in_keyspace(args)).ends_with(0);
    run(&["init"]);
    run(&["import", sample_folder(SMALL).to_str().unwrap()]);
    let site = run(&["token", "create", "site"]).text().trim().to_owned();

    let to = TestStore::vacant();
    let mut receiver = Receiver::start(webhooks::SECRET);
    let file = to.beside("penates.toml");
    fs::write(&file, webhooks::config(&receiver.url)).unwrap();
    let settings = ["--set=auth.copy=[\"site\"]", "--set=history.volumes=all", "--set=store.clock_skew_max=1s"];
    let settings = [&["--config", file.to_str().unwrap()], &settings[..]].concat();
    run(&[&["webhooks", "resume", "index", "--from", "start", "--config"], &[file.to_str().unwrap()][..]].concat());
    let serve = |listen: &str| {
        Served::start(in_keyspace(&[&["serve", "--listen", listen, "--tls-listen", "off"], &settings[..]].concat()))
    };
    let server = serve("127.0.0.1:0");
    let listen = server.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut follower = Follower::start(&server.url, &to, &["--token", &site]);
    follower.is_up_to_date();
    // Another one needs no server: it opens the keyspace itself.
    let direct = TestStore::vacant();
    let given = ["--set=history.volumes=all", "--set=store.clock_skew_max=1s"];
    let mut without_server = Follower::start(&keyspace, &direct, &given);
    change(&server, &to);
    // It has announced changes that nobody was sent yet.
    server.kill();
    let server = serve(&listen);
    put(&server, &to, "late", "after another server has started");
    follower.is_up_to_date();
    follower.stop();
    without_server.is_up_to_date();
    without_server.stop();

    let mut named = Vec::new();
    while named.last() != Some(&"http://books.test/rest/late".to_owned()) {
        named.push(receiver.next().1);
    }
    for path in PATHS {
        assert!(named.contains(&format!("http://books.test/rest/{path}")), "{path} is missing in {named:?}");
    }
    let before = seen(&server, &PATHS);
    assert_eq!(server.stop("TERM").0, 0);
    for copy in [&to, &direct] {
        copy.run(&["promote"]).ends_with(0);
        let copy = copy.serve(&["--set=ldp.origin=http://books.test", "--set=history.volumes=all"]);
        assert_eq!(seen(&copy, &PATHS), before);
    }
}
