//! Random changes at random times, many within one second, compared with a model through HTTP at
//! every second.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Method, StatusCode};
use proptest::prelude::*;
use store::Clock;

use crate::archives::entries;
use crate::support::{Fixture, ROOT, Reply, fixture, on_cassandra, parsed};

const NAMES: [&str; 3] = ["a", "b", "d"];

#[derive(Clone, Debug)]
enum Op {
    /// A new description of the container.
    Describe,
    Snapshot,
    /// Restores this version of the container.
    Restore(prop::sample::Index),
    Create(usize),
    Delete(usize),
    /// Brings back a child that was deleted.
    BringBack(usize),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Describe),
        1 => Just(Op::Snapshot),
        2 => any::<prop::sample::Index>().prop_map(Op::Restore),
        3 => (0..NAMES.len()).prop_map(Op::Create),
        2 => (0..NAMES.len()).prop_map(Op::Delete),
        1 => (0..NAMES.len()).prop_map(Op::BringBack),
        5 => (0..2_500_u64).prop_map(Op::Wait),
    ]
}

/// A version of the container: when it began, what it said, and its members then.
#[derive(Clone, Debug)]
struct Version {
    millis: u64,
    title: usize,
    members: BTreeSet<&'static str>,
}

#[derive(Default)]
struct Model {
    versions: Vec<Version>,
    /// The members since some time, whenever they changed.
    members: Vec<(u64, BTreeSet<&'static str>)>,
    deleted: BTreeSet<&'static str>,
    titles: usize,
}

impl Model {
    fn now(&self) -> BTreeSet<&'static str> {
        self.members.last().map(|(_, members)| members.clone()).unwrap_or_default()
    }

    fn began(&mut self, millis: u64, title: usize) {
        let members = self.now();
        self.versions.push(Version { millis, title, members });
    }

    /// What the TimeGate leads to for a second: a title and members. A second that is not over
    /// shows what the one before it does.
    fn at(&self, second: u64, now: u64) -> (usize, BTreeSet<&'static str>) {
        let before = |second: u64| self.versions.iter().rfind(|version| version.millis / 1_000 <= second);
        let version = before(second).unwrap_or(&self.versions[0]);
        let second = second.min(now / 1_000 - 1);
        if second <= version.millis / 1_000 {
            return (version.title, version.members.clone());
        }
        let then = self.members.iter().rfind(|(millis, _)| millis / 1_000 <= second);
        (version.title, then.map(|(_, members)| members.clone()).unwrap_or_default())
    }
}

async fn apply(fixture: &Fixture, model: &mut Model, op: &Op) {
    // Each change is in a millisecond of its own.
    fixture.clock.advance(Duration::from_millis(1));
    let now = fixture.clock.now().0;
    let succeeded = |reply: Reply| assert!(reply.status.is_success(), "{op:?}: {}", reply.text());
    match op {
        Op::Describe => {
            model.titles += 1;
            let body = format!("<> <http://purl.org/dc/terms/title> \"{}\" .", model.titles);
            succeeded(fixture.put("/rest/c", &body).answer().await);
            model.began(now, model.titles);
        }
        Op::Snapshot => {
            succeeded(fixture.ask(Method::POST, "/rest/c/fcr:versions").answer().await);
            model.began(now, model.versions.last().unwrap().title);
        }
        Op::Restore(which) => {
            let (n, names) = (which.index(model.versions.len()), listed(fixture).await);
            let name = names[n].rsplit('/').next().unwrap();
            let restore = format!("/rest/c/fcr:versions?restore={name}");
            succeeded(fixture.ask(Method::POST, &restore).answer().await);
            model.began(now, model.versions[n].title);
        }
        Op::Create(n) if !model.now().contains(NAMES[*n]) => {
            let put = fixture.put(&format!("/rest/c/{}", NAMES[*n]), "").header("overwrite-tombstone", "true");
            succeeded(put.answer().await);
            model.deleted.remove(NAMES[*n]);
            let members = model.now().into_iter().chain([NAMES[*n]]).collect();
            model.members.push((now, members));
        }
        Op::Delete(n) if model.now().contains(NAMES[*n]) => {
            succeeded(fixture.ask(Method::DELETE, &format!("/rest/c/{}", NAMES[*n])).answer().await);
            model.deleted.insert(NAMES[*n]);
            let members = model.now().into_iter().filter(|name| *name != NAMES[*n]).collect();
            model.members.push((now, members));
        }
        Op::BringBack(n) if model.deleted.remove(NAMES[*n]) => {
            let restore = format!("/rest/c/{}/fcr:versions?restore=", NAMES[*n]);
            succeeded(fixture.ask(Method::POST, &restore).answer().await);
            let members = model.now().into_iter().chain([NAMES[*n]]).collect();
            model.members.push((now, members));
        }
        Op::Create(_) | Op::Delete(_) | Op::BringBack(_) => {}
        Op::Wait(millis) => fixture.clock.advance(Duration::from_millis(*millis)),
    }
}

