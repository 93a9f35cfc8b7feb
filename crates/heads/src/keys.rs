//! Keys of rows: partitions and sort keys. A sort key begins with one byte for the kind of row. The
//! rest is big-endian, so that byte order is the order of scans.

use bytes::{BufMut, Bytes, BytesMut};
use hathi::VolumeId;
use store::{ContentId, Table, UnixMillis};

use crate::claim::TransactionId;
use crate::error::{ObjectsError, ObjectsResult};
use crate::mark::{Mark, VersionMark};
use crate::path::ResourcePath;
use crate::revision::RevisionId;

/// Kinds of rows in an object's partitions.
pub mod kind {
    /// A head.
    pub const HEAD: u8 = 0x00;
    /// An entry of a head log.
    pub const LOG: u8 = 0x01;
    /// A directory segment.
    pub const DIRECTORY: u8 = 0x02;
    /// A fixity segment.
    pub const FIXITY: u8 = 0x03;
    /// A pack, or the copy of a directory segment.
    pub const PACK: u8 = 0x04;
    /// A pin.
    pub const PIN: u8 = 0x05;
    /// A mark on damage.
    pub const DAMAGE: u8 = 0x06;
    /// A piece of a description.
    pub const DESCRIPTION: u8 = 0x07;
    /// A small content.
    pub const SMALL_CONTENT: u8 = 0x08;
    /// A bucket of records of links.
    pub const BUCKET: u8 = 0x09;
    /// An entry in the list of generations.
    pub const GENERATION: u8 = 0x0A;
    /// A mark on a version.
    pub const VERSION_MARK: u8 = 0x0B;
    /// The list of received versions, or the state of one.
    pub const RECEIVED: u8 = 0x0C;
}

/// The partition of a volume.
pub fn volume_partition(id: &VolumeId) -> Bytes {
    volume_partition_of(id.as_str())
}

/// The partition of the volume whose id has this text.
pub fn volume_partition_of(id: &str) -> Bytes {
    Bytes::from([b"v/", id.as_bytes()].concat())
}

/// The partition of a resource of the repository.
pub fn resource_partition(path: &ResourcePath) -> Bytes {
    Bytes::from([b"r/", path.as_str().as_bytes()].concat())
}

/// The partition of the resource with this name in a container.
pub fn resource_child_partition(container: &ResourcePath, name: &str) -> Bytes {
    match container.is_root() {
        true => Bytes::from([b"r/", name.as_bytes()].concat()),
        false => Bytes::from([b"r/", container.as_str().as_bytes(), b"/", name.as_bytes()].concat()),
    }
}

/// The volume of a partition; `None` if the partition is not that of a volume.
pub fn volume_of_partition(partition: &Bytes) -> Option<VolumeId> {
    VolumeId::parse(std::str::from_utf8(partition.strip_prefix(b"v/")?).ok()?).ok()
}

/// The partition of the records of whose heads were about to name a content. Sort keys are
/// partitions of objects.
pub fn keepers(content: ContentId) -> Bytes {
    Bytes::from([b"k/", &content.0[..]].concat())
}

/// The ways in which one resource points at another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Its description refers to it.
    Reference,
    /// It is a container and gives members to it.
    Members,
}

impl Link {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Reference, Self::Members];

    fn prefix(self) -> &'static [u8] {
        match self {
            Self::Reference => b"b/",
            Self::Members => b"m/",
        }
    }
}

/// The partition that lists the buckets with records of the resources that point at the one at a
/// path. Sort keys are [`bucket`]s.
pub fn backlink_buckets(link: Link, path: &ResourcePath) -> Bytes {
    Bytes::from([link.prefix(), path.as_str().as_bytes()].concat())
}

/// A bucket of the records of the resources that point at the one at a path. Sort keys are
/// [`backlink`]s. Paths contain no NUL.
pub fn backlinks(link: Link, path: &ResourcePath, bucket: u16) -> Bytes {
    Bytes::from([link.prefix(), path.as_str().as_bytes(), &[0], &bucket.to_be_bytes()].concat())
}

