//! How sizes and addresses are written in a configuration: `64MiB`, `127.0.0.1:8080`, `off`. (Times
//! are `humantime`'s: `10ms`, `1h`.)

pub(crate) use budget::{size, size_or_auto};

/// A number that the server may choose by itself, as `auto`, which is `None`.
pub(crate) mod number_or_auto {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const AUTO: &str = "auto";

    pub(crate) fn serialize<S: Serializer>(number: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => number.serialize(serializer),
            None => serializer.serialize_str(AUTO),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(usize),
            Text(String),
        }
        match Written::deserialize(deserializer) {
            Ok(Written::Number(number)) => Ok(Some(number)),
            Ok(Written::Text(text)) if text == AUTO => Ok(None),
            _ => Err(Error::custom("write `auto`, or a number such as 1000")),
        }
    }
}

/// A time between two runs of something, or `off`.
pub(crate) mod period {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const OFF: &str = "off";

    /// Seconds of a day.
    const DAY_S: u64 = 24 * 3_600;

    pub(crate) fn serialize<S: Serializer>(period: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match period {
            // `humantime` would write 90 days as months, days and hours.
            Some(period) if period.as_secs().is_multiple_of(DAY_S) && period.subsec_nanos() == 0 => {
                serializer.serialize_str(&format!("{}days", period.as_secs() / DAY_S))
            }
            Some(period) => humantime_serde::serialize(period, serializer),
            None => serializer.serialize_str(OFF),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == OFF {
            return Ok(None);
        }
        let period: humantime_serde::Serde<Duration> =
            Deserialize::deserialize(serde::de::value::StrDeserializer::<D::Error>::new(&text))?;
        let period = period.into_inner();
        if period.is_zero() {
            Err(Error::custom("write a time above zero, such as `90days`, or `off`"))
        } else {
            Ok(Some(period))
        }
    }
}

/// How long something is kept, or `forever`.
pub(crate) mod keep {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::period;

    const FOREVER: &str = "forever";

    /// Times that servers mistake for each other are no times to delete by.
    const LEAST: Duration = Duration::from_secs(3_600);

    pub(crate) fn serialize<S: Serializer>(keep: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match keep {
            None => serializer.serialize_str(FOREVER),
            keep => period::serialize(keep, serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == FOREVER {
            return Ok(None);
        }
        match text.parse::<humantime::Duration>() {
            Ok(keep) if *keep >= LEAST => Ok(Some(*keep)),
            _ => Err(Error::custom(format!(
                "`{text}`: write a time of an hour or more, such as `365days`, or `forever`"
            ))),
        }
    }
}

/// Who may open a file, as `chmod` has it: `660`.
pub(crate) mod mode {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    /// The bits of owner, group and others.
    const ALL: u32 = 0o777;

    /// What the owner of a file needs to use it.
    const OWNERS: u32 = 0o600;

    // The signature is serde's.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(crate) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{mode:03o}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_any(Digits)
    }

    /// Octal digits, as a text or as a number: flags and the environment have numbers.
    struct Digits;

    impl Visitor<'_> for Digits {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("three octal digits, such as 660")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= ALL);
            mode.ok_or_else(|| {
                E::custom(format!("`{text}` is no mode of a file: write three octal digits, such as 660"))
            })
        }

        /// The digits of a number are those of the mode. TOML's 0o660 is the number 432. Each mode
        /// that is written so comes as a number whose digits take something from the owner.
        fn visit_u64<E: Error>(self, digits: u64) -> Result<u32, E> {
            let mode = self.visit_str::<E>(&digits.to_string())?;
            match mode & OWNERS == OWNERS {
                true => Ok(mode),
                false => Err(E::custom(format!(
                    "{digits} is the mode of a file that its owner cannot use: write three octal digits, such as 660"
                ))),
            }
        }

        fn visit_i64<E: Error>(self, digits: i64) -> Result<u32, E> {
            match u64::try_from(digits) {
                Ok(digits) => self.visit_u64(digits),
                Err(_) => self.visit_str(&digits.to_string()),
            }
        }
    }
}

/// For how long a browser uses HTTPS only: `auto`, `off`, or a time.
mod hsts {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::period;
    use crate::config::Hsts;

    const AUTO: &str = "auto";

    impl Serialize for Hsts {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self {
                Self::Auto => serializer.serialize_str(AUTO),
                Self::Off => period::serialize(&None, serializer),
                Self::For(time) => period::serialize(&Some(*time), serializer),
            }
        }
    }

    impl<'de> Deserialize<'de> for Hsts {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            if text == AUTO {
                return Ok(Self::Auto);
            }
            let time: Option<Duration> = period::deserialize(serde::de::value::StringDeserializer::new(text))?;
            Ok(time.map_or(Self::Off, Self::For))
        }
    }
}

/// An address to listen on, or `off`.
pub(crate) mod address {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const OFF: &str = "off";

    pub(crate) fn serialize<S, A>(address: &Option<A>, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        A: Display,
    {
        match address {
            Some(address) => serializer.collect_str(address),
            None => serializer.serialize_str(OFF),
        }
    }

    pub(crate) fn deserialize<'de, D, A>(deserializer: D) -> Result<Option<A>, D::Error>
    where
        D: Deserializer<'de>,
        A: FromStr,
    {
        let text = String::deserialize(deserializer)?;
        if text == OFF {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            Error::custom(format!(
                "`{text}` is not an address to listen on: write IP:PORT, such as 127.0.0.1:8080, or `off`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    #[test]
    fn a_mode_is_read_from_its_octal_digits_whether_they_are_a_text_or_a_number() {
        for digits in [json!("660"), json!("0660"), json!(660)] {
            assert_eq!(super::mode::deserialize(&digits).unwrap(), 0o660, "{digits}");
        }
        assert_eq!(super::mode::deserialize(&json!("060")).unwrap(), 0o060);
        for wrong in [json!("rw"), json!("1660"), json!("689"), json!(689), json!(-660), json!(1_660)] {
            let refused = super::mode::deserialize(&wrong).unwrap_err().to_string();
            assert!(refused.contains("write three octal digits, such as 660"), "{wrong}: {refused}");
        }
        // As TOML reads 0o660.
        let refused = super::mode::deserialize(&json!(0o660)).unwrap_err().to_string();
        assert!(refused.contains("its owner cannot use"), "{refused}");
        assert!(super::mode::deserialize(&json!(true)).is_err());
    }
}
