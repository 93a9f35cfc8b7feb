//! Limits of a process and of its control group.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::ProcessCGroup;
use procfs::process::{MountInfo, Process};
use rustix::process::{Resource, getrlimit};

/// The first version of control groups shows no limit as about this many bytes.
const NO_LIMIT_BYTES: f64 = (1_u64 << 62) as f64;

/// The limits that can be found: open files, memory, processors.
pub fn find() -> Vec<(String, String)> {
    let open_files = getrlimit(Resource::Nofile).current.map_or(f64::INFINITY, |files| files as f64);
    let (memory, processors) = Process::myself().map_or((None, None), |process| of_groups(&process));
    let limits = [("open files", Some(open_files)), ("memory in bytes", memory), ("processors", processors)];
    limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), text(limit?)))).collect()
}

/// The bytes of memory and the processors that a process may use, by its control groups and all that
/// are around them. Infinite: nothing limits it. `None`: no group shows it.
pub fn of_process(pid: u32) -> (Option<f64>, Option<f64>) {
    let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
    process.map_or((None, None), |process| of_groups(&process))
}

fn of_groups(process: &Process) -> (Option<f64>, Option<f64>) {
    let Some((groups, mounts)) = process.cgroups().ok().zip(process.mountinfo().ok()) else { return (None, None) };
    let memory = tightest(&directories("memory", &groups.0, &mounts.0), memory_bytes);
    (memory, tightest(&directories("cpu", &groups.0, &mounts.0), processors))
}

fn text(limit: f64) -> String {
    if limit.is_finite() { limit.to_string() } else { "unlimited".to_owned() }
}

/// The directories of the control group that limits a resource, and of all groups around it.
fn directories(controller: &str, groups: &[ProcessCGroup], mounts: &[MountInfo]) -> Vec<PathBuf> {
    let of_mount = |mount: &MountInfo| {
        let group = match mount.fs_type.as_str() {
            "cgroup2" => groups.iter().find(|group| group.hierarchy == 0),
            "cgroup" if mount.super_options.contains_key(controller) => {
                groups.iter().find(|group| group.controllers.iter().any(|it| it == controller))
            }
            _ => None,
        };
        group.map_or_else(Vec::new, |group| around(mount, &group.pathname))
    };
    mounts.iter().flat_map(of_mount).collect()
}

/// A mount may begin at a group below the root, as in a container.
fn around(mount: &MountInfo, group: &str) -> Vec<PathBuf> {
    let below = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(group));
    let below = below.strip_prefix("/").unwrap_or(below);
    below.ancestors().map(|part| mount.mount_point.join(part)).collect()
}

/// The smallest limit of several groups; `None` if no group shows any.
fn tightest(directories: &[PathBuf], limit: fn(&Path) -> Option<f64>) -> Option<f64> {
    directories.iter().filter_map(|directory| limit(directory)).reduce(f64::min)
}

/// The limit of a group; infinite if it has none.
fn memory_bytes(directory: &Path) -> Option<f64> {
    let read = |file| fs::read_to_string(directory.join(file)).ok();
    let bytes = number(&read("memory.max").or_else(|| read("memory.limit_in_bytes"))?)?;
    Some(if bytes < NO_LIMIT_BYTES { bytes } else { f64::INFINITY })
}

/// The limit of a group; infinite if it has none.
fn processors(directory: &Path) -> Option<f64> {
    let read = |file| fs::read_to_string(directory.join(file)).ok();
    if let Some(text) = read("cpu.max") {
        let (quota, period) = text.trim().split_once(' ')?;
        return Some(number(quota)? / number(period)?);
    }
    let quota = number(&read("cpu.cfs_quota_us")?)?;
    let period = number(&read("cpu.cfs_period_us")?)?;
    Some(if quota < 0.0 { f64::INFINITY } else { quota / period })
}

fn number(text: &str) -> Option<f64> {
    match text.trim() {
        "max" => Some(f64::INFINITY),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::process::MountInfos;
    use procfs::{FromBufRead, ProcessCGroups};

    use super::*;

    fn found(controller: &str, groups: &str, mounts: &str) -> Vec<String> {
        let groups = ProcessCGroups::from_buf_read(groups.as_bytes()).unwrap().0;
        let mounts = MountInfos::from_buf_read(mounts.as_bytes()).unwrap().0;
        let directories = directories(controller, &groups, &mounts);
        directories.iter().map(|path| path.to_str().unwrap().trim_end_matches('/').to_owned()).collect()
    }

    const V2: &str = "30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn groups_of_the_second_version_have_groups_around_them() {
        let wanted = ["/sys/fs/cgroup/user.slice/run.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"];
        assert_eq!(found("memory", "0::/user.slice/run.scope\n", V2), wanted);
        assert_eq!(found("cpu", "0::/\n", V2), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn groups_of_the_first_version_have_a_mount_per_controller() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        let groups = "9:name=systemd:/\n4:memory:/job\n2:cpu,cpuacct:/\n";
        assert_eq!(found("memory", groups, mounts), ["/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/memory"]);
        assert_eq!(found("cpu", groups, mounts), ["/sys/fs/cgroup/cpu"]);
    }

    #[test]
    fn a_container_whose_mount_begins_at_its_group_has_one_directory() {
        let mounts = "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(found("memory", "4:memory:/docker/0123\n", mounts), ["/sys/fs/cgroup/memory"]);
    }

    #[test]
    fn a_machine_without_groups_has_no_directories() {
        assert_eq!(found("memory", "", V2), [""; 0]);
        assert_eq!(found("memory", "0::/\n", ""), [""; 0]);
    }

    /// What a function finds in a group with such files.
    fn limit(limit: fn(&Path) -> Option<f64>, files: &[(&str, &str)]) -> Option<f64> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        limit(directory.path())
    }

    #[test]
    fn memory_is_limited_in_both_versions() {
        assert_eq!(limit(memory_bytes, &[("memory.max", "8589934592\n")]), Some(8_589_934_592.0));
        assert_eq!(limit(memory_bytes, &[("memory.max", "max\n")]), Some(f64::INFINITY));
        assert_eq!(limit(memory_bytes, &[("memory.limit_in_bytes", "1048576\n")]), Some(1_048_576.0));
        let none = [("memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(limit(memory_bytes, &none), Some(f64::INFINITY));
        assert_eq!(limit(memory_bytes, &[]), None);
    }

    #[test]
    fn processors_are_limited_in_both_versions() {
        assert_eq!(limit(processors, &[("cpu.max", "150000 100000\n")]), Some(1.5));
        assert_eq!(limit(processors, &[("cpu.max", "max 100000\n")]), Some(f64::INFINITY));
        let quota = |quota| limit(processors, &[("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "100000\n")]);
        assert_eq!((quota("50000\n"), quota("-1\n")), (Some(0.5), Some(f64::INFINITY)));
        assert_eq!(limit(processors, &[("cpu.max", "garbage")]), None);
    }

    #[test]
    fn the_tightest_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(root.path().join("memory.max"), "4096\n").unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        let groups = [inner, root.path().join("absent"), root.path().to_owned()];
        assert_eq!(tightest(&groups, memory_bytes), Some(4096.0));
        assert_eq!(tightest(&groups[1..2], memory_bytes), None);
    }

    #[test]
    fn an_infinite_limit_is_named() {
        assert_eq!([f64::INFINITY, 1.5, 8_589_934_592.0].map(text), ["unlimited", "1.5", "8589934592"]);
    }
}
