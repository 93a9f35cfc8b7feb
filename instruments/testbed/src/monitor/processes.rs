//! Which processes belong to a watched one, and what they use.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Arc;

use cluster::WATCHER;
use parking_lot::Mutex;
use procfs::ProcError;
use procfs::process::{Process, Stat};
use rustix::process::Pid;

use super::usage::{CpuTicks, Usage};

/// Groups of processes that belong to a watched one, with any parents: a process whose parent has
/// ended is adopted by a stranger. They may change while samples are taken.
#[derive(Clone, Debug, Default)]
pub struct Groups(Arc<Mutex<Vec<Pid>>>);

impl Groups {
    /// Adds a group.
    pub fn add(&self, group: Pid) {
        self.0.lock().push(group);
    }

    /// Takes a group away.
    pub fn remove(&self, group: Pid) {
        self.0.lock().retain(|known| *known != group);
    }

    /// The groups now, the first of them first.
    pub fn all(&self) -> Vec<Pid> {
        self.0.lock().clone()
    }
}

/// A watched process. Its start time distinguishes it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Root {
    pid: i32,
    started: u64,
}

impl Root {
    /// The process that has an id now; `None` if there is none.
    pub fn find(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let started = Process::new(pid).ok()?.stat().ok()?.starttime;
        Some(Self { pid, started })
    }

    /// What the process, those of its groups and all their descendants use; `None` if it and its groups ended.
    pub fn usage(self, groups: &[Pid], all: &[Stat]) -> Option<Usage> {
        let mut usage = Usage { bytes_io: Some((0, 0)), open_files: Some(0), ..Usage::default() };
        for stat in self.tree(groups, all)? {
            usage.cpu.insert((stat.pid, stat.starttime), CpuTicks::from(stat));
            if has_ended(stat) {
                continue;
            }
            usage.memory_bytes += stat.rss * procfs::page_size();
            usage.threads += u64::try_from(stat.num_threads).unwrap_or(0);
            usage.bytes_io = add(usage.bytes_io, bytes_io(stat.pid), |a, b| (a.0 + b.0, a.1 + b.1));
            usage.open_files = add(usage.open_files, open_files(stat.pid), |a, b| a + b);
        }
        Some(usage)
    }

    /// Only the processor time of the process and its descendants; `None` if it ended.
    pub fn cpu(self, all: &[Stat]) -> Option<Usage> {
        let cpu = self.tree(&[], all)?.into_iter().map(|stat| ((stat.pid, stat.starttime), CpuTicks::from(stat)));
        Some(Usage { cpu: cpu.collect(), ..Usage::default() })
    }

    /// The process, those of its groups and all their descendants. Some may have ended and wait to be reaped.
    fn tree<'a>(self, groups: &[Pid], all: &'a [Stat]) -> Option<Vec<&'a Stat>> {
        let (mut tree, mut children): (Vec<&Stat>, HashMap<i32, Vec<&Stat>>) = Default::default();
        // What only ends a group with its owner uses nothing for it.
        for stat in all.iter().filter(|stat| stat.comm != WATCHER) {
            let is_root = stat.pid == self.pid && stat.starttime == self.started;
            match is_root || groups.iter().any(|group| group.as_raw_pid() == stat.pgrp) {
                true => tree.push(stat),
                false => children.entry(stat.ppid).or_default().push(stat),
            }
        }
        if tree.iter().all(|stat| has_ended(stat)) {
            return None;
        }
        let mut next = 0;
        while let Some(parent) = tree.get(next) {
            // Removed, so that ids that change while they are listed make no cycle.
            tree.extend(children.remove(&parent.pid).unwrap_or_default());
            next += 1;
        }
        Some(tree)
    }
}

/// The processes of the machine that may belong to a watched one.
///
/// A process that does not belong to one never will, and reading all processes of a large machine
/// each second costs too much. So outsiders are remembered by their ids, and only one of so many is
/// read again each time, because ids are given to new processes some day.
#[derive(Debug, Default)]
pub struct Candidates {
    outsiders: HashSet<i32>,
    turn: i32,
}

/// An outsider is read again once in so many times.
const TURNS: i32 = 10;

