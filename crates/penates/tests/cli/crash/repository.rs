//! The repository: containers, graphs and bytes are created, changed, restored, deleted and brought
//! back in every way that the door offers. Every listed resource is reachable, and a description or
//! bytes are always those of one write. So are the versions that were in force at earlier times, the
//! members of containers then, and archives of containers as of those times.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_TYPE, LINK, LOCATION};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use penates::client::{self, Client, ClientError};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::tree::{
    Kind, PART, Seen, State, Tree, address, bytes, quads, second_of, see, statements, unpacked, version_at, versions,
    written,
};
use super::{Lost, ORIGIN, Outcome, POLL, choices, kill_a_server, look, outcome};
use crate::harness::*;

/// The default number of rounds.
const ROUNDS: u64 = 6;
/// The greatest number of rounds of one store. All versions are kept, so a round reads more than
/// the one before it.
const ROUNDS_OF_STORE: u64 = 100;
/// The greatest number of additional rounds, until every kind of change was made.
const MORE_ROUNDS: u64 = 50;
/// Writers at the same time; each has a container of its own, so that it knows its contents.
const WRITERS: usize = 4;
/// A writer with more resources than this deletes rather than creates.
const THERE_MAX: usize = 40;
/// The number of names for new resources: few, so that they are often used, or were.
const NAMES: u32 = 12;
/// Resources that are created with one request.
const BULK: u32 = 12;
/// Resources that are read at the same time.
const READ_AT_ONCE: usize = 16;
/// The greatest number of versions at one path that are read.
const VERSIONS_READ_MAX: usize = 60;
/// After each kill, a writer looks at the ends of seconds at which something was being changed. So
/// many of them, the last ones, it looks at again in the end.
const BUSY_AGAIN: usize = 8;
/// How often a listed resource is looked for before it counts as unreachable: it may be deleted and
/// created again meanwhile.
const LOOKS: u32 = 5;

/// A change whose response was lost.
enum Pending {
    /// Each of these may have been made.
    Each(Vec<(String, State)>),
    /// This, with all its contents.
    WithContent(String, State),
    /// What was deleted at this path may have been brought back, or a part of it.
    BroughtBack(String),
    /// A new resource in a container, whose name begins like this.
    Child(String, String, State),
}

/// The number of acknowledged changes of each kind: a run without them would prove nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    puts: u32,
    posts: u32,
    patches: u32,
    bulk: u32,
    deletions: u32,
    tombstones: u32,
    restores: u32,
    brought_back: u32,
}

/// A writer: it makes one change after the other, and knows the expected state.
struct Writer {
    root: String,
    tree: Tree,
    /// What was there before and after some seconds in which nobody changed anything.
    quiet: Vec<(i64, [Tree; 2])>,
    /// What was there before and after the change that may have been made at the end of a second,
    /// since the last kill.
    busy: Vec<(i64, [Tree; 2])>,
    /// The same before that, as far as it is looked at again.
    busy_before: Vec<(i64, [Tree; 2])>,
    /// The second in which the last change began, and what was there before it.
    last: Option<(i64, Tree)>,
    /// Versions that were listed after the last kill: the path of the resource, that of the version,
    /// and its state.
    listed: Vec<(String, String, State)>,
    pending: Option<Pending>,
    /// The last version that it drew.
    version: u32,
    acknowledged: Acknowledged,
}

impl Writer {
    fn new(index: usize) -> Self {
        Self {
            root: format!("writer-{index}"),
            tree: Tree::default(),
            quiet: Vec::new(),
            busy: Vec::new(),
            busy_before: Vec::new(),
            last: None,
            listed: Vec::new(),
            pending: None,
            version: 0,
            acknowledged: Acknowledged::default(),
        }
    }

    /// Makes changes until the server is killed.
    async fn work(&mut self, client: &Client, killing: &AtomicBool, mut rng: StdRng) {
        while self.change(client, killing, &mut rng).await.is_ok() {}
    }

