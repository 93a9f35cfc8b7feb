//! The driver alone: prepared statements, and nothing above it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use hathi::VolumeId;
use heads::{LibraryOptions, keys};
use library::Library;
use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use store::{SystemClock, Table};

use super::node;
use crate::rig::work::Corpus;

/// The first byte of all partition keys that the engine writes.
const KEY_FORMAT: u8 = 1;
/// Rows of a page: a megabyte, if each has 60 KiB.
const PAGE_ROWS: i32 = 16;
/// Rows of a page when a whole keyspace is read, with small and large rows.
const WALK_ROWS: i32 = 64;
/// Bytes and rows of one write request, the same as the engine's.
const REQUEST_BYTES: usize = 512 << 10;
const REQUEST_ROWS: usize = 512;
/// The engine's default.
const LEVEL: Consistency = Consistency::LocalQuorum;
/// Longer than any request takes here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The packs with the pages of some volumes.
pub struct Packs {
    session: Session,
    scan: PreparedStatement,
    /// For each volume: its partition, its first pack, and the one after its last.
    ranges: Vec<[Bytes; 3]>,
    /// Bytes of the frames in them.
    pub frame_bytes: u64,
}

impl Packs {
    /// The packs of all volumes of a corpus.
    pub async fn of(address: SocketAddr, keyspace: &str, corpus: &Corpus) -> Result<Self> {
        let store = node::open(address, keyspace).await?;
        let library = Library::open(store, Arc::new(SystemClock), LibraryOptions::default()).await?;
        let (mut ranges, mut frame_bytes) = (Vec::new(), 0);
        for index in 0..corpus.volumes {
            let id = VolumeId::parse(&corpus.id(index))?;
            let body = library.volumes.volume(&id).await?.body;
            // METS follows the pages, in the same pack if it fits.
            let end = body.mets.place.pack + u32::from(body.mets.place.offset > 0);
            // All packs of a volume of the corpus are in the first part of its generation.
            ensure!(end <= keys::PART_PACKS, "{id} has more packs than a part");
            let partition = [&[KEY_FORMAT], &keys::part(&keys::volume_partition(&id), body.generation, 0)[..]].concat();
            ranges.push([partition.into(), keys::pack(body.generation, 0), keys::pack(body.generation, end)]);
            frame_bytes += body.pages.frame_bytes;
        }
        let session = node::session(address).await?;
        let text = "SELECT sort, value, stamp, tag FROM";
        let scan = format!("{text} {keyspace}.{} WHERE partition = ? AND sort >= ? AND sort < ?", Table::Packs);
        let mut scan = session.prepare(scan).await?;
        scan.set_consistency(LEVEL);
        scan.set_page_size(PAGE_ROWS);
        scan.set_request_timeout(Some(TIMEOUT));
        Ok(Self { session, scan, ranges, frame_bytes })
    }

    /// How many of the volumes have this number of bytes of frames: at least one.
    pub fn volumes_in(&self, bytes: u64) -> usize {
        let count = self.ranges.len() as u64;
        (bytes * count / self.frame_bytes.max(1)).clamp(1, count.max(1)) as usize
    }

    /// Reads all of them `times` times, with a number of volumes at once, and drops the rows.
    /// Returns the time it took.
    pub async fn read(&self, times: usize, at_once: usize) -> Result<Duration> {
        let begun = Instant::now();
        let ranges = (0..times).flat_map(|_| &self.ranges);
        let bytes = stream::iter(ranges).map(|range| self.read_one(range)).buffer_unordered(at_once);
        let bytes: u64 = bytes.try_fold(0, async |sum, bytes| Ok(sum + bytes)).await?;
        let expected = self.frame_bytes * times as u64;
        ensure!(bytes >= expected, "{bytes} bytes of packs were read where there are {expected} of frames");
        Ok(begun.elapsed())
    }

    async fn read_one(&self, range: &[Bytes; 3]) -> Result<u64> {
        let (mut bytes, mut from) = (0, PagingState::start());
        loop {
            let (rows, rest) = self.session.execute_single_page(&self.scan, range.as_slice(), from).await?;
            let rows = rows.into_rows_result()?;
            for row in rows.rows::<(Bytes, Bytes, Option<Bytes>, Option<Bytes>)>()? {
                bytes += row?.1.len() as u64;
            }
            match rest.into_paging_control_flow().continue_value() {
                Some(rest) => from = rest,
                None => return Ok(bytes),
            }
        }
    }
}

