//! Importers of a few volumes by both servers, and what there was of the volumes at any time, as bulk
//! archives have it.
//!
//! Each import has the name of its request in its METS, so an archive shows of which import a volume
//! in it is. Its pages must be those that this import sent.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use hathi::{SynthVolume, VolumeId};
use http::StatusCode;
use penates::client::Client;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::{Asked, Journal, ORIGIN, Running, SAMPLED, program};
use crate::crash::corpus::{self, Asking, Change, Corpus, Entries, Then, archived, versions};
use crate::harness::*;

/// Volumes that all importers import and delete again and again.
const VOLUMES: usize = 3;

/// Pages of each version of a volume. The last one has more than one pack.
const PAGES: [u32; 3] = [3, 12, 60];

/// The volumes, in versions that imports send.
pub(super) fn corpus() -> Corpus {
    Corpus::make(&TestStore::vacant().beside("corpus"), VOLUMES, &PAGES)
}

/// The path of a volume in events.
fn object(id: &VolumeId) -> String {
    format!("/rest/volumes/{}", id.cleaned())
}

/// The version that the request with this name sends.
fn version_sent(name: &str) -> usize {
    let number: usize = name.strip_prefix("request-").unwrap().parse().unwrap();
    number % PAGES.len()
}

/// The request that imports a volume, with the name of the request in its METS, or deletes it.
fn change(corpus: &Corpus, volume: usize, deletes: bool, name: &str) -> Asking {
    if deletes {
        return corpus::deletion(&corpus.ids[volume]);
    }
    let sent = &corpus.volumes[version_sent(name)][volume];
    let mets = [&sent.mets[..], format!("<!-- {name} -->").as_bytes()].concat();
    corpus::import(&SynthVolume { mets, ..sent.clone() })
}

impl Running {
    /// Imports and deletes volumes at random until the server is killed.
    pub(super) async fn import(&self, journal: &Journal, corpus: &Corpus, mut rng: StdRng) {
        loop {
            let (volume, deletes) = (rng.random_range(0..VOLUMES), rng.random_ratio(1, 5));
            let object = object(&corpus.ids[volume]);
            let asked = journal.ask(self, object, |name| change(corpus, volume, deletes, name)).await;
            let Ok(status) = asked else { return };
            match status {
                StatusCode::CREATED | StatusCode::NO_CONTENT => {}
                // Another importer is at work on it, it is deleted already, or the answer is late.
                StatusCode::CONFLICT
                | StatusCode::NOT_FOUND
                | StatusCode::GONE
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => {}
                other => panic!("{}: {other}", corpus.ids[volume]),
            }
        }
    }
}

/// Imports each volume once more. Everything that was begun before is finished or undone by that.
pub(super) async fn settle(journal: &Journal, running: &Running, corpus: &Corpus) {
    for (volume, id) in corpus.ids.iter().enumerate() {
        let ask = || journal.ask(running, object(id), |name| change(corpus, volume, false, name));
        let settled = async { while !ask().await.unwrap().is_success() {} };
        tokio::time::timeout(PATIENCE, settled).await.unwrap_or_else(|_| panic!("{id} is never imported"));
    }
}

/// All changes of a volume, oldest first, as the events say. Its versions must be those of them that
/// are imports, and of their time.
async fn past<'a>(
    client: &Client,
    id: &VolumeId,
    events: &'a [Value],
    asked: &BTreeMap<String, Asked>,
) -> Vec<Change<&'a str>> {
    let address = format!("{ORIGIN}{}", object(id));
    let listed = versions(client, id).await;
    let (mut listed, mut changes) = (listed.iter(), Vec::new());
    for event in events.iter().filter(|event| event["object"]["id"] == address.as_str()) {
        let name = program(event);
        let request = &asked[name];
        let [began, ended] = request.window();
        if event["type"] == "Delete" {
            changes.push(Change { to: None, began, ended });
            continue;
        }
        let version = listed.next().unwrap_or_else(|| panic!("{id} has no version of {name}"));
        let since = version.time.as_millisecond();
        assert!((began..=ended).contains(&since), "{} is not of {request:?}", version.address);
        assert_eq!(version.pages, PAGES[version_sent(name)], "{} is not of {name}", version.address);
        changes.push(Change { to: Some(name), began: since, ended: since });
    }
    assert!(listed.next().is_none(), "{id} has a version that is no change");
    changes
}

/// The name of the request that sent this volume of an archive. Panics unless it sent all of it.
fn sent_by(corpus: &Corpus, volume: usize, mut entries: Entries) -> String {
    let id = &corpus.ids[volume];
    let mets = entries.remove(&format!("{}/mets.xml", id.cleaned())).unwrap();
    let mets = String::from_utf8(mets).unwrap();
    let (mets, name) = mets.strip_suffix(" -->").and_then(|mets| mets.rsplit_once("<!-- ")).unwrap();
    let version = corpus.version_of(volume, &entries);
    assert_eq!(version, version_sent(name), "{id} has not the pages of {name}");
    assert!(mets.as_bytes() == corpus.volumes[version][volume].mets, "{id} has not the METS of {name}");
    name.to_owned()
}

/// Compares archives of all volumes, as of some milliseconds, with what the events say.
pub(super) async fn check_past(
    client: &Client,
    corpus: &Corpus,
    events: &[Value],
    asked: &BTreeMap<String, Asked>,
    rng: &mut StdRng,
    moments: RangeInclusive<i64>,
) {
    let mut pasts = Vec::new();
    for id in &corpus.ids {
        println!("comparing the versions of {id}");
        pasts.push(past(client, id, events, asked).await);
    }
    let changes = pasts.concat();
    let (mut there, mut absent) = (0, 0);
    for nth in 0..SAMPLED {
        // Every other one is where something changed, or right before.
        let moment = match nth % 2 {
            0 => rng.random_range(moments.clone()),
            _ => changes[rng.random_range(0..changes.len())].began - rng.random_range(0..=1),
        };
        let moment = moment.min(*moments.end());
        let archived = archived(client, &corpus.ids, moment, "&mets=true").await;
        for (volume, then) in archived.into_iter().enumerate() {
            let id = &corpus.ids[volume];
            let found = match then {
                Then::There(entries) => Some(sent_by(corpus, volume, entries)),
                Then::Absent => None,
                Then::NotKept => panic!("{id} as of {moment} is not kept"),
            };
            *(if found.is_some() { &mut there } else { &mut absent }) += 1;
            let may_be = corpus::at(&pasts[volume], moment);
            assert!(may_be.contains(&found.as_deref()), "{id} as of {moment}: {found:?}, not of {may_be:?}");
        }
    }
    println!("{} changes of volumes; of those in archives, {there} were there and {absent} absent", changes.len());
    assert!(there > 0, "no archive had a volume");
}
