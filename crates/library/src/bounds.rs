//! Bounds of partitions: the largest size of each kind, computed from the rules of keys and values.
//! Cassandra should not have to read a partition of more than [`PARTITION_BYTES_MAX`].
//! `docs/scale.md` has the numbers, and says which of them grow.
//!
//! Every new kind of row needs a rule here: a test checks all rows that a library stores, and
//! reports rows without one. Another one checks all tables of a keyspace, that of the chunks of
//! contents too, which only its engine knows.

use audit::PART_BYTES;
use bytes::Bytes;
use hathi::id::MAX_ID_BYTES;
use heads::announce::{FEED_SHARDS, LISTED_BUCKETS};
use heads::grow::{SHARDS_MAX, TIMES};
use heads::keys::{self, kind};
use heads::mark::VersionMark;
use heads::path::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use heads::queue::SHARE_BYTES;
use heads::retries::TRIES_MAX;
use heads::sampling::{ROW_BYTES, past_bytes, row_bytes, sampled_bytes};
use heads::{LibraryOptions, Queue, ResourcePath, RevisionId};
use repository::backlinks::BUCKETS;
use repository::describe::{DESCRIPTION_BYTES_MAX, PIECE_BYTES};
use store::content::{CHUNK_BYTES_MAX, CHUNKS_MAX, SUMMED_BYTES, SUMS_BYTES_MAX};
use store::{Limits, Table, UnixMillis};
use volumes::bulk::selection::{
    self, CHUNK_BYTES, OWNED_MAX, PART_CHUNKS,
    row::{CHUNK, COMPLETE, ENDED_EARLY, INFO, SWEPT},
};
use volumes::generations::{GENERATIONS_MAX, directory_bytes_max, part_bytes_max};
use volumes::{ALIKE_PINS_MAX, PIN_BEGINNINGS, UNSEEN_PINS_MAX};

/// The largest partition that Cassandra should have to read.
pub const PARTITION_BYTES_MAX: u64 = 100_000_000;

/// So many servers may fill the same partition at the same time, each with all that it may put.
pub const SERVERS: u64 = 16;

/// A kind of partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// The head of a resource or of the container of volumes.
    Head,
    /// The head of a volume, and the list of its generations.
    Volume,
    /// The directory of a generation of a volume.
    Directory,
    /// A page of a head log.
    LogPage,
    /// The rows that a revision of a resource wrote.
    Version,
    /// The list of received versions of a resource.
    Received,
    /// The list of buckets with records of the resources that point at one.
    BacklinkBuckets,
    /// A bucket of such records.
    Backlinks,
    /// The records of whose heads were about to name a content.
    Keepers,
    /// A part of the packs and digests of a generation of a volume.
    Packs,
    /// Marks of a shard of a container, or past members that were in one.
    Children,
    /// The list of partitions with past members of a container.
    PastIndex,
    /// A selection, without its plan.
    Selection,
    /// A part of the plan of a selection.
    Plan,
    /// The selections of one requester.
    Owned,
    /// A part of the audit.
    Audit,
    /// A shard of a bucket of a queue of objects to collect.
    Records,
    /// A shard of a bucket of a queue of jobs on containers.
    Jobs,
    /// A transaction, with all that it has staged.
    Transaction,
    /// Changes of one shard of a bucket of the feed.
    Feed,
    /// A list of buckets of the feed.
    FeedBuckets,
    /// Where the feed begins and ends.
    FeedEnds,
    /// The low-water marks of queues.
    LowWater,
    /// The state of the fixity auditor.
    Fixity,
    /// The findings of a pass of the fixity auditor.
    Findings,
    /// How far webhooks are.
    Webhooks,
    /// The state of the search index.
    SearchState,
    /// A shard of a list of the search index.
    SearchList,
    /// The progress of emptying a container.
    Emptied,
    /// The time since when a partition of marks waits to be dropped.
    Dropping,
    /// Damage marks of a version.
    Damage,
    /// The pins on a volume.
    Pins,
    /// All tokens.
    Tokens,
    /// The header of a large content.
    Content,
    /// Checksums of a large content, beside its header, in a data folder.
    ContentSums,
    /// A part of the bytes of a large content, in a keyspace.
    ContentChunks,
    /// A record in mode atomic.
    Record,
    /// A record in mode fast.
    FastRecord,
}