/// The record that a bucket is not empty.
pub fn bucket(bucket: u16) -> Bytes {
    Bytes::from([&[kind::BUCKET], &bucket.to_be_bytes()[..]].concat())
}

/// The prefix of all such records.
pub fn bucket_prefix() -> Bytes {
    Bytes::from_static(&[kind::BUCKET])
}

/// The bucket that such a record names.
pub fn bucket_of(sort: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(sort.strip_prefix(&[kind::BUCKET])?.try_into().ok()?))
}

/// The record that the resource at a path points at another, or did so before.
pub fn backlink(path: &ResourcePath) -> Bytes {
    Bytes::from([BACKLINK, path.as_str().as_bytes()].concat())
}

/// The prefix of such keys. It is needed because the root's path is empty.
const BACKLINK: &[u8] = b"/";

/// The prefix of all such records.
pub fn backlink_prefix() -> Bytes {
    Bytes::from_static(BACKLINK)
}

/// The resource that such a record names.
pub fn backlink_of(sort: &[u8]) -> Option<ResourcePath> {
    ResourcePath::parse(std::str::from_utf8(sort.strip_prefix(BACKLINK)?).ok()?).ok()
}

/// The resource of a partition; `None` if the partition is not that of a resource.
pub fn resource_of_partition(partition: &Bytes) -> Option<ResourcePath> {
    ResourcePath::parse(std::str::from_utf8(partition.strip_prefix(b"r/")?).ok()?).ok()
}

/// The partition of a container.
pub fn container_partition(name: &str) -> Bytes {
    Bytes::from([b"c/", name.as_bytes()].concat())
}

/// The head.
pub fn head() -> Bytes {
    Bytes::from_static(&[kind::HEAD])
}

/// The head-log entry of a revision (the head that was replaced).
pub fn log(revision: RevisionId) -> Bytes {
    revision_key(kind::LOG, revision, None)
}

/// The prefix of all head-log entries of a page.
pub fn log_prefix() -> Bytes {
    Bytes::from_static(&[kind::LOG])
}

/// Entries of one page of a head log.
pub const LOG_PAGE_ENTRIES: u64 = 1_024;

/// The partition of a page of an object's head log. Partitions of objects contain no NUL.
pub fn log_page(object: &[u8], page: u64) -> Bytes {
    Bytes::from([object, &b"\0l"[..], &page.to_be_bytes()].concat())
}

/// The page of a head log that is in such a partition; `None` if it is another kind of partition.
pub fn log_page_of(partition: &[u8]) -> Option<u64> {
    let beside = partition.iter().position(|byte| *byte == 0).map(|nul| &partition[nul + 1..])?;
    Some(u64::from_be_bytes(beside.strip_prefix(b"l")?.try_into().ok()?))
}

/// A mark on a version. It is in the page of the version's entry in the head log, or of the entry
/// that its head will have.
pub fn version_mark(revision: RevisionId, mark: VersionMark) -> Bytes {
    Bytes::from([&[kind::VERSION_MARK][..], &revision.0, &[mark as u8]].concat())
}

/// The prefix of all marks on versions of a page.
pub fn version_mark_prefix() -> Bytes {
    Bytes::from_static(&[kind::VERSION_MARK])
}

/// The version and the mark of a key.
pub fn version_mark_of(sort: &[u8]) -> Option<(RevisionId, VersionMark)> {
    let (revision, mark) = sort.strip_prefix(&[kind::VERSION_MARK])?.split_first_chunk()?;
    let &[mark] = mark else { return None };
    Some((RevisionId(*revision), VersionMark::from_byte(mark)?))
}

