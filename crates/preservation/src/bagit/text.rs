//! The lines of a bag's own files: the declaration, manifests and `bag-info.txt` (RFC 8493, section
//! 2). Strangers write them.

use std::path::{Component, Path};

use digest::DynDigest;
use thiserror::Error;

/// Why a text is not what it should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TextError {
    /// `bagit.txt` is wrong.
    #[error("this is not the declaration of a bag of version 0.97 or 1.0 in UTF-8")]
    Declaration,
    /// The manifest has an algorithm that this program does not know.
    #[error("{0} is none of the algorithms md5, sha1, sha224, sha256, sha384 and sha512")]
    Algorithm(String),
    /// A line of a manifest is no digest and path.
    #[error("a line is not a digest and a path: {0:?}")]
    Line(String),
    /// A path leaves the bag.
    #[error("{0:?} is not the path of a file in the bag")]
    Path(String),
}

/// A version of BagIt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagVersion {
    /// 0.97: a file may be missing in some manifests.
    V0_97,
    /// 1.0: each manifest lists all files (RFC 8493, section 2.1.3).
    V1_0,
}

/// The version that `bagit.txt` declares (section 2.1.1).
///
/// # Errors
/// [`TextError::Declaration`]
pub fn declared(text: &str) -> Result<BagVersion, TextError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().filter_map(|line| line.split_once(':')).map(|(label, value)| (label, value.trim()));
    let version = match lines.next() {
        Some(("BagIt-Version", "0.97")) => BagVersion::V0_97,
        Some(("BagIt-Version", "1.0")) => BagVersion::V1_0,
        _ => return Err(TextError::Declaration),
    };
    match lines.next() {
        Some(("Tag-File-Character-Encoding", "UTF-8" | "utf-8")) => Ok(version),
        _ => Err(TextError::Declaration),
    }
}

/// An algorithm of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// All that are known.
    pub const ALL: [Self; 6] = [Self::Md5, Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Its name in names of manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// The algorithm with this name.
    ///
    /// # Errors
    /// [`TextError::Algorithm`]
    pub fn named(name: &str) -> Result<Self, TextError> {
        let known = Self::ALL.into_iter().find(|known| known.name() == name.to_ascii_lowercase());
        known.ok_or_else(|| TextError::Algorithm(name.to_owned()))
    }

    /// Begins a digest.
    pub fn begin(self) -> Box<dyn DynDigest + Send> {
        match self {
            Self::Md5 => Box::<md5::Md5>::default(),
            Self::Sha1 => Box::<sha1::Sha1>::default(),
            Self::Sha224 => Box::<sha2::Sha224>::default(),
            Self::Sha256 => Box::<sha2::Sha256>::default(),
            Self::Sha384 => Box::<sha2::Sha384>::default(),
            Self::Sha512 => Box::<sha2::Sha512>::default(),
        }
    }
}

/// The digest and the path in a line of a manifest (section 2.1.3).
///
/// # Errors
/// [`TextError::Line`] or [`TextError::Path`]
pub fn manifest_line(line: &str, algorithm: Algorithm) -> Result<(Vec<u8>, String), TextError> {
    let wrong = || TextError::Line(line.chars().take(200).collect());
    let (digest, path) = line.split_once([' ', '\t']).ok_or_else(wrong)?;
    let digest = hex::decode(digest).map_err(|_| wrong())?;
    if digest.len() != algorithm.begin().output_size() {
        return Err(wrong());
    }
    let path = unescaped(path.trim_start_matches([' ', '\t']));
    match is_inside(&path) {
        true => Ok((digest, path)),
        false => Err(TextError::Path(path)),
    }
}

/// A path with its percent-encoded line breaks and percent signs decoded. Nothing else is encoded.
fn unescaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).map(str::to_ascii_uppercase);
        let decoded = match code.as_deref() {
            Some("0A") => Some('\n'),
            Some("0D") => Some('\r'),
            Some("25") => Some('%'),
            _ => None,
        };
        text.push(decoded.unwrap_or('%'));
        rest = &rest[at + if decoded.is_some() { 3 } else { 1 }..];
    }
    text + rest
}

/// Whether a path in a bag stays in the bag and has one spelling.
pub fn is_inside(path: &str) -> bool {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let has_one_spelling = path.split('/').all(|name| !name.is_empty() && name != ".");
    is_plain && has_one_spelling && !path.contains('\0')
}