/// The largest size of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Largest {
    /// A fixed number of bytes.
    Bytes(u64),
    /// So many bytes of each server that is there at the same time. One that is started again
    /// counts as another one.
    OfServer(u64),
    /// It grows with something: average bytes for each.
    Each(f64, &'static str),
}

impl Largest {
    /// How many of the things it grows with fit the largest desirable partition; `None` if it does
    /// not grow.
    pub fn fits(self) -> Option<u64> {
        match self {
            Self::Bytes(_) => None,
            Self::OfServer(bytes) => Some(PARTITION_BYTES_MAX / bytes.max(1)),
            Self::Each(bytes, _) => Some((PARTITION_BYTES_MAX as f64 / bytes) as u64),
        }
    }
}

impl Partition {
    /// All kinds.
    pub const ALL: [Self; 38] = [
        Self::Head,
        Self::Volume,
        Self::Directory,
        Self::LogPage,
        Self::Version,
        Self::Received,
        Self::BacklinkBuckets,
        Self::Backlinks,
        Self::Keepers,
        Self::Packs,
        Self::Children,
        Self::PastIndex,
        Self::Selection,
        Self::Plan,
        Self::Owned,
        Self::Audit,
        Self::Records,
        Self::Jobs,
        Self::Transaction,
        Self::Feed,
        Self::FeedBuckets,
        Self::FeedEnds,
        Self::LowWater,
        Self::Fixity,
        Self::Findings,
        Self::Webhooks,
        Self::SearchState,
        Self::SearchList,
        Self::Emptied,
        Self::Dropping,
        Self::Damage,
        Self::Pins,
        Self::Tokens,
        Self::Content,
        Self::ContentSums,
        Self::ContentChunks,
        Self::Record,
        Self::FastRecord,
    ];

