//! Downloads that resume.
//!
//! A request becomes a *selection*: an address whose bytes never change. It is read with `Range`
//! and `If-Range`. If the connection breaks, the rest is requested. For a file `F`, the bytes are
//! written to `F.part` first and the selection's address to `F.part.json`, so that the same command
//! resumes where an earlier run ended. A file that no such run began is never replaced unless that is
//! asked for. Two runs never write to one part: it is locked.
//!
//! Into a folder the ZIP is downloaded beside its files, and unpacked when it is complete.
//!
//! A store that is read-only makes no new selections, because they are stored. It still sends the
//! same archives, but a download that begins then cannot be resumed.

mod patience;
mod sink;
mod unpack;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use futures::StreamExt;
use hathi::VolumeId;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::client::{self, Body, Client, ClientError};
use crate::exit::{CliError, full_message};
use crate::progress;
use crate::wanted::WhereArgs;
use patience::pause_after;
use sink::{Part, Sink, beside, exists};

pub use patience::{Patience, PatienceArgs, parse_duration};
pub use sink::Pipe;
pub use unpack::Unpacked;

/// The name of a ZIP that is to be unpacked, in its folder.
const TO_UNPACK: &str = ".penates-get.zip";

/// What to download.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// The ZIP that a form selects.
    Zip {
        /// The route that sends it without a selection.
        route: &'static str,
        /// The form.
        form: String,
    },
    /// The ZIP of the volumes that satisfy conditions when it is begun. A later command with the
    /// same conditions goes on, whatever was imported since.
    Found {
        /// The conditions.
        which: WhereArgs,
        /// The rest of the form.
        rest: String,
    },
    /// The text of a volume.
    Text(VolumeId),
}

impl Wanted {
    fn key(&self) -> String {
        match self {
            Self::Zip { form, .. } => form.clone(),
            Self::Found { which, rest } => {
                format!("where={}&{rest}", client::query_value(which.text().unwrap_or_default()))
            }
            Self::Text(id) => format!("text={id}"),
        }
    }

    /// Begins it, and retries on a busy server.
    async fn begin(&self, client: &Client, patience: Patience) -> anyhow::Result<Selection> {
        match self {
            Self::Zip { route, form } => Selection::create(client, route, form, patience).await,
            Self::Found { which, rest } => {
                let ids = which.volumes(client, patience).await?;
                let form = format!("volumeIDs={}&{rest}", client::query_value(&joined(&ids)));
                Selection::create(client, "/volumes", &form, patience).await
            }
            Self::Text(id) => Selection::of_text(client, id, patience).await,
        }
    }
}

/// Ids as the value of a parameter.
pub fn joined(ids: &[VolumeId]) -> String {
    ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join("|")
}

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
    /// Whether it is there without this command, and is not to be deleted.
    #[serde(default)]
    lasts: bool,
}

/// The store is read-only, so the server makes no selection.
#[derive(Debug, thiserror::Error)]
#[error("the store is read-only")]
struct Unselected {
    /// The route that sends the same archive without a selection.
    route: &'static str,
    /// The form for it.
    form: String,
}

/// The stored state of a download under way.
#[derive(Serialize, Deserialize)]
struct State {
    /// The form that was sent, to recognise a later command for the same.
    form: String,
    selection: Selection,
}

impl State {
    /// The state of a download that cannot be resumed: its part is known as one of this command's.
    fn of_no_selection() -> Self {
        let selection =
            Selection { address: String::new(), etag: String::new(), len_bytes: 0, missing: 0, lasts: true };
        Self { form: String::new(), selection }
    }

    /// Empties the part and then stores the state beside it, so that it is never beside bytes of
    /// another download.
    fn begin(&self, target: &Path, part: &mut Part) -> anyhow::Result<()> {
        part.empty()?;
        let json = serde_json::to_vec(self).context("encoding the state of the download")?;
        let path = state_path(target);
        fs::write(&path, json).with_context(|| format!("writing {}", path.display()))
    }
}