impl Candidates {
    /// Reads them. A process that ends meanwhile is left out.
    pub fn list(&mut self) -> Vec<Stat> {
        let pids = pids();
        self.turn = (self.turn + 1) % TURNS;
        self.outsiders.retain(|pid| pids.contains(pid) && pid % TURNS != self.turn);
        let candidates = pids.difference(&self.outsiders);
        candidates.filter_map(|pid| Process::new(*pid).ok()?.stat().ok()).collect()
    }

    /// Remembers those of a list that belong to no watched process.
    pub fn remember<'a>(&mut self, list: &[Stat], watched: impl Iterator<Item = &'a Usage>) {
        let insiders: HashSet<i32> = watched.flat_map(|usage| usage.cpu.keys()).map(|(pid, _)| *pid).collect();
        self.outsiders.extend(list.iter().map(|stat| stat.pid).filter(|pid| !insiders.contains(pid)));
    }
}

/// The ids of all processes.
fn pids() -> HashSet<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether processes of a group run, besides the watcher that ends it with its owner.
pub fn has_processes(group: Pid) -> bool {
    let mut all = pids().into_iter().filter_map(|pid| Process::new(pid).ok()?.stat().ok());
    all.any(|stat| stat.pgrp == group.as_raw_pid() && stat.comm != WATCHER && !has_ended(&stat))
}

/// Whether a process ended. One whose first thread ended runs on while it has others.
fn has_ended(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1
}

/// Bytes that a process read from and wrote to disks.
fn bytes_io(pid: i32) -> Result<(u64, u64), ProcError> {
    let io = Process::new(pid)?.io()?;
    Ok((io.read_bytes, io.write_bytes))
}

fn open_files(pid: i32) -> Result<u64, ProcError> {
    Ok(Process::new(pid)?.fd_count()? as u64)
}