    /// The name of its table.
    pub fn table(self) -> &'static str {
        let table = match self {
            Self::Head
            | Self::Volume
            | Self::Directory
            | Self::LogPage
            | Self::Version
            | Self::Received
            | Self::BacklinkBuckets
            | Self::Backlinks
            | Self::Keepers => Table::Objects,
            Self::Packs => Table::Packs,
            Self::Children | Self::PastIndex => Table::Children,
            Self::Selection | Self::Plan | Self::Owned => Table::Selections,
            Self::Audit => Table::Audit,
            Self::Records
            | Self::Jobs
            | Self::Transaction
            | Self::Feed
            | Self::FeedBuckets
            | Self::FeedEnds
            | Self::LowWater
            | Self::Fixity
            | Self::Findings
            | Self::Webhooks
            | Self::SearchState
            | Self::SearchList
            | Self::Emptied
            | Self::Dropping => Table::Work,
            Self::Damage => Table::Damage,
            Self::Pins => Table::Pins,
            Self::Tokens => Table::Tokens,
            Self::Content | Self::ContentSums => Table::Contents,
            Self::ContentChunks => return CHUNKS,
            Self::Record | Self::FastRecord => Table::Records,
        };
        table.name()
    }

    /// The kind of the partition of a row; `None` if no such row is stored.
    pub fn of(table: Table, partition: &[u8], sort: &[u8]) -> Option<Self> {
        let is_kind = |kinds: &[u8]| sort.first().is_some_and(|kind| kinds.contains(kind));
        let (key, is_ok) = match table {
            Table::Objects => match Key::of(partition)? {
                Key::Object(b'v') => (Self::Volume, is_kind(&[kind::HEAD, kind::GENERATION])),
                Key::Part(part) => (Self::Directory, part == 0 && is_kind(&[kind::DIRECTORY])),
                Key::Object(_) => (Self::Head, is_kind(&[kind::HEAD])),
                Key::LogPage => (Self::LogPage, is_kind(&[kind::LOG, kind::VERSION_MARK])),
                Key::Version => (Self::Version, is_kind(&[kind::DESCRIPTION, kind::SMALL_CONTENT, kind::RECEIVED])),
                Key::Received => (Self::Received, *sort == keys::received_list()),
                Key::BacklinkBuckets => (Self::BacklinkBuckets, keys::bucket_of(sort).is_some()),
                Key::Backlinks => (Self::Backlinks, keys::backlink_of(sort).is_some()),
                Key::Keepers => {
                    (Self::Keepers, matches!(Key::of(sort), Some(Key::Object(_))) || sort.starts_with(b"i/"))
                }
            },
            Table::Packs => {
                let is_part = matches!(Key::of(partition)?, Key::Part(_));
                (Self::Packs, is_part && is_kind(&[kind::FIXITY, kind::PACK]))
            }
            Table::Pins => (Self::Pins, matches!(Key::of(partition)?, Key::Object(b'v')) && is_kind(&[kind::PIN])),
            Table::Damage => {
                let is_version = matches!(Key::of(partition)?, Key::Part(0) | Key::Version);
                (Self::Damage, is_version && is_kind(&[kind::DAMAGE]))
            }
            Table::Children => {
                let container = partition.iter().position(|byte| *byte == 0)?;
                match partition.len() - container - 1 {
                    16 => (Self::PastIndex, keys::past_index_of(sort).is_some()),
                    22 | 23 => {
                        let is_other = keys::change_of(sort).is_some() || sort.starts_with(&keys::sample_prefix());
                        (Self::Children, is_other || keys::child_of(sort).is_some())
                    }
                    _ => return None,
                }
            }
            Table::Selections if partition.starts_with(selection::OWNER_PREFIX) => (Self::Owned, true),
            Table::Selections => {
                let is_chunk = sort.starts_with(CHUNK) && sort.len() == CHUNK.len() + 4;
                let (kind, is_row) = match partition.contains(&0) {
                    true => (Self::Plan, is_chunk),
                    false => (Self::Selection, [INFO, COMPLETE, ENDED_EARLY, SWEPT].contains(&sort)),
                };
                (kind, partition.starts_with(selection::SELECTION_PREFIX) && is_row)
            }
            Table::Audit => (Self::Audit, partition.starts_with(b"h/") && sort.len() == 16),
            Table::Work => match partition {
                _ if *partition == keys::low_water_partition() => (Self::LowWater, true),
                _ if *partition == keys::feed_ends() => (Self::FeedEnds, true),
                _ if partition.starts_with(b"feed\0c") => (Self::Feed, sort.len() == 16),
                _ if partition.starts_with(b"feed\0b") => (Self::FeedBuckets, sort.len() == 4),
                _ if *partition == keys::fixity_state() => (Self::Fixity, true),
                _ if keys::fixity_pass_of(partition).is_some() => {
                    let is_of_records = sort.starts_with(b"i/") || sort.starts_with(b"j/");
                    (Self::Findings, is_of_records || matches!(Key::of(sort), Some(Key::Object(_))))
                }
                _ if keys::is_transaction(partition) => {
                    (Self::Transaction, sort.first().is_some_and(|kind| *kind <= 4))
                }
                _ if *partition == keys::webhooks() => (Self::Webhooks, true),
                _ if *partition == search::keys::state_partition() => {
                    (Self::SearchState, *sort == search::keys::state() || *sort == search::keys::cursor_key())
                }
                _ if search::keys::list_of_partition(partition).is_some() => {
                    (Self::SearchList, search::keys::is_in_list(partition, sort))
                }
                _ if partition.starts_with(b"emptied\0") => (Self::Emptied, keys::emptied_of(sort).is_some()),
                _ if partition.starts_with(b"d/") => (Self::Dropping, keys::dropping_since(sort).is_some()),
                _ => {
                    let is_of = |queue: &&Queue| keys::queue_bucket(partition, queue.name()).is_some();
                    match Queue::ALL.iter().find(is_of)? {
                        Queue::Collecting | Queue::Superseded => (Self::Records, true),
                        Queue::Deleting | Queue::Emptying | Queue::Growing | Queue::Outgrown | Queue::Transactions => {
                            (Self::Jobs, true)
                        }
                    }
                }
            },
            Table::Tokens => (Self::Tokens, partition == b"tokens"),
            Table::Contents if sort == b"header" => (Self::Content, partition.len() == CONTENT_ID_BYTES),
            Table::Contents => {
                let is_row = sort.starts_with(b"sums") && sort.len() == 8;
                (Self::ContentSums, partition.len() == CONTENT_ID_BYTES && is_row)
            }
            Table::Records if sort.is_empty() => (Self::Record, true),
            Table::Records => (Self::FastRecord, sort == b"t" || sort.starts_with(b"a")),
        };
        is_ok.then_some(key)
    }

    /// Its largest size with these options. Keys and values have their greatest lengths.
    pub fn largest(self, options: &LibraryOptions) -> Largest {
        let (root, nothing) = (ResourcePath::root(), RevisionId::ZERO);
        let value = Limits::default().value_bytes;
        let by_path = |sort: Bytes| row_bytes(&sort, 0) + PATH_BYTES_MAX as u64;
        match self {
            Self::Head => Largest::Bytes(row_bytes(&keys::head(), value)),
            Self::Volume => {
                let list = GENERATIONS_MAX as u64 * row_bytes(&keys::generation(nothing), 0);
                Largest::Bytes(row_bytes(&keys::head(), value) + list)
            }
            Self::Directory => Largest::Bytes(directory_bytes_max()),
            // Each version may have both marks. A mark without a version is that of a writer which met
            // another one: about one for each version.
            Self::LogPage => {
                let marks = 3 * row_bytes(&keys::version_mark(nothing, VersionMark::Asked), 0);
                Largest::Bytes(keys::LOG_PAGE_ENTRIES * (row_bytes(&keys::log(nothing), value) + marks))
            }
            Self::Version => {
                let pieces = DESCRIPTION_BYTES_MAX.div_ceil(PIECE_BYTES) as u64;
                let description = DESCRIPTION_BYTES_MAX as u64 + pieces * row_bytes(&keys::description(nothing, 0), 0);
                let content = row_bytes(&keys::small_content(nothing), options.small_content_bytes);
                Largest::Bytes(description + content + row_bytes(&keys::received_version(nothing), value))
            }
            Self::Received => Largest::Bytes(row_bytes(&keys::received_list(), value)),
            Self::BacklinkBuckets => Largest::Bytes(u64::from(BUCKETS) * row_bytes(&keys::bucket(0), 0)),
            Self::Backlinks => {
                let link = by_path(keys::backlink(&root)) as f64;
                Largest::Each(link / f64::from(BUCKETS), "links by the longest paths")
            }
            // An upload serves one request, which retries that often.
            Self::Keepers => Largest::Bytes(u64::from(TRIES_MAX) * by_path(keys::resource_partition(&root))),
            Self::Packs => Largest::Bytes(part_bytes_max()),
            Self::Children => {
                // All children that a shard had when it was found to be large may be gone by now.
                // The shorter their names, the more their rows grew.
                let once_gone = past_bytes(1) as f64 / sampled_bytes(1) as f64;
                let unsampled = u64::from(options.sample_one_of) * past_bytes(NAME_BYTES_MAX.max(MAX_ID_BYTES)) as u64;
                Largest::Bytes((options.shard_bytes_max as f64 * once_gone) as u64 + unsampled)
            }
            Self::PastIndex => {
                Largest::Each(row_bytes(&keys::past_index(0, 0), size_of::<u16>()) as f64, "shards that were rewritten")
            }
            Self::Selection => {
                let rows = [INFO, COMPLETE, ENDED_EARLY, SWEPT].map(|sort| row_bytes(&Bytes::from_static(sort), value));
                Largest::Bytes(rows.into_iter().sum())
            }
            Self::Plan => {
                let chunk = CHUNK.len() + size_of::<u32>() + CHUNK_BYTES + ROW_BYTES;
                Largest::Bytes((PART_CHUNKS * chunk) as u64)
            }
            Self::Owned => {
                let (id, etag) = (Bytes::from(vec![b'0'; ID_CHARS]), 2 * size_of::<[u8; 32]>());
                Largest::Bytes(OWNED_MAX * row_bytes(&id, VARINT_BYTES_MAX + etag))
            }
            Self::Audit => Largest::Bytes(PART_BYTES as u64),
            // What does not fit is due later.
            Self::Records | Self::Jobs => Largest::OfServer(SHARE_BYTES),
            Self::Transaction => {
                let operation = by_path(keys::operation(&root, nothing));
                let pieces =
                    options.transaction_bytes_max / PIECE_BYTES as u64 + options.transaction_operations_max as u64;
                let keys = pieces * row_bytes(&keys::staged_description(nothing, 0), 0);
                let container = by_path(keys::made_container(&root, nothing));
                let operations = options.transaction_operations_max as u64 * (operation + container);
                let named = options.transaction_operations_max * size_of::<RevisionId>();
                let state = row_bytes(&keys::transaction_state(), value + named);
                Largest::Bytes(options.transaction_bytes_max + keys + operations + state)
            }
            Self::Feed => {
                let position = Bytes::copy_from_slice(&nothing.0);
                let names = FEED_ACTOR_BYTES + FEED_AGENT_BYTES + size_of::<RevisionId>();
                let longest = row_bytes(&position, PATH_BYTES_MAX + names + 5 * VARINT_BYTES_MAX);
                // Positions spread them evenly, whatever changes.
                let each = longest as f64 / f64::from(FEED_SHARDS);
                Largest::Each(each, "changes of the longest paths in ten minutes")
            }
            Self::FeedBuckets => {
                Largest::Bytes(u64::from(LISTED_BUCKETS) * row_bytes(&keys::feed_bucket(0), size_of::<u32>()))
            }
            Self::FeedEnds => {
                let ends = [keys::feed_newest(), keys::feed_dropped(), keys::feed_cleared()];
                Largest::Bytes(ends.iter().map(|sort| row_bytes(sort, size_of::<RevisionId>())).sum())
            }
            Self::LowWater => {
                let marks = Queue::ALL.iter().map(|queue| row_bytes(&keys::low_water(queue.name()), size_of::<u32>()));
                Largest::Bytes(marks.sum())
            }
            Self::Fixity => {
                let reader = row_bytes(&keys::fixity_reader(0), value);
                // Each earlier pass has another one about its records.
                let report = 2 * row_bytes(&keys::fixity_report(0), FIXITY_REPORT_BYTES);
                let pass = row_bytes(&keys::fixity_pass(), PATH_BYTES_MAX + FIXITY_REPORT_BYTES);
                Largest::Bytes(pass + (FIXITY_READERS + 1) * reader + FIXITY_REPORTS * report)
            }
            Self::Findings => {
                let finding = row_bytes(&keys::resource_partition(&root), FIXITY_FINDING_BYTES) + PATH_BYTES_MAX as u64;
                let of_objects = FIXITY_READERS * (FIXITY_FINDINGS + 1);
                Largest::Bytes((of_objects + FIXITY_RECORD_FINDINGS) * finding)
            }
            // Servers that make rows at the same time do not see each other's.
            Self::Webhooks => {
                let row = row_bytes(&Bytes::new(), WEBHOOK_NAME_BYTES + WEBHOOK_BYTES);
                Largest::Bytes((WEBHOOKS_KEPT_MAX + SERVERS * WEBHOOKS_MAX) * row)
            }
            Self::SearchState => Largest::Bytes(2 * row_bytes(&search::keys::cursor_key(), value)),
            // A list with more for each shard is made anew, with more of them.
            Self::SearchList => Largest::Bytes(2 * search::GENERATION_BYTES),
            // A note for each of its partitions at most. No shard of a container of the repository
            // is rewritten, and one that was growing has the earlier shards and the new ones.
            Self::Emptied => {
                let partitions = u64::from((SHARDS_MAX + SHARDS_MAX / TIMES).max(options.resource_shards));
                Largest::Bytes((partitions + 1) * row_bytes(&keys::emptied(0), 0))
            }
            // A server that finds a note makes none.
            Self::Dropping => Largest::OfServer(row_bytes(&keys::dropping(UnixMillis(0)), 0)),
            // Its pages, METS, record, and the volume as a whole.
            Self::Damage => {
                Largest::Bytes((hathi::mets::MAX_PAGES as u64 + 3) * row_bytes(&keys::damage(nothing, 0), 0))
            }
            Self::Pins => {
                let id = "0".repeat(ID_CHARS);
                let pin = row_bytes(&keys::pin(&id), size_of::<RevisionId>() + VARINT_BYTES_MAX);
                let seen = PIN_BEGINNINGS * ALIKE_PINS_MAX as u64;
                Largest::Bytes((seen + SERVERS * u64::from(UNSEEN_PINS_MAX)) * pin)
            }
            Self::Tokens => Largest::Bytes(TOKENS_BYTES_MAX),
            Self::Content => Largest::Bytes(row_bytes(&Bytes::from_static(b"header"), value)),
            Self::ContentSums => {
                let row = row_bytes(&Bytes::from_static(b"sums\0\0\0\0"), SUMS_BYTES_MAX);
                let bytes = row as f64 / (SUMMED_BYTES as f64 / GIB);
                Largest::Each(bytes, "GiB of one content, in a data folder")
            }
            Self::ContentChunks => {
                let number = Bytes::from_static(&[0; 4]);
                Largest::Bytes(CHUNKS_MAX * row_bytes(&number, CHUNK_BYTES_MAX))
            }
            Self::Record => Largest::Bytes(row_bytes(&Bytes::new(), value)),
            // What it may have when a server looks, twice: its rows may be smaller than what each has
            // besides. And what is set until the next look, twice: as much may be on its way.
            Self::FastRecord => Largest::OfServer(2 * (FAST_RECORD_BYTES_MAX + u64::from(FAST_RECORD_UNSEEN_BYTES))),
        }
    }
}

