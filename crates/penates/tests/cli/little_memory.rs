//! A server in a control group with little memory, as a small container has it.

use std::process::{Command, Stdio};

use cluster::{ControlGroup, Limits};
use store_cassandra::testing::not_run;

use crate::harness::*;

/// The memory of the group.
const MEMORY_BYTES: u64 = 256 << 20;

/// Starts a command in a group with little memory; `None`: no groups can be made here. That is
/// reported.
fn start_in_group(command: &Command) -> Option<(ControlGroup, Served)> {
    let limits = Limits { memory_bytes: Some(MEMORY_BYTES), cpus: None };
    let name = format!("penates-little-memory-{}", std::process::id());
    let group = match ControlGroup::new(&name, limits) {
        Ok(group) => group,
        // Without root there is none, and the error says where.
        Err(error) => {
            assert!(error.to_string().contains("/sys/fs/cgroup"), "{error}");
            not_run(&format!("a server in a small control group: {error}"));
            return None;
        }
    };
    let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
    let arguments: Vec<String> = command.get_args().map(text).collect();
    let (program, arguments) = group.within(&text(command.get_program()), &arguments);
    let mut within = Command::new(program);
    within.args(arguments).stdin(Stdio::null());
    command.get_envs().for_each(|(name, _)| _ = within.env_remove(name));
    let served = Served::start(within);
    Some((group, served))
}

/// What `curl` gets from a server.
fn got(served: &Served, path: &str, more: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-s", "--max-time", "60"]).args(more).arg(format!("{}{path}", served.url));
    Ran::of(curl).ends_with(0).text().to_owned()
}

#[test]
fn a_server_in_a_small_control_group_makes_its_budgets_of_the_memory_of_the_group() {
    let store = TestStore::with(&[SMALL]);
    let wanted = "--set=limits.connections=16384";
    let serve = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off", wanted]);
    let Some((_group, served)) = start_in_group(&serve) else { return };
    let metrics = got(&served, "/metrics", &[]);
    let limit = metrics.lines().find_map(|line| line.strip_prefix("penates_memory_limit_bytes ")).unwrap();
    assert_eq!(limit.parse::<f64>().unwrap() as u64, MEMORY_BYTES / 4);

    // Such a list has too many ids here, and never fits: it is refused for good.
    let ids = store.beside("ids.txt");
    std::fs::write(&ids, "a.1\n".repeat(200_000)).unwrap();
    let list = format!("@{}", ids.display());
    let plain = ["-H", "Content-Type: text/plain", "-w", "\n%{http_code}"];
    let refused = got(&served, "/volumes", &[&plain[..], &["--data-binary", &list]].concat());
    assert!(refused.ends_with("\n413"), "{refused}");
    std::fs::write(&ids, SMALL).unwrap();
    let small = ["-o", "/dev/null", "--data-binary", &list];
    assert_eq!(got(&served, "/volumes", &[&plain[..], &small].concat()), "\n200");

    let first = served.said_first.clone();
    let (code, later) = served.stop("TERM");
    let said = first + &later;
    assert_eq!(code, 0, "{said}");
    for warned in ["limits.connections is more than the memory allows", "limits.memory is so small"] {
        assert!(said.contains(warned), "{said}");
    }
}