impl Selection {
    /// The text of a volume, which needs no selection.
    async fn of_text(client: &Client, id: &VolumeId, patience: Patience) -> anyhow::Result<Self> {
        let address = format!("/volumes/{}/text", client::segment(id));
        let head = || Request::builder().method(Method::HEAD);
        let asked = patience.retried(|| patience.with(client.ask(&address, head(), client::empty()))).await;
        let head = match asked {
            Ok(head) => head,
            // A response to HEAD says no reason.
            Err(error @ ClientError::Refused { .. }) if error.passing_after().is_none() => {
                patience.with(client.get(&address, "text/plain")).await?;
                bail!("the server answers HEAD and GET of {address} differently");
            }
            Err(error) => return Err(error.into()),
        };
        let (etag, len_bytes) = (text(head.headers(), ETAG.as_str()), number(head.headers(), CONTENT_LENGTH.as_str()));
        let (Some(etag), Some(len_bytes)) = (etag, len_bytes) else {
            bail!("the server states no length of {address}")
        };
        Ok(Self { address, etag, len_bytes, missing: 0, lasts: true })
    }

    /// Creates a selection for `form`, and retries on a busy server. While it plans, the server is
    /// silent for as long as that takes; if its machine is gone, the connection breaks. If the
    /// store is read-only, the error is [`Unselected`]; `route` sends the archive then.
    async fn create(client: &Client, route: &'static str, form: &str, patience: Patience) -> anyhow::Result<Self> {
        let post = || client.post_form("/selections", form.to_owned(), "application/json");
        let response = patience.retried(post).await.map_err(|error| match error.is_read_only() {
            true => anyhow::Error::new(Unselected { route, form: form.to_owned() }),
            false => error.into(),
        })?;
        let created: Self = client::json(response).await?;
        Ok(Self { address: client.relative(&created.address).to_owned(), ..created })
    }

    /// Deletes it on the server. A failure does no harm: it ends by itself.
    async fn discard(&self, client: &Client) {
        if self.lasts {
            return;
        }
        let _ = client.ask(&self.address, Request::builder().method(Method::DELETE), client::empty()).await;
    }

    /// Whether these are the headers of a response with its bytes.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        text(headers, ETAG.as_str()).is_some_and(|etag| etag == self.etag)
    }

    async fn get_from(&self, client: &Client, from: u64, patience: Patience) -> Result<Response<Body>, ClientError> {
        let mut request = Request::builder().method(Method::GET);
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-")).header(IF_RANGE, &self.etag);
        }
        patience.with(client.ask(&self.address, request, client::empty())).await
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
    File {
        /// Its path.
        path: &'a Path,
        /// Whether it replaces a file.
        replaces: bool,
    },
    /// Unpacked into a folder.
    Folder(&'a Path),
}

impl<'a> Destination<'a> {
    /// The sink for `path`; `-` is standard output. A folder is a usage error, and so is a file that
    /// it would replace.
    pub fn at(path: &'a Path, replaces: bool) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Pipe(Pipe::stdout()?));
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                Err(CliError::Usage(format!("-o {}: this is a folder", path.display())).into())
            }
            Ok(found) if !found.is_file() => Ok(Self::Pipe(Pipe::open(path)?)),
            Ok(_) if !replaces => Err(exists(path)),
            _ => {
                if !replaces && is_foreign_part(path) {
                    return Err(exists(&beside(path, ".part")));
                }
                Ok(Self::File { path, replaces })
            }
        }
    }

    /// A folder, which is made if it is not there.
    pub fn folder(path: &'a Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let zip = path.join(TO_UNPACK);
        match is_foreign_part(&zip) {
            true => {
                let part = beside(&zip, ".part");
                Err(CliError::Usage(format!("{} is of no earlier run: remove it first", part.display())).into())
            }
            false => Ok(Self::Folder(path)),
        }
    }
}

