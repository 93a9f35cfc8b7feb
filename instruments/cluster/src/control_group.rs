//! Control groups of Linux (cgroups(7)), in both versions. They limit the memory and the processors
//! of a process, as a container does.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where Linux has control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The file of a group with its processes. A process enters a group when its id is written there.
const PROCESSES: &str = "cgroup.procs";

/// Controllers of version 1 that limit nothing here: they count time of processors, and bytes from and
/// to disks.
const COUNTING: [&str; 2] = ["cpuacct", "blkio"];

/// In microseconds, the time of which a group gets its share of processors. It is the kernel's own.
const PERIOD_US: u64 = 100_000;

/// Enters the groups whose files are named before `--`, and becomes the program that is named after
/// it.
const ENTER: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@""#;

/// What the processes of a group may use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of memory, with the pages of files that they have read and written.
    pub memory_bytes: Option<u64>,
    /// Processors: 1.5 is one and a half.
    pub cpus: Option<f64>,
}

/// A group, which is removed when the value is dropped. Its processes must have ended by then.
#[derive(Debug)]
pub struct ControlGroup {
    /// One in the second version; in the first, one for each thing that is limited.
    folders: Vec<PathBuf>,
}

impl ControlGroup {
    /// Makes a group. One of that name that a killed owner has left is removed first, with its limits.
    ///
    /// # Errors
    /// Groups cannot be made here: that needs root.
    pub fn new(name: &str, limits: Limits) -> io::Result<Self> {
        let mut group = Self { folders: Vec::new() };
        if let Some(bytes) = limits.memory_bytes {
            let files = [("memory.max", bytes.to_string())];
            group.limit(name, "memory", &files, &[("memory.limit_in_bytes", bytes.to_string())])?;
        }
        if let Some(cpus) = limits.cpus {
            // Whole microseconds are exact enough.
            let quota_us = (cpus * PERIOD_US as f64).round() as u64;
            let first = [("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())];
            group.limit(name, "cpu", &[("cpu.max", format!("{quota_us} {PERIOD_US}"))], &first)?;
        }
        // Version 1 counts what a group uses apart. Where it does not, nothing is missing but figures.
        for controller in COUNTING {
            if let Some(Parent::First(folder)) = parent(Path::new(ROOT), controller) {
                let _ = group.make(&folder, name);
            }
        }
        Ok(group)
    }

    /// Limits what a controller knows: by files of the second version, or else of the first.
    fn limit(
        &mut self,
        name: &str,
        controller: &str,
        second: &[(&str, String)],
        first: &[(&str, String)],
    ) -> io::Result<()> {
        let (parent, files) = match parent(Path::new(ROOT), controller) {
            Some(Parent::First(folder)) => (folder, first),
            Some(Parent::Second(folder)) => (folder, second),
            None => {
                let why = format!("there are no control groups that limit {controller} below {ROOT}");
                return Err(io::Error::new(ErrorKind::Unsupported, why));
            }
        };
        let folder = self.make(&parent, name)?;
        for (file, value) in files {
            let file = folder.join(file);
            fs::write(&file, value).map_err(|error| named(&file, &error))?;
        }
        Ok(())
    }

    /// Makes the folder of the group in a parent, if it has not been made yet. Controllers may share one
    /// under several names.
    fn make(&mut self, parent: &Path, name: &str) -> io::Result<PathBuf> {
        let folder = parent.canonicalize().map_err(|error| named(parent, &error))?.join(name);
        if self.folders.contains(&folder) {
            return Ok(folder);
        }
        if folder.exists() {
            fs::remove_dir(&folder).map_err(|error| named(&folder, &error))?;
        }
        fs::create_dir(&folder).map_err(|error| named(&folder, &error))?;
        self.folders.push(folder.clone());
        Ok(folder)
    }

    /// Moves a process that runs into the group. What it had in memory before does not count.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn take_in(&self, process: u32) -> io::Result<()> {
        self.entrances()
            .try_for_each(|file| fs::write(&file, process.to_string()).map_err(|error| named(&file, &error)))
    }

    /// The program and the arguments that start another program within the group.
    pub fn within(&self, program: &str, arguments: &[String]) -> (String, Vec<String>) {
        let enter = ["-c", ENTER, "sh"].map(str::to_owned).into_iter();
        let entrances = self.entrances().map(|file| file.to_string_lossy().into_owned());
        let own = ["--".to_owned(), program.to_owned()].into_iter().chain(arguments.iter().cloned());
        ("/bin/sh".to_owned(), enter.chain(entrances).chain(own).collect())
    }

    fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| folder.join(PROCESSES))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder); // an empty group that is left costs nothing
        }
    }
}

/// The group in which groups with a controller are made.
enum Parent {
    First(PathBuf),
    Second(PathBuf),
}

fn parent(root: &Path, controller: &str) -> Option<Parent> {
    let own = root.join(controller);
    if own.join(PROCESSES).exists() {
        return Some(Parent::First(own));
    }
    let has_it = |place: &PathBuf| {
        let controllers = fs::read_to_string(place.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_whitespace().any(|word| word == controller)
    };
    let place = [root.to_owned(), root.join("unified")].into_iter().find(has_it)?;
    // If this fails, the file of the limit is missing in the group, and that is reported.
    let _ = fs::write(place.join("cgroup.subtree_control"), format!("+{controller}"));
    Some(Parent::Second(place))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn groups_are_made_where_their_controller_is() {
        let root = tempfile::tempdir().unwrap();
        assert!(parent(root.path(), "memory").is_none());
        fs::write(root.path().join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
        assert!(matches!(parent(root.path(), "memory"), Some(Parent::Second(place)) if place == root.path()));
        assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "+memory");
        assert!(parent(root.path(), "io").is_none());
        // A machine with both has the controller in one of them only.
        let first = root.path().join("cpu");
        fs::create_dir(&first).unwrap();
        fs::write(first.join(PROCESSES), "").unwrap();
        assert!(matches!(parent(root.path(), "cpu"), Some(Parent::First(place)) if place == first));
    }

    #[test]
    fn a_process_runs_within_the_group_and_the_group_goes_with_its_owner() {
        let limits = Limits { memory_bytes: Some(256 << 20), cpus: Some(0.5) };
        let name = format!("penates-test-{}", std::process::id());
        let group = match ControlGroup::new(&name, limits) {
            Ok(group) => group,
            // Without root there is none, and the error says where.
            Err(error) => return assert!(error.to_string().contains(ROOT), "{error}"),
        };
        let (program, arguments) = group.within("sleep", &["3600".to_owned()]);
        let mut child = Command::new(program).args(arguments).stdin(Stdio::null()).spawn().unwrap();
        let path = format!("/proc/{}/cgroup", child.id());
        let begun = std::time::Instant::now();
        while !fs::read_to_string(&path).unwrap().contains(&name) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it never enters the group");
            std::thread::yield_now();
        }
        let folders = group.folders.clone();
        // What it uses is counted, also where that is a matter of other controllers.
        let counted = |controller: &str| Path::new(ROOT).join(controller).join(&name).exists();
        let is_apart = |controller: &&str| Path::new(ROOT).join(controller).join(PROCESSES).exists();
        assert!(COUNTING.into_iter().filter(is_apart).all(counted), "{folders:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(group);
        assert!(!folders.is_empty() && folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    }
}
