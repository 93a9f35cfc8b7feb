//! What a machine and a program say about themselves.

mod container;
mod limits;

pub use limits::of_process as limits_of_process;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;

use procfs::{CpuInfo, Current, Meminfo};
use sha2::{Digest, Sha256};

use crate::monitor::device::Volume;
use crate::record::{Machine, ProcessRecord, Program};

const MACHINE_ID: &str = "/etc/machine-id";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl Machine {
    /// This machine. `data` is a path on the disk to describe.
    ///
    /// What cannot be found is `None`, or is left out of the limits. The roles are empty; and so is
    /// [`Machine::busy_before`], which is measured before a run.
    pub fn find(data: Option<&Path>) -> Self {
        let system = rustix::system::uname();
        Self {
            name: system.nodename().to_string_lossy().into_owned(),
            id: digest_of_id(Path::new(MACHINE_ID)),
            boot_id: digest_of_id(Path::new(BOOT_ID)),
            roles: Vec::new(),
            processor: CpuInfo::current().ok().as_ref().and_then(processor),
            processors: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: Meminfo::current().ok().map(|info| info.mem_total),
            disk: data.and_then(Volume::of).as_ref().map(disk),
            kernel: Some(format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())),
            clock_source: fs::read_to_string(CLOCK_SOURCE).ok().map(|it| it.trim().to_owned()),
            limits: limits::find(),
            is_container: container::find(),
            busy_before: None,
        }
    }

    /// Whether another description is one of this machine too: nothing that both know differs.
    pub fn is_same(&self, other: &Self) -> bool {
        let differ = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
        self.name == other.name && !differ(&self.id, &other.id) && !differ(&self.boot_id, &other.boot_id)
    }
}

/// What is enough of a digest to tell machines apart.
const ID_CHARS: usize = 16;

/// A digest of the id in a file, for which only the testbed has a use (machine-id(5)).
fn digest_of_id(file: &Path) -> Option<String> {
    let id = fs::read_to_string(file).ok()?;
    let id = Some(id.trim()).filter(|id| !id.is_empty())?;
    Some(hex::encode(Sha256::digest(format!("lares testbed {id}"))).chars().take(ID_CHARS).collect())
}

/// Processors of ARM have no names, only numbers.
fn processor(info: &CpuInfo) -> Option<String> {
    let field = |name| info.get_field(0, name);
    let numbers = || Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?));
    info.model_name(0).map(str::to_owned).or_else(numbers)
}

fn disk(volume: &Volume) -> String {
    let Some(disk) = &volume.disk else { return volume.file_system.clone() };
    let kind = match disk.is_rotational {
        Some(true) => " (rotational)",
        Some(false) => " (not rotational)",
        None => "",
    };
    format!("{} on {}{kind}", volume.file_system, disk.name)
}

impl Program {
    /// A program with the SHA-256 of its file. Its source is not known.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_file(name: &str, version: &str, path: &Path) -> io::Result<Self> {
        let sha256 = Some(sha256_of_file(path)?);
        Ok(Self { name: name.to_owned(), version: version.to_owned(), sha256, ..Self::default() })
    }
}

impl ProcessRecord {
    /// What a process of this machine shows. Its program can be read by its own user and by root.
    pub fn find(pid: u32) -> Self {
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        let file = fs::read_link(&exe).unwrap_or_default();
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Self {
            pid,
            name: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            sha256: sha256_of_file(&exe).ok(),
            command: (!words.is_empty()).then_some(words),
        }
    }
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// If the file cannot be read.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(hex::encode(digest.finalize()));
        }
        digest.update(&buffer[..length]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::FromBufRead;

    use super::*;
    use crate::monitor::device::Disk;

    #[test]
    fn a_machine_knows_itself() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::find(Some(directory.path()));
        assert!(!machine.name.is_empty());
        assert!(machine.processors >= 1);
        assert!(machine.memory_bytes.unwrap() > 0);
        assert!(machine.kernel.unwrap().starts_with("Linux "));
        assert!(!machine.disk.unwrap().is_empty());
        assert_eq!(machine.limits[0].0, "open files");
        assert_eq!((machine.roles.len(), machine.busy_before), (0, None));
        assert_eq!(Machine::find(None).disk, None);
        assert_eq!(Machine::find(Some(&directory.path().join("absent"))).disk, None);
    }

    #[test]
    fn machines_with_one_host_name_are_told_apart_by_their_ids() {
        let one =
            Machine { name: "node".into(), id: Some("a".into()), boot_id: Some("b".into()), ..Machine::default() };
        assert!(one.is_same(&one) && one.is_same(&Machine { name: "node".into(), ..Machine::default() }));
        assert!(!one.is_same(&Machine { id: Some("c".into()), ..one.clone() }));
        assert!(!one.is_same(&Machine { boot_id: Some("c".into()), ..one.clone() }));
        assert!(!one.is_same(&Machine { name: "other".into(), ..one.clone() }));
        let here = Machine::find(None);
        assert!(here.boot_id.as_ref().is_some_and(|id| id.len() == 16), "{:?}", here.boot_id);
        assert_eq!(here.boot_id, Machine::find(None).boot_id);
    }

    #[test]
    fn a_processor_has_a_name_or_numbers() {
        let read = |text: &str| processor(&CpuInfo::from_buf_read(text.as_bytes()).unwrap());
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n";
        assert_eq!(read(text).unwrap(), "AMD EPYC");
        let text = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n";
        assert_eq!(read(text).unwrap(), "implementer 0x41 part 0xd0c");
        assert_eq!(read("processor\t: 0\n\n"), None);
    }

    #[test]
    fn a_disk_is_described() {
        let volume = |is_rotational| {
            let found = Disk { name: "sda".into(), major: 8, minor: 0, is_rotational };
            disk(&Volume { file_system: "ext4".into(), disk: Some(found) })
        };
        let texts = [Some(true), Some(false), None].map(volume);
        assert_eq!(texts, ["ext4 on sda (rotational)", "ext4 on sda (not rotational)", "ext4 on sda"]);
        assert_eq!(disk(&Volume { file_system: "tmpfs".into(), disk: None }), "tmpfs");
    }

    #[test]
    fn a_program_has_the_digest_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "abc").unwrap();
        let program = Program::of_file("server", "1.2", file.path()).unwrap();
        assert_eq!((program.name.as_str(), program.version.as_str()), ("server", "1.2"));
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(program.sha256.as_deref(), Some(sha256));
        assert!(Program::of_file("server", "1.2", Path::new("/absent")).is_err());
    }
}