/// The number of bytes and of files that `bag-info.txt` promises (section 2.2.2).
pub fn payload_oxum(info: &str) -> Option<(u64, u64)> {
    let promised = info.lines().find_map(|line| line.strip_prefix("Payload-Oxum:"))?;
    let (bytes, files) = promised.trim().split_once('.')?;
    Some((bytes.parse().ok()?, files.parse().ok()?))
}

/// The labels and values of `bag-info.txt`, in their order (section 2.2.2). Lines that continue a
/// value are joined with one space. Lines without a label are left out.
pub fn info(text: &str) -> Vec<(String, String)> {
    let mut elements: Vec<(String, String)> = Vec::new();
    for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines() {
        let is_continued = line.starts_with([' ', '\t']);
        match (elements.last_mut().filter(|_| is_continued), line.split_once(':')) {
            (Some((_, value)), _) => *value = format!("{value} {}", line.trim()),
            (None, Some((label, value))) if !is_continued => {
                elements.push((label.trim().to_owned(), value.trim().to_owned()));
            }
            _ => {}
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    #[test]
    fn a_line_of_a_manifest_is_a_digest_and_a_path() {
        for (path, decoded) in [
            ("data/a", "data/a"),
            ("data/a b  c", "data/a b  c"),
            ("data/a%0Ab%0dc%25d", "data/a\nb\rc%d"),
            ("data/100%2F", "data/100%2F"),
            ("data/%", "data/%"),
            ("data/%2525", "data/%25"),
            ("data/\u{fc}%\u{fc}", "data/\u{fc}%\u{fc}"),
        ] {
            for space in [" ", "  ", "\t"] {
                let (digest, path) = manifest_line(&format!("{MD5}{space}{path}"), Algorithm::Md5).unwrap();
                assert_eq!((hex::encode(digest).as_str(), path.as_str()), (MD5, decoded));
            }
        }
        assert!(manifest_line(&format!("{} data/a", MD5.to_uppercase()), Algorithm::Md5).is_ok());
    }

    #[test]
    fn a_line_that_leaves_the_bag_or_is_no_line_is_refused() {
        for path in ["/etc/passwd", "../a", "data/../../a", "data//a", "data/./a", "./data/a", "data/a/", "", "data/\0"]
        {
            let refused = manifest_line(&format!("{MD5}  {path}"), Algorithm::Md5);
            assert!(matches!(refused, Err(TextError::Path(_))), "{path}");
        }
        for line in ["", MD5, "data/a", &format!("{}  data/a", &MD5[1..]), &format!("g{}  data/a", &MD5[1..])] {
            assert!(matches!(manifest_line(line, Algorithm::Md5), Err(TextError::Line(_))), "{line}");
        }
        let sha1 = manifest_line(&format!("{MD5}  data/a"), Algorithm::Sha1);
        assert!(matches!(sha1, Err(TextError::Line(_))), "a digest of another length");
    }

    #[test]
    fn only_declarations_of_known_versions_in_utf_8_are_accepted() {
        let text = |version, encoding| format!("BagIt-Version: {version}\nTag-File-Character-Encoding: {encoding}\n");
        assert_eq!(declared(&text("1.0", "UTF-8")), Ok(BagVersion::V1_0));
        assert_eq!(declared(&text("0.97", "UTF-8").replace('\n', "\r\n")), Ok(BagVersion::V0_97));
        for text in [text("2.0", "UTF-8"), text("1.0", "UTF-16"), String::new(), "BagIt-Version: 1.0".to_owned()] {
            assert_eq!(declared(&text), Err(TextError::Declaration), "{text}");
        }
    }

    #[test]
    fn the_lines_of_a_bag_s_information_are_labels_and_values_that_may_continue() {
        let text = "\u{feff}External-Description: a\n  long\r\n\tone\nno label\nBag-Size:\nBag-Size: 1: 2\n";
        let elements = info(text);
        let elements: Vec<_> = elements.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
        assert_eq!(elements, [("External-Description", "a long one"), ("Bag-Size", ""), ("Bag-Size", "1: 2")]);
        assert_eq!(info(" continues nothing"), []);
    }
}