    async fn change(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        self.note_second();
        if self.tree.state(&self.root) == State::Absent {
            let root = self.root.clone();
            return self.put(client, killing, &root, Kind::Container).await;
        }
        let there = self.tree.there(|_| true);
        match rng.random_range(0..100) {
            0..25 if there.len() < THERE_MAX => self.put_new(client, killing, rng).await,
            25..40 if there.len() < THERE_MAX => self.post(client, killing, rng).await,
            40..50 if there.len() < THERE_MAX => self.bulk(client, killing, rng).await,
            50..61 => self.patch(client, killing, rng).await,
            61..72 => {
                let path = there.choose(rng).unwrap().clone();
                let State::There(kind, _) = self.tree.state(&path) else { unreachable!("it is there") };
                self.put(client, killing, &path, kind).await
            }
            72..77 => self.remove_tombstone(client, killing, rng).await,
            77..83 => self.restore(client, killing, rng).await,
            83..88 => self.bring_back(client, killing, rng).await,
            _ => self.delete(client, killing, rng).await,
        }
    }

    /// Notes what was there when a second ended. It comes before each change, so at most one was
    /// being made then.
    fn note_second(&mut self) {
        let (second, after) = (Timestamp::now().as_second(), self.tree.present());
        let last = self.last.replace((second, after.clone()));
        if let Some((ended, before)) = last.filter(|(ended, _)| *ended < second) {
            self.busy.push((ended, [before, after]));
        }
    }

    fn next_version(&mut self) -> u32 {
        self.version += 1;
        self.version
    }

    /// Handles the response to a change that could be looked up as `pending`; `None`: it was not
    /// made.
    fn answered<T>(
        &mut self,
        answer: Result<T, ClientError>,
        killing: &AtomicBool,
        pending: Pending,
    ) -> Result<Option<T>, Lost> {
        match outcome(answer, killing) {
            Outcome::Done(answer) => Ok(Some(answer)),
            Outcome::NotDone => Ok(None),
            Outcome::Lost => {
                self.pending = Some(pending);
                Err(Lost)
            }
        }
    }

    /// Puts a new version at a path.
    async fn put(&mut self, client: &Client, killing: &AtomicBool, path: &str, kind: Kind) -> Result<(), Lost> {
        let version = self.next_version();
        let mut made = vec![(path.to_owned(), State::There(kind, version))];
        let mut above = path.rsplit_once('/').map(|(above, _)| above);
        while let Some(missing) = above.filter(|above| self.tree.state(above) == State::Absent) {
            made.push((missing.to_owned(), State::There(Kind::Container, 0)));
            above = missing.rsplit_once('/').map(|(above, _)| above);
        }
        let put = send(client, Method::PUT, path, kind, version, None).await;
        if self.answered(put, killing, Pending::Each(made.clone()))?.is_some() {
            made.iter().for_each(|(path, state)| self.tree.set(path, *state));
            self.acknowledged.puts += 1;
        }
        Ok(())
    }

    /// Puts a new resource somewhere, sometimes below a container that does not exist yet.
    async fn put_new(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let mut path = self.new_path(rng);
        if rng.random_range(0..4) == 0 {
            path = format!("{path}/{}", name(rng));
        }
        let above = path.rsplit_once('/').map(|(above, _)| self.tree.state(above));
        let may_contain = matches!(above, Some(State::Absent | State::There(Kind::Container, _)));
        match may_contain && self.tree.state(&path) == State::Absent {
            true => self.put(client, killing, &path, kind(rng)).await,
            false => Ok(()),
        }
    }

    /// A path in an existing container at which nothing exists or existed, if there is one.
    fn new_path(&self, rng: &mut StdRng) -> String {
        let containers = self.tree.there(|kind| kind == Kind::Container);
        let container = containers.choose(rng).unwrap();
        format!("{container}/{}", name(rng))
    }

