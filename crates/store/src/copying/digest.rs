//! Compares everything in both stores by digests.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, future, stream};
use sha2::{Digest as _, Sha256};

use super::contents::{id_of, sealed};
use super::partition::{Depth, Pairs, Rows};
use super::patience::{Patience, call};
use super::{AT_ONCE, Copier, CopyError, ORDER, batches, is_copied, walk};
use crate::{ContentId, Row, Store, StoreError, StoreResult, Table, boxed};

/// How often a difference is copied and compared again: a row may expire between two reads, and the
/// audit grows while the source serves.
const TRIES: usize = 3;

/// What was compared and found equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Partitions and contents.
    pub partitions: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of keys, values and contents.
    pub bytes: u64,
    /// The exclusive or of the SHA-256 of each partition and content. Their order therefore does
    /// not matter.
    pub digest: [u8; 32],
}

impl Verified {
    fn add(&mut self, other: &Verified) {
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.digest.iter_mut().zip(other.digest).for_each(|(sum, byte)| *sum ^= byte);
    }
}

impl Copier {
    /// Reads both stores whole and compares digests, partition by partition. The source must be
    /// read-only.
    #[boxed]
    pub async fn verify(&self) -> Result<Verified, CopyError> {
        self.clear_packs().await?;
        let mut verified = Verified::default();
        let sum = async |mut sum: Verified, same: Verified| {
            sum.add(&same);
            Ok(sum)
        };
        for table in ORDER {
            let mut from = None;
            loop {
                let page = walk(self.patience, self.source.as_ref(), table, from).await?;
                let mut partitions = page.partitions;
                partitions.retain(|partition| is_copied(table, partition));
                let compared = stream::iter(batches(table, partitions))
                    .map(|batch| async move { self.verify_batch(table, &batch).await }.boxed())
                    .buffer_unordered(AT_ONCE);
                let page_verified = compared.try_fold(Verified::default(), sum);
                verified.add(&page_verified.await?);
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
        Ok(verified)
    }

    /// Removes packs where the source has none any more. A pass keeps those beside rows that stay: if
    /// its source has lost packs, a standby still has them.
    async fn clear_packs(&self) -> Result<(), CopyError> {
        let mut from = None;
        loop {
            let (gone, next) = self.gone(Table::Packs, from).await?;
            for partition in &gone {
                self.copy_partition(Table::Packs, partition).await?;
            }
            from = next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    async fn verify_batch(&self, table: Table, batch: &[Bytes]) -> Result<Verified, CopyError> {
        if let [partition] = batch {
            let same = self.verify_partition(table, partition).await?;
            self.progress.seen.fetch_add(1, Ordering::Relaxed);
            return Ok(same);
        }
        let compared = self.pairs_of_each(table, batch).await.into_iter().map(async |pairs| {
            let _turn = self.turn(&pairs).await;
            let Pairs { source, target } = pairs;
            let partition = source.partition;
            let (wanted, there) = futures::try_join!(digest_of_rows(source), digest_of_rows(target))?;
            let same = if wanted == there { wanted } else { self.verify_partition(table, partition).await? };
            self.progress.seen.fetch_add(1, Ordering::Relaxed);
            Ok::<_, CopyError>(same)
        });
        let mut verified = Verified::default();
        future::try_join_all(compared).await?.iter().for_each(|same| verified.add(same));
        Ok(verified)
    }

    async fn verify_partition(&self, table: Table, partition: &Bytes) -> Result<Verified, CopyError> {
        for _ in 0..TRIES {
            let wanted = digest(self.patience, self.source.as_ref(), table, partition);
            let there = digest(self.patience, self.target.as_ref(), table, partition);
            let (wanted, there) = futures::join!(wanted, there);
            let wanted = match wanted {
                // It is damaged in the source, so there is nothing to compare the target with.
                Err(StoreError::Corrupt { .. }) if table == Table::Contents => {
                    self.leave_out(id_of(partition)?);
                    return Ok(Verified::default());
                }
                wanted => wanted?,
            };
            let there = there?;
            if wanted == there {
                return Ok(wanted);
            }
            match table {
                // A quick pass does not see packs that were removed under an unchanged head.
                Table::Packs => self.copy_partition(table, partition).await?,
                _ => self.copy(table, partition, Depth::Whole).await?,
            };
        }
        Err(CopyError::Differs { table, partition: partition.escape_ascii().to_string() })
    }
}

async fn digest(patience: Patience, store: &dyn Store, table: Table, partition: &Bytes) -> StoreResult<Verified> {
    match table {
        Table::Contents => digest_of_content(patience, store, id_of(partition)?).await,
        _ => digest_of_rows(Rows::of(patience, store, table, partition)).await,
    }
}

async fn digest_of_rows(mut rows: Rows<'_>) -> StoreResult<Verified> {
    let mut hash = Sha256::new();
    add(&mut hash, rows.table.name().as_bytes());
    add(&mut hash, rows.partition);
    let mut found = Verified { partitions: 1, ..Verified::default() };
    while let Some(row) = rows.next().await? {
        found.rows += 1;
        found.bytes += (row.sort.len() + row.value.len()) as u64;
        add_row(&mut hash, &row);
    }
    found.digest = hash.finalize().into();
    Ok(found)
}

fn add_row(hash: &mut Sha256, row: &Row) {
    add(hash, &row.sort);
    add(hash, &row.value);
    add(hash, &row.expires_at.map_or(Vec::new(), |at| at.0.to_be_bytes().to_vec()));
    add(hash, row.guard.as_ref().map_or(&[], |guard| &guard.stamp.0[..]));
    add(hash, row.guard.as_ref().map_or(&[], |guard| &guard.tag[..]));
}

/// Adds a field with its length, so that two different lists of fields never give the same bytes.
fn add(hash: &mut Sha256, field: &[u8]) {
    hash.update((field.len() as u64).to_be_bytes());
    hash.update(field);
}

async fn digest_of_content(patience: Patience, store: &dyn Store, id: ContentId) -> StoreResult<Verified> {
    let Some(header) = sealed(patience, store, id).await? else { return Ok(Verified::default()) };
    let mut hash = Sha256::new();
    add(&mut hash, &id.0);
    add(&mut hash, &header.owner);
    if let Some(mut content) = patience.with(|| store.read_content(call(), id, 0..header.len)).await? {
        while let Some(piece) = content.next().await {
            hash.update(&piece?);
        }
    }
    Ok(Verified { partitions: 1, rows: 0, bytes: header.len, digest: hash.finalize().into() })
}
