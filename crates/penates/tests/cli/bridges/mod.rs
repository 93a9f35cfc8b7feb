//! Bridges to a real broker, read by clients of others: stomp.py, and Apache Qpid Proton for AMQP.

mod activemq;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::*;
use crate::validators::programs;
use activemq::{ActiveMq, PASSWORD, USER};

/// Clients of Python that read what the broker has, until a message is about the path that they are
/// given.
const CONSUMER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/bridges/consumer.py");
const STOMP: &str = "stomp.py==9.0.0";
const AMQP: &str = "python-qpid-proton==0.40.0";

/// What a client gets from the broker.
fn consume(package: &str, protocol: &str, port: u16, last: &str) -> Vec<Value> {
    let mut command = Command::new(programs(package).unwrap().join("python3"));
    command.args([CONSUMER, protocol, &port.to_string(), last]);
    Ran::of(command).ends_with(0).json_lines()
}

fn config(broker: &ActiveMq, password: &Path) -> String {
    format!(
        "[auth]\nwrite = \"open\"\n[ldp]\norigin = \"http://books.test\"\n[feed]\n\
         bridges_networks = [\"127.0.0.0/8\"]\n\
         [[feed.bridges]]\nname = \"topic\"\nurl = \"stomp://127.0.0.1:{}\"\nuser = \"{USER}\"\npassword_file = {password:?}\n\
         [[feed.bridges]]\nname = \"queue\"\nurl = \"amqp://127.0.0.1:{}\"\ndestination = \"queue://fedora.test\"\n\
         user = \"{USER}\"\npassword_file = {password:?}\n",
        broker.stomp_port, broker.amqp_port
    )
}

/// What happened to each path, in the order of arrival, without repetitions.
fn changes(messages: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut changes: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for message in messages {
        let header = |name: &str| message["headers"][format!("org.fcrepo.jms.{name}")].as_str().unwrap().to_owned();
        assert_eq!(message["body"]["id"], header("eventID"));
        let change = header("eventType").rsplit_once('#').unwrap().1.to_owned();
        let of_path = changes.entry(header("identifier")).or_default();
        if !of_path.iter().any(|(id, _)| *id == header("eventID")) {
            of_path.push((header("eventID"), change));
        }
    }
    changes.into_iter().map(|(path, of_path)| (path, of_path.into_iter().map(|(_, change)| change).collect())).collect()
}

/// One broker for all, because it takes seconds to start.
#[test]
fn consumers_of_a_broker_get_every_change_although_it_and_the_server_are_killed() {
    let mut broker = ActiveMq::start();
    a_login_that_a_broker_refuses_is_reported_without_the_password(&broker);
    let store = TestStore::vacant();
    let (file, password) = (store.beside("penates.toml"), store.beside("password"));
    fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    fs::write(&file, config(&broker, &password)).unwrap();
    let given = ["--config", file.to_str().unwrap()];
    // A topic keeps messages only for those that have subscribed.
    assert!(consume(STOMP, "stomp", broker.stomp_port, "").is_empty());
    store.run(&["init"]).ends_with(0);
    let bridges = |args: &[&str]| store.run(&[&["bridges"], args, &given].concat());
    for name in ["topic", "queue"] {
        bridges(&["test", name]).ends_with(0);
        bridges(&["resume", name, "--from", "now"]).ends_with(0);
    }
    let text = store.beside("text");
    fs::write(&text, "text").unwrap();
    let put = |served: &Served, name: &str| {
        Ran::of(penates(&["put", name, text.to_str().unwrap(), "--server", &served.url])).ends_with(0);
    };
    let remove = |served: &Served, name: &str| {
        Ran::of(penates(&["rm", name, "--server", &served.url])).ends_with(0);
    };
    let state = |state: &str| bridges(&["list"]).ends_with(0).text().matches(state).count() == 2;

    let served = store.serve(&given);
    put(&served, "a");
    put(&served, "a");
    put(&served, "b");
    remove(&served, "b");
    // The broker dies, perhaps before it has confirmed these.
    broker.kill();
    put(&served, "c \u{fc}");
    put(&served, "a");
    wait_until(|| state("retrying"));
    broker.restart();
    put(&served, "d");
    wait_until(|| state("delivering"));
    // The server dies, perhaps between a message and the note that it was sent.
    put(&served, "a");
    put(&served, "e");
    served.kill();
    let served = store.serve(&given);
    put(&served, "last");

    let expected: BTreeMap<String, Vec<String>> = [
        ("/a", &["Create", "Update", "Update", "Update"][..]),
        ("/b", &["Create", "Delete"]),
        ("/b/fcr:metadata", &["Delete"]),
        ("/c \u{fc}", &["Create"]),
        ("/d", &["Create"]),
        ("/e", &["Create"]),
        ("/last", &["Create"]),
    ]
    .map(|(path, changes)| (path.to_owned(), changes.iter().map(|change| (*change).to_owned()).collect()))
    .into();
    for (package, protocol, port) in [(STOMP, "stomp", broker.stomp_port), (AMQP, "amqp", broker.amqp_port)] {
        let messages = consume(package, protocol, port, "/last");
        assert_eq!(changes(&messages), expected, "{protocol}");
        let first = &messages[0];
        assert_eq!(first["headers"]["org.fcrepo.jms.baseURL"], "http://books.test/rest");
        assert_eq!(first["body"]["object"]["isPartOf"], "http://books.test/rest");
    }
    let metrics = Command::new("curl").args(["-sf", &format!("{}/metrics", served.url)]).output().unwrap().stdout;
    let metrics = String::from_utf8(metrics).unwrap();
    let accepted = "penates_bridge_messages_total{bridge=\"queue\",outcome=\"accepted\"} ";
    let accepted = metrics.lines().find_map(|line| line.strip_prefix(accepted)).unwrap();
    assert!(accepted.parse::<f64>().unwrap() > 0.0, "{metrics}");
    let (code, said) = served.stop("TERM");
    assert!(code == 0 && !said.contains(PASSWORD), "{said}");
}

fn a_login_that_a_broker_refuses_is_reported_without_the_password(broker: &ActiveMq) {
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let (file, password) = (store.beside("penates.toml"), store.beside("password"));
    fs::write(&password, "wrong-horse").unwrap();
    fs::write(&file, config(broker, &password)).unwrap();
    for name in ["topic", "queue"] {
        let tested = store.run(&["bridges", "test", name, "--config", file.to_str().unwrap()]).ends_with(1);
        assert!(tested.text().contains("refuses") && !tested.text().contains("wrong-horse"), "{}", tested.text());
    }
}