/// The partition of the rows that one revision of a resource wrote: its description, and its bytes
/// if they are few. In [`Table::Damage`], the partition of their marks.
pub fn version(object: &[u8], revision: RevisionId) -> Bytes {
    Bytes::from([object, &b"\0r"[..], &revision.0].concat())
}

/// The revision of such a partition; `None` if it is another kind of partition.
pub fn version_of(partition: &[u8]) -> Option<RevisionId> {
    let beside = partition.iter().position(|byte| *byte == 0).map(|nul| &partition[nul + 1..])?;
    Some(RevisionId(beside.strip_prefix(b"r")?.try_into().ok()?))
}

/// The partition of a resource with the list of its received versions.
pub fn received(object: &[u8]) -> Bytes {
    Bytes::from([object, &b"\0v"[..]].concat())
}

/// Whether a partition is one of these.
pub fn is_received(partition: &[u8]) -> bool {
    let beside = partition.iter().position(|byte| *byte == 0).map(|nul| &partition[nul + 1..]);
    partition.starts_with(b"r/") && beside == Some(&b"v"[..])
}

/// The list in such a partition.
pub fn received_list() -> Bytes {
    Bytes::from_static(&[kind::RECEIVED])
}

/// The state of the received version that `revision` wrote, in the partition of what that wrote.
pub fn received_version(revision: RevisionId) -> Bytes {
    revision_key(kind::RECEIVED, revision, None)
}

/// A generation's entry in the list of generations that may have rows. The list is in the volume's
/// own partition.
pub fn generation(revision: RevisionId) -> Bytes {
    revision_key(kind::GENERATION, revision, None)
}

/// The prefix of all such entries.
pub fn generation_prefix() -> Bytes {
    Bytes::from_static(&[kind::GENERATION])
}

/// Packs in one part of a generation, 30 MiB.
pub const PART_PACKS: u32 = 512;

/// Fixity segments in one part of a generation, 16 MiB at most.
pub const PART_FIXITY_SEGMENTS: u32 = 256;

/// The partition of a part of the rows that one revision of a volume wrote. [`Table::Packs`] has as
/// many parts as the packs and fixity segments need. [`Table::Objects`] has the directory, and
/// [`Table::Damage`] the marks, in the first part.
pub fn part(volume: &[u8], generation: RevisionId, part: u32) -> Bytes {
    Bytes::from([volume, &b"\0g"[..], &generation.0, &part.to_be_bytes()].concat())
}

/// The generation and the part of such a partition; `None` if it is another kind of partition.
pub fn part_of(partition: &[u8]) -> Option<(RevisionId, u32)> {
    let beside = partition.iter().position(|byte| *byte == 0).map(|nul| &partition[nul + 1..])?;
    let (generation, part) = beside.strip_prefix(b"g")?.split_first_chunk()?;
    Some((RevisionId(*generation), u32::from_be_bytes(part.try_into().ok()?)))
}

/// The partition of a volume's row, by its sort key: the volume's own, or that of a part of a
/// generation.
pub fn partition_of(volume: &Bytes, sort: &[u8]) -> Bytes {
    let number = number_of(sort).unwrap_or(0);
    let in_part = match sort.first() {
        Some(&kind::PACK) => pack_of(number).map_or(0, |pack| pack / PART_PACKS),
        Some(&kind::FIXITY) => number / PART_FIXITY_SEGMENTS,
        Some(&(kind::DIRECTORY | kind::DAMAGE)) => 0,
        _ => return volume.clone(),
    };
    revision_of(sort).map_or_else(|| volume.clone(), |generation| part(volume, generation, in_part))
}

/// The object of a partition of a volume or a resource. The partition is that of the object's head,
/// or begins with it and a NUL.
pub fn object_of(partition: &Bytes) -> Bytes {
    let end = partition.iter().position(|byte| *byte == 0).unwrap_or(partition.len());
    partition.slice(..end)
}

