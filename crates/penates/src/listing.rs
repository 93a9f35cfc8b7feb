//! The ids of all volumes, as the data door lists them.

use futures::{Stream, TryStreamExt};
use hathi::VolumeId;

use crate::client::Client;

/// The ids of all volumes, as they come.
pub async fn volume_ids(client: &Client) -> anyhow::Result<impl Stream<Item = anyhow::Result<VolumeId>> + use<>> {
    let lines = client.get_lines("/volumes/", "text/plain").await?;
    Ok(lines.map_err(anyhow::Error::from).and_then(async |line| Ok(VolumeId::parse(&line)?)))
}
