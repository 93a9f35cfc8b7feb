//! Downloads that resume.
//!
//! What is asked for becomes a *selection*: an address whose bytes never change. It is read with `Range` and `If-Range`; where
//! the connection breaks, the rest is asked for. Into a file `F`, the bytes go to `F.part` first and the selection's address
//! to `F.part.json`, so that the same command, given again, goes on where an earlier run ended.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures::StreamExt;
use http::header::{CONTENT_LENGTH, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::client::{self, Body, Client, ClientError};
use crate::exit::{CliError, told};
use crate::progress;

/// The first pause before another try; each further one without progress is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A selection: what is being downloaded, as the server tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Its path.
    address: String,
    /// The strong validator of its bytes.
    etag: String,
    /// How many bytes it has.
    pub len_bytes: u64,
    /// How much of what was asked for is missing or damaged.
    pub missing: u64,
}

/// What is kept of a download that is under way.
#[derive(Serialize, Deserialize)]
struct State {
    /// The form that was sent: whether a later command asks for the same.
    form: String,
    selection: Selection,
}

impl Selection {
    /// Makes a selection of what `form` asks for.
    async fn create(client: &Client, form: &str) -> anyhow::Result<Self> {
        let created = client.post_form("/selections", form.to_owned(), "application/json").await?;
        let told: Self = client::json(created).await?;
        Ok(Self { address: client.relative(&told.address).to_owned(), ..told })
    }

    /// Lets the server forget it. That this fails does no harm: it ends by itself.
    async fn discard(&self, client: &Client) {
        let _ = client.ask(&self.address, Request::builder().method(Method::DELETE), client::empty()).await;
    }

    /// Whether these are the headers of an answer with its bytes.
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

/// Where the bytes go. It knows how many it has.
trait Sink {
    /// How many bytes it has.
    fn len_bytes(&self) -> u64;
    /// Appends.
    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
}

/// Standard output.
struct Stdout {
    written: u64,
}

impl Sink for Stdout {
    fn len_bytes(&self) -> u64 {
        self.written
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        std::io::stdout().write_all(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => CliError::OutputClosed.into(),
            _ => anyhow!(error).context("writing standard output"),
        })?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// A file that is not whole yet, beside the one that it will be.
struct Part {
    file: File,
    path: PathBuf,
    len_bytes: u64,
}

impl Part {
    /// Opens it, to go on or anew.
    fn open(path: PathBuf, anew: bool) -> anyhow::Result<Self> {
        let opening = || format!("opening {}", path.display());
        let mut file = File::options().create(true).write(true).truncate(anew).open(&path).with_context(opening)?;
        let len_bytes = file.seek(SeekFrom::End(0)).with_context(opening)?;
        Ok(Self { file, path, len_bytes })
    }