/// A directory segment of the generation that `revision` made.
pub fn directory(revision: RevisionId, segment: u32) -> Bytes {
    revision_key(kind::DIRECTORY, revision, Some(segment))
}

/// A fixity segment of the generation that `revision` made.
pub fn fixity(revision: RevisionId, segment: u32) -> Bytes {
    revision_key(kind::FIXITY, revision, Some(segment))
}

/// A pack of the generation that `revision` made. No volume has as many packs as there are numbers,
/// but a damaged directory may say so.
pub fn pack(revision: RevisionId, pack: u32) -> Bytes {
    revision_key(kind::PACK, revision, Some(FIRST_PACK.saturating_add(pack)))
}

/// The copy of a directory segment, which comes before the packs of its generation.
pub fn directory_copy(revision: RevisionId, segment: u32) -> Bytes {
    revision_key(kind::PACK, revision, Some(segment))
}

/// The copy of a generation's directory and all packs after it: from the first key to before the
/// second.
pub fn directory_and_packs(revision: RevisionId) -> (Bytes, Bytes) {
    (directory_copy(revision, 0), revision_key(kind::PACK, revision, Some(u32::MAX)))
}

/// The number of the pack in such a row, from the number in its key; `None` if the row is the copy
/// of a directory segment.
pub fn pack_of(number: u32) -> Option<u32> {
    number.checked_sub(FIRST_PACK)
}

/// The number of the first pack in its key. Smaller numbers belong to copies of directory segments.
const FIRST_PACK: u32 = 1 << 31;

/// A piece of the description that `revision` wrote.
pub fn description(revision: RevisionId, piece: u32) -> Bytes {
    revision_key(kind::DESCRIPTION, revision, Some(piece))
}

/// The prefix of all pieces of the description that `revision` wrote.
pub fn description_rows(revision: RevisionId) -> Bytes {
    revision_key(kind::DESCRIPTION, revision, None)
}

/// The prefix of all descriptions.
pub fn description_prefix() -> Bytes {
    Bytes::from_static(&[kind::DESCRIPTION])
}

/// The content that `revision` wrote, if it is small enough for a row.
pub fn small_content(revision: RevisionId) -> Bytes {
    revision_key(kind::SMALL_CONTENT, revision, None)
}

/// A selection's pin, in [`Table::Pins`].
pub fn pin(selection: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(1 + selection.len());
    key.put_u8(kind::PIN);
    key.put_slice(selection.as_bytes());
    key.freeze()
}

/// The prefix of all pins.
pub fn pin_prefix() -> Bytes {
    Bytes::from_static(&[kind::PIN])
}

/// The damage mark of a member of a revision, in [`Table::Damage`].
pub fn damage(revision: RevisionId, member: u32) -> Bytes {
    revision_key(kind::DAMAGE, revision, Some(member))
}

/// The prefix of all damage marks of a revision.
pub fn damage_prefix(revision: RevisionId) -> Bytes {
    revision_key(kind::DAMAGE, revision, None)
}

/// The partition of the marks of one shard of a container's children, at one epoch of the shard.
/// Container names contain no NUL.
pub fn children_partition(container: &str, incarnation: RevisionId, shard: u16, epoch: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(container.len() + 23);
    key.put_slice(container.as_bytes());
    key.put_u8(0);
    key.put_slice(&incarnation.0);
    key.put_u16(shard);
    key.put_u32(epoch);
    key.freeze()
}

/// The partition of past members of a container that were in one shard at one epoch, and were left
/// behind when it was rewritten.
pub fn past_partition(container: &str, incarnation: RevisionId, shard: u16, epoch: u32) -> Bytes {
    Bytes::from([&children_partition(container, incarnation, shard, epoch)[..], b"p"].concat())
}

/// The partition that lists the partitions of past members of a container.
pub fn past_index_partition(container: &str, incarnation: RevisionId) -> Bytes {
    Bytes::from([container.as_bytes(), &[0], &incarnation.0].concat())
}