    async fn post(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let path = self.new_path(rng);
        let (container, slug) = path.rsplit_once('/').unwrap();
        let (kind, version) = (kind(rng), self.next_version());
        let state = State::There(kind, version);
        let posted = send(client, Method::POST, container, kind, version, Some(slug)).await;
        let pending = Pending::Child(container.to_owned(), slug.to_owned(), state);
        if let Some(headers) = self.answered(posted, killing, pending)? {
            let location = headers[LOCATION].to_str().unwrap().split_once("/rest/").unwrap().1.to_owned();
            assert!(location.starts_with(&path), "{slug} was requested, {location} given");
            assert_eq!(self.tree.state(&location), State::Absent, "{location} was given twice");
            self.tree.set(&location, state);
            self.acknowledged.posts += 1;
        }
        Ok(())
    }

    /// Deletes all statements and adds others, with one update.
    async fn patch(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let graphs = self.tree.there(|kind| kind != Kind::Binary);
        let path = graphs.choose(rng).unwrap();
        let State::There(kind, _) = self.tree.state(path) else { unreachable!("it is there") };
        let version = self.next_version();
        let update = format!(
            "DELETE {{ <> {PART} ?part }} WHERE {{ <> {PART} ?part }} ; INSERT DATA {{ {} }}",
            statements("<>", version)
        );
        let request = Request::builder().method(Method::PATCH).header(CONTENT_TYPE, "application/sparql-update");
        let patched = client.ask(&address(path), request, client::full(update)).await;
        let state = State::There(kind, version);
        if self.answered(patched, killing, Pending::Each(vec![(path.clone(), state)]))?.is_some() {
            self.tree.set(path, state);
            self.acknowledged.patches += 1;
        }
        Ok(())
    }

