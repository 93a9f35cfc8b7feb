//! Over longer links: the real server behind a proxy with rate and delay, with a client that only receives and one that unpacks.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use pack::{Layout, Level};
use serde::{Deserialize, Serialize};

use super::client::{Client, Protocol, Task};
use super::proxy::{Link, Proxy};
use super::served::Served;
use super::together::{LEVELS, ask};
use super::trial::{Point, Trial, in_turn};

/// A point of this stage: pages apart, over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkKey {
    /// Over what.
    pub link: Link,
    /// What the client does.
    pub task: Task,
    /// How pages are compressed.
    pub level: Level,
}

/// Both clients.
pub const TASKS: [Task; 2] = [Task::Receives, Task::Unpacks];

/// Measures every link with both clients and all levels. `ids` are what is asked for, `text_bytes` is the text of it.
pub async fn measure(
    binary: &Path,
    store: &Path,
    links: &[Link],
    ids: &Bytes,
    text_bytes: u64,
    trials: u32,
) -> Result<Vec<Point<LinkKey>>> {
    let served = Served::penates(binary, store)?;
    let client = Client::new(served.certificate())?;
    let mut ends = Vec::new();
    for &link in links {
        let to = served.address(Protocol::Http);
        let proxy = if link == Link::LOOPBACK { None } else { Some(Proxy::start(link, to).await?) };
        ends.push((link, proxy.as_ref().map_or(to, Proxy::address), proxy));
    }
    let keys = links
        .iter()
        .flat_map(|&link| TASKS.into_iter().flat_map(move |task| LEVELS.map(|level| LinkKey { link, task, level })));
    in_turn("links", trials, keys, async |LinkKey { link, task, level }| {
        let address =
            ends.iter().find(|(known, ..)| *known == link).map_or(served.address(Protocol::Http), |end| end.1);
        let ask = ask(Layout::Pages, level, ids);
        let begun = Instant::now();
        let received = client.fetch(address, Protocol::Http, &ask, 1, task).await?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(received.text_bytes.is_none_or(|bytes| bytes == text_bytes), "{}: {received:?} came", ask.path);
        Ok(Trial { seconds, text_bytes, coded_bytes: received.zip_bytes, device_bytes: None })
    })
    .await
}