/// Adds to a sum. What may not be read makes the sum unknown; a process that just ended adds
/// nothing.
fn add<T>(sum: Option<T>, part: Result<T, ProcError>, plus: fn(T, T) -> T) -> Option<T> {
    match part {
        Ok(part) => sum.map(|sum| plus(sum, part)),
        Err(ProcError::PermissionDenied(_)) => None,
        Err(_) => sum,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::FromRead;

    use super::*;

    /// A line of a process as the kernel writes it.
    fn stat(pid: i32, name: &str, state: char, parent: i32, threads: u32, started: u64) -> Stat {
        let text = format!(
            "{pid} ({name}) {state} {parent} 5937 15158 0 -1 4194304 99 0 0 0 11 12 13 14 20 0 {threads} 0 \
             {started} 3133440 390 18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 0\n"
        );
        Stat::from_read(text.as_bytes()).unwrap()
    }

    fn pids(root: Root, all: &[Stat]) -> Option<Vec<i32>> {
        pids_with(root, &[], all)
    }

    fn pids_with(root: Root, groups: &[i32], all: &[Stat]) -> Option<Vec<i32>> {
        let groups: Vec<_> = groups.iter().filter_map(|group| Pid::from_raw(*group)).collect();
        Some(root.tree(&groups, all)?.iter().map(|stat| stat.pid).collect())
    }

    const ROOT: Root = Root { pid: 10, started: 500 };

    #[test]
    fn names_with_brackets_and_spaces_are_no_fields() {
        let odd = stat(10, "a) S 1 (b c) (", 'S', 7, 3, 500);
        assert_eq!((odd.comm.as_str(), odd.ppid, odd.num_threads, odd.rss), ("a) S 1 (b c) (", 7, 3, 390));
        assert_eq!(CpuTicks::from(&odd), CpuTicks { user: 11, system: 12, reaped_user: 13, reaped_system: 14 });
    }

    #[test]
    fn a_tree_has_all_descendants_and_nobody_else() {
        let all = [
            stat(1, "init", 'S', 0, 1, 1),
            stat(12, "grandchild", 'S', 11, 1, 502),
            stat(10, "server", 'S', 1, 9, 500),
            stat(11, "child", 'Z', 10, 1, 501),
            stat(20, "other", 'S', 1, 1, 300),
        ];
        assert_eq!(pids(ROOT, &all), Some(vec![10, 11, 12]));
    }

    #[test]
    fn a_tree_has_the_processes_of_its_groups_whoever_their_parents_are() {
        let of_group = |pid: i32, state: char, parent: i32| {
            let mut stat = stat(pid, "left", state, parent, 1, 600);
            stat.pgrp = 30;
            stat
        };
        // The process that has started the group has ended: `init` has adopted what it has left.
        let all = [
            stat(1, "init", 'S', 0, 1, 1),
            stat(10, "server", 'S', 1, 9, 500),
            stat(20, "other", 'S', 1, 1, 300),
            of_group(31, 'S', 1),
            stat(32, "child in a group of its own", 'S', 31, 1, 601),
        ];
        assert_eq!(pids_with(ROOT, &[30], &all), Some(vec![10, 31, 32]));
        assert_eq!(pids_with(ROOT, &[29], &all), Some(vec![10]));
        // They run on without the process that was started first.
        let later = [stat(1, "init", 'S', 0, 1, 1), stat(10, "server", 'Z', 1, 1, 500), of_group(31, 'S', 1)];
        assert_eq!(pids_with(ROOT, &[30], &later), Some(vec![10, 31]));
        assert_eq!(pids_with(ROOT, &[30], &[of_group(31, 'Z', 1)]), None);
    }

    #[test]
    fn a_watcher_is_no_part_of_the_group_that_it_ends() {
        let mut watcher = stat(11, WATCHER, 'S', 10, 1, 501);
        watcher.pgrp = 10;
        let all = |state: char| [stat(10, "server", state, 1, 1, 500), watcher.clone()];
        assert_eq!(pids_with(ROOT, &[10], &all('S')), Some(vec![10]));
        assert_eq!(pids_with(ROOT, &[10], &all('Z')), None);
    }

    #[test]
    fn parents_in_a_circle_end() {
        let all = [stat(10, "a", 'S', 11, 1, 500), stat(11, "b", 'S', 10, 1, 501)];
        assert_eq!(pids(ROOT, &all), Some(vec![10, 11]));
    }

    #[test]
    fn a_process_that_ended_has_no_tree_and_neither_has_a_later_one_with_its_id() {
        assert_eq!(pids(ROOT, &[stat(1, "init", 'S', 0, 1, 1)]), None);
        assert_eq!(pids(ROOT, &[stat(10, "server", 'Z', 1, 1, 500)]), None);
        assert_eq!(pids(ROOT, &[stat(10, "another", 'S', 1, 1, 900)]), None);
    }

    #[test]
    fn a_process_whose_first_thread_ended_runs_on() {
        assert_eq!(pids(ROOT, &[stat(10, "server", 'Z', 1, 4, 500)]), Some(vec![10]));
    }

    #[test]
    fn what_may_not_be_read_makes_a_sum_unknown_and_what_is_gone_adds_nothing() {
        let plus = |a: u64, b: u64| a + b;
        assert_eq!(add(Some(1), Ok(2), plus), Some(3));
        assert_eq!(add(Some(1), Err(ProcError::NotFound(None)), plus), Some(1));
        assert_eq!(add(Some(1), Err(ProcError::PermissionDenied(None)), plus), None);
        assert_eq!(add(None, Ok(2), plus), None);
    }

    #[test]
    fn this_process_uses_something_and_an_absent_one_has_no_root() {
        let all = Candidates::default().list();
        let usage = Root::find(std::process::id()).unwrap().usage(&[], &all).unwrap();
        assert!(usage.memory_bytes > 0 && usage.threads > 0 && usage.open_files.unwrap() > 0);
        assert_eq!(Root::find(u32::MAX), None);
        assert_eq!(Root::find(i32::MAX as u32), None);
    }

    #[test]
    fn outsiders_are_read_again_once_in_so_many_times_and_the_others_each_time() {
        let this = i32::try_from(std::process::id()).unwrap();
        let usage = Usage { cpu: HashMap::from([((this, 1), CpuTicks::default())]), ..Usage::default() };
        let mut candidates = Candidates::default();
        let mut list = || -> Vec<i32> {
            let list = candidates.list();
            candidates.remember(&list, [&usage].into_iter());
            list.iter().map(|stat| stat.pid).collect()
        };
        assert!(list().contains(&1), "the first process is new");
        let lists: Vec<_> = (0..TURNS).map(|_| list()).collect();
        assert!(lists.iter().all(|list| list.contains(&this)));
        assert_eq!(lists.iter().filter(|list| list.contains(&1)).count(), 1);
    }
}