    /// Creates many resources with one request. Each has a line, which is an acknowledgement.
    async fn bulk(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let containers = self.tree.there(|kind| kind == Kind::Container);
        let container = containers.choose(rng).unwrap();
        let (mut wanted, mut body) = (Vec::new(), String::new());
        for _ in 0..BULK {
            let version = self.next_version();
            let path = format!("{container}/many-{version}");
            body += &quads(&format!("<{ORIGIN}{}>", address(&path)), version);
            wanted.push((path, State::There(Kind::Source, version)));
        }
        let request = Request::builder().method(Method::POST).header(CONTENT_TYPE, "application/n-quads");
        let request = request.header(LINK, link(Kind::Source));
        let answered = client.ask(&address(container), request, client::full(body)).await;
        let pending = Pending::Each(wanted.clone());
        let Some(answer) = self.answered(answered, killing, pending)? else { return Ok(()) };
        let mut body = answer.into_body();
        let (mut output, mut broken) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => output.extend(frame.into_data().unwrap_or_default()),
                Err(error) => broken = Some(ClientError::Broken(error.into())),
            }
        }
        let lines = output.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let mut rest = wanted.into_iter();
        for line in lines {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!(line["status"], 201, "{line}");
            let (path, state) = rest.next().unwrap();
            assert!(line["resource"].as_str().unwrap().ends_with(&path), "{line}");
            self.tree.set(&path, state);
            self.acknowledged.bulk += 1;
        }
        let rest: Vec<_> = rest.collect();
        let broken = broken.map_or(Ok(()), Err);
        assert!(broken.is_err() || rest.is_empty(), "a whole response has a line for each");
        self.answered(broken, killing, Pending::Each(rest)).map(|_| ())
    }

    async fn delete(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let there = self.tree.there(|_| true);
        let path = there.choose(rng).unwrap();
        if *path == self.root {
            return Ok(());
        }
        let deleted = ask_to_delete(client, path).await;
        if self.answered(deleted, killing, Pending::WithContent(path.clone(), State::Gone))?.is_some() {
            self.tree.set_with_content(path, State::Gone);
            self.acknowledged.deletions += 1;
        }
        Ok(())
    }

    async fn remove_tombstone(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let tombstones = self.tree.tombstones();
        let Some(path) = tombstones.choose(rng) else { return Ok(()) };
        let removed = match ask_to_delete(client, &format!("{path}/fcr:tombstone")).await {
            // The killed server was deleting it, and this one still is.
            Err(error) if error.status() == Some(StatusCode::CONFLICT) => return Ok(()),
            removed => removed,
        };
        if self.answered(removed, killing, Pending::WithContent(path.clone(), State::Absent))?.is_some() {
            self.tree.set_with_content(path, State::Absent);
            self.acknowledged.tombstones += 1;
        }
        Ok(())
    }

    /// Makes a version that was listed the current state again.
    async fn restore(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let others: Vec<_> = self.listed.iter().filter(|(path, _, state)| self.is_another(path, *state)).collect();
        let Some((path, version, state)) = others.choose(rng).copied().cloned() else { return Ok(()) };
        let name = version.rsplit('/').next().unwrap();
        let restore = format!("{}/fcr:versions?restore={name}", address(&path));
        let restored = client.ask(&restore, Request::builder().method(Method::POST), client::empty()).await;
        if self.answered(restored, killing, Pending::Each(vec![(path.clone(), state)]))?.is_some() {
            self.tree.set(&path, state);
            self.acknowledged.restores += 1;
        }
        Ok(())
    }

    /// Brings back what was deleted. A container comes back with everything that was in it then.
    async fn bring_back(&mut self, client: &Client, killing: &AtomicBool, rng: &mut StdRng) -> Result<(), Lost> {
        let tombstones = self.tree.tombstones();
        let Some(path) = tombstones.choose(rng) else { return Ok(()) };
        let pending = Pending::BroughtBack(path.clone());
        match ask_to_bring_back(client, path, "").await {
            // The killed server was deleting it, and this one still is. Any other conflict is a
            // failure: something of it could not come back.
            Err(ClientError::Refused { status: StatusCode::CONFLICT, detail, .. })
                if detail.contains("is still being deleted") =>
            {
                Ok(())
            }
            // A part of it may be back.
            Err(ClientError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => {
                self.pending = Some(pending);
                Err(Lost)
            }
            brought => {
                if self.answered(brought, killing, pending)?.is_some() {
                    self.tree.bring_back(path);
                    self.acknowledged.brought_back += 1;
                }
                Ok(())
            }
        }
    }

    /// Whether a version is of the kind of the resource that is there, and of another state. If it
    /// were of the same, nobody could find out whether it was restored.
    fn is_another(&self, path: &str, version: State) -> bool {
        match (self.tree.state(path), version) {
            (State::There(kind, now), State::There(of_kind, then)) => kind == of_kind && now != then,
            _ => false,
        }
    }

    /// Lists the versions that can be restored.
    async fn list_versions(&mut self, client: &Client) {
        let can_be = |(path, states): &(&str, &[State])| states.iter().any(|state| self.is_another(path, *state));
        let lists = self.tree.past().filter(can_be).map(|(path, states)| async move {
            let listed = versions(client, path).await;
            assert_eq!(listed.len(), states.len(), "the versions of {path}");
            let listed = listed.into_iter().zip(states).map(|(version, state)| (path.to_owned(), version, *state));
            listed.collect::<Vec<_>>()
        });
        let lists: Vec<_> = lists.collect();
        let listed = futures::stream::iter(lists).buffered(READ_AT_ONCE).concat().await;
        self.listed = listed;
    }

    /// Finds out the outcome of the change whose response was lost.
    async fn find_out(&mut self, client: &Client) {
        match self.pending.take() {
            None => {}
            Some(Pending::Each(changes)) => {
                for (path, state) in changes {
                    if see(client, &path).await.unwrap().state == state {
                        self.tree.set(&path, state);
                    }
                }
            }
            Some(Pending::WithContent(path, state)) => {
                let seen = see(client, &path).await.unwrap();
                if seen.state == state {
                    self.tree.set_with_content(&path, state);
                }
            }
            Some(Pending::BroughtBack(path)) => {
                let seen = see(client, &path).await.unwrap();
                if seen.state != State::Gone {
                    // What the killed server left out comes back once it is asked for again.
                    if self.tree.deleted_kind(&path) == Some(Kind::Container) {
                        ask_to_bring_back(client, &path, "&contents=true").await.unwrap();
                    }
                    self.tree.bring_back(&path);
                }
            }
            Some(Pending::Child(container, slug, state)) => {
                let known = self.tree.children(&container);
                let seen = see(client, &container).await.unwrap();
                let more: Vec<_> = seen.children.difference(&known).collect();
                assert!(more.len() <= 1, "one request made all of these: {more:?}");
                if let Some(path) = more.first() {
                    assert!(path.starts_with(&format!("{container}/{slug}")), "{slug} was requested, {path} made");
                    self.tree.set(path, state);
                }
            }
        }
    }

    /// Compares the stored resources with the expected ones.
    async fn check(&mut self, client: &Client) {
        self.find_out(client).await;
        let checks = self.tree.iter().map(|(path, state)| {
            let children = self.tree.children(path);
            async move {
                let seen = see(client, path).await.unwrap();
                assert_eq!(seen.state, state, "{path}");
                // Each of them is in the tree, so it is read too.
                if matches!(state, State::There(Kind::Container, _)) {
                    assert_eq!(seen.children, children, "the listing of {path}");
                }
            }
        });
        let checks: Vec<_> = checks.collect();
        futures::stream::iter(checks).buffer_unordered(READ_AT_ONCE).collect::<Vec<()>>().await;
        self.tree.forget_absent();
        self.note_second();
        self.check_archives(client, &self.busy).await;
        self.busy_before.append(&mut self.busy);
        self.busy_before.drain(..self.busy_before.len().saturating_sub(BUSY_AGAIN));
    }

    /// Each acknowledged change is a version, also of what was deleted since, and there are no
    /// others.
    async fn check_versions(&self, client: &Client) {
        for (path, written) in self.tree.past() {
            let listed = versions(client, path).await;
            assert_eq!(listed.len(), written.len(), "the versions of {path}");
            let step = written.len().div_ceil(VERSIONS_READ_MAX);
            let checks = listed.iter().zip(written).rev().step_by(step).map(|(version, state)| async move {
                assert_eq!(see(client, version).await.unwrap().state, *state, "{version}");
            });
            let checks: Vec<_> = checks.collect();
            futures::stream::iter(checks).buffer_unordered(READ_AT_ONCE).collect::<Vec<()>>().await;
            check_seconds(client, path, &listed, step).await;
        }
    }

    /// `Accept-Datetime` leads to what was there, between versions too. Containers have the members
    /// that they had, and so have archives of them.
    async fn check_instants(&self, client: &Client) {
        for (second, [tree, _]) in &self.quiet {
            let datetime = &written(*second);
            let checks = tree.iter().map(|(path, state)| async move {
                let version = version_at(client, path, datetime).await;
                let seen = see(client, &version).await.unwrap();
                assert_eq!(seen.state, state, "{path} at {datetime}: {version}");
                assert_eq!(seen.children, tree.children(path), "the listing of {path} at {datetime}: {version}");
            });
            let checks: Vec<_> = checks.collect();
            futures::stream::iter(checks).buffer_unordered(READ_AT_ONCE).collect::<Vec<()>>().await;
        }
        self.check_archives(client, &self.quiet).await;
        self.check_archives(client, &self.busy_before).await;
    }

    /// Archives as of the end of seconds have what was there then: before or after the change that
    /// may have been made at that moment.
    async fn check_archives(&self, client: &Client, ends: &[(i64, [Tree; 2])]) {
        if self.tree.state(&self.root) == State::Absent {
            return;
        }
        let began: Vec<i64> = versions(client, &self.root).await.iter().map(|version| second_of(version)).collect();
        for (second, [before, after]) in ends {
            // An archive of a version has what was there when it began, not when its second ended.
            if before.state(&self.root) == State::Absent || began.contains(second) {
                continue;
            }
            let version = version_at(client, &self.root, &written(*second)).await;
            let archive = client.get(&address(&version), "application/zip").await.unwrap();
            let sent = unpacked(&client::whole(archive).await.unwrap());
            let known = before.iter().chain(after.iter()).map(|(path, _)| path);
            for path in known.chain(sent.keys().map(String::as_str)) {
                let found = sent.get(path).copied().unwrap_or(State::Absent);
                let expected = [before, after].map(|tree| tree.state(path));
                assert!(expected.contains(&found), "{path} in the archive {version}: {found:?}, not of {expected:?}");
            }
        }
    }
}

