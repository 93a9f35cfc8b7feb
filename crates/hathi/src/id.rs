//! Volume identifiers, their pairtree-cleaned form, and page sequences.
//!
//! A HathiTrust volume id is `<library>.<local id>`: the library's namespace up to the first dot,
//! then the id that this library gave, such as `uc2.ark:/13960/t8ff3zh99`. Folder and entry names
//! carry the *cleaned* form, made by the character mapping of Pairtree 0.1 (section 3, "Identifier
//! string cleaning") applied to the local id.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize, Serializer};

/// The longest accepted volume id, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 1_000;

/// Characters that are not encoded in a segment of a path (RFC 3986, section 2.3: the unreserved
/// characters).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A volume's identifier: a library, a dot, and the library's own id of the volume. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct VolumeId {
    text: Arc<str>,
    library_len_bytes: usize,
}

/// Why a text is not a volume id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVolumeId {
    /// The text is not a library, a dot and a local id.
    #[error(
        "`{0}` is not a volume id: it must be a library, a dot and the library's own id, like `yale.39002015008130`"
    )]
    Shape(String),
    /// The text is longer than [`MAX_ID_BYTES`].
    #[error("a volume id is at most {MAX_ID_BYTES} bytes long, this one has {0}")]
    TooLong(usize),
    /// A control character (line feed, NUL and the like).
    #[error("{0:?} is not a volume id: it holds a control character")]
    ControlCharacter(String),
    /// The library, which names a folder and begins names in a ZIP, holds `/` or `\`.
    #[error("`{0}` is not a volume id: its library, up to the first dot, must not hold a slash")]
    SlashInLibrary(String),
    /// The text holds `|`, which separates the ids of a list, so no list could name it.
    #[error("`{0}` is not a volume id: it must not hold `|`, which separates the ids of a list")]
    Separator(String),
    /// The text is not in cleaned form: cleaning never gives it.
    #[error("`{0}` is not in cleaned (pairtree) form")]
    NotCleaned(String),
}

impl VolumeId {
    /// Parses an id as people and other programs write it. White space around it is dropped.
    ///
    /// It must match `.+\..+` with something before the first dot, have at most [`MAX_ID_BYTES`]
    /// bytes, no control characters, no `|`, and no slash in its library.
    pub fn parse(text: &str) -> Result<Self, InvalidVolumeId> {
        let text = text.trim();
        if text.len() > MAX_ID_BYTES {
            return Err(InvalidVolumeId::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(InvalidVolumeId::ControlCharacter(text.to_owned()));
        }
        if text.contains('|') {
            return Err(InvalidVolumeId::Separator(text.to_owned()));
        }
        match text.split_once('.') {
            Some((library, local)) if !library.is_empty() && !local.is_empty() => {
                if library.contains(['/', '\\']) {
                    return Err(InvalidVolumeId::SlashInLibrary(text.to_owned()));
                }
                Ok(Self { text: text.into(), library_len_bytes: library.len() })
            }
            _ => Err(InvalidVolumeId::Shape(text.to_owned())),
        }
    }

    /// Reads an id in cleaned form, as in the names of folders and ZIP entries. It accepts only
    /// what [`VolumeId::cleaned`] returns, so an id has exactly one cleaned form.
    pub fn from_cleaned(text: &str) -> Result<Self, InvalidVolumeId> {
        let not_cleaned = || InvalidVolumeId::NotCleaned(text.to_owned());
        if text.len() > 3 * MAX_ID_BYTES {
            return Err(InvalidVolumeId::TooLong(text.len()));
        }
        let (library, cleaned_local) = text.split_once('.').ok_or_else(not_cleaned)?;
        let local = uncleaned(cleaned_local).ok_or_else(not_cleaned)?;
        let id = Self::parse(&format!("{library}.{local}"))?;
        if id.cleaned().as_str() == text { Ok(id) } else { Err(not_cleaned()) }
    }

    /// Reads an id from one segment of a URL's path, percent-decoded already: the raw id if its
    /// local part holds a byte that cleaning never gives (such as `/` or `:`), else the cleaned
    /// form.
    pub fn from_path_segment(segment: &str) -> Result<Self, InvalidVolumeId> {
        let local = segment.split_once('.').map_or("", |(_, local)| local);
        if local.bytes().all(is_in_cleaned_form) { Self::from_cleaned(segment) } else { Self::parse(segment) }
    }

    /// The id as one segment of a URL's path, percent-encoded: itself; or its cleaned form, if
    /// [`VolumeId::from_path_segment`] would read the id itself as the cleaned form of another, or
    /// not at all.
    pub fn path_segment(&self) -> String {
        let reads_back = Self::from_path_segment(self.as_str()).is_ok_and(|read| read == *self);
        let cleaned = self.cleaned();
        utf8_percent_encode(if reads_back { self.as_str() } else { cleaned.as_str() }, UNRESERVED).to_string()
    }

    /// The id as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part before the first dot.
    pub fn library(&self) -> &str {
        &self.text[..self.library_len_bytes]
    }

    /// The part after the first dot.
    pub fn local(&self) -> &str {
        &self.text[self.library_len_bytes + 1..]
    }

    /// The library, a dot and [`VolumeId::cleaned_local`]: safe as a file name and as a ZIP entry's
    /// folder.
    pub fn cleaned(&self) -> CleanedId {
        CleanedId(format!("{}.{}", self.library(), self.cleaned_local()).into())
    }

    /// The local id in pairtree form: printable ASCII without `/`, `\`, `.` and `:`.
    pub fn cleaned_local(&self) -> String {
        use fmt::Write as _;
        let mut cleaned = String::with_capacity(self.local().len());
        for byte in self.local().bytes() {
            match byte {
                b'/' => cleaned.push('='),
                b':' => cleaned.push('+'),
                b'.' => cleaned.push(','),
                _ if must_be_encoded(byte) => {
                    // Writing to a String never fails.
                    let _ = write!(cleaned, "^{byte:02x}");
                }
                _ => cleaned.push(char::from(byte)),
            }
        }
        cleaned
    }
}

/// Bytes that cleaning writes as `^hh` (Pairtree 0.1, section 3, first step).
fn must_be_encoded(byte: u8) -> bool {
    !(0x21..=0x7e).contains(&byte) || br#""*+,<=>?\^|"#.contains(&byte)
}

/// Bytes that a cleaned local id may consist of.
fn is_in_cleaned_form(byte: u8) -> bool {
    match byte {
        b'^' | b'=' | b'+' | b',' => true,
        b'/' | b':' | b'.' => false,
        _ => !must_be_encoded(byte),
    }
}

/// Undoes cleaning; `None` if a `^` is not followed by two hexadecimal digits or the result is not
/// UTF-8.
fn uncleaned(cleaned_local: &str) -> Option<String> {
    let mut bytes = cleaned_local.bytes();
    let mut local = Vec::with_capacity(cleaned_local.len());
    while let Some(byte) = bytes.next() {
        local.push(match byte {
            b'=' => b'/',
            b'+' => b':',
            b',' => b'.',
            b'^' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            _ => byte,
        });
    }
    String::from_utf8(local).ok()
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VolumeId({})", self.text)
    }
}

