//! Names of any characters and length as names of files that are safe on every file system, and
//! back.
//!
//! ASCII letters, digits, `-`, `_` and inner dots stay. Any other byte becomes `=` and two
//! hexadecimal digits. A percent sign would be the usual choice, but BagIt encodes it again in
//! manifests, and not all of its readers do. A name that becomes too long is cut and ends with `=~`
//! and the start of its SHA-256; that one cannot be read back, so its file says what it is about.
//!
//! `=` is never followed by a small letter. So a file whose name is an encoded name with a suffix
//! like `=about.json` is never mistaken for another name.

use sha2::{Digest, Sha256};

/// The most bytes of an encoded name. File systems allow 255, and suffixes need some.
pub const ENCODED_BYTES_MAX: usize = 200;

/// Bytes that a name that is cut keeps.
const KEPT_BYTES: usize = 150;

/// What follows the rest of a name that is cut.
const CUT: &str = "=~";

/// The name of a file for a name.
pub fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let is_inner_dot = byte == b'.' && at > 0 && at + 1 < name.len();
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || is_inner_dot {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("={byte:02X}")),
        }
    }
    if text.len() <= ENCODED_BYTES_MAX {
        return text;
    }
    // Not within an escape.
    let end = (KEPT_BYTES - 2..=KEPT_BYTES).find(|end| !text[..*end].ends_with('=') && !text[..end - 1].ends_with('='));
    text.truncate(end.unwrap_or(KEPT_BYTES));
    text + CUT + &hex::encode(&Sha256::digest(name)[..20])
}

/// The name for which a file has this name; `None` if it is for none, or was cut.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'=' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => byte,
        });
    }
    let name = String::from_utf8(bytes).ok()?;
    (encoded(&name) == text).then_some(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_stay_and_others_are_safe() {
        for (name, file) in [
            ("page-1_a.tif", "page-1_a.tif"),
            ("..", "=2E=2E"),
            (".hidden", "=2Ehidden"),
            ("a/b", "a=2Fb"),
            ("100%", "100=25"),
            ("ü b", "=C3=BC=20b"),
            ("a=41", "a=3D41"),
            ("con:", "con=3A"),
        ] {
            assert_eq!(encoded(name), file);
            assert_eq!(decoded(file).as_deref(), Some(name));
        }
    }

    #[test]
    fn what_is_no_encoded_name_has_no_name() {
        for file in ["..", "a/b", "a=", "a=4", "a=zz", "=41", "a=2f", "page=about.json", "=FF"] {
            assert_eq!(decoded(file), None, "{file}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let names = ["a", "ä", "="].map(|text| text.repeat(512));
        let files = names.each_ref().map(|name| encoded(name));
        for file in &files {
            assert!(file.len() <= ENCODED_BYTES_MAX && file.contains(CUT), "{file}");
            assert_eq!(decoded(file), None);
        }
        assert_ne!(encoded(&"a".repeat(511)), files[0]);
    }

    proptest! {
        #[test]
        fn a_name_is_read_back_or_was_cut(name in any::<String>().prop_filter("names are not empty", |it| !it.is_empty())) {
            let file = encoded(&name);
            prop_assert!(file.len() <= ENCODED_BYTES_MAX);
            prop_assert!(!file.starts_with('.') && !file.contains(['/', '\\', '%', '\0', '\n']));
            match file.contains(CUT) {
                true => prop_assert_eq!(decoded(&file), None),
                false => prop_assert_eq!(decoded(&file), Some(name)),
            }
        }
    }
}
