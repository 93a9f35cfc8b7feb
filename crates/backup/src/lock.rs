//! The lock of a file.

use std::fs::File;

/// A locked file, whose lock ends with this value.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes over a file that is locked.
    pub(crate) fn of(file: File) -> Self {
        Self(file)
    }
}

impl Drop for Lock {
    /// Closing the file does not end the lock while a process that this one is just starting has the
    /// file open too.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_lock_ends_with_its_value_while_a_started_process_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        // What a process has between its start and its program.
        let inherited = file.try_clone().unwrap();
        let lock = Lock::of(file);
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(lock);
        File::open(&path).unwrap().try_lock().unwrap();
        drop(inherited);
    }
}