    /// Makes it durable under its final name.
    fn finish(self, target: &Path) -> anyhow::Result<()> {
        self.file.sync_all().with_context(|| format!("writing {}", self.path.display()))?;
        fs::rename(&self.path, target)
            .with_context(|| format!("renaming {} to {}", self.path.display(), target.display()))
    }
}

impl Sink for Part {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| format!("writing {}", self.path.display()))?;
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Downloads what `form` selects to standard output, and answers with what it was.
pub async fn to_stdout(client: &Client, form: &str, tries: u32) -> anyhow::Result<Selection> {
    let selection = Selection::create(client, form).await?;
    let fetched = fetch(client, &selection, &mut Stdout { written: 0 }, tries).await;
    selection.discard(client).await;
    fetched.map(|()| selection)
}

/// Downloads what `form` selects to a file, going on where an earlier run ended.
pub async fn to_file(client: &Client, form: &str, target: &Path, tries: u32) -> anyhow::Result<Selection> {
    let part_path = beside(target, ".part");
    let state_path = beside(target, ".part.json");
    let (selection, mut part) = match resumable(client, form, &part_path, &state_path).await {
        Some(selection) => {
            let part = Part::open(part_path, false)?;
            eprintln!("Going on with {} after {} of {} bytes.", target.display(), part.len_bytes, selection.len_bytes);
            (selection, part)
        }
        None => {
            let state = State { form: form.to_owned(), selection: Selection::create(client, form).await? };
            // The part is emptied first: a state never stands beside bytes of another download.
            let part = Part::open(part_path, true)?;
            let json = serde_json::to_vec(&state).context("encoding the state of the download")?;
            fs::write(&state_path, json).with_context(|| format!("writing {}", state_path.display()))?;
            (state.selection, part)
        }
    };
    let fetched = fetch(client, &selection, &mut part, tries).await;
    fetched
        .with_context(|| format!("{} is not whole yet: the same command, given again, goes on", target.display()))?;
    part.finish(target)?;
    fs::remove_file(&state_path).with_context(|| format!("removing {}", state_path.display()))?;
    selection.discard(client).await;
    Ok(selection)
}

/// Downloads an archive that has no length and cannot be resumed: what is broken begins anew. Answers with how many bytes came,
/// and how much of what was wanted is missing.
pub async fn unresumable(
    client: &Client,
    route: &str,
    form: &str,
    target: Option<&Path>,
) -> anyhow::Result<(u64, u64)> {
    let response = client.post_form(route, form.to_owned(), "application/zip").await?;
    let missing = number(response.headers(), "penates-missing").unwrap_or(0);
    let bar = progress::bytes(number(response.headers(), CONTENT_LENGTH.as_str()));
    match target {
        None => copy(response, &mut Stdout { written: 0 }, &bar).await?,
        Some(target) => {
            let mut part = Part::open(beside(target, ".part"), true)?;
            copy(response, &mut part, &bar).await?;
            part.finish(target)?;
        }
    }
    bar.finish_and_clear();
    Ok((bar.position(), missing))
}

fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// What an earlier run left, if it asked for the same, has written some of it, and its selection has not ended.
async fn resumable(client: &Client, form: &str, part: &Path, state: &Path) -> Option<Selection> {
    let State { form: begun_with, selection } = serde_json::from_slice(&fs::read(state).ok()?).ok()?;
    let begun_bytes = fs::metadata(part).ok()?.len();
    if begun_with != form || begun_bytes == 0 || begun_bytes > selection.len_bytes {
        return None;
    }
    match client.ask(&selection.address, Request::builder().method(Method::HEAD), client::empty()).await {
        Ok(head) => selection.is_in(head.headers()).then_some(selection),
        Err(ClientError::Refused { status: StatusCode::NOT_FOUND | StatusCode::GONE, .. }) => None,
        // Out of reach for now: nothing that is there already is given up.
        Err(_) => Some(selection),
    }
}

/// Fetches what is not there yet. `tries` is how often it is tried without getting a single byte further.
async fn fetch(client: &Client, selection: &Selection, sink: &mut impl Sink, tries: u32) -> anyhow::Result<()> {
    let bar = progress::bytes(Some(selection.len_bytes)).with_position(sink.len_bytes());
    let mut failures = 0;
    while sink.len_bytes() < selection.len_bytes {
        let before = sink.len_bytes();
        let error = match attempt(client, selection, sink, &bar).await {
            Ok(()) => continue,
            Err(error) => error,
        };
        let passing = error.downcast_ref::<ClientError>().is_some_and(ClientError::is_passing);
        failures = if sink.len_bytes() > before { 1 } else { failures + 1 };
        if !passing || failures >= tries {
            bar.abandon();
            return Err(error);
        }
        bar.suspend(|| eprintln!("Broken at byte {}: {}. Trying again.", sink.len_bytes(), told(error.as_ref())));
        tokio::time::sleep((FIRST_PAUSE * 2u32.saturating_pow(failures - 1)).min(PAUSE_MAX)).await;
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

/// Copies an answer's body; what arrived before it broke is kept.
async fn copy(response: Response<Body>, sink: &mut impl Sink, bar: &ProgressBar) -> anyhow::Result<()> {
    let mut pieces = response.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(ClientError::Broken)?;
        sink.append(&piece)?;
        bar.inc(piece.len() as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_lies_beside_the_target() {
        assert_eq!(beside(Path::new("a/b.zip"), ".part"), Path::new("a/b.zip.part"));
    }
}
