//! A secret in settings, which is read but never printed.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a value is no secret. It does not quote the value.
const NO_TEXT: &str =
    "a secret is a text: write it in quotes, also in the environment ('\"1234\"'), or name a file that holds it";

/// A secret that neither a log nor `penates config` ever prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// What is printed in the place of a secret.
    pub const SHOWN: &str = "(hidden)";

    /// Hides a text.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::SHOWN)
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::SHOWN)
    }
}

impl<'de> Deserialize<'de> for Hidden {
    /// Takes a text only: of the password `007` a number would keep `7`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error of the format would quote the value.
        String::deserialize(deserializer).map(Self).map_err(|_| D::Error::custom(NO_TEXT))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::de::IntoDeserializer;
    use serde::de::value::Error;

    use super::*;

    fn read<'de>(value: impl IntoDeserializer<'de, Error>) -> Result<Hidden, Error> {
        Hidden::deserialize(value.into_deserializer())
    }

    #[test]
    fn a_value_that_is_no_text_is_refused_and_not_quoted() {
        assert_eq!(read("12345678").unwrap().reveal(), "12345678");
        for refused in [read(12_345_678_u64), read(true), read(-12.5)] {
            assert_eq!(refused.unwrap_err().to_string(), NO_TEXT);
        }
    }
}
