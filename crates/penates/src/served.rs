//! A store that a server holds, read through its socket or over a network.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use budget::Pace;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use store::wire::{self, Answer, Question};
use store::{
    Call, Capabilities, ContentHeader, ContentId, ContentStream, FormatLevel, Health, Outcome, Row, Rows, Scan, Step,
    Store, StoreError, StoreResult, Table, WalkPage,
};

use crate::client::{self, Client, ClientError};
use crate::exit::CliError;

/// Reads a store that a server holds. It writes nothing: changes go through the server's doors.
pub struct ServedStore {
    client: Client,
    /// The level of the store when it was opened here.
    level: FormatLevel,
    pace: Arc<Pace>,
}

impl ServedStore {
    /// The store of the server that `client` reaches, by its socket or with a token that may copy
    /// it. At most so many bytes per second are read; 0: no limit.
    pub async fn open(client: Client, bytes_per_second: u64) -> anyhow::Result<Self> {
        let description: Result<_, ClientError> = client.get_json(wire::PATH).await;
        let wire::Description { wire, level } = match description {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
                let name = "let the server's `auth.copy` name the token";
                return Err(CliError::Usage(format!("the server lets nobody copy its store: {name}")).into());
            }
            description => description?,
        };
        if wire != wire::VERSION {
            let versions = format!("it speaks version {wire} of reading a store, and this program {}", wire::VERSION);
            return Err(CliError::Unreachable(format!("the server has another version of Penates: {versions}")).into());
        }
        let Some(level) = FormatLevel::of_number(level) else {
            let newer = format!("the store has level {level}, and this program knows {}", FormatLevel::NEWEST);
            return Err(CliError::Unreachable(format!("{newer}: install a newer version of Penates here")).into());
        };
        Ok(Self { client, level, pace: Arc::new(Pace::new(bytes_per_second)) })
    }

    async fn ask(&self, call: Call, question: Question) -> StoreResult<Answer> {
        let asked = ask(&self.client, wire::encode(&question)?);
        let answer = tokio::time::timeout_at(call.deadline.0, asked).await;
        let (level, answer) = answer.map_err(|_| StoreError::DeadlinePassed)?.map_err(of_client)?;
        if level.is_some_and(|level| level != self.level.number()) {
            // Its reader opens it again, and compares the level.
            return Err(StoreError::Unavailable("the store has been upgraded meanwhile".to_owned()));
        }
        self.pace.took(answer.len() as u64).await;
        wire::decode_answer(&answer)
    }
}

/// Asks a question. Returns the level of the store, if the server says it, and the answer.
fn ask(client: &Client, question: Bytes) -> BoxFuture<'static, Result<(Option<u32>, Bytes), ClientError>> {
    let request = Request::builder().method(Method::POST);
    let asked = client.send(wire::PATH, request, client::full(question));
    let answered = async move {
        let response = asked.await?;
        if !response.status().is_success() {
            return Err(ClientError::of_response(response).await);
        }
        let level = response.headers().get(wire::LEVEL).and_then(|level| level.to_str().ok()?.parse().ok());
        Ok((level, client::whole(response).await?))
    };
    answered.boxed()
}

/// A content's bytes; `None`: there is no such content.
fn content(
    client: &Client,
    pace: Arc<Pace>,
    id: ContentId,
    range: Range<u64>,
) -> BoxFuture<'static, StoreResult<Option<ContentStream>>> {
    let path = wire::CONTENT_PATH.replace("{id}", &id.to_string());
    let path = format!("{path}?from={}&to={}", range.start, range.end);
    let (client, asked) = (client.clone(), client.send(&path, Request::builder(), client::empty()));
    let read = async move {
        let response = asked.await.map_err(of_client)?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !response.status().is_success() {
            let error = of_client(ClientError::of_response(response).await);
            return Err(damage_or(error, &client, id, range).await);
        }
        let pieces = response.into_body().into_data_stream();
        let pieces = futures::stream::try_unfold((pieces, range), move |(mut pieces, rest)| {
            let (client, pace) = (client.clone(), pace.clone());
            async move {
                match pieces.try_next().await {
                    Ok(None) => Ok(None),
                    Ok(Some(piece)) => {
                        pace.took(piece.len() as u64).await;
                        let rest = rest.start + piece.len() as u64..rest.end;
                        Ok(Some((piece, (pieces, rest))))
                    }
                    Err(error) => {
                        let error = StoreError::Unavailable(error.to_string());
                        Err(damage_or(error, &client, id, rest).await)
                    }
                }
            }
        });
        Ok(Some(pieces.boxed()))
    };
    read.boxed()
}

