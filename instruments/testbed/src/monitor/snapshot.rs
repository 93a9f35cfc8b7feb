//! What the machine and the watched processes count at one instant, and the values in between.

use std::path::PathBuf;

use rustix::process::Pid;
use tokio::time::Instant;

use super::cgroup::{self, CgroupWatch};
use super::cpu::{self, CpuTimes};
use super::disk::{self, DiskState, Place};
use super::memory::{self, Memory};
use super::network::{self, Interfaces};
use super::pressure::{self, Waits};
use super::processes::{Candidates, Groups, Root};
use super::usage::{self, Usage};
use super::{Settings, Watch};

/// What the machine counts at one instant.
#[derive(Debug)]
pub struct Snapshot {
    /// The instant.
    pub at: Instant,
    cpu: Option<CpuTimes>,
    memory: Option<Memory>,
    disk: DiskState,
    interfaces: Option<Interfaces>,
    waits: Waits,
    watched: Vec<Option<Usage>>,
    groups: Vec<cgroup::Counts>,
    /// Whether others are sampled.
    has_others: bool,
    /// What this process, the watched ones and all their descendants use of the processors.
    known: Option<Usage>,
}

/// The column of what others use.
const OTHERS: &str = "cpu_others";

/// Takes snapshots.
#[derive(Debug)]
pub struct Sampler {
    place: Option<Place>,
    roots: Vec<Option<Root>>,
    /// They belong to the first of these.
    of_first: Groups,
    has_others: bool,
    /// This process.
    own: Option<Root>,
    candidates: Candidates,
    /// The folders of each group.
    groups: Vec<Vec<PathBuf>>,
}

impl Sampler {
    /// Finds the disk and the processes. What is in the groups belongs to the first watched process.
    pub fn new(settings: &Settings, of_first: Groups) -> Self {
        let place = settings.data.as_deref().map(Place::new);
        let roots = settings.watches.iter().map(|watch| Root::find(watch.pid)).collect();
        let groups = settings.cgroups.iter().map(|group| group.folders.clone()).collect();
        let has_others = settings.others;
        let own = has_others.then(std::process::id).and_then(Root::find);
        Self { place, roots, of_first, has_others, own, candidates: Candidates::default(), groups }
    }

    /// Takes a snapshot now. This reads files of the kernel and may block.
    pub fn take(&mut self) -> Snapshot {
        let at = Instant::now();
        let (watched, known) = self.watched();
        Snapshot {
            at,
            cpu: CpuTimes::read(),
            memory: Memory::read(),
            disk: self.place.as_ref().map(Place::read).unwrap_or_default(),
            interfaces: network::read(),
            waits: pressure::read(),
            watched,
            groups: self.groups.iter().map(|folders| cgroup::Counts::read(folders)).collect(),
            has_others: self.has_others,
            known,
        }
    }

    /// What each watched process uses, and what all of them and this process use together.
    fn watched(&mut self) -> (Vec<Option<Usage>>, Option<Usage>) {
        if self.roots.is_empty() && self.own.is_none() {
            return (Vec::new(), None);
        }
        let processes = self.candidates.list();
        let of_first = self.of_first.all();
        let usage = |(number, root): (usize, &Option<Root>)| {
            let groups: &[Pid] = if number == 0 { &of_first } else { &[] };
            (*root)?.usage(groups, &processes)
        };
        let watched: Vec<_> = self.roots.iter().enumerate().map(usage).collect();
        let mut known = self.own.and_then(|own| own.cpu(&processes));
        if let Some(known) = &mut known {
            // A process of several trees counts once.
            watched.iter().flatten().for_each(|usage| known.cpu.extend(&usage.cpu));
        }
        self.candidates.remember(&processes, watched.iter().flatten().chain(&known));
        (watched, known)
    }
}

