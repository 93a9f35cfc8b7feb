//! Every command on a store in Cassandra: the same, with another address.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::json;
use store_cassandra::testing;

use crate::fedora::server::Site;
use crate::fedora::{Recorded, compare_without_times};
use crate::harness::*;
use crate::load;

/// A keyspace of the shared node for one test alone.
struct Keyspace(String);

impl Keyspace {
    /// An unused name; `None` if no node can be started, which was reported.
    fn vacant(name: &str) -> Option<Self> {
        testing::node().map(|node| Self(format!("cassandra://{}/{name}", node.contact_points()[0])))
    }

    /// A store without volumes.
    fn made(name: &str) -> Option<Self> {
        let keyspace = Self::vacant(name)?;
        keyspace.run(&["init"]).ends_with(0);
        Some(keyspace)
    }

    /// An empty store, shared by tests that write nothing: a node needs seconds to make one.
    fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Keyspace>> = OnceLock::new();
        SHARED.get_or_init(|| Self::made("shared_by_readers")).as_ref()
    }

    fn command(&self, args: &[&str]) -> Command {
        penates(&[args, &["--store", &self.0]].concat())
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    fn serve(&self, more: &[&str]) -> Served {
        Served::start(self.command(&[&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"], more].concat()))
    }

    fn import(&self, id: &str) {
        self.run(&["import", sample_folder(id).to_str().unwrap()]).ends_with(0);
    }
}

#[test]
fn init_shows_its_plan_makes_the_store_once_and_says_so_the_second_time() {
    let Some(keyspace) = Keyspace::vacant("init") else { return };
    let absent = keyspace.run(&["ls"]).ends_with(3);
    assert!(absent.stderr.contains("penates init"), "{}", absent.stderr);

    let planned = keyspace.run(&["init", "--replication", "dc1=1", "--dry-run"]).ends_with(0);
    assert!(planned.text().starts_with("CREATE KEYSPACE IF NOT EXISTS init "), "{}", planned.text());
    assert!(planned.text().contains("init.objects (") && planned.text().contains("'dc1': '1'"));
    keyspace.run(&["ls"]).ends_with(3);

    let made = keyspace.run(&["init"]).ends_with(0);
    assert!(made.text().starts_with("made "), "{}", made.text());
    assert_eq!(keyspace.run(&["ls"]).ends_with(0).text(), "");
    let again = keyspace.run(&["init"]).ends_with(0);
    assert!(again.text().contains("is there already"), "{}", again.text());
}

#[test]
fn init_refuses_copies_that_the_cluster_cannot_keep() {
    let Some(keyspace) = Keyspace::vacant("copies") else { return };
    for (replication, names) in [("dc1=3", "dc1"), ("elsewhere=1", "elsewhere"), ("dc1", "dc1")] {
        let refused = keyspace.run(&["init", "--replication", replication]).ends_with(2);
        assert!(refused.stderr.contains(names), "{}", refused.stderr);
    }
    keyspace.run(&["ls"]).ends_with(3);
}

#[test]
fn volumes_are_imported_downloaded_verified_listed_and_deleted() {
    let Some(keyspace) = Keyspace::made("volumes") else { return };
    for outcome in ["1 new", "1 unchanged"] {
        let imported = keyspace.run(&["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
        assert!(imported.text().contains(outcome), "{}", imported.text());
    }
    keyspace.import(OTHER);
    assert_eq!(sorted_lines(keyspace.run(&["ls"]).ends_with(0).text()), [SMALL, OTHER]);
    assert_eq!(keyspace.run(&["stat", "--json"]).ends_with(0).json()["volumes"], json!(2));
    let got = keyspace.run(&["get", "-o", "-", SMALL]).ends_with(0);
    assert!(unzip(&got.stdout) == expected_entries(&sample_folder(SMALL)), "other pages came out than went in");
    let verified = keyspace.run(&["verify", "--json"]).ends_with(0).json_lines();
    assert!(verified.iter().all(|report| report["sound"] == json!(true)), "{verified:?}");
    assert!(keyspace.run(&["audit", "--json"]).ends_with(0).text().contains(SMALL));
    keyspace.run(&["delete", SMALL]).ends_with(0);
    assert_eq!(sorted_lines(keyspace.run(&["ls"]).ends_with(0).text()), [OTHER]);
    keyspace.run(&["get", "-o", "-", SMALL]).ends_with(1);
}

#[test]
fn heads_have_a_home_only_where_several_data_centers_keep_copies() {
    let Some(keyspace) = Keyspace::shared() else { return };
    let shown = keyspace.run(&["home"]).ends_with(0);
    assert!(shown.text().contains("heads have no home"), "{}", shown.text());
    for arguments in [&["home", "--leave"][..], &["home", "dc1"], &["home", "dc1", "--old-home-is-lost"]] {
        let refused = keyspace.run(arguments).ends_with(2);
        assert!(refused.stderr.contains("one data center only"), "{}", refused.stderr);
    }
    let shown = keyspace.run(&["home"]).ends_with(0);
    assert!(shown.text().contains("heads have no home"), "{}", shown.text());
    let folder = TestStore::vacant().run(&["home"]).ends_with(2);
    assert!(folder.stderr.contains("is a folder"), "{}", folder.stderr);
}

#[test]
fn the_first_scrape_of_a_server_on_cassandra_has_every_metric() {
    let Some(keyspace) = Keyspace::made("watched") else { return };
    crate::watch::assert_documented(&keyspace.serve(&[]), &["A data folder"]);
}

#[test]
fn a_node_reads_the_records_that_it_will_be_asked_for() {
    let Some(keyspace) = Keyspace::made("warm") else { return };
    for number in 0..7 {
        keyspace.run(&["records", "set", &format!("user:{number}"), "city=Ulm"]).ends_with(0);
    }
    let warmed = keyspace.run(&["warm", "--json"]).ends_with(0).json_lines();
    let [node] = &warmed[..] else { panic!("{warmed:?}") };
    assert_eq!((&node["rows"], &node["complete"]), (&json!(7), &json!(true)), "{node}");
    let address = node["node"].as_str().unwrap().split(':').next().unwrap();
    let there = keyspace.run(&["warm", "--node", address, "--table", "objects"]).ends_with(0);
    assert!(there.text().contains(address) && there.text().contains("all was read"), "{}", there.text());
    let slow = keyspace.run(&["warm", "--rate", "400B", "--json"]).ends_with(0).json();
    let expected = node["bytes"].as_f64().unwrap() / 400.0;
    assert!(expected > 0.3 && slow["seconds"].as_f64().unwrap() >= expected, "{node} {slow}");
    // At this rate it would take minutes.
    let hurried = keyspace.run(&["warm", "--rate", "1B", "--longest", "10ms"]).ends_with(0);
    assert!(hurried.text().contains("the time was over"), "{}", hurried.text());
}

#[test]
fn one_copy_is_not_compared_with_itself() {
    let Some(keyspace) = Keyspace::shared() else { return };
    let refused = keyspace.run(&["fixity", "copies"]).ends_with(2);
    assert!(refused.stderr.contains("one copy of each row") && refused.stderr.contains("penates verify"));
    let refused = keyspace.run(&["fixity", "copies", "--rate", "0"]).ends_with(2);
    assert!(refused.stderr.contains("at least one byte per second"), "{}", refused.stderr);
    let folder = TestStore::vacant().run(&["fixity", "copies"]).ends_with(2);
    assert!(folder.stderr.contains("is a folder"), "{}", folder.stderr);
}

#[test]
fn warming_refuses_a_node_a_table_and_a_store_that_are_not_there() {
    let Some(keyspace) = Keyspace::shared() else { return };
    let refused = keyspace.run(&["warm", "--node", "192.0.2.1"]).ends_with(2);
    assert!(refused.stderr.contains("192.0.2.1 is no node of the data center `dc1`"), "{}", refused.stderr);
    let refused = keyspace.run(&["warm", "--table", "tables"]).ends_with(2);
    assert!(refused.stderr.contains("records"), "{}", refused.stderr);
    let folder = TestStore::vacant().run(&["warm"]).ends_with(2);
    assert!(folder.stderr.contains("is a folder"), "{}", folder.stderr);
}

#[test]
fn synthetic_volumes_are_made_into_it() {
    let Some(keyspace) = Keyspace::made("synthetic") else { return };
    keyspace.run(&["synth", "--volumes", "3", "--pages", "10"]).ends_with(0);
    assert_eq!(keyspace.run(&["stat", "--json"]).ends_with(0).json()["volumes"], json!(3));
}

#[test]
fn a_bag_is_loaded_into_a_keyspace_and_exported_from_it_as_the_same() {
    let Some(keyspace) = Keyspace::made("bag") else { return };
    let store = load::tree();
    let [bag, again] = ["bag", "again"].map(|name| store.beside(name).to_str().unwrap().to_owned());
    store.run(&["export", "", &bag, "--as", "bagit"]).ends_with(0);
    let loaded = keyspace.run(&["load", &bag]).ends_with(0);
    assert_eq!(loaded.text().trim(), "loaded 8 resources (300.0 kB of bytes), 1 unchanged, 0 failed");
    keyspace.run(&["export", "", &again, "--as", "bagit"]).ends_with(0);
    assert_eq!(load::payload(Path::new(&again)), load::payload(Path::new(&bag)));
}

#[test]
fn a_root_of_fedora_is_loaded_into_a_keyspace_also_after_a_load_was_killed() {
    let Some(keyspace) = Keyspace::made("fedora") else { return };
    let beside = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&beside.beside("root"));
    let load = ["load", root.to_str().unwrap()];
    let server = keyspace.serve(&[]);
    let site = Site::open(format!("{}/rest/", server.url));
    // It may have ended before it is killed. Then the next one finds all of it.
    let mut killed = keyspace.command(&load).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| site.get("a/b.txt", &[]).0 == 200 || killed.try_wait().unwrap().is_some());
    let _ = killed.kill();
    killed.wait().unwrap();

    let loaded = keyspace.run(&load).ends_with(0);
    assert!(loaded.text().contains("verified 8 resources with all of their versions"), "{}", loaded.text());
    compare_without_times(&site, &Recorded::OnRequest.expected(), Recorded::OnRequest);
    let again = keyspace.run(&load).ends_with(0);
    assert!(again.text().starts_with("loaded 0 resources (0 B of bytes), 8 unchanged, 0 failed"), "{}", again.text());
}

/// A change through one server is visible through the other, and a command works beside both. A
/// server reads its configuration again by a signal, and by a command if it has a socket for that.
#[test]
fn two_servers_and_a_command_share_one_keyspace() {
    let Some(keyspace) = Keyspace::made("shared") else { return };
    let beside = TestStore::vacant();
    let [file, socket] = ["penates.toml", "admin.sock"].map(|name| beside.beside(name));
    let [file, socket] = [&file, &socket].map(|path| path.to_str().unwrap());
    let configure = |header_time: &str| {
        let text = format!("[limits]\nheader_time = \"{header_time}\"\n[listen]\nadmin = \"unix:{socket}\"\n");
        std::fs::write(file, text).unwrap();
    };
    configure("11s");
    let configured = ["--set", "auth.write=open", "--config", file];
    let servers = [keyspace.serve(&configured), keyspace.serve(&["--set", "auth.read=token"])];
    configure("12s");
    servers[0].signal("HUP");
    wait_until(|| {
        let said = servers[0].said();
        said.lines().any(|line| line.contains("was read again") && line.contains("limits.header_time"))
    });
    assert_eq!(std::fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    configure("13s");
    let reloaded = Ran::of(penates(&["reload", "--json", "--socket", socket])).ends_with(0).json();
    assert_eq!(reloaded["changed"], json!(["limits.header_time"]));
    let running = ["config", "--running", "--name", "limits.header_time"];
    let shown = Ran::of(penates(&[&running[..], &["--socket", socket]].concat())).ends_with(0);
    assert_eq!(shown.text(), "13s\n");
    // The configuration names it, too. The other server has none.
    assert_eq!(keyspace.run(&[&running[..], &["--config", file]].concat()).ends_with(0).text(), "13s\n");
    for command in [&["reload"][..], &running] {
        let refused = keyspace.run(command).ends_with(2);
        assert!(refused.stderr.contains("only if listen.admin names one"), "{}", refused.stderr);
    }
    let folder = sample_folder(SMALL);
    let at = |server: &Served, args: &[&str]| Ran::of(penates(&[args, &["--server", &server.url]].concat()));
    at(&servers[0], &["import", folder.to_str().unwrap()]).ends_with(0);
    assert_eq!(at(&servers[0], &["ls"]).ends_with(0).text().trim(), SMALL);

    let token = keyspace.run(&["token", "create", "reader"]).ends_with(0).text().trim().to_owned();
    let token = token.split_whitespace().find(|word| word.starts_with("penates_")).unwrap().to_owned();
    let listed = || at(&servers[1], &["ls", "--token", &token]);
    wait_until(|| listed().code == 0);
    assert_eq!(listed().text().trim(), SMALL);
    keyspace.run(&["token", "revoke", "reader"]).ends_with(0);
    wait_until(|| listed().code != 0);

    at(&servers[0], &["import", "--force", folder.to_str().unwrap()]).ends_with(0);
    assert_eq!(keyspace.run(&["ls"]).ends_with(0).text().trim(), SMALL);
    for server in servers {
        assert_eq!(server.stop("TERM").0, 0);
    }
    let nobody = Ran::of(penates(&["reload", "--socket", socket])).ends_with(3);
    assert!(nobody.stderr.contains("no server has this socket"), "{}", nobody.stderr);
}

const FAST: [&str; 2] = ["--set", "records.mode=fast"];

#[test]
fn a_keyspace_and_its_servers_have_one_mode_of_records() {
    let Some(keyspace) = Keyspace::made("modes") else { return };
    let fast = |args: &[&str]| keyspace.run(&[args, &FAST].concat());
    fast(&["records", "set", "user:1", "city=Ulm", "visits=1", "--ttl", "1h"]).ends_with(0);
    fast(&["records", "set", "user:1", "plan=free", "--unset", "visits"]).ends_with(0);
    let read = fast(&["records", "get", "user:1", "--json"]).ends_with(0).json();
    assert_eq!(read, json!({"city": "Ulm", "plan": "free"}));
    let serve =
        ["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--records-listen", "127.0.0.1:0"];
    for refused in [keyspace.run(&["records", "get", "user:1"]), keyspace.run(&serve)] {
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains("set records.mode = \"fast\""), "{}", refused.stderr);
    }
    // Servers without the records door serve everything else.
    assert_eq!(keyspace.serve(&[]).stop("TERM").0, 0);
    let server = keyspace.serve(&[&FAST[..], &["--records-listen", "127.0.0.1:0"]].concat());
    assert_eq!(server.stop("TERM").0, 0);

    let folder = Ran::of(TestStore::vacant().command(&[&serve[..], &FAST].concat()));
    assert_ne!(folder.code, 0);
    assert!(folder.stderr.contains("is for stores on Cassandra"), "{}", folder.stderr);
}

#[test]
fn records_in_mode_fast_are_copied_to_keyspaces_only() {
    let (Some(from), Some(to)) = (Keyspace::made("fast_from"), Keyspace::made("fast_to")) else { return };
    // A keyspace has a root once it is opened.
    from.run(&["ls"]).ends_with(0);
    from.run(&[&["records", "set", "a", "x=1", "--ttl", "1h"][..], &FAST].concat()).ends_with(0);
    let exported = from.run(&[&["records", "export"][..], &FAST].concat()).ends_with(0);

    let folder = TestStore::vacant();
    // Changes of records take no longer, so the copy waits no longer for those of others.
    let short = "--set=records.deadline_max=10s";
    let copy = |to: &str| Ran::of(penates(&["copy", "--from", &from.0, "--to", to, short]));
    let refused = copy(folder.path().to_str().unwrap()).ends_with(2);
    assert!(refused.stderr.contains("mode fast"), "{}", refused.stderr);
    copy(&to.0).ends_with(0);
    // The mode is not copied, and the records show it.
    let refused = to.run(&["records", "set", "b", "x=1"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("set records.mode = \"fast\""), "{}", refused.stderr);
    to.run(&[&["records", "set", "a", "y=2"][..], &FAST].concat()).ends_with(0);
    let read = to.run(&[&["records", "get", "a", "--json"][..], &FAST].concat()).ends_with(0).json();
    assert_eq!(read, json!({"x": "1", "y": "2"}));

    let lines = folder.beside("records.ndjson");
    std::fs::write(&lines, exported.text()).unwrap();
    folder.run(&["records", "import", lines.to_str().unwrap()]).ends_with(0);
    assert_eq!(folder.run(&["records", "export"]).ends_with(0).text(), exported.text());
}

#[test]
fn errors_in_address_or_configuration_are_reported() {
    let Some(keyspace) = Keyspace::shared() else { return };
    let nobody = Ran::of(penates(&["ls", "--store", "cassandra://127.0.0.1:1/wrong"])).ends_with(3);
    assert!(nobody.stderr.contains("cannot connect to cassandra://127.0.0.1:1/wrong"), "{}", nobody.stderr);
    let address = Ran::of(penates(&["ls", "--store", "cassandra://127.0.0.1"])).ends_with(2);
    assert!(address.stderr.contains("names no keyspace"), "{}", address.stderr);
    for (setting, named) in [
        ("cassandra.datacenter=elsewhere", "elsewhere"),
        ("cassandra.content_write=THREE", "THREE"),
        ("cassandra.content_write=MANY", "cassandra.content_write"),
        ("cassandra.user=penates", "cassandra.password"),
        ("cassandra.tls_ca=/nowhere.pem", "/nowhere.pem"),
    ] {
        let refused = keyspace.run(&["ls", "--set", setting]).ends_with(2);
        assert!(refused.stderr.contains(named), "{setting}: {}", refused.stderr);
    }
    let shown = keyspace.run(&["config", "--set", "cassandra.user=a", "--set", "cassandra.password=a-secret"]);
    let shown = shown.ends_with(0);
    assert!(shown.text().contains("(hidden)") && !shown.text().contains("a-secret"), "{}", shown.text());
}
