//! Types whose values are stored: how they are encoded, and which versions of them are read.
//!
//! To change a type: raise [`Stored::VERSION`], let [`Stored::decode`] read the earlier versions
//! (keep their types in a private module), and let [`Stored::encode`] write the version that the
//! store's level allows.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::envelope::{self, EnvelopeError};
use crate::format_level::FormatLevel;
use crate::value_kind::ValueKind;

/// Why a value cannot be encoded or decoded.
#[derive(Debug, Error)]
pub enum StoredError {
    /// Its envelope is refused.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// Its bytes are not a value of its type.
    #[error(transparent)]
    Postcard(#[from] postcard::Error),
    /// Something follows the value. A field that a later version appends would be lost.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
}

/// A type whose values are stored. The methods that have a default are those of a type with one
/// version.
pub trait Stored: Serialize + DeserializeOwned {
    /// The kind of its values.
    const KIND: ValueKind;

    /// The newest version, counted from 1.
    const VERSION: u8 = 1;

    /// Decodes a payload of a version. Versions that the type does not know are
    /// [`EnvelopeError::Version`].
    fn decode(version: u8, payload: &[u8]) -> Result<Self, StoredError> {
        match version {
            1 => decode(payload),
            version => Err(EnvelopeError::Version { kind: Self::KIND, version }.into()),
        }
    }

    /// Encodes the value in the newest version that a store at `level` may hold, and returns that
    /// version.
    fn encode(&self, level: FormatLevel) -> Result<(u8, Vec<u8>), StoredError> {
        let _one_version_for_all_levels = level;
        Ok((1, encode(self)?))
    }
}

/// Encodes and seals a value of a type with one version. Another type does not compile: see
/// [`seal_for`].
pub fn seal<T: Stored>(value: &T) -> Result<Bytes, StoredError> {
    const { assert!(T::VERSION == 1, "a type with several versions is sealed for a level") };
    seal_for(FormatLevel::FIRST, value)
}

/// Encodes and seals a value for a store at `level`.
pub fn seal_for<T: Stored>(level: FormatLevel, value: &T) -> Result<Bytes, StoredError> {
    let (version, payload) = value.encode(level)?;
    Ok(envelope::seal_version(T::KIND, version, &payload))
}

/// Opens and decodes a value of any version that its type knows.
pub fn open<T: Stored>(value: &Bytes) -> Result<T, StoredError> {
    let opened = envelope::open_version(T::KIND, value)?;
    T::decode(opened.version, &opened.payload)
}

/// Encodes a value in postcard's format.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoredError> {
    Ok(postcard::to_stdvec(value)?)
}

/// Decodes a value in postcard's format, and refuses bytes that follow it.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, StoredError> {
    match postcard::take_from_bytes(payload)? {
        (value, []) => Ok(value),
        (_, rest) => Err(StoredError::Trailing(rest.len())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Trial(u8, u16);

    impl Stored for Trial {
        const KIND: ValueKind = ValueKind::Trial;
    }

    /// The same type in a later program.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct LaterTrial(u8, u16, u8);

    const LATER: FormatLevel = FormatLevel::NEWEST.next();

    impl Stored for LaterTrial {
        const KIND: ValueKind = ValueKind::Trial;
        const VERSION: u8 = 2;

        fn decode(version: u8, payload: &[u8]) -> Result<Self, StoredError> {
            match version {
                1 => decode(payload).map(|Trial(one, two)| Self(one, two, 0)),
                2 => decode(payload),
                version => Err(EnvelopeError::Version { kind: Self::KIND, version }.into()),
            }
        }

        fn encode(&self, level: FormatLevel) -> Result<(u8, Vec<u8>), StoredError> {
            match level >= LATER {
                true => Ok((2, encode(self)?)),
                false => Ok((1, encode(&Trial(self.0, self.1))?)),
            }
        }
    }

    #[test]
    fn a_value_is_opened_as_it_was_sealed() {
        let sealed = seal(&Trial(1, 2)).unwrap();
        assert_eq!(open::<Trial>(&sealed).unwrap(), Trial(1, 2));
    }

    #[test]
    fn a_later_program_writes_what_the_level_allows_and_reads_both_versions() {
        let (now, later) = (FormatLevel::NEWEST, LaterTrial(1, 2, 3));
        let sealed = seal_for(now, &later).unwrap();
        assert_eq!(sealed, seal(&Trial(1, 2)).unwrap(), "the earlier program reads it");
        assert_eq!(open::<LaterTrial>(&sealed).unwrap(), LaterTrial(1, 2, 0));
        let sealed = seal_for(LATER, &later).unwrap();
        assert_eq!(open::<LaterTrial>(&sealed).unwrap(), later);
        assert!(matches!(
            open::<Trial>(&sealed),
            Err(StoredError::Envelope(EnvelopeError::Version { version: 2, .. }))
        ));
    }

    #[test]
    fn bytes_after_a_value_are_refused() {
        let longer = envelope::seal(ValueKind::Trial, &[1, 2, 3]);
        assert!(matches!(open::<Trial>(&longer), Err(StoredError::Trailing(1))));
    }

    #[test]
    fn a_later_version_and_another_kind_are_refused() {
        let later = envelope::seal_version(ValueKind::Trial, 2, &[1, 2]);
        assert!(matches!(open::<Trial>(&later), Err(StoredError::Envelope(EnvelopeError::Version { version: 2, .. }))));
        let other = envelope::seal(ValueKind::Token, &[1, 2]);
        assert!(matches!(open::<Trial>(&other), Err(StoredError::Envelope(EnvelopeError::Kind { .. }))));
    }
}
