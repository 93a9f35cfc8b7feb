//! Exports a tree as a bag.

use anyhow::Context;
use preservation::about::{ABOUT, DESCRIPTION};
use preservation::bagit::BagWriter;

use super::source::{Node, Source, State, compare, received};
use super::volumes::{self, Named};
use super::{ExportArgs, Exported, unfinished};
use crate::client::Client;

/// Exports a tree into a new bag, or continues an interrupted export.
pub async fn export(args: &ExportArgs, client: &Client) -> anyhow::Result<Exported> {
    let source = Source::open(client, &args.base).await?;
    let mut bag = BagWriter::create(&args.destination)?;
    let resource = args.resource.trim_matches('/');
    let named = Named::by(resource)?;
    let is_of_resources = resource.is_empty() || matches!(named, Named::None);
    let exported = async {
        let (resources, bytes) = match is_of_resources {
            true => source.each(&args.base, resource, false, async |node| one(&source, node, &mut bag).await).await?,
            false => (0, 0),
        };
        let of_volumes = volumes::export(client, &args.base, named, &mut bag).await?;
        Ok::<_, anyhow::Error>(Exported { resources, bytes: bytes + of_volumes.bytes, ..of_volumes })
    };
    let unfinished = || unfinished(&args.destination);
    let exported = exported.await.with_context(unfinished)?;
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    let agent = format!("penates {}", env!("CARGO_PKG_VERSION"));
    let info =
        [("Bag-Software-Agent", agent), ("Bagging-Date", today), ("External-Identifier", format!("/{resource}"))];
    bag.finish(&info).with_context(unfinished)?;
    Ok(exported)
}

/// Exports one resource. Returns how many bytes were fetched.
async fn one(source: &Source<'_>, node: &Node, bag: &mut BagWriter) -> anyhow::Result<u64> {
    let State { about, bytes, statements } = source.state(node, None).await?;
    let names = || node.names.iter().map(String::as_str);
    let mut file = bag.file(names(), ABOUT)?;
    file.write(&about.written())?;
    bag.finish_file(file)?;
    let mut len_bytes = 0;
    if let Some((response, promised)) = bytes {
        let reused = promised.map(|sha256| bag.reuse(names(), &sha256)).transpose()?.flatten();
        if reused.is_none() {
            let mut file = bag.file(names(), "")?;
            len_bytes = received(response, |piece| file.write(piece)).await?;
            compare(promised, file.sha256())?;
            bag.finish_file(file)?;
        }
    }
    let mut file = bag.file(names(), DESCRIPTION)?;
    received(statements, |piece| file.write(piece)).await?;
    bag.finish_file(file)?;
    Ok(len_bytes)
}
