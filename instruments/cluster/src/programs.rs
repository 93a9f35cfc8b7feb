//! Where programs are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The file of a program: the one that a path names, or else the one of a name in a folder of the
/// `PATH`.
pub fn program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    program_in(&std::env::var_os("PATH").unwrap_or_default(), name)
}

/// The same with other folders, which are named as in the `PATH`. An empty name in it would mean the
/// current folder, which may belong to a stranger: no program is looked up there.
pub fn program_in(folders: &OsStr, name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = Path::new(name.as_ref());
    match name.as_os_str().as_encoded_bytes().contains(&b'/') {
        true => Some(name.to_owned()).filter(|file| file.is_file()),
        false => {
            let named = std::env::split_paths(folders).filter(|folder| !folder.as_os_str().is_empty());
            named.map(|folder| folder.join(name)).find(|file| file.is_file())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_program_is_the_first_of_its_name_or_the_file_of_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        for path in [&first, &second] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::create_dir(first.join("tool")).unwrap();
        std::fs::write(second.join("tool"), "").unwrap();
        std::fs::write(first.join("other"), "").unwrap();
        std::fs::write(second.join("other"), "").unwrap();
        let folders = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(program_in(&folders, "tool"), Some(second.join("tool")), "a folder is no program");
        assert_eq!(program_in(&folders, "other"), Some(first.join("other")));
        assert_eq!(program_in(&folders, "absent"), None);
        // This test runs in a folder with such a file.
        assert!(Path::new("Cargo.toml").is_file());
        assert_eq!(program_in(OsStr::new(""), "Cargo.toml"), None);
        assert_eq!(program_in(OsStr::new("::"), "Cargo.toml"), None);
        assert_eq!(program_in(OsStr::new(""), second.join("tool")), Some(second.join("tool")));
        assert_eq!(program_in(&folders, second.join("absent")), None);
        assert!(program("sh").is_some());
    }
}
