//! `penates feed`

use clap::Args;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::ReachArgs;
use crate::client::{Client, ClientError, query_value};
use crate::interrupt;
use crate::output::{self, Output};
use crate::reach::Reached;
use crate::resuming::Pauses;

/// Events of one request.
const PAGE_EVENTS: usize = 1_000;

/// Arguments of `penates feed`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates feed
  penates feed --from 2026-11-01T00:00:00Z | jq -r .object.id
  penates feed --follow
  penates feed --follow --from 019a3c0de5f80000a1b2c3d4e5f60718 --server http://127.0.0.1:8080")]
pub struct FeedArgs {
    /// Wait for what happens next, until interrupted. Without --from, print only that.
    #[arg(long)]
    follow: bool,
    /// Begin behind this cursor, or at this time (RFC 3339) [default: the beginning]
    #[arg(long, value_name = "CURSOR|TIME")]
    from: Option<String>,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// A page of the feed.
#[derive(Deserialize)]
struct Page {
    #[serde(rename = "@context")]
    context: Value,
    #[serde(rename = "orderedItems")]
    items: Vec<Value>,
    next: Option<String>,
}

/// Runs it.
pub async fn run(args: FeedArgs) -> anyhow::Result<()> {
    let from = args.from.as_deref().map(cursor_in);
    let reached = Reached::open(&args.reach).await?;
    let outcome = match args.follow {
        false => print(&reached.client, from.unwrap_or("start")).await,
        true => {
            let asked_to_end = interrupt::asked_to_end()?;
            tokio::select! {
                () = asked_to_end => Ok(()),
                () = output::reader_left() => Ok(()),
                followed = follow(&reached.client, from.unwrap_or("now")) => followed,
            }
        }
    };
    reached.close().await?;
    outcome
}

/// The cursor in an event's whole id; any other text is left as it is.
fn cursor_in(text: &str) -> &str {
    text.rsplit_once('#').map_or(text, |(_, cursor)| cursor)
}

/// Prints what there is.
async fn print(client: &Client, from: &str) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let mut path = format!("/feed?after={}&limit={PAGE_EVENTS}", query_value(from));
    loop {
        let page: Page = client.get_json(&path).await?;
        for mut event in page.items {
            event["@context"] = page.context.clone();
            output.json(&event)?;
        }
        let Some(next) = page.next else { return output.finish() };
        // The server names itself as its clients see it; this client may see it otherwise.
        let query = next.split_once('?').map_or("", |(_, query)| query);
        path = format!("/feed?{query}");
    }
}

/// Prints what happens, and resumes behind the last event whenever the stream breaks.
async fn follow(client: &Client, from: &str) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let (mut cursor, mut pauses) = (from.to_owned(), Pauses::default());
    loop {
        let path = format!("/feed?after={}", query_value(&cursor));
        let broken: ClientError = match client.get_lines(&path, "text/event-stream").await {
            Ok(lines) => {
                let mut lines = std::pin::pin!(lines);
                let (mut id, mut data) = (None, None);
                loop {
                    match lines.next().await {
                        Some(Ok(line)) => {
                            pauses = Pauses::default();
                            // A message is complete with the empty line behind it. One that the
                            // connection breaks comes again, because its id does not count.
                            if let Some(text) = line.strip_prefix("id: ") {
                                id = Some(text.to_owned());
                            } else if let Some(text) = line.strip_prefix("data: ") {
                                data = Some(text.to_owned());
                            } else if line.is_empty() {
                                if let Some(event) = data.take() {
                                    output.line(&event)?;
                                    output.flush()?;
                                }
                                cursor = id.take().unwrap_or(cursor);
                            }
                        }
                        Some(Err(error)) => break error,
                        None => break ClientError::Broken("the server has ended the stream".into()),
                    }
                }
            }
            Err(error) => error,
        };
        pauses.wait(broken).await?;
    }
}
