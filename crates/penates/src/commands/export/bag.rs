//! Exports a tree as a bag.

use preservation::about::{ABOUT, DESCRIPTION};
use preservation::bagit::BagWriter;

use super::source::{Node, Source, State, compare, received};
use super::{ExportArgs, Exported};
use crate::client::Client;

/// Exports a tree. What cannot be finished is deleted.
pub async fn export(args: &ExportArgs, client: &Client) -> anyhow::Result<Exported> {
    let mut bag = BagWriter::create(&args.destination)?;
    match fill(args, client, &mut bag).await {
        Ok(exported) => {
            let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
            let agent = format!("penates {}", env!("CARGO_PKG_VERSION"));
            let source = format!("/{}", args.resource.trim_matches('/'));
            bag.finish(&[("Bag-Software-Agent", agent), ("Bagging-Date", today), ("External-Identifier", source)])?;
            Ok(exported)
        }
        Err(error) => {
            bag.abandon()?;
            Err(error)
        }
    }
}

async fn fill(args: &ExportArgs, client: &Client, bag: &mut BagWriter) -> anyhow::Result<Exported> {
    let source = Source::open(client, &args.base).await?;
    let resource = args.resource.trim_matches('/');
    let (resources, bytes) = source.each(&args.base, resource, async |node| one(&source, node, bag).await).await?;
    Ok(Exported { resources, bytes })
}

/// Exports one resource. Returns how many bytes it has.
async fn one(source: &Source<'_>, node: &Node, bag: &mut BagWriter) -> anyhow::Result<u64> {
    let State { about, bytes, statements } = source.state(node, None).await?;
    let names = || node.names.iter().map(String::as_str);
    let mut file = bag.file(names(), ABOUT)?;
    file.write(&about.written())?;
    bag.finish_file(file)?;
    let mut len_bytes = 0;
    if let Some((response, promised)) = bytes {
        let mut file = bag.file(names(), "")?;
        len_bytes = received(response, |piece| file.write(piece)).await?;
        compare(promised, file.sha256())?;
        bag.finish_file(file)?;
    }
    let mut file = bag.file(names(), DESCRIPTION)?;
    received(statements, |piece| file.write(piece)).await?;
    bag.finish_file(file)?;
    Ok(len_bytes)
}