/// The row in that list for the past members of a shard at an epoch. Rows are roughly in the order
/// in which members were left behind.
pub fn past_index(shard: u16, epoch: u32) -> Bytes {
    Bytes::from([&epoch.to_be_bytes()[..], &shard.to_be_bytes()].concat())
}

/// The shard and the epoch that such a row names.
pub fn past_index_of(sort: &[u8]) -> Option<(u16, u32)> {
    let (epoch, shard) = sort.split_first_chunk()?;
    Some((u16::from_be_bytes(shard.try_into().ok()?), u32::from_be_bytes(*epoch)))
}

/// The first byte of a key that records when a shard changed: below the first byte of any name.
const CHANGE: u8 = 0x01;

/// The first byte of a key of a sampled child: above that of changes, below the first byte of any
/// name.
const SAMPLE: u8 = 0x02;

/// The row with the bytes that a sampled child counts for.
pub fn sample(incarnation: RevisionId) -> Bytes {
    Bytes::from([&[SAMPLE], &incarnation.0[..]].concat())
}

/// The prefix of all samples of a shard.
pub fn sample_prefix() -> Bytes {
    Bytes::from_static(&[SAMPLE])
}

/// Where names begin in a partition of children: names contain no control characters.
pub fn first_child() -> Bytes {
    Bytes::from_static(b" ")
}

/// The record that the listing of a shard changed; the newest comes first.
pub fn change(change: RevisionId) -> Bytes {
    let mut key = BytesMut::with_capacity(17);
    key.put_u8(CHANGE);
    key.extend(change.0.iter().map(|byte| !byte));
    key.freeze()
}

/// The prefix of all changes of a shard.
pub fn change_prefix() -> Bytes {
    Bytes::from_static(&[CHANGE])
}

/// The change that a key records.
pub fn change_of(sort: &[u8]) -> Option<RevisionId> {
    let inverted: [u8; 16] = sort.strip_prefix(&[CHANGE])?.try_into().ok()?;
    Some(RevisionId(inverted.map(|byte| !byte)))
}

/// A mark of a child. Names contain no control characters, so the NUL after the name keeps the
/// order of names.
pub fn child_mark(name: &str, incarnation: RevisionId, mark: Mark) -> Bytes {
    let mut key = BytesMut::with_capacity(name.len() + 18);
    key.put_slice(name.as_bytes());
    key.put_u8(0);
    key.put_slice(&incarnation.0);
    key.put_u8(mark as u8);
    key.freeze()
}

/// The smallest key after all marks of a child, of any incarnation.
pub fn after_child(name: &str) -> Bytes {
    Bytes::from([name.as_bytes(), &[1]].concat())
}

/// The name, incarnation and mark in a child key.
pub fn child_of(sort: &[u8]) -> Option<(&str, RevisionId, Mark)> {
    let (name, rest) = sort.split_at_checked(sort.len().checked_sub(18)?)?;
    let incarnation = rest.get(1..17)?.try_into().ok()?;
    Some((std::str::from_utf8(name).ok()?, RevisionId(incarnation), Mark::from_byte(rest[17])?))
}

/// The partition of [`Table::Work`] with the records of one shard of a bucket of a queue. Names of
/// queues contain no NUL.
pub fn queue(name: &str, bucket: u32, shard: u8) -> Bytes {
    Bytes::from([b"q/", name.as_bytes(), &[0], &bucket.to_be_bytes(), &[shard]].concat())
}

/// The bucket of such a partition; `None` if it does not belong to this queue.
pub fn queue_bucket(partition: &[u8], name: &str) -> Option<u32> {
    let rest = partition.strip_prefix(b"q/")?.strip_prefix(name.as_bytes())?.strip_prefix(&[0])?;
    (rest.len() == 5).then(|| rest.first_chunk().map(|bucket| u32::from_be_bytes(*bucket)))?
}