/// Why a content could not be read: an interrupted response does not show whether there is damage.
async fn damage_or(error: StoreError, client: &Client, id: ContentId, unread: Range<u64>) -> StoreError {
    let asked = async {
        let question = wire::encode(&Question::CheckContent(id, unread))?;
        wire::decode_answer(&ask(client, question).await.map_err(of_client)?.1)
    };
    match asked.await {
        Err(damage @ StoreError::Corrupt { .. }) => damage,
        _ => error,
    }
}

fn of_client(error: ClientError) -> StoreError {
    match &error {
        // The server has a limit of requests, which passes.
        ClientError::Refused { status, .. } if *status == StatusCode::TOO_MANY_REQUESTS => {
            StoreError::Overloaded(error.to_string())
        }
        ClientError::Refused { status, .. } if status.is_client_error() => StoreError::Invalid(error.to_string()),
        _ => StoreError::Unavailable(format!("the server that holds the store: {error}")),
    }
}

fn another_answer() -> StoreError {
    StoreError::Invalid("unexpected answer from the server: does it have another version?".to_owned())
}

fn reads_only<T>() -> StoreResult<T> {
    Err(StoreError::Invalid("a store that a server holds is only read from here".to_owned()))
}

#[async_trait]
impl Store for ServedStore {
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        match self.ask(call, Question::Get(table, partition.clone(), sort.clone())).await? {
            Answer::Get(row) => Ok(row),
            _ => Err(another_answer()),
        }
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let mut rows = Vec::with_capacity(keys.len());
        for (partition, sort) in keys {
            rows.push(self.get(call, table, &partition, &sort).await?);
        }
        Ok(rows)
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        match self.ask(call, Question::Scan(table, partition.clone(), scan)).await? {
            Answer::Scan(rows) => Ok(rows),
            _ => Err(another_answer()),
        }
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let mut pages = Vec::with_capacity(scans.len());
        for scans in scans.chunks(wire::SCANS_MAX) {
            match self.ask(call, Question::ScanMany(scans.to_vec())).await? {
                Answer::ScanMany(found) if found.len() == scans.len() => pages.extend(found),
                _ => return Err(another_answer()),
            }
        }
        Ok(pages)
    }

    async fn run(&self, _: Call, _: Vec<Step>) -> StoreResult<Outcome> {
        reads_only()
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        match self.ask(call, Question::Walk(table, from, max)).await? {
            Answer::Walk(page) => Ok(page),
            _ => Err(another_answer()),
        }
    }

    async fn put_content_as(&self, _: Call, _: ContentId, _: Bytes, _: ContentStream) -> StoreResult<()> {
        reads_only()
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        match self.ask(call, Question::ContentHeader(id)).await? {
            Answer::ContentHeader(header) => Ok(header),
            _ => Err(another_answer()),
        }
    }

    async fn read_content(&self, _: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        content(&self.client, self.pace.clone(), id, range).await
    }

    fn check_home(&self) -> StoreResult<()> {
        Err(StoreError::ReadOnly("a store that a server holds is only read from here".to_owned()))
    }

    async fn condemn_content(&self, _: Call, _: ContentId) -> StoreResult<bool> {
        reads_only()
    }

    async fn delete_content(&self, _: Call, _: ContentId) -> StoreResult<bool> {
        reads_only()
    }

    fn level(&self) -> FormatLevel {
        self.level
    }

    /// Several processes read it through the server, and none has the folder.
    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, has_atomic_lists: false, delays_syncs: false, folder: None }
    }

    async fn health(&self) -> Health {
        Health {
            refusing_writes: store::Lane::ALL.map(|lane| (lane, "it is read through a server".to_owned())).into(),
            ..Health::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_too_many_requests_passes_and_another_does_not() {
        let refused = |status| {
            let detail = "a reason".to_owned();
            of_client(ClientError::Refused { status, detail, kind: None, retry_after_s: None })
        };
        assert!(refused(StatusCode::TOO_MANY_REQUESTS).is_passing());
        assert!(refused(StatusCode::SERVICE_UNAVAILABLE).is_passing());
        assert!(!refused(StatusCode::FORBIDDEN).is_passing());
    }
}
