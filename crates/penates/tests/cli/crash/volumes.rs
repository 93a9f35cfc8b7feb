//! Volumes: imported, replaced, deleted and selected. Nothing that a selection holds is lost, and
//! no version that the history keeps: lists, redirections and archives as of a time have what there
//! was.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hathi::VolumeId;
use http::header::LOCATION;
use http::{Method, Request, StatusCode};
use penates::client::{self, Client, ClientError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Deserialize;

use super::corpus::{self, Asking, Corpus, Entries, Listed, Then, archived, is_gone, now, versions, whole_archive};
use super::tree::written;
use super::{Lost, Outcome, choices, kill_a_server, look, outcome};
use crate::harness::*;

/// The default number of rounds.
const ROUNDS: u64 = 10;
/// Writers at the same time; each has volumes of its own, so that it knows their stored state.
const WRITERS: usize = 3;
/// Volumes of each writer.
const VOLUMES_EACH: usize = 2;
/// Volumes of all writers.
const VOLUMES: usize = WRITERS * VOLUMES_EACH;
/// Pages of each version of a volume: versions differ, and have more than one pack.
const VERSIONS: [u32; 3] = [60, 90, 140];
/// Selections that each writer keeps.
const SELECTIONS_EACH: usize = 4;
/// Replaced versions of each volume that the servers keep, as `SETTINGS` say.
const VERSIONS_KEPT: usize = 3;
/// Moments of each round as of which archives are read.
const MOMENTS: usize = 4;

/// The stored version of a volume; `None`: the volume does not exist.
type Stored = Option<usize>;

/// A change of a volume to a version.
type Change = corpus::Change<usize>;

/// A writer's knowledge of one of its volumes.
#[derive(Default)]
struct Known {
    acknowledged: Stored,
    /// The change whose response was lost.
    pending: Option<Change>,
    /// All changes that were made, in their order.
    made: Vec<Change>,
}

impl Known {
    /// A change was made.
    fn becomes(&mut self, change: Change) {
        self.acknowledged = change.to;
        self.made.push(change);
    }

    /// Finds out what became of the change whose response was lost, by what is stored now.
    fn found(&mut self, id: &VolumeId, stored: Stored) {
        let pending = self.pending.take();
        let is_made = pending.is_some_and(|change| change.to == stored);
        let acknowledged = self.acknowledged;
        assert!(
            is_made || stored == acknowledged,
            "{id}: {acknowledged:?} acknowledged, {pending:?} pending, {stored:?} stored"
        );
        if let Some(change) = pending.filter(|_| is_made) {
            self.becomes(change);
        }
    }

    /// The list of the volume's versions has the last ones that were made, in their order. Two that
    /// follow each other may be the same: an import over the same version counts or does not.
    fn assert_listed(&self, id: &VolumeId, listed: &[Listed]) {
        let mut versions: Vec<_> = listed.iter().map(|version| version_of_pages(version.pages)).collect();
        let mut made: Vec<_> = self.made.iter().filter_map(|change| change.to).collect();
        versions.dedup();
        made.dedup();
        assert!(made.ends_with(&versions), "{id}: {versions:?} are listed of {made:?}");
        let mut before = None;
        let surely = self.made.iter().map(|change| change.to).filter(|to| std::mem::replace(&mut before, *to) != *to);
        let at_least = surely.flatten().count().min(VERSIONS_KEPT);
        let count = listed.len();
        assert!((at_least..=VERSIONS_KEPT + 1).contains(&count), "{id}: {count} are listed of {made:?}");
        let is_there = listed.last().is_some_and(|last| last.current);
        assert_eq!(is_there, self.acknowledged.is_some(), "{id}: the last one that is listed");
    }
}

fn version_of_pages(pages: u32) -> usize {
    VERSIONS.iter().position(|of_version| *of_version == pages).unwrap()
}

/// A selection, and the volumes that it must hold as long as it exists.
struct Kept {
    output: Told,
    holds: Vec<(usize, Stored)>,
    /// Its deletion was requested, and the response was lost.
    deleting: bool,
}

/// The server's description of a selection.
#[derive(Deserialize)]
struct Told {
    address: String,
    len_bytes: usize,
}

/// The number of acknowledged changes of each kind: a run without them would prove nothing.
#[derive(Debug, Default)]
struct Acknowledged {
    imports: u32,
    deletions: u32,
    selections: u32,
    /// Selections that were read and had the expected entries.
    selections_read: u32,
}

/// A writer: it makes one change after the other, and knows the expected state.
#[derive(Default)]
struct Writer {
    acknowledged: Acknowledged,
    first_volume: usize,
    known: [Known; VOLUMES_EACH],
    selections: Vec<Kept>,
}

impl Writer {
    /// Makes changes until the server is killed.
    async fn work(&mut self, corpus: &Corpus, client: &Client, killing: &AtomicBool, mut rng: StdRng) {
        while self.change(corpus, client, killing, &mut rng).await.is_ok() {}
    }

    async fn change(
        &mut self,
        corpus: &Corpus,
        client: &Client,
        killing: &AtomicBool,
        rng: &mut StdRng,
    ) -> Result<(), Lost> {
        let own = rng.random_range(0..VOLUMES_EACH);
        let version = rng.random_range(0..VERSIONS.len());
        let began = now();
        let (wanted, changed) = match rng.random_range(0..100) {
            0..65 => {
                let volume = &corpus.volumes[version][self.first_volume + own];
                (Some(version), ask(client, corpus::import(volume)).await)
            }
            65..85 => (None, ask(client, corpus::deletion(&corpus.ids[self.first_volume + own])).await),
            85..98 => return self.select(corpus, client, killing).await,
            // Seldom, so that most selections outlive the grace period of their volumes.
            _ => return self.discard(client, killing, rng).await,
        };
        let change = Change { to: wanted, began, ended: now() };
        let known = &mut self.known[own];
        match outcome_or_gone(changed, killing) {
            Outcome::Done(()) => {
                known.becomes(change);
                let count = &mut self.acknowledged;
                *(if wanted.is_some() { &mut count.imports } else { &mut count.deletions }) += 1;
            }
            Outcome::NotDone => {}
            Outcome::Lost => {
                known.pending = Some(change);
                return Err(Lost);
            }
        }
        Ok(())
    }

    async fn select(&mut self, corpus: &Corpus, client: &Client, killing: &AtomicBool) -> Result<(), Lost> {
        if self.selections.len() >= SELECTIONS_EACH {
            return Ok(());
        }
        let own = self.first_volume..self.first_volume + VOLUMES_EACH;
        let ids: Vec<&str> = corpus.ids[own.clone()].iter().map(VolumeId::as_str).collect();
        let form = format!("volumeIDs={}", client::query_value(&ids.join("|")));
        let selecting = async { client::json(client.post_form("/selections", form, "application/json").await?).await };
        let selected: Result<Told, ClientError> = selecting.await;
        match selected {
            Ok(output) => {
                let holds = own.zip(self.known.each_ref().map(|known| known.acknowledged)).collect();
                self.selections.push(Kept { output, holds, deleting: false });
                self.acknowledged.selections += 1;
                Ok(())
            }
            // An unknown selection holds nothing for anybody.
            Err(error) => match outcome_or_gone(Err(error), killing) {
                Outcome::Lost => Err(Lost),
                Outcome::Done(()) | Outcome::NotDone => Ok(()),
            },
        }
    }

    async fn discard(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        if self.selections.is_empty() {
            return Ok(());
        }
        let index = rng.random_range(0..self.selections.len());
        let request = Request::builder().method(Method::DELETE);
        let discarded = client.ask(&self.selections[index].output.address, request, client::empty()).await.map(drop);
        match outcome_or_gone(discarded, killing) {
            Outcome::Done(()) => {
                self.selections.remove(index);
                Ok(())
            }
            Outcome::NotDone => Ok(()),
            Outcome::Lost => {
                self.selections[index].deleting = true;
                Err(Lost)
            }
        }
    }

    /// Compares the stored state with the expected one, and continues from there.
    async fn check(&mut self, corpus: &Corpus, client: &Client) -> Vec<VolumeId> {
        let mut there = Vec::new();
        for (known, volume) in self.known.iter_mut().zip(self.first_volume..) {
            let id = &corpus.ids[volume];
            let stored = read(client, id).await.map(|entries| corpus.version_of(volume, &entries));
            known.found(id, stored);
            if stored.is_some() {
                let report: serde_json::Value =
                    client.ask_json(Method::POST, &format!("{}/verify", corpus::address(id))).await.unwrap();
                assert_eq!(report["sound"], true, "{report}");
                there.push(id.clone());
            }
        }
        self.check_selections(corpus, client).await;
        there
    }

    async fn check_selections(&mut self, corpus: &Corpus, client: &Client) {
        let mut selections = Vec::new();
        for mut kept in std::mem::take(&mut self.selections) {
            match whole_archive(client, &kept.output.address).await {
                Ok(bytes) => {
                    assert_eq!(bytes.len(), kept.output.len_bytes);
                    let mut entries = unzip(&bytes);
                    let some_missing = kept.holds.iter().any(|(_, stored)| stored.is_none());
                    assert_eq!(entries.remove("ERROR.err").is_some(), some_missing);
                    assert!(entries == expected(corpus, &kept.holds), "a selection has other entries than before");
                    kept.deleting = false;
                    self.acknowledged.selections_read += 1;
                    selections.push(kept);
                }
                Err(error) => assert!(kept.deleting && is_gone(&error), "a selection is lost: {error}"),
            }
        }
        self.selections = selections;
    }
}

/// The outcome of a change of a volume that may not exist.
fn outcome_or_gone(changed: Result<(), ClientError>, killing: &AtomicBool) -> Outcome<()> {
    match changed {
        Err(error) if is_gone(&error) => Outcome::NotDone,
        changed => outcome(changed, killing),
    }
}

async fn ask(client: &Client, (path, request, body): Asking) -> Result<(), ClientError> {
    client.ask(&path, request, body).await.map(drop)
}

/// The expected entries of a download of these volumes.
fn expected(corpus: &Corpus, stored: &[(usize, Stored)]) -> Entries {
    let there = stored.iter().filter_map(|(volume, stored)| Some(&corpus.entries[(*stored)?][*volume]));
    there.flatten().map(|(name, text)| (name.clone(), text.clone())).collect()
}

/// The pages of a volume; `None`: it does not exist.
async fn read(client: &Client, id: &VolumeId) -> Option<Entries> {
    try_read(client, id).await.unwrap()
}

async fn try_read(client: &Client, id: &VolumeId) -> Result<Option<Entries>, ClientError> {
    let path = format!("/volumes?volumeIDs={}", client::query_value(id.as_str()));
    let mut entries = unzip(&client::whole(client.get(&path, "application/zip").await?).await?);
    let Some(errors) = entries.remove("ERROR.err") else { return Ok(Some(entries)) };
    let errors = String::from_utf8(errors).unwrap();
    assert!(entries.is_empty() && errors.contains("KeyNotFoundException"), "{errors}");
    Ok(None)
}

/// `Accept-Datetime` leads to the last version of that second or before, and else to the first one
/// that is kept.
async fn check_redirection(client: &Client, id: &VolumeId, listed: &[Listed], second: i64) {
    let Some(first) = listed.first() else { return };
    let datetime = written(second);
    let request = Request::builder().method(Method::GET).header("accept-datetime", &datetime);
    let response = client.send(&corpus::address(id), request, client::empty()).await.unwrap();
    assert_eq!(response.status(), StatusCode::FOUND, "{id} at {datetime}");
    let expected = listed.iter().rfind(|version| version.time.as_second() <= second).unwrap_or(first);
    assert_eq!(response.headers()[LOCATION].to_str().unwrap(), expected.address, "{id} at {datetime}");
}

/// An archive of all volumes as of the end of a millisecond has those that there were then, and
/// says what became of the others. `listed` are the versions of each.
async fn check_as_of(corpus: &Corpus, client: &Client, known: &[&Known], listed: &[Vec<Listed>], moment: i64) {
    let archived = archived(client, &corpus.ids, moment, "").await;
    for (volume, then) in archived.iter().enumerate() {
        let (id, may_be) = (&corpus.ids[volume], corpus::at(&known[volume].made, moment));
        // The first one that is kept began before, so whatever there was then is kept.
        let is_kept = listed[volume].first().is_some_and(|first| first.time.as_millisecond() <= moment);
        let (is_right, told) = match then {
            Then::There(entries) => {
                let version = corpus.version_of(volume, entries);
                (is_kept && may_be.contains(&Some(version)), format!("version {version}"))
            }
            Then::Absent => (may_be.contains(&None), "absent".to_owned()),
            Then::NotKept => (!is_kept && may_be.iter().any(Option::is_some), "not kept".to_owned()),
        };
        assert!(is_right, "{id} as of {moment}: {told}, where {may_be:?} may have been");
    }
}

/// Reads all volumes, repeatedly, while they change: each is one of its versions, or absent.
async fn read_along(corpus: &Corpus, client: &Client, killing: &AtomicBool) {
    for volume in (0..VOLUMES).cycle() {
        match try_read(client, &corpus.ids[volume]).await {
            Ok(Some(entries)) => drop(corpus.version_of(volume, &entries)),
            Ok(None) => {}
            Err(_) if killing.load(Ordering::SeqCst) => return,
            Err(error) if error.passing_after().is_some() && error.status().is_some() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Kills a server during changes over HTTP.
async fn kill_among_changes(store: &TestStore, corpus: &Corpus, writers: &mut [Writer], rng: &mut StdRng) {
    let seeds: Vec<u64> = writers.iter().map(|_| rng.random()).collect();
    kill_a_server(store, rng, async |client, killing| {
        let working = writers.iter_mut().zip(seeds).map(|(writer, seed)| {
            let rng = StdRng::seed_from_u64(seed);
            writer.work(corpus, client, killing, rng)
        });
        futures::join!(futures::future::join_all(working), read_along(corpus, client, killing));
    })
    .await;
}

/// Kills an import into a store that nobody serves.
fn kill_an_import(store: &TestStore, corpus: &Corpus, writers: &mut [Writer], rng: &mut StdRng) {
    let version = rng.random_range(0..VERSIONS.len());
    let pairtree = corpus.pairtrees[version].to_str().unwrap();
    let mut import = store.command(&["import", "--force", "--jobs", "3", pairtree]);
    let began = now();
    let mut import = import.stdout(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_millis(rng.random_range(0..800));
    let ended = loop {
        match import.try_wait().unwrap() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            ended => break ended,
        }
    };
    match ended {
        Some(status) => assert!(status.success()),
        None => import.kill().unwrap(),
    }
    import.wait().unwrap();
    let change = Change { to: Some(version), began, ended: now() };
    for known in writers.iter_mut().flat_map(|writer| &mut writer.known) {
        match ended {
            Some(_) => known.becomes(change),
            None => known.pending = Some(change),
        }
    }
}

/// Everything is as expected, and every listed volume exists. So was it at these moments.
async fn check(store: &TestStore, corpus: &Corpus, writers: &mut [Writer], moments: &[i64]) {
    look(store, async |client| {
        let mut there = Vec::new();
        for writer in writers.iter_mut() {
            there.extend(writer.check(corpus, client).await.iter().map(ToString::to_string));
        }
        there.sort();
        let listed = client::whole(client.get("/volumes/", "text/plain").await.unwrap()).await.unwrap();
        assert_eq!(sorted_lines(std::str::from_utf8(&listed).unwrap()), there);
        check_past(corpus, client, writers, moments).await;
    })
    .await;
}

/// What is kept of each volume is listed, and is what archives and redirections as of some moments
/// lead to.
async fn check_past(corpus: &Corpus, client: &Client, writers: &[Writer], moments: &[i64]) {
    let known: Vec<&Known> = writers.iter().flat_map(|writer| &writer.known).collect();
    let mut kept = Vec::new();
    for (id, known) in corpus.ids.iter().zip(&known) {
        let listed = versions(client, id).await;
        known.assert_listed(id, &listed);
        for moment in moments {
            check_redirection(client, id, &listed, moment / 1_000).await;
        }
        kept.push(listed);
    }
    for moment in moments {
        check_as_of(corpus, client, &known, &kept, *moment).await;
    }
}

#[tokio::test]
async fn kill_9_loses_nothing_acknowledged_and_leaves_nothing_half_visible() {
    let (mut rng, rounds) = choices(ROUNDS);
    let store = TestStore::vacant();
    let corpus = Corpus::make(&store.beside("corpus"), VOLUMES, &VERSIONS);
    let writer = |index| Writer { first_volume: index * VOLUMES_EACH, ..Writer::default() };
    let mut writers: Vec<Writer> = (0..WRITERS).map(writer).collect();
    let first = now();
    for round in 0..rounds {
        println!("round {round}");
        let began = now();
        if rng.random_range(0..3) == 0 {
            kill_an_import(&store, &corpus, &mut writers, &mut rng);
        } else {
            kill_among_changes(&store, &corpus, &mut writers, &mut rng).await;
        }
        let ended = now();
        // One is of any round. Most of its versions are not kept any more.
        let moments = [(); MOMENTS].map(|()| rng.random_range(began..=ended));
        let any = rng.random_range(first..=ended);
        check(&store, &corpus, &mut writers, &[&moments[..], &[any, ended]].concat()).await;
    }
    let acknowledged: Vec<&Acknowledged> = writers.iter().map(|writer| &writer.acknowledged).collect();
    println!("{acknowledged:?}");
    let some =
        |count: fn(&Acknowledged) -> u32| acknowledged.iter().map(|acknowledged| count(acknowledged)).sum::<u32>() > 0;
    assert!(
        some(|it| it.imports) && some(|it| it.deletions) && some(|it| it.selections) && some(|it| it.selections_read)
    );
}