/// What a partition key of [`Table::Objects`] stands for.
enum Key {
    /// An object. The first byte of the key is its kind.
    Object(u8),
    LogPage,
    Version,
    Received,
    /// A part of a generation of a volume, with its number.
    Part(u32),
    BacklinkBuckets,
    Backlinks,
    Keepers,
}

impl Key {
    fn of(partition: &[u8]) -> Option<Self> {
        let (kind, rest) = partition.split_first_chunk::<2>()?;
        // The bytes after the NUL may contain further NULs; ids of contents may contain any bytes.
        let beside = rest.iter().position(|byte| *byte == 0).map(|nul| &rest[nul + 1..]);
        match (kind, beside) {
            (b"k/", _) if rest.len() == 16 => Some(Self::Keepers),
            (b"v/" | b"r/" | b"c/", None) => Some(Self::Object(kind[0])),
            (b"v/" | b"r/", Some([b'l', page @ ..])) if page.len() == 8 => Some(Self::LogPage),
            (b"v/", Some([b'g', ..])) => keys::part_of(partition).map(|(_, part)| Self::Part(part)),
            (b"r/", Some([b'r', revision @ ..])) if revision.len() == 16 => Some(Self::Version),
            (b"r/", Some(b"v")) => Some(Self::Received),
            (b"b/" | b"m/", None) => Some(Self::BacklinkBuckets),
            (b"b/" | b"m/", Some(bucket)) if bucket.len() == 2 => Some(Self::Backlinks),
            _ => None,
        }
    }
}