/// Whether there is a part without the state of a download: something else began it. A run that was
/// killed before it stored the state leaves an empty part.
fn is_foreign_part(target: &Path) -> bool {
    Part::begun_bytes(target).is_some_and(|bytes| bytes > 0) && !state_path(target).exists()
}

/// The result of a download.
#[derive(Debug)]
pub struct Downloaded {
    /// How many bytes arrived, in this run or before.
    pub len_bytes: u64,
    /// How many requested members are missing.
    pub missing: u64,
    /// What was unpacked, if it was.
    pub unpacked: Option<Unpacked>,
}

/// Downloads something, resuming after errors. If the store is read-only, a download that begins
/// cannot be resumed.
pub async fn resumed(
    client: &Client,
    wanted: &Wanted,
    mut target: Destination<'_>,
    patience: Patience,
) -> anyhow::Result<Downloaded> {
    let Unselected { route, form } = match selected(client, wanted, &mut target, patience).await {
        Err(error) => error.downcast::<Unselected>()?,
        downloaded => return downloaded,
    };
    note!("The store is read-only: this download cannot be resumed.");
    unresumable(client, route, &form, target, patience).await
}

/// Downloads something by a selection, resuming after errors.
async fn selected(
    client: &Client,
    wanted: &Wanted,
    target: &mut Destination<'_>,
    patience: Patience,
) -> anyhow::Result<Downloaded> {
    match target {
        Destination::Pipe(pipe) => {
            let selection = to_pipe(client, wanted, pipe, patience).await?;
            Ok(Downloaded { len_bytes: selection.len_bytes, missing: selection.missing, unpacked: None })
        }
        Destination::File { path, replaces } => {
            let (path, replaces) = (*path, *replaces);
            let (selection, part) = to_part(client, wanted, path, patience).await?;
            part.finish(path, replaces)?;
            forget(path)?;
            selection.discard(client).await;
            Ok(Downloaded { len_bytes: selection.len_bytes, missing: selection.missing, unpacked: None })
        }
        Destination::Folder(folder) => into_folder(client, wanted, folder, patience).await,
    }
}

/// Downloads a ZIP into a folder and unpacks it there.
async fn into_folder(
    client: &Client,
    wanted: &Wanted,
    folder: &Path,
    patience: Patience,
) -> anyhow::Result<Downloaded> {
    let (selection, part) = to_part(client, wanted, &folder.join(TO_UNPACK), patience).await?;
    let unpacked = unpack_part(&part, folder).await?;
    selection.discard(client).await;
    let (len_bytes, missing) = (selection.len_bytes, selection.missing);
    Ok(Downloaded { len_bytes, missing, unpacked: Some(unpacked) })
}

/// Unpacks the complete ZIP of a folder. It stays until all of it is unpacked.
async fn unpack_part(part: &Part, folder: &Path) -> anyhow::Result<Unpacked> {
    let zip = part.durable()?;
    let (from, to) = (zip.to_owned(), folder.to_owned());
    let unpacked = tokio::task::spawn_blocking(move || unpack::unpack(&from, &to)).await.context("unpacking")??;
    fs::remove_file(zip).with_context(|| format!("removing {}", zip.display()))?;
    forget(&folder.join(TO_UNPACK))?;
    Ok(unpacked)
}

async fn to_pipe(client: &Client, wanted: &Wanted, pipe: &mut Pipe, patience: Patience) -> anyhow::Result<Selection> {
    let selection = wanted.begin(client, patience).await?;
    let fetched = fetch(client, &selection, pipe, patience).await;
    selection.discard(client).await;
    fetched.map(|()| selection)
}