impl Serialize for VolumeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl TryFrom<String> for VolumeId {
    type Error = InvalidVolumeId;

    fn try_from(text: String) -> Result<Self, InvalidVolumeId> {
        Self::parse(&text)
    }
}

impl std::str::FromStr for VolumeId {
    type Err = InvalidVolumeId;

    fn from_str(text: &str) -> Result<Self, InvalidVolumeId> {
        Self::parse(text)
    }
}

/// A volume id in cleaned form: the library, a dot and the cleaned local id, like
/// `uc2.ark+=13960=t8ff3zh99`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CleanedId(Arc<str>);

impl CleanedId {
    /// The cleaned id as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CleanedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A page's sequence: its place in the volume, from 1. It is METS' `ORDER`, not the number in the
/// page's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seq(NonZeroU32);

impl Seq {
    /// The sequence `number`; `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The number, above 0.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// The name of this page's file in archives that the server sends: eight digits and `.txt`,
    /// like `00000001.txt`.
    pub fn file_name(self) -> String {
        format!("{:08}.txt", self.0)
    }

    /// Reads digits only: no sign, no space, above 0.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok().and_then(Self::new) } else { None }
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_id_with_a_separator_of_lists_is_refused_raw_and_cleaned() {
        assert_eq!(VolumeId::parse("x.a|b"), Err(InvalidVolumeId::Separator("x.a|b".to_owned())));
        assert_eq!(VolumeId::from_cleaned("x.a^7cb"), Err(InvalidVolumeId::Separator("x.a|b".to_owned())));
    }

    #[test]
    fn an_id_is_split_at_its_first_dot() {
        let id = VolumeId::parse(" uc2.ark:/13960/t8ff.3zh99\n").unwrap();
        assert_eq!((id.library(), id.local()), ("uc2", "ark:/13960/t8ff.3zh99"));
        assert_eq!(id.to_string(), "uc2.ark:/13960/t8ff.3zh99");
    }

