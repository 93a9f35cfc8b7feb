//! Loads a bag that another program wrote: each file of the payload becomes a resource with its
//! bytes, each folder a container, and `bag-info.txt` the description of the container above them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use heads::ResourcePath;
use preservation::bagit::Bag;
use preservation::bagit::text::Algorithm;
use preservation::read::ReadError;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::super::loader::{Counts, Loader};
use super::super::source::Bytes;
use super::{DCTERMS, binary, container, containers_to, statements_about};

/// Resources that are read ahead.
const READ_AHEAD: usize = 4;

/// The most folders that are remembered as created. Further ones are created again, which finds them.
const FOLDERS_MAX: usize = 100_000;

/// Labels of `bag-info.txt` (RFC 8493, section 2.2.2) with a property of their own.
const PROPERTIES: [(&str, &str); 6] = [
    ("external-identifier", "identifier"),
    ("internal-sender-identifier", "identifier"),
    ("external-description", "description"),
    ("internal-sender-description", "description"),
    ("source-organization", "source"),
    ("bagging-date", "date"),
];

/// The property of all other lines, which are kept whole.
const COMMENT: &str = "http://www.w3.org/2000/01/rdf-schema#comment";

/// Checks all of a bag, before anything of it is loaded.
pub async fn checked(folder: &Path) -> anyhow::Result<Arc<Bag>> {
    let (place, shown) = (folder.to_owned(), folder.display().to_string());
    let bag = spawn_blocking(move || Bag::checked(&place)).await?;
    Ok(Arc::new(bag.with_context(|| format!("{shown}: nothing was loaded"))?))
}

/// Loads the files of a bag below a container, which is created.
pub async fn load(bag: Arc<Bag>, into: &ResourcePath, loader: &Loader) -> anyhow::Result<Counts> {
    let (sender, mut states) = mpsc::channel(READ_AHEAD);
    let (reading, into) = (bag.clone(), into.clone());
    let reader = spawn_blocking(move || {
        let send = |state| sender.blocking_send(state).map_err(|_| ReadError::Stopped);
        for above in containers_to(&into) {
            send(container(&above, Vec::new()))?;
        }
        send(container(into.as_str(), description(&into, &reading.info()?)))?;
        let mut made = BTreeSet::new();
        reading.each_payload_file(&mut |name| {
            let path = format!("{into}{}", name.strip_prefix("data").unwrap_or(name));
            let folders: Vec<_> =
                path.match_indices('/').map(|(end, _)| end).filter(|end| *end > into.as_str().len()).collect();
            for folder in folders.into_iter().map(|end| &path[..end]) {
                if made.len() < FOLDERS_MAX && !made.insert(folder.to_owned()) {
                    continue;
                }
                send(container(folder, Vec::new()))?;
            }
            let Some(sha256) = reading.sha256(name) else { return Ok(()) };
            let bytes =
                Bytes { source: reading.place(name).into(), algorithm: Algorithm::Sha256, digest: sha256.to_vec() };
            send(binary(&path, bytes))
        })
    });
    let loaded = loader.load_all(&mut states, &mut |_, _| {}).await;
    drop(states);
    let read = reader.await?;
    let counts = loaded?;
    read.map_err(|error| anyhow!(error))?;
    Ok(counts)
}

/// What the lines of `bag-info.txt` say, as statements about a container.
fn description(container: &ResourcePath, info: &[(String, String)]) -> Vec<u8> {
    let statements = info.iter().filter(|(_, value)| !value.is_empty()).map(|(label, value)| {
        let known = PROPERTIES.iter().find(|(known, _)| label.eq_ignore_ascii_case(known));
        match known {
            Some((_, property)) => (format!("{DCTERMS}{property}"), value.clone()),
            None => (COMMENT.to_owned(), format!("{label}: {value}")),
        }
    });
    statements_about(container.as_str(), statements)
}
