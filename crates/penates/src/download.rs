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
use http::header::{CONTENT_LENGTH, ETAG, IF_RANGE, LOCATION, RANGE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::client::{self, Body, Client, ClientError};
use crate::exit::CliError;
use crate::progress;

/// The first pause before another try; each further one without progress is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A selection: what is being downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// The form that was sent: whether a later command asks for the same.
    pub form: String,
    /// The selection's path.
    pub path: String,
    /// The strong validator of its bytes.
    pub etag: String,
    /// How many bytes it has.
    pub len_bytes: u64,
    /// How many entries.
    pub entries: u64,
    /// How much of what was asked for is missing or damaged.
    pub missing: u64,
}

impl Selected {
    /// Makes a selection of what `form` asks for.
    pub async fn create(client: &Client, form: &str) -> anyhow::Result<Self> {
        let created = client.post_form("/selections", form.to_owned(), "application/json").await?;
        let location = text(created.headers(), LOCATION.as_str()).context("the server named no selection")?;
        let path = path_of(&location)?;
        let head = client.ask(&path, Request::head(""), client::empty()).await?;
        let headers = head.headers();
        Ok(Self {
            form: form.to_owned(),
            path,
            etag: text(headers, ETAG.as_str()).context("the selection has no ETag")?,
            len_bytes: number(headers, CONTENT_LENGTH.as_str()).context("the selection has no length")?,
            entries: number(headers, "penates-entries").unwrap_or(0),
            missing: number(headers, "penates-missing").unwrap_or(0),
        })
    }

    /// Lets the server forget it. That this fails does no harm: it ends by itself.
    async fn discard(&self, client: &Client) {
        let _ = client.ask(&self.path, Request::builder().method(Method::DELETE), client::empty()).await;
    }

    async fn get_from(&self, client: &Client, from: u64) -> Result<Response<Body>, ClientError> {
        let mut request = Request::get("");
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-")).header(IF_RANGE, &self.etag);
        }
        client.ask(&self.path, request, client::empty()).await
    }
}

/// The path of an address, whether it came with a server's name or without.
fn path_of(location: &str) -> anyhow::Result<String> {
    let uri: http::Uri = location.parse().with_context(|| format!("the server named a selection `{location}`"))?;
    Ok(uri.path().to_owned())
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
pub async fn to_stdout(client: &Client, form: &str, tries: u32) -> anyhow::Result<Selected> {
    let selected = Selected::create(client, form).await?;
    let outcome = fetch(client, &selected, &mut Stdout { written: 0 }, tries).await;
    selected.discard(client).await;
    outcome?;
    Ok(selected)
}

/// Downloads what `form` selects to a file, going on where an earlier run ended.
pub async fn to_file(client: &Client, form: &str, target: &Path, tries: u32) -> anyhow::Result<Selected> {
    let part_path = beside(target, ".part");
    let state_path = beside(target, ".part.json");
    let mut selected = resumable(client, form, &part_path, &state_path).await;
    if let Some(selected) = &selected {
        eprintln!(
            "Going on with {}, of which {} bytes are there.",
            target.display(),
            file_len(&part_path).min(selected.len_bytes)
        );
    }
    let anew = selected.is_none();
    let selected = match selected.take() {
        Some(selected) => selected,
        None => Selected::create(client, form).await?,
    };
    let mut part = Part::open(part_path, anew)?;
    let state = serde_json::to_vec(&selected).context("encoding the state of the download")?;
    fs::write(&state_path, state).with_context(|| format!("writing {}", state_path.display()))?;
    fetch(client, &selected, &mut part, tries)
        .await
        .with_context(|| format!("{} is not whole yet: the same command, given again, goes on", target.display()))?;
    part.finish(target)?;
    fs::remove_file(&state_path).with_context(|| format!("removing {}", state_path.display()))?;
    selected.discard(client).await;
    Ok(selected)
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

fn file_len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// What an earlier run left, if it asked for the same, has written some of it, and its selection has not ended.
async fn resumable(client: &Client, form: &str, part: &Path, state: &Path) -> Option<Selected> {
    let selected: Selected = serde_json::from_slice(&fs::read(state).ok()?).ok()?;
    if selected.form != form || file_len(part) == 0 || file_len(part) > selected.len_bytes {
        return None;
    }
    match client.ask(&selected.path, Request::head(""), client::empty()).await {
        Ok(head) if text(head.headers(), ETAG.as_str()).as_ref() != Some(&selected.etag) => None,
        Err(ClientError::Refused { status: StatusCode::NOT_FOUND | StatusCode::GONE, .. }) => None,
        _ => Some(selected),
    }
}

/// Fetches what is not there yet. `tries` is how often it is tried without getting a single byte further.
async fn fetch(client: &Client, selected: &Selected, sink: &mut impl Sink, tries: u32) -> anyhow::Result<()> {
    let bar = progress::bytes(Some(selected.len_bytes)).with_position(sink.len_bytes());
    let mut failures = 0;
    while sink.len_bytes() < selected.len_bytes {
        let before = sink.len_bytes();
        let error = match attempt(client, selected, sink, &bar).await {
            Ok(()) => continue,
            Err(error) => error,
        };
        let passing = error.downcast_ref::<ClientError>().is_some_and(ClientError::is_passing);
        failures = if sink.len_bytes() > before { 1 } else { failures + 1 };
        if !passing || failures >= tries {
            bar.abandon();
            return Err(error);
        }
        bar.suspend(|| eprintln!("Broken at byte {}: {error}. Trying again.", sink.len_bytes()));
        tokio::time::sleep((FIRST_PAUSE * 2u32.saturating_pow(failures - 1)).min(PAUSE_MAX)).await;
    }
    bar.finish_and_clear();
    Ok(())
}

async fn attempt(client: &Client, selected: &Selected, sink: &mut impl Sink, bar: &ProgressBar) -> anyhow::Result<()> {
    let from = sink.len_bytes();
    let response = selected.get_from(client, from).await?;
    let expected = if from > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    if response.status() != expected || text(response.headers(), ETAG.as_str()).as_ref() != Some(&selected.etag) {
        bail!("the server answered {} with other bytes than those begun with", response.status());
    }
    copy(response, sink, bar).await?;
    if sink.len_bytes() != selected.len_bytes {
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_address_of_a_selection_may_name_the_server_or_not() {
        assert_eq!(path_of("/selections/7").unwrap(), "/selections/7");
        assert_eq!(path_of("http://127.0.0.1:8080/selections/7").unwrap(), "/selections/7");
    }

    #[test]
    fn what_is_not_whole_lies_beside_the_target() {
        assert_eq!(beside(Path::new("a/b.zip"), ".part"), Path::new("a/b.zip.part"));
    }
}