/// All rows of a partition.
struct Partition {
    table: Table,
    /// Plain rows.
    plain: Vec<[Bytes; 3]>,
    /// Guarded rows, which only a transaction writes.
    guarded: Vec<[Bytes; 5]>,
}

/// All rows of a store, in memory.
pub struct Rows(Vec<Partition>);

/// The statements that write rows into a table.
struct Writes {
    put: PreparedStatement,
    make: PreparedStatement,
}

type Cells = (Bytes, Bytes, Bytes, Option<Bytes>, Option<Bytes>);

impl Rows {
    /// Reads the rows of a store, unchanged.
    pub async fn of(session: &Session, keyspace: &str) -> Result<Self> {
        let mut partitions: Vec<Partition> = Vec::new();
        for table in Table::ALL {
            let all = format!("SELECT partition, sort, value, stamp, tag FROM {keyspace}.{table}");
            let mut all = session.prepare(all).await?;
            all.set_page_size(WALK_ROWS);
            let mut rows = session.execute_iter(all, ()).await?.rows_stream::<Cells>()?;
            let mut last = None;
            while let Some((partition, sort, value, stamp, tag)) = rows.try_next().await? {
                if last.as_ref() != Some(&partition) {
                    partitions.push(Partition { table, plain: Vec::new(), guarded: Vec::new() });
                    last = Some(partition.clone());
                }
                let rows = partitions.last_mut().context("a row without a partition")?;
                // Copied, because the driver's rows keep their whole page in memory.
                let [partition, sort, value] = [partition, sort, value].map(|cell| Bytes::copy_from_slice(&cell));
                match (stamp, tag) {
                    (Some(stamp), tag) => {
                        let [stamp, tag] = [stamp, tag.unwrap_or_default()].map(|cell| Bytes::copy_from_slice(&cell));
                        rows.guarded.push([partition, sort, value, stamp, tag]);
                    }
                    (None, _) => rows.plain.push([partition, sort, value]),
                }
            }
        }
        Ok(Self(partitions))
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.0.iter().map(|partition| partition.plain.len() + partition.guarded.len()).sum()
    }

    /// Writes all of them into another store, with a number of partitions at once: plain rows in
    /// batches of one partition, guarded rows by a transaction each. Returns the time it took.
    pub async fn write(&self, session: &Session, keyspace: &str, at_once: usize) -> Result<Duration> {
        let mut writes = Vec::new();
        for table in Table::ALL {
            let name = format!("{keyspace}.{table}");
            let put = format!("INSERT INTO {name} (partition, sort, value) VALUES (?, ?, ?)");
            let make =
                format!("INSERT INTO {name} (partition, sort, value, stamp, tag) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS");
            let mut writes_of_table = Writes { put: session.prepare(put).await?, make: session.prepare(make).await? };
            writes_of_table.make.set_consistency(LEVEL);
            writes_of_table.make.set_request_timeout(Some(TIMEOUT));
            writes.push(writes_of_table);
        }
        let begun = Instant::now();
        let written = stream::iter(&self.0).map(|rows| rows.write(session, &writes[rows.table as usize]));
        written.buffer_unordered(at_once).try_collect::<()>().await?;
        Ok(begun.elapsed())
    }
}

impl Partition {
    async fn write(&self, session: &Session, writes: &Writes) -> Result<()> {
        let mut rest = &self.plain[..];
        while !rest.is_empty() {
            let (portion, later) = rest.split_at(portion(rest));
            let mut batch = Batch::new(BatchType::Unlogged);
            portion.iter().for_each(|_| batch.append_statement(writes.put.clone()));
            batch.set_consistency(LEVEL);
            batch.set_request_timeout(Some(TIMEOUT));
            session.batch(&batch, portion.iter().map(<[Bytes; 3]>::as_slice).collect::<Vec<_>>()).await?;
            rest = later;
        }
        for row in &self.guarded {
            session.execute_unpaged(&writes.make, row.as_slice()).await?;
        }
        Ok(())
    }
}

/// How many rows are in one request: at least one.
fn portion(rows: &[[Bytes; 3]]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&[Bytes; 3]| {
        bytes += row[1].len() + row[2].len();
        bytes <= REQUEST_BYTES
    };
    rows.iter().take(REQUEST_ROWS).take_while(fits).count().max(1)
}
