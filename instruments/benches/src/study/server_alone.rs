//! From the server alone: a finished ZIP from memory over HTTP and HTTPS, as the upper bound for
//! the data door.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::TryStreamExt;
use pack::{Layout, Level};
use serde::{Deserialize, Serialize};

use super::client::{Ask, Client, Protocol, Received, Task};
use super::served::Served;
use super::trial::{Point, Trial, in_turn};
use super::zip_alone::{ZipKey, zip};
use crate::corpus::{self, CorpusVolume, Sizes};

/// A point of this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerKey {
    /// The protocol.
    pub protocol: Protocol,
}

/// Both protocols.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::Http, Protocol::Https];

/// Measures both protocols: in each trial the ZIP of these volumes (layout `pages`, frames) is
/// fetched `passes` times.
pub async fn measure(
    binary: &Path,
    volumes: &[CorpusVolume],
    passes: u32,
    trials: u32,
) -> Result<Vec<Point<ServerKey>>> {
    let sizes = volumes.iter().map(CorpusVolume::sizes).fold(Sizes::default(), Sizes::plus);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("finished.zip");
    let key = ZipKey { layout: Layout::Pages, level: Level::Frames };
    let pieces: Vec<Bytes> = zip(&Arc::new(corpus::in_memory(volumes, None)), key).try_collect().await?;
    let zip_bytes = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    std::fs::write(&file, pieces.concat())?;
    drop(pieces);

    let served = Served::finished_zip(binary, &file, folder.path())?;
    let client = Client::new(served.certificate())?;
    let ask = Ask { path: "/".to_owned(), ids: Bytes::new() };
    for protocol in PROTOCOLS {
        let received = client.fetch(served.address(protocol), protocol, &ask, 1, Task::Unpacks).await?;
        let expected = Received { zip_bytes, text_bytes: Some(sizes.text_bytes) };
        ensure!(received == expected, "{protocol:?}: {received:?} came, not {expected:?}");
    }
    in_turn("server alone", trials, PROTOCOLS.map(|protocol| ServerKey { protocol }), async |ServerKey { protocol }| {
        let begun = Instant::now();
        let received = client.fetch(served.address(protocol), protocol, &ask, passes, Task::Receives).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let expected = zip_bytes * u64::from(passes);
        ensure!(received.zip_bytes == expected, "{} bytes came, not {expected}", received.zip_bytes);
        let text_bytes = sizes.text_bytes * u64::from(passes);
        Ok(Trial { seconds, text_bytes, coded_bytes: received.zip_bytes, device_bytes: None })
    })
    .await
}