/// The partition of [`Table::Work`] with the low-water marks of all queues. They are about this
/// store alone ([`store::copying::LOCAL_PREFIX`]): a copy may have records that its source no
/// longer has.
pub fn low_water_partition() -> Bytes {
    Bytes::from_static(b"local/low-water")
}

/// The low-water mark of a queue.
pub fn low_water(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

/// The partition of [`Table::Work`] with the announced changes of one shard of a bucket of the
/// feed. Sort keys are positions.
pub fn feed(bucket: u32, shard: u8) -> Bytes {
    Bytes::from([&b"feed\0c"[..], &bucket.to_be_bytes(), &[shard]].concat())
}

/// The partition of [`Table::Work`] that lists the buckets of the feed that have changes, of 1,024
/// buckets. Sort keys are [`feed_bucket`]s.
pub fn feed_buckets(list: u32) -> Bytes {
    Bytes::from([&b"feed\0b"[..], &list.to_be_bytes()].concat())
}

/// The record that a bucket of the feed has changes.
pub fn feed_bucket(bucket: u32) -> Bytes {
    Bytes::copy_from_slice(&bucket.to_be_bytes())
}

/// The partition of [`Table::Work`] with the [`feed_newest`] bucket, and with what is
/// [`feed_dropped`] and [`feed_cleared`].
pub fn feed_ends() -> Bytes {
    Bytes::from_static(b"feed\0e")
}

/// The newest bucket of the feed, on an engine with one process.
pub fn feed_newest() -> Bytes {
    Bytes::from_static(b"newest")
}

/// The first bucket of the feed that is kept: all before are dropped, or about to be.
pub fn feed_dropped() -> Bytes {
    Bytes::from_static(b"dropped")
}

/// The bucket of the feed before which none is listed any more. Programs that do not know this row
/// ignore it.
pub fn feed_cleared() -> Bytes {
    Bytes::from_static(b"cleared")
}

/// The partition of [`Table::Work`] with the state of the fixity auditor: the present pass, its
/// readers, and reports on earlier passes.
pub fn fixity_state() -> Bytes {
    Bytes::from_static(b"local/fixity")
}

/// The present pass.
pub fn fixity_pass() -> Bytes {
    Bytes::from_static(b"pass")
}

/// A reader of the present pass.
pub fn fixity_reader(number: u8) -> Bytes {
    Bytes::from([&b"reader/"[..], &[number]].concat())
}

/// The report on an earlier pass.
pub fn fixity_report(pass: u32) -> Bytes {
    Bytes::from([&b"report/"[..], &pass.to_be_bytes()].concat())
}

/// The start of the keys of reports.
pub fn fixity_report_prefix() -> Bytes {
    Bytes::from_static(b"report/")
}

/// The partition of [`Table::Work`] with the findings of a pass. Sort keys are partitions of
/// objects.
pub fn fixity_findings(pass: u32) -> Bytes {
    Bytes::from([&b"local/fixity/"[..], &pass.to_be_bytes()].concat())
}

/// The pass of such a partition.
pub fn fixity_pass_of(partition: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(partition.strip_prefix(b"local/fixity/")?.try_into().ok()?))
}

/// The partition of [`Table::Work`] with how far webhooks are, and bridges to brokers. Sort keys are
/// their names; those of bridges begin with `bridge/`.
pub fn webhooks() -> Bytes {
    Bytes::from_static(b"local/webhooks")
}

/// The record that revision `revision` of a volume left rows to collect, or may have left some.
/// Ordered by time.
pub fn collecting(revision: RevisionId, id: &VolumeId) -> Bytes {
    Bytes::from([&revision.0, id.as_str().as_bytes()].concat())
}

/// The record that `revision` of a resource superseded, or may have superseded, another. Ordered by
/// time.
pub fn superseded(revision: RevisionId, path: &ResourcePath) -> Bytes {
    Bytes::from([&revision.0, path.as_str().as_bytes()].concat())
}

