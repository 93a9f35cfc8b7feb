//! Why a record does not do what it is asked for.

use thiserror::Error;

/// The result of what can be refused.
pub type RecordResult<T> = Result<T, RecordError>;

/// A refusal. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The record is a text, and attributes were asked for, or the other way round.
    #[error("the record is of the other kind")]
    OtherKind,
    /// The value is no integer of 64 bits.
    #[error("the value is not an integer of 64 bits")]
    NotAnInteger,
    /// The value is no decimal number.
    #[error("the value is not a decimal number")]
    NotADecimal,
    /// The sum is out of range.
    #[error("the sum is out of range")]
    Overflow,
}