/// Downloads all of it beside the target. Resumes where an earlier run ended.
async fn to_part(
    client: &Client,
    wanted: &Wanted,
    target: &Path,
    patience: Patience,
) -> anyhow::Result<(Selection, Part)> {
    let mut part = Part::of(target)?;
    let mut selection = match resumable(client, &wanted.key(), target, part.len_bytes(), patience).await {
        Some(selection) => {
            note!("Resuming {} after {} of {} bytes.", target.display(), part.len_bytes(), selection.len_bytes);
            selection
        }
        None => match begin(client, wanted, target, &mut part, patience).await {
            Ok(selection) => selection,
            Err(error) => {
                part.remove_if_empty();
                return Err(error);
            }
        },
    };
    while let Err(error) = fetch(client, &selection, &mut part, patience).await {
        let unfinished = || format!("{} is incomplete: give the same command again to continue", target.display());
        if !matches!(error.downcast_ref(), Some(ClientError::Broken(_))) {
            return Err(error.context(unfinished()));
        }
        // It always ends at the same place: there is damage, and a new selection leaves it out.
        let Ok(found) = wanted.begin(client, patience).await else { return Err(error.context(unfinished())) };
        found.discard(client).await;
        if found.etag == selection.etag {
            return Err(error.context(unfinished()));
        }
        note!("The selection contains damage: starting again without it.");
        selection.discard(client).await;
        selection = begin(client, wanted, target, &mut part, patience).await?;
    }
    Ok((selection, part))
}

/// Creates a selection and begins to download it.
async fn begin(
    client: &Client,
    wanted: &Wanted,
    target: &Path,
    part: &mut Part,
    patience: Patience,
) -> anyhow::Result<Selection> {
    let state = State { form: wanted.key(), selection: wanted.begin(client, patience).await? };
    match state.begin(target, part) {
        Ok(()) => Ok(state.selection),
        Err(error) => {
            state.selection.discard(client).await;
            Err(error)
        }
    }
}

/// Downloads an archive that cannot be resumed: after an error it starts again.
pub async fn unresumable(
    client: &Client,
    route: &str,
    form: &str,
    target: Destination<'_>,
    patience: Patience,
) -> anyhow::Result<Downloaded> {
    let post = || client.post_form(route, form.to_owned(), "application/zip");
    let response = patience.retried(post).await?;
    let missing = number(response.headers(), "penates-missing").unwrap_or(0);
    let bar = progress::bytes(number(response.headers(), CONTENT_LENGTH.as_str()));
    let mut unpacked = None;
    match target {
        Destination::Pipe(mut pipe) => copy(response, &mut pipe, u64::MAX, &bar, patience).await?,
        Destination::File { path, replaces } => {
            let part = to_new_part(response, path, &bar, patience).await?;
            part.finish(path, replaces)?;
            forget(path)?;
        }
        Destination::Folder(folder) => {
            let part = to_new_part(response, &folder.join(TO_UNPACK), &bar, patience).await?;
            unpacked = Some(unpack_part(&part, folder).await?);
        }
    }
    bar.finish_and_clear();
    Ok(Downloaded { len_bytes: bar.position(), missing, unpacked })
}

/// Copies all of a response beside the target, instead of what is there.
async fn to_new_part(
    response: Response<Body>,
    target: &Path,
    bar: &ProgressBar,
    patience: Patience,
) -> anyhow::Result<Part> {
    let mut part = Part::of(target)?;
    State::of_no_selection().begin(target, &mut part)?;
    copy(response, &mut part, u64::MAX, bar, patience).await?;
    Ok(part)
}

/// Removes the state of a finished download. Another run, which began when the part had its final
/// name, may have removed it with its own.
fn forget(target: &Path) -> anyhow::Result<()> {
    let state = state_path(target);
    match fs::remove_file(&state) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", state.display()))
        }
        _ => Ok(()),
    }
}

/// The path of the state of a download under way.
fn state_path(target: &Path) -> PathBuf {
    beside(target, ".part.json")
}

