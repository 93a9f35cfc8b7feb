//! Records: texts and named attributes that expire, each read and changed as a whole.
//!
//! A record is one value of the store, except in mode fast. So a change of several attributes is
//! seen as a whole or not at all, and a read costs one row, whatever it asks for. Expiries are
//! absolute times, in milliseconds: what has expired is never seen again, also after a restart.
//!
//! This crate knows no protocol. A door translates its commands into what [`Record`] can do.
//!
//! How to read it:
//!
//! - `records.rs`: the [`Records`] of a store; `mode.rs`: how they change; `hot.rs`: which are asked
//!   for most;
//! - `turns.rs`: one change of a record after the other; `following.rs`: changes that share a sync;
//!   `unbroken.rs`: writes whose caller goes away;
//! - `expired.rs`: deletes expired attributes of records that nobody changes;
//! - `kept.rs`: what servers that share a store keep about its records as a whole;
//! - `verify.rs`: reads all records, and names those that are damaged;
//! - `fast.rs`: records in mode fast, of several rows; `overwrite.rs`: what is written there unread;
//! - `record.rs`: the [`Record`];
//! - `attributes.rs`: its named values;
//! - `draft.rs`: a record while it is being changed;
//! - `expiry.rs`: when an expiry is set;
//! - `number.rs`: texts as numbers.

mod attributes;
mod draft;
mod error;
mod expired;
mod expiry;
mod fast;
mod following;
mod hot;
mod kept;
mod mode;
mod number;
mod overwrite;
mod record;
mod records;
mod turns;
mod unbroken;
mod verify;

pub use attributes::{Attribute, Attributes};
pub use draft::Draft;
pub use error::{RecordError, RecordResult};
pub use expired::Dropped;
pub use expiry::{ExpiryChange, ExpiryRule, Order};
pub use fast::{NAME_BYTES_MAX, ROWS_BYTES_MAX, UNSEEN_BYTES_MAX};
pub use kept::{AHEAD_MAX, WalkTurn};
pub use mode::Mode;
pub use number::{decimal_sum, integer};
pub use overwrite::Overwrite;
pub use record::{Content, Record};
pub use records::{ID_BYTES_MAX, IdPage, RecordPage, Records, RecordsError};
pub use turns::Turns;
pub use verify::VerifiedRecords;
