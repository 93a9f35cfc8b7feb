//! Reads all records, and names those that are damaged.

use bytes::Bytes;
use store::{Deadline, StoreError, Table, boxed};

use crate::records::{IdPage, Records, RecordsError, by, call, decoded};

/// What one step of a walk that reads all records has found, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedRecords {
    /// The argument for the next step; `None`: all records were read.
    pub next: Option<Bytes>,
    /// Records that were read, the damaged ones included.
    pub records: u64,
    /// About how many bytes were read: those of ids and of values.
    pub bytes: u64,
    /// The ids of damaged records, each with how the damage was noticed.
    pub damaged: Vec<(Bytes, String)>,
}

impl Records {
    /// One step of a walk that reads all records with their checksums, of at most `max` ids. It ends
    /// earlier before it reads much more than `max_bytes`. A damaged record does not end it. It does
    /// not count as asking for the records, and in a store that belongs to this process it leaves the
    /// engine's caches as they are.
    ///
    /// Errors: those of the store. A list of records that is damaged itself is
    /// [`StoreError::Corrupt`]: the walk cannot go on behind it.
    #[boxed]
    pub async fn verify_some(
        &self,
        deadline: Deadline,
        from: Option<Bytes>,
        (max, max_bytes): (usize, usize),
    ) -> Result<VerifiedRecords, RecordsError> {
        if !self.lists_in_one_pass() {
            let IdPage { ids, next } = self.ids(deadline, from, max.min(self.fit_in(max_bytes))).await?;
            return self.verify_each(deadline, ids, next).await;
        }
        let walk = self.store.walk_rows(call(deadline).once(), Table::Records, from, max, max_bytes);
        let page = by(deadline, walk).await?;
        let mut verified = VerifiedRecords { next: page.next, ..VerifiedRecords::default() };
        for (id, row) in page.rows {
            verified.records += 1;
            verified.bytes += (id.len() + row.value.len()) as u64;
            if let Err(error) = decoded(&row.value) {
                verified.damaged.push((id, error.to_string()));
            }
        }
        Ok(verified)
    }

    async fn verify_each(
        &self,
        deadline: Deadline,
        ids: Vec<Bytes>,
        next: Option<Bytes>,
    ) -> Result<VerifiedRecords, RecordsError> {
        let mut verified = VerifiedRecords { next, ..VerifiedRecords::default() };
        match self.read_listed(deadline, &ids).await {
            Err(error) if is_damage(&error) => {}
            read => {
                let read = read?;
                ids.iter().zip(read).for_each(|(id, record)| verified.add(id, record.map(|record| record.bytes())));
                return Ok(verified);
            }
        }
        for id in ids {
            match self.read_listed(deadline, std::slice::from_ref(&id)).await {
                Err(error) if is_damage(&error) => {
                    verified.records += 1;
                    verified.damaged.push((id, error.to_string()));
                }
                read => verified.add(&id, read?.pop().flatten().map(|record| record.bytes())),
            }
        }
        Ok(verified)
    }
}

impl VerifiedRecords {
    /// Counts a record that is sound, with its bytes; `None`: it has expired.
    fn add(&mut self, id: &Bytes, bytes: Option<usize>) {
        self.records += u64::from(bytes.is_some());
        self.bytes += (id.len() + bytes.unwrap_or_default()) as u64;
    }
}

fn is_damage(error: &RecordsError) -> bool {
    matches!(error, RecordsError::Damaged(_) | RecordsError::Store(StoreError::Corrupt { .. }))
}