/// The columns, in the order of [`Snapshot::values_since`].
pub fn columns(settings: &Settings) -> impl Iterator<Item = String> {
    let machine = [&cpu::COLUMNS[..], &memory::COLUMNS, &disk::COLUMNS, &network::COLUMNS, &pressure::COLUMNS];
    let machine = machine.into_iter().flatten().map(|column| (*column).to_owned());
    let of_watch = |watch: &Watch| usage::COLUMNS.map(|column| format!("{}.{column}", watch.name));
    let of_group = |group: &CgroupWatch| cgroup::COLUMNS.map(|column| format!("{}.{column}", group.name));
    let groups = settings.cgroups.iter().flat_map(of_group);
    let others = settings.others.then(|| OTHERS.to_owned());
    machine.chain(settings.watches.iter().flat_map(of_watch)).chain(groups).chain(others)
}

impl Snapshot {
    /// The values between an earlier snapshot and this one.
    pub fn values_since(&self, before: &Self) -> Vec<Option<f64>> {
        let elapsed_s = self.at.saturating_duration_since(before.at).as_secs_f64();
        let mut values = Vec::new();
        values.extend(cpu::shares(before.cpu, self.cpu));
        values.extend(Memory::values(self.memory));
        values.extend(disk::values(&before.disk, &self.disk, elapsed_s));
        values.extend(network::rates(before.interfaces.as_ref(), self.interfaces.as_ref(), elapsed_s));
        values.extend(pressure::shares(before.waits, self.waits, elapsed_s));
        for (before, now) in before.watched.iter().zip(&self.watched) {
            values.extend(usage::values(before.as_ref(), now.as_ref(), elapsed_s));
        }
        for (before, now) in before.groups.iter().zip(&self.groups) {
            values.extend(cgroup::values(before, now, elapsed_s));
        }
        if self.has_others {
            values.push(self.others(before));
        }
        values
    }

    /// Processors that neither this process nor what is watched has used since an earlier snapshot: other
    /// programs, and other virtual machines on the same host. `None` if the machine does not report it, or
    /// others are not sampled.
    pub fn others(&self, before: &Self) -> Option<f64> {
        let elapsed_s = self.at.saturating_duration_since(before.at).as_secs_f64();
        let all = self.cpu?.since(&before.cpu?);
        let known = self.known.as_ref()?.all_ticks_since(before.known.as_ref()?);
        let ticks = (all.user + all.system + all.steal).saturating_sub(all.interrupts + known);
        let groups = before.groups.iter().zip(&self.groups);
        let of_groups: f64 = groups.filter_map(|(before, now)| cgroup::values(before, now, elapsed_s)[0]).sum();
        let processors = ticks as f64 / procfs::ticks_per_second() as f64 / elapsed_s;
        (elapsed_s > 0.0).then(|| (processors - of_groups).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::*;
    use crate::monitor::usage::CpuTicks;

    fn snapshot(at: Instant, cpu: CpuTimes, own_ticks: u64) -> Snapshot {
        let ticks = CpuTicks { user: own_ticks, ..CpuTicks::default() };
        Snapshot {
            at,
            cpu: Some(cpu),
            memory: None,
            disk: DiskState::default(),
            interfaces: None,
            waits: pressure::read(),
            watched: Vec::new(),
            groups: Vec::new(),
            has_others: true,
            known: Some(Usage { cpu: HashMap::from([((1, 1), ticks)]), ..Usage::default() }),
        }
    }

    #[test]
    fn others_use_what_neither_this_process_nor_what_is_watched_nor_interrupts_use() {
        let (start, second) = (Instant::now(), procfs::ticks_per_second());
        let before = snapshot(start, CpuTimes::default(), 0);
        let used =
            CpuTimes { user: 3 * second, system: 2 * second, interrupts: second, steal: second, ..CpuTimes::default() };
        let now = snapshot(start + Duration::from_secs(2), used, second);
        // Of six seconds one was this process's, and one that of interrupts.
        assert_eq!(now.values_since(&before).last(), Some(&Some(2.0)));
    }
}