/// `Accept-Datetime` leads to the last version of a second.
async fn check_seconds(client: &Client, path: &str, listed: &[String], step: usize) {
    let is_last = |n: &usize| listed.get(n + 1).is_none_or(|next| second_of(next) != second_of(&listed[*n]));
    let checks = (0..listed.len()).rev().filter(is_last).step_by(step).map(|n| {
        let datetime = written(second_of(&listed[n]));
        async move { assert_eq!(version_at(client, path, &datetime).await, listed[n], "{path} at {datetime}") }
    });
    let checks: Vec<_> = checks.collect();
    futures::stream::iter(checks).buffer_unordered(READ_AT_ONCE).collect::<Vec<()>>().await;
}

/// Notes what is there in a second in which nobody changes anything.
async fn note_instant(writers: &mut [Writer]) {
    let second = next_second().await;
    for writer in writers {
        writer.quiet.push((second, [writer.tree.present(), writer.tree.present()]));
    }
    next_second().await;
}

/// Waits for the next second of the clock.
async fn next_second() -> i64 {
    let begin = Timestamp::now().as_second();
    while Timestamp::now().as_second() == begin {
        tokio::time::sleep(POLL).await;
    }
    Timestamp::now().as_second()
}

fn name(rng: &mut StdRng) -> String {
    format!("name-{}", rng.random_range(0..NAMES))
}

