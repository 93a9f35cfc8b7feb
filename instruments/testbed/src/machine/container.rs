//! Whether this program runs in a container.

use std::fs;
use std::path::Path;

use procfs::process::Process;

/// Files that container engines make in the root directory.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Parts of the names of control groups that container engines make.
const GROUPS: [&str; 6] = ["/docker", "/kubepods", "/lxc", "/libpod", "/containerd", "/machine.slice"];

/// What there is to judge by.
#[derive(Debug, Default)]
struct Traces {
    /// A file of a container engine exists.
    has_mark: bool,
    /// The environment of the first process, if it may be read.
    environment: Option<Vec<u8>>,
    /// The control groups of the first process.
    groups: Option<String>,
    /// The name of the process with the id 2.
    second: Option<String>,
}

/// Whether this program runs in a container; `None` if nothing says so and nothing says otherwise.
pub fn find() -> Option<bool> {
    judge(&Traces {
        has_mark: MARKS.iter().any(|mark| Path::new(mark).exists()),
        environment: fs::read("/proc/1/environ").ok(),
        groups: fs::read_to_string("/proc/1/cgroup").ok(),
        second: Process::new(2).and_then(|process| process.stat()).ok().map(|stat| stat.comm),
    })
}

/// A container sees only its own processes, so that the kernel's own are not among them.
fn judge(traces: &Traces) -> Option<bool> {
    let environment = traces.environment.as_deref().unwrap_or_default();
    let has_variable = environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"container="));
    let groups = traces.groups.as_deref().unwrap_or_default();
    let has_group = groups.lines().any(|line| GROUPS.iter().any(|group| line.contains(group)));
    if traces.has_mark || has_variable || has_group {
        return Some(true);
    }
    (traces.second.as_deref() == Some("kthreadd")).then_some(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn marks_variables_and_groups_of_engines_mean_a_container() {
        let mark = Traces { has_mark: true, second: Some("kthreadd".into()), ..Traces::default() };
        assert_eq!(judge(&mark), Some(true));
        let environment = Some(b"PATH=/bin\0container=podman\0".to_vec());
        assert_eq!(judge(&Traces { environment, ..Traces::default() }), Some(true));
        let groups = Some("12:memory:/docker/0123abcd\n0::/\n".to_owned());
        assert_eq!(judge(&Traces { groups, ..Traces::default() }), Some(true));
    }

    #[test]
    fn a_machine_that_shows_the_processes_of_its_kernel_is_no_container() {
        let traces = Traces {
            environment: Some(b"HOME=/\0mycontainer=no\0".to_vec()),
            groups: Some("0::/init.scope\n".to_owned()),
            second: Some("kthreadd".into()),
            ..Traces::default()
        };
        assert_eq!(judge(&traces), Some(false));
    }

    #[test]
    fn without_any_trace_it_is_not_known() {
        assert_eq!(judge(&Traces::default()), None);
        assert_eq!(judge(&Traces { second: Some("sh".into()), ..Traces::default() }), None);
    }
}
