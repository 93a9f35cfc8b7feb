//! Paths of resources: the names from the root down.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = 512;
/// The most bytes of a path.
pub const PATH_BYTES_MAX: usize = 2_048;
/// The most names of a path.
pub const NAMES_MAX: usize = 64;

/// The names from the root down to a resource, joined by `/`; empty for the root. A name may
/// contain any characters except `/` and control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourcePath(String);

/// Why a text is not a path of a resource.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidPath {
    /// Two slashes side by side, or one at the beginning or the end.
    #[error("a name in a path is empty")]
    EmptyName,
    /// `.` or `..`.
    #[error("`{0}` cannot be a name in a path")]
    Dots(String),
    /// A slash within a name.
    #[error("a name in a path holds a slash")]
    Slash,
    /// A control character.
    #[error("a name in a path holds the control character U+{0:04X}")]
    Control(u32),
    /// A name that is too long.
    #[error("a name in a path has {bytes} bytes; at most {NAME_BYTES_MAX} are allowed")]
    NameTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A path that is too long.
    #[error("the path has {bytes} bytes; at most {PATH_BYTES_MAX} are allowed")]
    PathTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Too many names.
    #[error("the path has {names} names; at most {NAMES_MAX} are allowed")]
    TooDeep {
        /// Its number of names.
        names: usize,
    },
}

impl ResourcePath {
    /// The root container.
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses a path; the empty text is the root.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        match text.is_empty() {
            true => Ok(Self::root()),
            false => Self::of_names(text.split('/')),
        }
    }

    /// The path of these names; the root if there are none.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidPath> {
        let mut path = Self::root();
        let mut count = 0;
        for name in names {
            check_name(name)?;
            if count > 0 {
                path.0.push('/');
            }
            path.0.push_str(name);
            count += 1;
        }
        if count > NAMES_MAX {
            return Err(InvalidPath::TooDeep { names: count });
        }
        match path.0.len() {
            bytes if bytes > PATH_BYTES_MAX => Err(InvalidPath::PathTooLong { bytes }),
            _ => Ok(path),
        }
    }

    /// The child of this name.
    pub fn child(&self, name: &str) -> Result<Self, InvalidPath> {
        Self::of_names(self.names().chain([name]))
    }

    /// The container it is in; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(Self(self.0.rsplit_once('/').map_or(String::new(), |(parent, _)| parent.to_owned())))
    }

    /// Its own name; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The names from the root down.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// All paths from the first name down to itself; none for the root.
    pub fn chain(&self) -> impl Iterator<Item = Self> {
        let ends = self.0.match_indices('/').map(|(at, _)| at).chain((!self.is_root()).then_some(self.0.len()));
        ends.map(|end| Self(self.0[..end].to_owned()))
    }

    /// Whether it is `tree`, or below it.
    pub fn is_within(&self, tree: &Self) -> bool {
        let rest = self.0.strip_prefix(&tree.0);
        tree.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether it is the root container.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The names joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_name(name: &str) -> Result<(), InvalidPath> {
    match name {
        "" => return Err(InvalidPath::EmptyName),
        "." | ".." => return Err(InvalidPath::Dots(name.to_owned())),
        _ => {}
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(InvalidPath::NameTooLong { bytes: name.len() });
    }
    match name.chars().find(|character| character.is_control() || *character == '/') {
        None => Ok(()),
        Some('/') => Err(InvalidPath::Slash),
        Some(control) => Err(InvalidPath::Control(control.into())),
    }
}

impl fmt::Display for ResourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ResourcePath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_knows_its_parent_its_name_and_all_above_it() {
        let path = ResourcePath::parse("a/b/ü c").unwrap();
        assert_eq!((path.parent().unwrap().as_str(), path.name()), ("a/b", "ü c"));
        assert_eq!(path.chain().map(|path| path.to_string()).collect::<Vec<_>>(), ["a", "a/b", "a/b/ü c"]);
        let root = ResourcePath::root();
        assert_eq!((root.parent(), root.name(), root.chain().count()), (None, "", 0));
        assert_eq!(ResourcePath::parse("a").unwrap().parent(), Some(root));
    }

    #[test]
    fn what_could_be_mistaken_for_something_else_is_no_path() {
        for (text, reason) in [
            ("a//b", InvalidPath::EmptyName),
            ("/a", InvalidPath::EmptyName),
            ("a/", InvalidPath::EmptyName),
            ("a/../b", InvalidPath::Dots("..".to_owned())),
            (".", InvalidPath::Dots(".".to_owned())),
            ("a\u{0}", InvalidPath::Control(0)),
            ("a\u{7f}", InvalidPath::Control(0x7F)),
        ] {
            assert_eq!(ResourcePath::parse(text), Err(reason), "{text:?}");
        }
        assert_eq!(ResourcePath::root().child("a/b"), Err(InvalidPath::Slash));
        let long = "n".repeat(NAME_BYTES_MAX);
        assert!(ResourcePath::parse(&long).is_ok());
        assert!(matches!(ResourcePath::parse(&(long.clone() + "n")), Err(InvalidPath::NameTooLong { bytes: 513 })));
        assert!(matches!(ResourcePath::parse(&[&*long; 5].join("/")), Err(InvalidPath::PathTooLong { .. })));
        assert!(matches!(ResourcePath::parse(&["n"; 65].join("/")), Err(InvalidPath::TooDeep { names: 65 })));
    }

    proptest! {
        #[test]
        fn a_child_is_below_its_parent(names in prop::collection::vec("[^/\u{0}-\u{1f}\u{7f}-\u{9f}.]{1,8}", 1..6)) {
            let mut path = ResourcePath::root();
            for name in &names {
                let child = path.child(name).unwrap();
                prop_assert_eq!(child.parent(), Some(path));
                prop_assert_eq!(child.name(), name);
                path = child;
            }
            prop_assert_eq!(path.names().collect::<Vec<_>>(), names);
        }
    }
}