// The numbers of crates above. They compare theirs with these when they are compiled.

/// The most servers that the crate `fixity` lets check at the same time.
pub const FIXITY_READERS: u64 = 32;

/// The most reports that it keeps, with the one that is removed next.
pub const FIXITY_REPORTS: u64 = 41;

/// The most findings that each of its servers stores in a pass.
pub const FIXITY_FINDINGS: u64 = 500;

/// The most findings of records in a pass.
pub const FIXITY_RECORD_FINDINGS: u64 = 201;

/// The most bytes of a report without its place.
const FIXITY_REPORT_BYTES: usize = 128;

/// The most bytes of a finding: five parts, each with 216 bytes of its name and of what is wrong,
/// and the lengths of both.
pub const FIXITY_FINDING_BYTES: usize = 5 * (200 + 20) + 20;

/// The most bytes of a webhook's name; of a bridge's with `bridge/` before it.
pub const WEBHOOK_NAME_BYTES: usize = 64 + 7;

/// The most characters of why a webhook failed, and of why it was parked.
pub const WEBHOOK_REASON_CHARS: usize = 200;

/// The most webhooks and bridges that servers remember. A further one is refused.
pub const WEBHOOKS_KEPT_MAX: u64 = 4_096;

/// The most webhooks and bridges that a server delivers to.
pub const WEBHOOKS_MAX: u64 = 128;

