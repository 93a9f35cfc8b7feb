//! How large the rows of each kind are, so that a page is asked for with the right number of rows.

use std::collections::HashMap;

use parking_lot::Mutex;
use store::{Scan, Table};

/// The assumed size in bytes of a row of a kind that was not read yet.
const UNKNOWN_ROW_BYTES: usize = 4 << 10;

/// The last seen size of rows, by table and first byte of the sort key (by which the domain
/// distinguishes kinds of rows).
#[derive(Default)]
pub(crate) struct RowSizes(Mutex<HashMap<(Table, u8), usize>>);

impl RowSizes {
    /// The size of rows of a scan, in bytes, as far as it is known.
    pub(crate) fn of(&self, table: Table, scan: &Scan) -> usize {
        let kind = scan.from.first().copied().unwrap_or(0);
        self.0.lock().get(&(table, kind)).copied().unwrap_or(UNKNOWN_ROW_BYTES)
    }

    /// Notes what a page of a scan held.
    pub(crate) fn learn(&self, table: Table, scan: &Scan, rows: usize, bytes: usize) {
        if let Some(mean) = bytes.checked_div(rows) {
            let kind = scan.from.first().copied().unwrap_or(0);
            self.0.lock().insert((table, kind), mean);
        }
    }
}
