//! Stores descriptions in rows.

use bytes::{Bytes, BytesMut};
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::resource_body::Part;
use heads::resource_body::StoredDescription;
use heads::revision::RevisionId;
use sha2::{Digest, Sha256};
use store::{Class, NewRow, Row, Step, StoreError, Table, ValueKind, boxed, envelope};

use crate::handle::Repository;
use crate::resource::Resource;

/// The most bytes of a description. It shares a partition only with small contents.
pub const DESCRIPTION_BYTES_MAX: usize = 64 << 20;

/// Bytes of a description in one row.
pub const PIECE_BYTES: usize = 60 << 10;

/// Pieces that are put in one step: the limit of a step, less keys and envelopes.
pub(crate) const PIECES_OF_A_STEP: usize = 60;

/// The steps that put a description of an object, and the entry for its head.
pub(super) fn put(
    object: &Bytes,
    revision: RevisionId,
    description: &Bytes,
) -> ObjectsResult<(Vec<Step>, StoredDescription)> {
    if description.len() > DESCRIPTION_BYTES_MAX {
        let len = description.len();
        return Err(ObjectsError::OverLimit(format!(
            "a description of {len} bytes; at most {DESCRIPTION_BYTES_MAX} are allowed"
        )));
    }
    let pieces = (0..).zip(description.chunks(PIECE_BYTES));
    let rows: Vec<_> = pieces
        .map(|(n, piece)| NewRow::new(keys::description(revision, n), envelope::seal(ValueKind::Description, piece)))
        .collect();
    let pieces = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let stored = StoredDescription { revision, pieces, sha256: Sha256::digest(description).into() };
    let partition = keys::version(object, revision);
    let put = |rows: &[NewRow]| Step::Put { table: Table::Objects, partition: partition.clone(), rows: rows.to_vec() };
    Ok((rows.chunks(PIECES_OF_A_STEP).map(put).collect(), stored))
}

impl Repository {
    /// Reads the description of a resource, of the revision that was read. Marks damage.
    #[boxed]
    pub async fn description(&self, resource: &Resource) -> ObjectsResult<Bytes> {
        if let Some(claim) = self.own_claim(resource.head())
            && let Some(staged) = self.staged_description(claim.transaction, &resource.body).await?
        {
            return Ok(staged);
        }
        match self.read_description(resource).await {
            Ok(description) => Ok(description),
            Err(error) => {
                let revision = resource.body.description.revision;
                Err(self.noted(&resource.path, Part::Description, revision, error).await)
            }
        }
    }

    /// The descriptions of many resources, of the revisions that were read, in their order. Marks
    /// damage. Those that are longer than a row are read one after the other.
    #[boxed]
    pub async fn descriptions(&self, resources: &[&Resource]) -> ObjectsResult<Vec<ObjectsResult<Bytes>>> {
        let key = |resource: &&Resource| {
            let StoredDescription { revision, pieces, .. } = resource.body.description;
            let is_row = pieces == 1 && self.own_claim(resource.head()).is_none();
            is_row.then(|| {
                let partition = keys::version(&keys::resource_partition(&resource.path), revision);
                (partition, keys::description(revision, 0))
            })
        };
        let wanted: Vec<_> = resources.iter().map(key).collect();
        let in_rows: Vec<_> = wanted.iter().flatten().cloned().collect();
        let call = self.heads.call(Class::Description);
        let rows = match self.heads.store().get_many(call, Table::Objects, in_rows).await {
            Ok(rows) => rows,
            // Which of them is damaged shows below.
            Err(StoreError::Corrupt { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut rows = rows.into_iter();
        let mut found = Vec::with_capacity(resources.len());
        for (resource, key) in resources.iter().zip(wanted) {
            let row = key.and_then(|_| rows.next().flatten());
            let payload = row.and_then(|row| envelope::open(ValueKind::Description, &row.value).ok());
            found.push(match payload {
                Some(payload) => Ok(payload),
                None => self.description(resource).await,
            });
        }
        Ok(found)
    }

    pub(super) async fn read_description(&self, resource: &Resource) -> ObjectsResult<Bytes> {
        let StoredDescription { revision, pieces, .. } = resource.body.description;
        let partition = keys::version(&keys::resource_partition(&resource.path), revision);
        if pieces == 0 {
            return Ok(Bytes::new());
        }
        let mut sorts: Vec<_> = (0..pieces).map(|piece| keys::description(revision, piece)).collect();
        if let (1, Some(sort)) = (sorts.len(), sorts.pop()) {
            return self.payload(ValueKind::Description, &partition, &sort).await;
        }
        let mut description = BytesMut::with_capacity(pieces as usize * PIECE_BYTES);
        for piece in 0..pieces {
            description.extend_from_slice(
                &self.payload(ValueKind::Description, &partition, &keys::description(revision, piece)).await?,
            );
        }
        Ok(description.freeze())
    }

    /// The payload of a row that a head names. A missing or wrong row is read again, strongly,
    /// before it counts as damaged. A missing one never does away from the heads' home.
    pub(super) async fn payload(&self, kind: ValueKind, partition: &Bytes, sort: &Bytes) -> ObjectsResult<Bytes> {
        let get = |call| self.heads.store().get(call, Table::Objects, partition, sort);
        let open = |row: Row| envelope::open(kind, &row.value);
        match get(self.heads.call(Class::Description)).await.map(|row| row.map(open)) {
            Ok(Some(Ok(payload))) => return Ok(payload),
            Ok(Some(Err(_)) | None) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let again = get(self.heads.call(Class::Description).strong()).await?;
        let row = again.ok_or_else(|| self.missing(Table::Objects, "a row that the head names"))?;
        open(row).map_err(|error| ObjectsError::corrupt(Table::Objects, &error.to_string()))
    }
}