/// The most events that wait to be left out by a webhook.
pub const WEBHOOK_SKIPPED: usize = 8;

/// The most bytes of how far a webhook is: numbers, the events that are left out, and both reasons.
const WEBHOOK_BYTES: usize = 2 * 4 * WEBHOOK_REASON_CHARS + 16 * WEBHOOK_SKIPPED + 160;

/// The most bytes of all tokens that a server makes. Revoked ones count.
pub const TOKENS_BYTES_MAX: u64 = 32 << 20;

/// The most bytes of the name of a token that the change feed has.
pub const FEED_ACTOR_BYTES: usize = 64;

/// The most bytes of the name of a program that the change feed has.
pub const FEED_AGENT_BYTES: usize = 256;

/// The most bytes of a record in mode fast that can be read.
pub const FAST_RECORD_BYTES_MAX: u64 = 128 << 10;

/// The most bytes that a server sets of a record in mode fast before it looks at it.
pub const FAST_RECORD_UNSEEN_BYTES: u32 = 512 << 10;

/// Bytes of a content's id.
const CONTENT_ID_BYTES: usize = 16;

/// The table of a keyspace that no other store has.
const CHUNKS: &str = "content_chunks";

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// Characters of a selection's id.
const ID_CHARS: usize = 32;

/// Bytes of a number in a value.
const VARINT_BYTES_MAX: usize = 10;
