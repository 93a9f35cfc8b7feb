//! Downloads that resume.
//!
//! A request becomes a *selection*: an address whose bytes never change. It is read with `Range`
//! and `If-Range`. If the connection breaks, the rest is requested. For a file `F`, the bytes are
//! written to `F.part` first and the selection's address to `F.part.json`, so that the same command
//! resumes where an earlier run ended.

mod sink;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use futures::StreamExt;
use http::header::{CONTENT_LENGTH, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::client::{self, Body, Client, ClientError};
use crate::exit::{CliError, told};
use crate::progress;
use sink::{Part, Sink, beside};

pub use sink::Pipe;

/// The first pause before another try; each further one without progress is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A selection: the download, as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Its path.
    address: String,
    /// The strong validator of its bytes.
    etag: String,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Number of requested members that are missing or damaged.
    pub missing: u64,
}

/// The stored state of a download under way.
#[derive(Serialize, Deserialize)]
struct State {
    /// The form that was sent, to recognise a later command for the same.
    form: String,
    selection: Selection,
}

impl State {
    /// Empties the part and then stores the state beside it, so that it is never beside bytes of
    /// another download.
    fn begin(&self, target: &Path) -> anyhow::Result<Part> {
        let part = Part::open(target, true)?;
        let json = serde_json::to_vec(self).context("encoding the state of the download")?;
        let path = state_path(target);
        fs::write(&path, json).with_context(|| format!("writing {}", path.display()))?;
        Ok(part)
    }
}

impl Selection {
    /// Creates a selection for `form`. It retries on a busy server, `tries` times in all.
    async fn create(client: &Client, form: &str, tries: u32) -> anyhow::Result<Self> {
        let mut failures = 0;
        let created = loop {
            let error = match client.post_form("/selections", form.to_owned(), "application/json").await {
                Ok(created) => break created,
                Err(error) => error,
            };
            failures += 1;
            let refused = error.status().and(error.passing_after());
            let Some(least) = refused.filter(|_| failures < tries) else { return Err(error.into()) };
            eprintln!("Not started yet: {error}. Trying again.");
            tokio::time::sleep(pause_after(failures, least)).await;
        };
        let told: Self = client::json(created).await?;
        Ok(Self { address: client.relative(&told.address).to_owned(), ..told })
    }

    /// Deletes it on the server. A failure does no harm: it ends by itself.
    async fn discard(&self, client: &Client) {
        let _ = client.ask(&self.address, Request::builder().method(Method::DELETE), client::empty()).await;
    }

    /// Whether these are the headers of a response with its bytes.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        text(headers, ETAG.as_str()).is_some_and(|etag| etag == self.etag)
    }

    async fn get_from(&self, client: &Client, from: u64) -> Result<Response<Body>, ClientError> {
        let mut request = Request::builder().method(Method::GET);
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-")).header(IF_RANGE, &self.etag);
        }
        client.ask(&self.address, request, client::empty()).await
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.parse().ok()
}

/// The target of a download.
pub enum Destination<'a> {
    /// Into a pipe, once.
    Pipe(Pipe),
    /// Into a regular file, which appears when it is complete.
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// The sink for `path`; `-` is standard output. A folder is a usage error.
    pub fn at(path: &'a Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Pipe(Pipe::stdout()?));
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                Err(CliError::Usage(format!("-o {}: this is a folder", path.display())).into())
            }
            Ok(found) if !found.is_file() => Ok(Self::Pipe(Pipe::open(path)?)),
            _ => Ok(Self::File(path)),
        }
    }
}

/// Downloads what `form` selects, resuming after errors. Returns the selection.
pub async fn resumed(client: &Client, form: &str, target: Destination<'_>, tries: u32) -> anyhow::Result<Selection> {
    match target {
        Destination::Pipe(pipe) => to_pipe(client, form, pipe, tries).await,
        Destination::File(path) => to_file(client, form, path, tries).await,
    }
}

async fn to_pipe(client: &Client, form: &str, mut pipe: Pipe, tries: u32) -> anyhow::Result<Selection> {
    let selection = Selection::create(client, form, tries).await?;
    let fetched = fetch(client, &selection, &mut pipe, tries).await;
    selection.discard(client).await;
    fetched.map(|()| selection)
}

/// Resumes where an earlier run ended.
async fn to_file(client: &Client, form: &str, target: &Path, tries: u32) -> anyhow::Result<Selection> {
    let (mut selection, mut part) = match resumable(client, form, target).await {
        Some(selection) => {
            let part = Part::open(target, false)?;
            eprintln!("Resuming {} after {} of {} bytes.", target.display(), part.len_bytes(), selection.len_bytes);
            (selection, part)
        }
        None => begin(client, form, target, tries).await?,
    };
    while let Err(error) = fetch(client, &selection, &mut part, tries).await {
        let unfinished = || format!("{} is incomplete: give the same command again to continue", target.display());
        if !matches!(error.downcast_ref(), Some(ClientError::Broken(_))) {
            return Err(error.context(unfinished()));
        }
        // It always ends at the same place: there is damage, and a new selection leaves it out.
        let found = Selection::create(client, form, tries).await?;
        found.discard(client).await;
        if found.etag == selection.etag {
            return Err(error.context(unfinished()));
        }
        eprintln!("The selection contains damage: starting again without it.");
        selection.discard(client).await;
        (selection, part) = begin(client, form, target, tries).await?;
    }
    part.finish(target)?;
    let state = state_path(target);
    fs::remove_file(&state).with_context(|| format!("removing {}", state.display()))?;
    selection.discard(client).await;
    Ok(selection)
}