    #[test]
    fn a_text_without_library_or_local_id_is_refused() {
        for text in ["", ".", "uc2", "uc2.", ".ark", "  .x ", "..", "\u{2003}"] {
            assert!(matches!(VolumeId::parse(text), Err(InvalidVolumeId::Shape(_))), "{text:?}");
        }
    }

    #[test]
    fn control_characters_slashes_in_the_library_and_excess_length_are_refused() {
        assert!(matches!(VolumeId::parse("a.b\0c"), Err(InvalidVolumeId::ControlCharacter(_))));
        assert!(matches!(VolumeId::parse("a.b\nc"), Err(InvalidVolumeId::ControlCharacter(_))));
        assert!(matches!(VolumeId::parse("a/b.c"), Err(InvalidVolumeId::SlashInLibrary(_))));
        assert!(matches!(VolumeId::parse("a\\b.c"), Err(InvalidVolumeId::SlashInLibrary(_))));
        assert!(VolumeId::parse(&format!("a.{}", "x".repeat(MAX_ID_BYTES - 2))).is_ok());
        assert_eq!(
            VolumeId::parse(&format!("a.{}", "x".repeat(MAX_ID_BYTES - 1))),
            Err(InvalidVolumeId::TooLong(1_001))
        );
    }

    #[test]
    fn cleaning_follows_the_pairtree_mapping() {
        let cleaned = |text: &str| VolumeId::parse(text).unwrap().cleaned().to_string();
        assert_eq!(cleaned("uc2.ark:/13960/t8ff3zh99"), "uc2.ark+=13960=t8ff3zh99");
        assert_eq!(cleaned("yale.39002015008130"), "yale.39002015008130");
        assert_eq!(cleaned(r#"x."*+,<=>?\^"#), "x.^22^2a^2b^2c^3c^3d^3e^3f^5c^5e");
        assert_eq!(cleaned("x.a b.ü"), "x.a^20b,^c3^bc");
    }

    #[test]
    fn only_cleaned_ids_are_read_as_cleaned() {
        for text in
            ["x.^4a", "x.^2A", "x.^2", "x.^", "x.^zz", "x.a/b", "x.a:b", "x.a.b", "x.^c3", "x.^00", "x", "x.a^20"]
        {
            assert!(VolumeId::from_cleaned(text).is_err(), "{text}");
        }
        assert_eq!(VolumeId::from_cleaned("x.a^20b,^c3^bc").unwrap().as_str(), "x.a b.ü");
    }

    #[test]
    fn a_path_segment_may_be_the_raw_or_the_cleaned_id() {
        let id = VolumeId::parse("uc2.ark:/13960/t8ff3zh99").unwrap();
        assert_eq!(VolumeId::from_path_segment(id.as_str()), Ok(id.clone()));
        assert_eq!(VolumeId::from_path_segment(id.cleaned().as_str()), Ok(id));
        assert!(VolumeId::from_path_segment("nothing").is_err());
        assert!(VolumeId::from_path_segment("x.^zz").is_err());
    }

    #[test]
    fn an_id_is_itself_in_a_path_unless_it_is_the_cleaned_form_of_another() {
        let segment = |text: &str| VolumeId::parse(text).unwrap().path_segment();
        assert_eq!(segment("uc2.ark:/13960/t8ff3zh99"), "uc2.ark%3A%2F13960%2Ft8ff3zh99");
        assert_eq!(segment("yale.39002015008130"), "yale.39002015008130");
        for (id, other, expected) in
            [("x.a=b", "x.a/b", "x.a%5E3db"), ("x.a+b", "x.a:b", "x.a%5E2bb"), ("x.a,b", "x.a.b", "x.a%5E2cb")]
        {
            assert_eq!(segment(id), expected);
            assert_ne!(segment(other), expected);
        }
        assert_eq!(segment("x.^zz"), "x.%5E5ezz", "it is no cleaned form, but looks like one");
    }

    #[test]
    fn ids_in_json_are_checked() {
        let id: VolumeId = serde_json::from_str(r#""yale.1""#).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""yale.1""#);
        assert!(serde_json::from_str::<VolumeId>(r#""yale""#).is_err());
    }

    #[test]
    fn a_sequence_is_above_0_and_names_its_file() {
        assert_eq!(Seq::new(0), None);
        assert_eq!(Seq::new(7).unwrap().file_name(), "00000007.txt");
        assert_eq!(Seq::new(u32::MAX).unwrap().file_name(), "4294967295.txt");
        assert_eq!(Seq::parse("+7"), None);
        assert_eq!(Seq::parse(""), None);
        assert_eq!(Seq::parse("4294967296"), None);
        assert_eq!(Seq::parse("007"), Seq::new(7));
    }
}
