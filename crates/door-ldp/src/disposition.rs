//! Names of files in `Content-Disposition` (RFC 6266), also with non-ASCII letters (RFC 8187).

use http::{HeaderMap, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::links::{parameter, split};

/// Characters that are not encoded in a name (RFC 8187, section 3.2.1: `attr-char`).
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The value of a request, as it is stored and sent again; `None` if there is none. ASCII is stored
/// unchanged. A name with other letters, sent as UTF-8 (many clients) or ISO 8859-1 (old ones), is
/// rewritten as in RFC 8187.
pub fn of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_DISPOSITION)?;
    if let Ok(text) = value.to_str() {
        return Some(text.to_owned());
    }
    let bytes = value.as_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| bytes.iter().copied().map(char::from).collect());
    let kind = split(&text, ';').first().map(|kind| kind.trim()).filter(|kind| kind.is_ascii() && !kind.contains('='));
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or("attachment");
    Some(filename(&text).map_or_else(|| kind.to_owned(), |name| with_name(kind, &name)))
}

/// The value for saving under a name.
pub fn attachment(name: &str) -> String {
    with_name("attachment", name)
}

fn with_name(kind: &str, name: &str) -> String {
    let is_plain = |letter: &char| (letter.is_ascii_graphic() || *letter == ' ') && !matches!(letter, '"' | '\\');
    let plain: String = name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).collect();
    match plain == name {
        true => format!("{kind}; filename=\"{plain}\""),
        false => format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ATTRIBUTE)),
    }
}

/// The name in a value; `None` if there is none. The extended form takes precedence (RFC 6266,
/// section 4.3).
pub fn filename(disposition: &str) -> Option<String> {
    let parameters: Vec<_> = split(disposition, ';').into_iter().filter_map(parameter).collect();
    let value = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let name = value("filename*").and_then(|value| extended(&value)).or_else(|| value("filename"))?;
    (!name.is_empty()).then_some(name)
}

/// A value of RFC 8187, section 3.2.
fn extended(value: &str) -> Option<String> {
    let mut parts = value.splitn(3, '\'');
    let (charset, _language, text) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = percent_decode_str(text);
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" => bytes.decode_utf8().ok().map(|text| text.into_owned()),
        "iso-8859-1" => Some(bytes.map(char::from).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn kept(value: &[u8]) -> Option<String> {
        of(&HeaderMap::from_iter([(header::CONTENT_DISPOSITION, HeaderValue::from_bytes(value).unwrap())]))
    }

    #[test]
    fn a_value_in_ascii_is_stored_unchanged() {
        for value in ["attachment; filename=\"page 1.png\"", "inline", "attachment; filename*=UTF-8''%C3%BC.txt"] {
            assert_eq!(kept(value.as_bytes()).as_deref(), Some(value));
        }
    }

    #[test]
    fn a_name_with_other_letters_is_encoded_for_every_client() {
        let expected = "attachment; filename=\"_ber \\uE000.pdf\"; filename*=UTF-8''%C3%BCber%20%EE%80%80.pdf";
        let expected = expected.replace("\\uE000", "_");
        assert_eq!(kept("attachment; filename=\"über \u{E000}.pdf\"".as_bytes()).unwrap(), expected);
        let latin = b"attachment; filename=\"\xFCber.pdf\"";
        assert_eq!(kept(latin).unwrap(), "attachment; filename=\"_ber.pdf\"; filename*=UTF-8''%C3%BCber.pdf");
        assert_eq!(filename(&kept(latin).unwrap()).as_deref(), Some("über.pdf"));
    }

    #[test]
    fn the_extended_name_takes_precedence() {
        for (value, name) in [
            ("attachment; filename=\"a.txt\"; filename*=UTF-8'en'%C3%A4.txt", Some("ä.txt")),
            ("attachment; FILENAME*=iso-8859-1''%E4.txt; filename=a.txt", Some("ä.txt")),
            ("attachment; filename*=UTF-16''x; filename=a.txt", Some("a.txt")),
            ("attachment; filename*=UTF-8''%FF; filename=a.txt", Some("a.txt")),
            ("inline; filename=\"a; \\\"b\\\".txt\"", Some("a; \"b\".txt")),
            ("inline", None),
            ("", None),
        ] {
            assert_eq!(filename(value).as_deref(), name, "{value}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_read_back_unchanged(name in "[^\\x00-\\x1F\\x7F]{1,20}") {
            let value = attachment(&name);
            prop_assert!(HeaderValue::try_from(&value).is_ok());
            prop_assert_eq!(filename(&value), Some(name));
        }
    }
}