/// Creates a selection and begins to download it.
async fn begin(client: &Client, form: &str, target: &Path, tries: u32) -> anyhow::Result<(Selection, Part)> {
    let state = State { form: form.to_owned(), selection: Selection::create(client, form, tries).await? };
    match state.begin(target) {
        Ok(part) => Ok((state.selection, part)),
        Err(error) => {
            state.selection.discard(client).await;
            Err(error)
        }
    }
}

/// Downloads an archive that has no length and cannot be resumed: after an error it starts again.
/// Returns how many bytes arrived, and how many requested members are missing.
pub async fn unresumable(
    client: &Client,
    route: &str,
    form: &str,
    target: Destination<'_>,
) -> anyhow::Result<(u64, u64)> {
    let response = client.post_form(route, form.to_owned(), "application/zip").await?;
    let missing = number(response.headers(), "penates-missing").unwrap_or(0);
    let bar = progress::bytes(number(response.headers(), CONTENT_LENGTH.as_str()));
    match target {
        Destination::Pipe(mut pipe) => copy(response, &mut pipe, &bar).await?,
        Destination::File(target) => {
            let mut part = Part::open(target, true)?;
            copy(response, &mut part, &bar).await?;
            part.finish(target)?;
        }
    }
    bar.finish_and_clear();
    Ok((bar.position(), missing))
}

/// The path of the state of a download under way.
fn state_path(target: &Path) -> PathBuf {
    beside(target, ".part.json")
}

/// The selection of an earlier run, if that requested the same, has written some of it, and its
/// selection has not ended.
async fn resumable(client: &Client, form: &str, target: &Path) -> Option<Selection> {
    let State { form: begun_with, selection } = serde_json::from_slice(&fs::read(state_path(target)).ok()?).ok()?;
    let begun_bytes = Part::begun_bytes(target)?;
    if begun_with != form || begun_bytes == 0 || begun_bytes > selection.len_bytes {
        return None;
    }
    match client.ask(&selection.address, Request::builder().method(Method::HEAD), client::empty()).await {
        Ok(head) => selection.is_in(head.headers()).then_some(selection),
        Err(ClientError::Refused { status: StatusCode::NOT_FOUND | StatusCode::GONE, .. }) => None,
        // Out of reach for now: downloaded bytes are kept.
        Err(_) => Some(selection),
    }
}

/// The pause after a number of failures without progress. The last one asked for at least `least`.
fn pause_after(failures: u32, least: Duration) -> Duration {
    let pause = FIRST_PAUSE * 2u32.saturating_pow(failures - 1);
    pause.max(least).min(PAUSE_MAX)
}

/// Fetches the missing bytes. `tries` is the number of tries without a single byte of progress.
async fn fetch(client: &Client, selection: &Selection, sink: &mut impl Sink, tries: u32) -> anyhow::Result<()> {
    let bar = progress::bytes(Some(selection.len_bytes)).with_position(sink.len_bytes());
    let mut failures = 0;
    while sink.len_bytes() < selection.len_bytes {
        let before = sink.len_bytes();
        let error = match attempt(client, selection, sink, &bar).await {
            Ok(()) => continue,
            Err(error) => error,
        };
        let passing_after = error.downcast_ref().and_then(ClientError::passing_after);
        failures = if sink.len_bytes() > before { 1 } else { failures + 1 };
        let Some(least) = passing_after.filter(|_| failures < tries) else {
            bar.abandon();
            return Err(error);
        };
        bar.suspend(|| eprintln!("Broken at byte {}: {}. Trying again.", sink.len_bytes(), told(error.as_ref())));
        tokio::time::sleep(pause_after(failures, least)).await;
    }
    bar.finish_and_clear();
    Ok(())
}

async fn attempt(
    client: &Client,
    selection: &Selection,
    sink: &mut impl Sink,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let from = sink.len_bytes();
    let response = selection.get_from(client, from).await?;
    let expected = if from > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    if response.status() != expected || !selection.is_in(response.headers()) {
        bail!("the server answered {} with other bytes than those begun with", response.status());
    }
    copy(response, sink, bar).await?;
    if sink.len_bytes() != selection.len_bytes {
        return Err(ClientError::Broken("it was shorter than promised".into()).into());
    }
    Ok(())
}

/// Copies the body of a response. Bytes that arrived before an error are kept.
async fn copy(response: Response<Body>, sink: &mut impl Sink, bar: &ProgressBar) -> anyhow::Result<()> {
    let mut pieces = response.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| ClientError::Broken(error.into()))?;
        sink.append(&piece)?;
        bar.inc(piece.len() as u64);
    }
    Ok(())
}
