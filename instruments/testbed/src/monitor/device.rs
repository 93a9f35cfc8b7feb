//! Which disk carries a path.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};

/// The file system that carries a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Its type, such as `ext4`.
    pub file_system: String,
    /// Its disk; `None`: it has no block device, as file systems in memory or over a network.
    pub disk: Option<Disk>,
}

/// A block device. For a partition it is the whole disk, because requests to other partitions
/// of the same disk make it busy too.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// The kernel's name, such as `nvme0n1`.
    pub name: String,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// Whether it has heads that move, as the kernel knows it. Virtual disks often say so falsely.
    pub is_rotational: Option<bool>,
}

impl Volume {
    /// The file system that carries a path which exists.
    pub fn of(path: &Path) -> Option<Self> {
        let facts = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        let has_mount = facts.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let mount_id = has_mount.then_some(facts.stx_mnt_id);
        let mounts = Process::myself().ok()?.mountinfo().ok()?.0;
        let mount = mount_of(&mounts, mount_id, facts.stx_dev_major, facts.stx_dev_minor)?;
        let disk = device_of(mount).and_then(|(major, minor)| Disk::find(major, minor));
        Some(Self { file_system: mount.fs_type.clone(), disk })
    }
}

/// The mount with an id. Kernels before 5.8 report no id; there it is one of the same device.
fn mount_of(mounts: &[MountInfo], id: Option<u64>, major: u32, minor: u32) -> Option<&MountInfo> {
    let by_id = mounts.iter().find(|mount| id.is_some() && u64::try_from(mount.mnt_id).ok() == id);
    by_id.or_else(|| mounts.iter().rfind(|mount| numbers(&mount.majmin) == Some((major, minor))))
}

/// The block device of a mount. File systems that may span several devices have a number
/// of their own (major 0); those of them that name a device as their source have that one.
fn device_of(mount: &MountInfo) -> Option<(u32, u32)> {
    let numbers = numbers(&mount.majmin)?;
    if numbers.0 != 0 {
        return Some(numbers);
    }
    let source = fs::metadata(mount.mount_source.as_ref()?).ok()?;
    source.file_type().is_block_device().then(|| (major(source.rdev()), minor(source.rdev())))
}

/// `8:1` as two numbers.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Disk {
    /// The disk with the numbers of itself or of one of its partitions.
    fn find(major: u32, minor: u32) -> Option<Self> {
        let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        Self::read(&directory)
    }

    fn read(directory: &Path) -> Option<Self> {
        let is_partition = directory.join("partition").exists();
        let whole: PathBuf = if is_partition { directory.parent()?.into() } else { directory.into() };
        let (major, minor) = numbers(&fs::read_to_string(whole.join("dev")).ok()?)?;
        let is_rotational = fs::read_to_string(whole.join("queue/rotational")).ok().and_then(|it| flag(&it));
        let name = whole.file_name()?.to_string_lossy().into_owned();
        Some(Self { name, major, minor, is_rotational })
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::FromBufRead;
    use procfs::process::MountInfos;

    use super::*;

    fn mounts() -> Vec<MountInfo> {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
            28 27 8:17 / /srv/with\\040space rw,nosuid shared:1 master:7 - xfs /dev/sdb1 rw\n\
            29 27 8:17 /part /srv/bound rw - xfs /dev/sdb1 rw\n\
            30 27 0:31 / /home rw - btrfs /dev/absent rw,subvol=/home\n\
            31 27 0:32 / /dev/shm rw,nosuid - tmpfs none rw,size=24684096k\n";
        MountInfos::from_buf_read(text.as_bytes()).unwrap().0
    }

    #[test]
    fn a_mount_is_found_by_its_id_or_else_by_its_device() {
        let mounts = mounts();
        let found = |id, major, minor| mount_of(&mounts, id, major, minor).map(|mount| mount.mnt_id);
        assert_eq!(found(Some(28), 8, 17), Some(28));
        assert_eq!(found(Some(30), 0, 99), Some(30), "a subvolume has a device number of its own");
        assert_eq!(found(None, 254, 0), Some(27));
        assert_eq!(found(None, 1, 1), None);
    }

    #[test]
    fn a_file_system_in_memory_and_one_whose_source_is_absent_have_no_disk() {
        let devices: Vec<_> = mounts().iter().map(device_of).collect();
        assert_eq!(devices, [Some((254, 0)), Some((8, 17)), Some((8, 17)), None, None]);
    }

    #[test]
    fn a_partition_is_its_whole_disk() {
        let sys = tempfile::tempdir().unwrap();
        let (disk, partition) = (sys.path().join("sdb"), sys.path().join("sdb/sdb1"));
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(&partition).unwrap();
        fs::write(disk.join("dev"), "8:16\n").unwrap();
        fs::write(disk.join("queue/rotational"), "0\n").unwrap();
        fs::write(partition.join("dev"), "8:17\n").unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        let wanted = Disk { name: "sdb".into(), major: 8, minor: 16, is_rotational: Some(false) };
        assert_eq!(Disk::read(&partition), Some(wanted.clone()));
        assert_eq!(Disk::read(&disk), Some(wanted));
        assert_eq!(Disk::read(&sys.path().join("sdc")), None);
    }

    #[test]
    fn the_volume_of_a_path_has_a_file_system_and_an_absent_path_has_no_volume() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!Volume::of(directory.path()).unwrap().file_system.is_empty());
        assert_eq!(Volume::of(&directory.path().join("absent")), None);
    }
}