/// The revision and the path that such a record names.
pub fn superseded_of(sort: &[u8]) -> Option<(RevisionId, &str)> {
    let (revision, path) = sort.split_first_chunk()?;
    Some((RevisionId(*revision), std::str::from_utf8(path).ok()?))
}

/// The record that a container with this incarnation is being deleted, or emptied. Ordered by
/// `since`.
pub fn container_job(since: RevisionId, incarnation: RevisionId) -> Bytes {
    Bytes::from([since.0, incarnation.0].concat())
}

/// The partition of [`Table::Work`] that notes the progress of emptying a deleted container, by its
/// record.
pub fn emptied_partition(record: &Bytes) -> Bytes {
    Bytes::from([b"emptied\0", &record[..]].concat())
}

/// The note that this many of its partitions are empty.
pub fn emptied(partitions: u64) -> Bytes {
    Bytes::copy_from_slice(&partitions.to_be_bytes())
}

/// The number in such a note.
pub fn emptied_of(sort: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(sort.try_into().ok()?))
}

/// The time since when such a record exists.
pub fn container_job_since(sort: &[u8]) -> Option<RevisionId> {
    Some(RevisionId(*sort.first_chunk()?))
}

/// The record that a container's shards that began with `first_epoch` are to be replaced, or have
/// been outgrown.
pub fn growing(incarnation: RevisionId, first_epoch: u32) -> Bytes {
    Bytes::from([&incarnation.0[..], &first_epoch.to_be_bytes()].concat())
}

/// The partition of [`Table::Work`] that records since when a partition of children is known to be
/// unused.
pub fn dropping_partition(children: &Bytes) -> Bytes {
    Bytes::from([b"d/", &children[..]].concat())
}

/// The record of the time when that was found.
pub fn dropping(found_at: UnixMillis) -> Bytes {
    Bytes::copy_from_slice(&found_at.0.to_be_bytes())
}

/// The time in such a record.
pub fn dropping_since(sort: &[u8]) -> Option<UnixMillis> {
    Some(UnixMillis(u64::from_be_bytes(sort.try_into().ok()?)))
}

/// The kinds of rows that one generation has in a table, as prefixes of their sort keys.
pub fn generation_kinds(table: Table) -> impl Iterator<Item = Bytes> {
    let kinds = [kind::DIRECTORY, kind::FIXITY, kind::PACK, kind::DAMAGE].into_iter();
    kinds.filter(move |kind| table_of_kind(*kind) == table).map(|kind| Bytes::copy_from_slice(&[kind]))
}

/// The table of a row of an object, by its sort key.
pub fn table_of(sort: &[u8]) -> Table {
    table_of_kind(sort.first().copied().unwrap_or(kind::HEAD))
}

fn table_of_kind(kind: u8) -> Table {
    match kind {
        kind::FIXITY | kind::PACK => Table::Packs,
        kind::PIN => Table::Pins,
        kind::DAMAGE => Table::Damage,
        _ => Table::Objects,
    }
}

/// The revision and the volume that such a record names.
pub fn collecting_of(sort: &Bytes) -> Option<(RevisionId, VolumeId)> {
    let (revision, id) = sort.split_first_chunk()?;
    Some((RevisionId(*revision), VolumeId::parse(std::str::from_utf8(id).ok()?).ok()?))
}

/// The prefix of all rows of one kind (one of [`generation_kinds`]) and generation.
pub fn generation_rows(kind_prefix: &Bytes, generation: RevisionId) -> Bytes {
    Bytes::from([kind_prefix, &generation.0[..]].concat())
}

/// The first key of rows of one kind and generation with at least this number.
pub fn generation_row(kind_prefix: &Bytes, generation: RevisionId, number: u32) -> Bytes {
    Bytes::from([kind_prefix, &generation.0[..], &number.to_be_bytes()].concat())
}

