//! All together: the real server as a separate process, over loopback; layouts, levels, HTTP and
//! HTTPS.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use pack::{Layout, Level};
use serde::{Deserialize, Serialize};

use super::client::{Ask, Client, Protocol, Task};
use super::served::Served;
use super::server_alone::PROTOCOLS;
use super::trial::{Point, Trial, in_turn};
use super::zip_alone::LAYOUTS;

/// The requested levels, in the order of the tables.
pub const LEVELS: [Level; 5] =
    [Level::Frames, Level::Stored, Level::Recompressed(1), Level::Recompressed(6), Level::Recompressed(9)];

/// A point of this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorKey {
    /// How pages become entries.
    pub layout: Layout,
    /// How they are compressed.
    pub level: Level,
    /// The protocol.
    pub protocol: Protocol,
}

/// Measures every layout and level over both protocols. `ids` is the request, and `text_bytes` its
/// text. Unchanged frames are requested `passes` times in one trial. `store` is the data folder of
/// a closed store.
pub async fn measure(
    binary: &Path,
    store: &Path,
    ids: &Bytes,
    text_bytes: u64,
    passes: u32,
    trials: u32,
) -> Result<Vec<Point<DoorKey>>> {
    let served = Served::penates(binary, store)?;
    let client = Client::new(served.certificate())?;
    let mut lengths = Vec::new();
    for (layout, level) in LAYOUTS.into_iter().flat_map(|layout| LEVELS.map(|level| (layout, level))) {
        let address = served.address(Protocol::Http);
        let ask = ask(layout, level, ids);
        let received = client.fetch(address, Protocol::Http, &ask, 1, Task::Unpacks).await?;
        ensure!(received.text_bytes == Some(text_bytes), "{}: {received:?} came, not {text_bytes}", ask.path);
        lengths.push(((layout, level), received.zip_bytes));
    }
    let keys = LAYOUTS.into_iter().flat_map(|layout| {
        LEVELS.into_iter().flat_map(move |level| PROTOCOLS.map(|protocol| DoorKey { layout, level, protocol }))
    });
    in_turn("all together", trials, keys, async |DoorKey { layout, level, protocol }| {
        let passes = if level == Level::Frames { passes } else { 1 };
        let ask = ask(layout, level, ids);
        let begun = Instant::now();
        let received = client.fetch(served.address(protocol), protocol, &ask, passes, Task::Receives).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let expected =
            lengths.iter().find(|(known, _)| *known == (layout, level)).map(|(_, bytes)| bytes * u64::from(passes));
        ensure!(
            Some(received.zip_bytes) == expected,
            "{}: {} bytes came, not {expected:?}",
            ask.path,
            received.zip_bytes
        );
        let text_bytes = text_bytes * u64::from(passes);
        Ok(Trial { seconds, text_bytes, coded_bytes: received.zip_bytes, device_bytes: None })
    })
    .await
}

/// A request for volumes in a layout, at a level.
pub fn ask(layout: Layout, level: Level, ids: &Bytes) -> Ask {
    let layout = layout.name();
    let level = match level {
        Level::Frames => "auto".to_owned(),
        Level::Stored => "0".to_owned(),
        Level::Recompressed(level) => level.to_string(),
    };
    Ask { path: format!("/volumes?layout={layout}&level={level}"), ids: ids.clone() }
}
