//! Over longer links: the real server behind a proxy with rate and delay, with a client that only
//! receives and one that unpacks.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use pack::{Layout, Level};
use serde::{Deserialize, Serialize};

use super::client::{Client, Protocol, Task};
use super::ground::{Ground, Totals};
use super::served::Served;
use super::settings::Settings;
use super::together::{LEVELS, ask};
use super::trial::{Point, Trial, in_turn};
use testbed::link::{Link, Proxy};

/// A point of this stage: layout `pages`, over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkKey {
    /// The link.
    pub link: Link,
    /// The client's task.
    pub task: Task,
    /// How pages are compressed.
    pub level: Level,
}

/// Both clients.
pub const TASKS: [Task; 2] = [Task::Receives, Task::Unpacks];

/// Measures every link with both clients and all levels. A link of less than 1 Gbit/s has a smaller
/// download.
pub async fn measure(binary: &Path, settings: &Settings, ground: &Ground) -> Result<Vec<Point<LinkKey>>> {
    let served = Served::penates(binary, ground.store()?)?;
    let client = Client::new(served.certificate())?;
    let mut ends = Vec::new();
    for &link in &settings.links {
        let to = served.address(Protocol::Http);
        let is_slow = link.mbit_per_s.is_some_and(|rate| rate < 1_000);
        let count = if is_slow { settings.slow_link_volumes } else { settings.link_volumes };
        let proxy = if link == Link::LOOPBACK { None } else { Some(Proxy::start(link, to).await?) };
        let text_bytes = Totals::of(ground.volumes(count)).sizes.text_bytes;
        ends.push(End {
            link,
            address: proxy.as_ref().map_or(to, Proxy::address),
            ids: ground.ids(count),
            text_bytes,
            _proxy: proxy,
        });
    }
    let keys = (0..ends.len())
        .flat_map(|end| TASKS.into_iter().flat_map(move |task| LEVELS.map(move |level| (end, task, level))));
    let points = in_turn("links", settings.trials, keys, async |(end, task, level)| {
        let End { address, ids, text_bytes, .. } = &ends[end];
        let ask = ask(Layout::Pages, level, ids);
        let begun = Instant::now();
        let received = client.fetch(*address, Protocol::Http, &ask, 1, task).await?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(received.text_bytes.is_none_or(|bytes| bytes == *text_bytes), "{}: {received:?} came", ask.path);
        Ok(Trial { seconds, text_bytes: *text_bytes, coded_bytes: received.zip_bytes, device_bytes: None })
    });
    let named = |Point { key: (end, task, level), trials }: Point<(usize, Task, Level)>| {
        let key = LinkKey { link: ends[end].link, task, level };
        Point { key, trials }
    };
    Ok(points.await?.into_iter().map(named).collect())
}

/// The near end of a link, and the request to send there.
struct End {
    link: Link,
    address: SocketAddr,
    ids: Bytes,
    text_bytes: u64,
    /// It runs as long as it is held.
    _proxy: Option<Proxy>,
}