fn kind(rng: &mut StdRng) -> Kind {
    *[Kind::Container, Kind::Source, Kind::Binary].choose(rng).unwrap()
}

/// The header with the interaction model.
fn link(kind: Kind) -> String {
    let class = match kind {
        Kind::Container => "BasicContainer",
        Kind::Source => "RDFSource",
        Kind::Binary => "NonRDFSource",
    };
    format!("<http://www.w3.org/ns/ldp#{class}>; rel=\"type\"")
}

/// Sends a version of a resource.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    kind: Kind,
    version: u32,
    slug: Option<&str>,
) -> Result<HeaderMap, ClientError> {
    let (media_type, body) = match kind {
        Kind::Binary => ("application/x-version", Bytes::from(bytes(version))),
        Kind::Container | Kind::Source => ("text/turtle", Bytes::from(statements("<>", version))),
    };
    let mut request = Request::builder().method(method).header(CONTENT_TYPE, media_type).header(LINK, link(kind));
    if let Some(slug) = slug {
        request = request.header("slug", slug);
    }
    let response = client.ask(&address(path), request, client::full(body)).await?;
    Ok(response.headers().clone())
}

/// Asks for what was deleted at a path. `more` follows in the query.
async fn ask_to_bring_back(client: &Client, path: &str, more: &str) -> Result<(), ClientError> {
    let versions = format!("{}/fcr:versions?restore={more}", address(path));
    client.ask(&versions, Request::builder().method(Method::POST), client::empty()).await.map(drop)
}

async fn ask_to_delete(client: &Client, path: &str) -> Result<(), ClientError> {
    client.ask(&address(path), Request::builder().method(Method::DELETE), client::empty()).await.map(drop)
}