/// The selection of an earlier run, if that requested the same, has written some of it, and its
/// selection has not ended.
async fn resumable(
    client: &Client,
    key: &str,
    target: &Path,
    begun_bytes: u64,
    patience: Patience,
) -> Option<Selection> {
    let State { form: begun_with, selection } = serde_json::from_slice(&fs::read(state_path(target)).ok()?).ok()?;
    if begun_with != key || begun_bytes == 0 || begun_bytes > selection.len_bytes {
        return None;
    }
    let head = Request::builder().method(Method::HEAD);
    match patience.with(client.ask(&selection.address, head, client::empty())).await {
        Ok(head) => selection.is_in(head.headers()).then_some(selection),
        Err(ClientError::Refused { status: StatusCode::NOT_FOUND | StatusCode::GONE, .. }) => None,
        // Out of reach for now: downloaded bytes are kept.
        Err(_) => Some(selection),
    }
}

/// Fetches the missing bytes. `tries` is the number of tries without a single byte of progress.
async fn fetch(client: &Client, selection: &Selection, sink: &mut impl Sink, patience: Patience) -> anyhow::Result<()> {
    let tries = patience.tries;
    let bar = progress::bytes(Some(selection.len_bytes)).with_position(sink.len_bytes());
    let mut failures = 0;
    while sink.len_bytes() < selection.len_bytes {
        let before = sink.len_bytes();
        let error = match attempt(client, selection, sink, &bar, patience).await {
            Ok(()) => continue,
            Err(error) => error,
        };
        let passing_after = error.downcast_ref().and_then(ClientError::passing_after);
        failures = if sink.len_bytes() > before { 1 } else { failures + 1 };
        let Some(least) = passing_after.filter(|_| failures < tries) else {
            bar.abandon();
            return Err(error);
        };
        bar.suspend(|| note!("Broken at byte {}: {}. Trying again.", sink.len_bytes(), full_message(error.as_ref())));
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
    patience: Patience,
) -> anyhow::Result<()> {
    let from = sink.len_bytes();
    let response = selection.get_from(client, from, patience).await?;
    let expected = if from > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    if response.status() != expected || !selection.is_in(response.headers()) {
        bail!("the server answered {} with other bytes than those begun with", response.status());
    }
    if from > 0 && part_in(response.headers()) != Some((from, selection.len_bytes)) {
        let said = text(response.headers(), CONTENT_RANGE.as_str()).unwrap_or_default();
        bail!("the server answered with another part than bytes {from} to {}: `{said}`", selection.len_bytes);
    }
    copy(response, sink, selection.len_bytes, bar, patience).await?;
    if sink.len_bytes() < selection.len_bytes {
        return Err(ClientError::Broken("it was shorter than promised".into()).into());
    }
    Ok(())
}

/// Where the bytes of a response begin, and the length of the whole (RFC 9110, section 14.4).
fn part_in(headers: &HeaderMap) -> Option<(u64, u64)> {
    let said = text(headers, CONTENT_RANGE.as_str())?;
    let (range, len_bytes) = said.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.parse().ok()?, len_bytes.parse().ok()?))
}

/// Copies the body of a response. It is an error if the sink would get more than `len_bytes_max`.
/// Bytes that arrived before an error are kept.
async fn copy(
    response: Response<Body>,
    sink: &mut impl Sink,
    len_bytes_max: u64,
    bar: &ProgressBar,
    patience: Patience,
) -> anyhow::Result<()> {
    let mut pieces = response.into_body().into_data_stream();
    loop {
        let next = async { pieces.next().await.transpose().map_err(|error| ClientError::Broken(error.into())) };
        let Some(piece) = patience.with(next).await? else { return Ok(()) };
        if piece.len() as u64 > len_bytes_max - sink.len_bytes() {
            bail!("the server sent more than the {len_bytes_max} bytes that it promised");
        }
        sink.append(&piece)?;
        bar.inc(piece.len() as u64);
    }
}