async fn listed(fixture: &Fixture) -> Vec<String> {
    let map =
        fixture.ask(Method::GET, "/rest/c/fcr:versions").header("accept", "application/link-format").answer().await;
    let mementos = map.text().lines().filter(|line| line.contains("memento\""));
    mementos.map(|line| line[1..line.find('>').unwrap()].to_owned()).collect()
}

async fn is_shown(fixture: &Fixture, address: &str, title: usize, members: &BTreeSet<&str>, context: &str) {
    let memento = fixture.get(address.strip_prefix("http://test").unwrap()).await;
    assert_eq!(memento.status, StatusCode::OK, "{context}: {}", memento.text());
    assert!(memento.says(&format!("<c> dc:title \"{title}\" .")), "{context}: {}", memento.text());
    let contained = memento.objects(&format!("{ROOT}c"), "contains");
    let expected: Vec<_> = members.iter().map(|name| format!("{ROOT}c/{name}")).collect();
    assert_eq!(contained, expected, "{context}");
}

/// The archive at a version's address has the same.
async fn is_archived(fixture: &Fixture, address: &str, title: usize, members: &BTreeSet<&str>, context: &str) {
    let ask = fixture.ask(Method::GET, address.strip_prefix("http://test").unwrap());
    let entries = entries(&ask.header("accept", "application/zip").answer().await);
    assert!(!entries.contains_key("ERROR.err"), "{context}: {entries:?}");
    let described = parsed(&entries["c/fcr%3Ametadata.ttl"]);
    let wanted = parsed(&format!("<c> dc:title \"{title}\" ."));
    assert!(wanted.iter().all(|triple| described.contains(triple)), "{context}: {entries:?}");
    let child = |entry: &str| {
        let within = entry.strip_prefix("c/fcr%3Ametadata/")?;
        Some(within.trim_end_matches(".ttl").to_owned())
    };
    let folder = |entry: &str| Some(entry.strip_prefix("c/")?.split_once('/')?.0.to_owned());
    let archived: BTreeSet<_> = entries.keys().filter_map(|entry| child(entry).or_else(|| folder(entry))).collect();
    assert_eq!(archived, members.iter().map(|name| (*name).to_owned()).collect(), "{context}: {:?}", entries.keys());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if on_cassandra() { 2 } else { 16 }, ..ProptestConfig::default() })]

    #[test]
    fn each_second_leads_to_what_was_there_and_each_version_shows_it(history in prop::collection::vec(op(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = fixture().await;
            let (mut model, begin) = (Model::default(), fixture.clock.now().0 / 1_000);
            let make = "<> <http://purl.org/dc/terms/title> \"0\" .";
            fixture.make("/rest/c", "BasicContainer", make).await;
            model.began(fixture.clock.now().0, 0);
            for op in &history {
                apply(&fixture, &mut model, op).await;
            }
            let now = fixture.clock.now().0;
            let addresses = listed(&fixture).await;
            assert_eq!(addresses.len(), model.versions.len(), "the TimeMap has all versions");
            assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), addresses.len(), "each at an address of its own");
            for (address, version) in addresses.iter().zip(&model.versions) {
                is_shown(&fixture, address, version.title, &version.members, address).await;
                is_archived(&fixture, address, version.title, &version.members, address).await;
            }
            for second in begin - 1..=now / 1_000 + 1 {
                let time = std::time::UNIX_EPOCH + Duration::from_secs(second);
                let datetime = httpdate::fmt_http_date(time);
                let ask = fixture.ask(Method::GET, "/rest/c").header("accept-datetime", &datetime);
                let redirection = ask.answer().await;
                assert_eq!(redirection.status, StatusCode::FOUND);
                let (title, members) = model.at(second, now);
                let context = format!("{datetime} of {:?}", model.versions);
                let address = redirection.header("location").unwrap();
                is_shown(&fixture, address, title, &members, &context).await;
                is_archived(&fixture, address, title, &members, &context).await;
            }
        });
    }
}