/// Reads everything that is listed, repeatedly, while it changes: each resource is whole, and
/// reachable as long as it is listed.
async fn read_along(client: &Client, killing: &AtomicBool) {
    loop {
        let mut containers = vec![String::new()];
        while let Some(container) = containers.pop() {
            match read_container(client, &container).await {
                Ok(more) => containers.extend(more),
                Err(_) if killing.load(Ordering::SeqCst) => return,
                // A listing breaks if a resource in it was deleted meanwhile.
                Err(ClientError::Broken(_)) => {}
                Err(error) if error.passing_after().is_some() && error.status().is_some() => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Reads a container and its children. Returns the containers among them.
async fn read_container(client: &Client, container: &str) -> Result<Vec<String>, ClientError> {
    let (mut containers, mut unreachable) = (Vec::new(), BTreeSet::new());
    for look in 0..LOOKS {
        let Seen { children, .. } = see(client, container).await?;
        let listed = if look == 0 { children } else { &children & &unreachable };
        unreachable.clear();
        for child in listed {
            match see(client, &child).await?.state {
                State::There(Kind::Container, _) => containers.push(child),
                State::There(..) => {}
                State::Absent | State::Gone => _ = unreachable.insert(child),
            }
        }
        if unreachable.is_empty() {
            return Ok(containers);
        }
    }
    panic!("listed in {container:?}, but not reachable: {unreachable:?}");
}

/// Everything is as expected, and every listed resource exists.
async fn check(store: &TestStore, writers: &mut [Writer]) {
    look(store, async |client| {
        let checks = writers.iter_mut().map(|writer| async move {
            writer.check(client).await;
            writer.list_versions(client).await;
        });
        futures::future::join_all(checks).await;
        let roots = writers.iter().filter(|writer| writer.tree.state(&writer.root) != State::Absent);
        // The volumes always exist.
        let roots: BTreeSet<_> = roots.map(|writer| writer.root.clone()).chain(["volumes".to_owned()]).collect();
        assert_eq!(see(client, "").await.unwrap().children, roots);
    })
    .await;
}

/// Deletions that killed servers left are finished in the end: every name is free again. All that
/// was written is still there as a version.
async fn free_all_names_and_read_the_past(store: &TestStore, writers: &mut [Writer]) {
    look(store, async |client| {
        for writer in writers {
            for path in writer.tree.tombstones() {
                let freed = async {
                    while let Err(error) = ask_to_delete(client, &format!("{path}/fcr:tombstone")).await {
                        assert_eq!(error.status(), Some(StatusCode::CONFLICT), "{path}: {error}");
                        tokio::time::sleep(POLL).await;
                    }
                };
                tokio::time::timeout(PATIENCE, freed).await.unwrap_or_else(|_| panic!("{path} is never deleted"));
                writer.tree.set_with_content(&path, State::Absent);
            }
            writer.check(client).await;
            writer.check_versions(client).await;
            writer.check_instants(client).await;
        }
    })
    .await;
}

/// Whether at least some changes of each kind were acknowledged.
fn are_all_kinds(writers: &[Writer]) -> bool {
    let some = |count: fn(&Acknowledged) -> u32| writers.iter().any(|writer| count(&writer.acknowledged) > 0);
    some(|it| it.puts)
        && some(|it| it.posts)
        && some(|it| it.patches)
        && some(|it| it.bulk)
        && some(|it| it.deletions)
        && some(|it| it.tombstones)
        && some(|it| it.restores)
        && some(|it| it.brought_back)
}

#[tokio::test]
async fn kill_9_loses_nothing_of_the_repository_and_listings_match_the_resources() {
    let (mut rng, rounds) = choices(ROUNDS);
    let mut done = survive_kills(&mut rng, rounds.min(ROUNDS_OF_STORE)).await;
    while done < rounds {
        println!("{done} rounds");
        done += survive_kills(&mut rng, (rounds - done).min(ROUNDS_OF_STORE)).await;
    }
}

/// Kills servers over one store. Returns how often.
async fn survive_kills(rng: &mut StdRng, rounds: u64) -> u64 {
    let store = TestStore::vacant();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut round = 0;
    // On a busy machine a few rounds may not cover all kinds of changes.
    while round < rounds || !are_all_kinds(&writers) {
        assert!(round < rounds + MORE_ROUNDS, "not all kinds of changes were made");
        round += 1;
        let seeds: Vec<u64> = writers.iter().map(|_| rng.random()).collect();
        kill_a_server(&store, rng, async |client, killing| {
            let working = writers.iter_mut().zip(seeds).map(|(writer, seed)| {
                let rng = StdRng::seed_from_u64(seed);
                writer.work(client, killing, rng)
            });
            futures::join!(futures::future::join_all(working), read_along(client, killing));
        })
        .await;
        check(&store, &mut writers).await;
        if round.is_power_of_two() {
            note_instant(&mut writers).await;
        }
    }
    free_all_names_and_read_the_past(&store, &mut writers).await;
    let acknowledged: Vec<Acknowledged> = writers.iter().map(|writer| writer.acknowledged).collect();
    println!("after {round} rounds: {acknowledged:?}");
    round
}