/// The generation of a key of the list, a directory, fixity, pack or damage key; the revision of a
/// log key or of a key of a resource's version.
pub fn revision_of(sort: &[u8]) -> Option<RevisionId> {
    let bytes: [u8; 16] = sort.get(1..17)?.try_into().ok()?;
    match sort[0] {
        kind::LOG
        | kind::GENERATION
        | kind::DIRECTORY
        | kind::FIXITY
        | kind::PACK
        | kind::DAMAGE
        | kind::DESCRIPTION
        | kind::SMALL_CONTENT => Some(RevisionId(bytes)),
        _ => None,
    }
}

/// The member of a damage key, or the number in the key of a pack ([`pack_of`]) or segment.
pub fn number_of(sort: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(sort.get(17..21)?.try_into().ok()?))
}

/// The partition of [`Table::Work`] of a transaction.
pub fn transaction(id: TransactionId) -> Bytes {
    Bytes::from([b"tx/", &id.0[..]].concat())
}

/// Whether a partition of [`Table::Work`] is that of a transaction.
pub fn is_transaction(partition: &[u8]) -> bool {
    partition.starts_with(b"tx/") && partition.len() == 3 + size_of::<TransactionId>()
}

/// The state of a transaction.
pub fn transaction_state() -> Bytes {
    Bytes::from_static(&[0])
}

/// The smallest key after the state: the keys of everything that a transaction has staged.
pub fn staged_from() -> Bytes {
    Bytes::from_static(&[1])
}

/// The operation of a transaction on the resource at a path, by its id.
pub fn operation(path: &ResourcePath, operation: RevisionId) -> Bytes {
    Bytes::from([&[1][..], path.as_str().as_bytes(), &[0], &operation.0].concat())
}

/// The prefix of all operations of a transaction.
pub fn operations() -> Bytes {
    Bytes::from_static(&[1])
}

/// The prefix of the operations on resources in a container, however deep.
pub fn operations_in(container: &ResourcePath) -> Bytes {
    match container.is_root() {
        true => operations(),
        false => Bytes::from([&[1][..], container.as_str().as_bytes(), b"/"].concat()),
    }
}

/// The path and the id that the key of an operation names.
pub fn operation_of(sort: &[u8]) -> Option<(&str, RevisionId)> {
    let (path, id) = sort.strip_prefix(&[1])?.split_last_chunk()?;
    Some((std::str::from_utf8(path.strip_suffix(&[0])?).ok()?, RevisionId(*id)))
}

/// A piece of a description that an operation staged.
pub fn staged_description(operation: RevisionId, piece: u32) -> Bytes {
    revision_key(2, operation, Some(piece))
}

/// The few bytes that an operation staged.
pub fn staged_content(operation: RevisionId) -> Bytes {
    revision_key(3, operation, None)
}

/// That a transaction was about to create the container at a path with an incarnation.
pub fn made_container(path: &ResourcePath, incarnation: RevisionId) -> Bytes {
    Bytes::from([&made_containers(path)[..], &incarnation.0].concat())
}

/// The prefix of these records of one path.
pub fn made_containers(path: &ResourcePath) -> Bytes {
    Bytes::from([&[4][..], path.as_str().as_bytes(), &[0]].concat())
}

fn revision_key(kind: u8, revision: RevisionId, number: Option<u32>) -> Bytes {
    let mut key = BytesMut::with_capacity(21);
    key.put_u8(kind);
    key.put_slice(&revision.0);
    if let Some(number) = number {
        key.put_u32(number);
    }
    key.freeze()
}

/// The path in a record of work.
pub fn stored_path(text: &str) -> ObjectsResult<ResourcePath> {
    ResourcePath::parse(text).map_err(|error| ObjectsError::corrupt(Table::Work, &error.to_string()))
}

#[cfg(test)]
mod tests;
