//! Requests for records. They say how long the server may take, because its own time for a command
//! (`records.deadline`) is made for clients that go on without an answer.

use bytes::Bytes;
use clap::Args;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, HeaderName};
use http::{Method, Request, Response};
use humantime::Duration;
use indicatif::ProgressBar;
use serde_json::Value;

use super::LINES;
use crate::client::{self, Body, Client, ClientError};

/// The header with the time that a request may take, and in a request of lines each of them, in
/// milliseconds.
const DEADLINE: &str = "penates-deadline";

/// That time, unless the command line has another: the most that the server allows.
const MOST: &str = "max";

/// How long the server may take.
#[derive(Clone, Copy, Debug, Args)]
pub struct DeadlineArgs {
    /// How long the server may take for a record, or for the first page of a list [default:
    /// records.deadline_max of the server]
    #[arg(long, value_name = "TIME")]
    deadline: Option<Duration>,
}

/// A client of the records of a server.
pub struct Asking {
    client: Client,
    /// The value of the header.
    deadline: String,
}

impl Asking {
    /// A client that gives the server so much time.
    pub fn new(client: &Client, args: DeadlineArgs) -> Self {
        let deadline = args.deadline.map_or_else(|| MOST.to_owned(), |time| time.as_millis().to_string());
        Self { client: client.clone(), deadline }
    }

    /// Sends a request with one header field besides the deadline, and returns a success, or the
    /// server's error.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        (name, value): (HeaderName, &'static str),
        body: Bytes,
    ) -> Result<Response<Body>, ClientError> {
        let request = Request::builder().method(method).header(name, value).header(DEADLINE, &self.deadline);
        self.client.ask(path, request, client::full(body)).await
    }

    /// A GET of a JSON value.
    pub async fn json(&self, path: &str) -> Result<Value, ClientError> {
        client::json(self.ask(Method::GET, path, (ACCEPT, "application/json"), Bytes::new()).await?).await
    }

    /// A GET of lines, as they arrive. The progress shows how many were taken.
    pub async fn lines(
        &self,
        path: &str,
        bar: &ProgressBar,
    ) -> Result<impl Stream<Item = Result<String, ClientError>> + use<>, ClientError> {
        let lines = client::lines(self.ask(Method::GET, path, (ACCEPT, LINES), Bytes::new()).await?);
        Ok(counted(lines, bar.clone()))
    }
}

/// Lines that the progress counts.
fn counted<S: Stream<Item = Result<String, ClientError>>>(lines: S, bar: ProgressBar) -> impl Stream<Item = S::Item> {
    lines.inspect(move |line| bar.inc(u64::from(line.is_ok())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::progress::{self, drawn::Drawn};

    #[tokio::test]
    async fn lines_that_are_taken_are_shown() {
        let bar = progress::records();
        let drawn = Drawn::of(&bar);
        assert!(drawn.now(&bar).contains(" 0 records"), "{}", drawn.now(&bar));
        let lines = futures::stream::iter(["a", "b", "c"].map(|line| Ok(line.to_owned())));
        let mut lines = counted(lines, bar.clone());
        for count in 1..=3 {
            lines.next().await.unwrap().unwrap();
            assert!(drawn.now(&bar).contains(&format!(" {count} records")), "{}", drawn.now(&bar));
        }
    }
}
