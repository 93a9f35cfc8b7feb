//! The fixity auditor: reads everything that is stored in turn, compares it with the stored
//! digests, marks damage, and reports what it found.
//!
//! The auditor works in *passes*. A pass walks once over all objects: volumes, and resources with
//! their descriptions and bytes. A new pass begins a set time after the last one began. Any number
//! of servers take part, without locks:
//!
//! - One guarded row, the [`Pass`](state::Pass), says how far the walk has got. A server takes the
//!   next objects by moving it on.
//! - Before that, the server writes the names of these objects into the row of a *reader*. It saves
//!   its progress there, which also extends its lease. So no two servers read the same objects.
//! - If a server dies, its lease ends, and another server finishes what is left in the reader.
//! - When the walk has ended and no reader has anything left, one server at a time reads the
//!   records, with a lease as well.
//! - When all of them were read, the pass is over. Its report stays.
//! - If one of these rows is damaged, objects may be missing, and a new pass begins.
//!
//! A server that dies between two of these steps leaves objects to be read twice, and never any to
//! be left out.
//!
//! Files in reading order: `state.rs` has the stored values; `auditor.rs` has [`Auditor`], which
//! does one step at a time; `reading.rs` reads what a step has taken; `row_records.rs` reads
//! records; `shared.rs` reads and changes what servers share; `check.rs` checks one object;
//! `report.rs` has the reports on passes.

mod auditor;
mod check;
mod reading;
mod report;
mod row_records;
mod shared;
mod state;

pub use auditor::{Auditor, FixityOptions, Step};
pub use report::{PassReport, ReportedFinding, Reports, Status};
pub use state::Tally;
