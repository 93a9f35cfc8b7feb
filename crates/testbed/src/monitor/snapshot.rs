//! What the machine and the watched processes count at one instant, and the values in between.

use std::path::PathBuf;

use tokio::time::Instant;

use super::cgroup::{self, CgroupWatch};
use super::cpu::{self, CpuTimes};
use super::disk::{self, DiskState, Place};
use super::memory::{self, Memory};
use super::network::{self, Interfaces};
use super::pressure::{self, Waits};
use super::processes::{Candidates, Root};
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
}

/// Takes snapshots.
#[derive(Debug)]
pub struct Sampler {
    place: Option<Place>,
    roots: Vec<Option<Root>>,
    candidates: Candidates,
    groups: Vec<PathBuf>,
}

impl Sampler {
    /// Finds the disk and the processes.
    pub fn new(settings: &Settings) -> Self {
        let place = settings.data.as_deref().map(Place::new);
        let roots = settings.watches.iter().map(|watch| Root::find(watch.pid)).collect();
        let groups = settings.cgroups.iter().map(|group| group.folder.clone()).collect();
        Self { place, roots, candidates: Candidates::default(), groups }
    }

    /// Takes a snapshot now. This reads files of the kernel and may block.
    pub fn take(&mut self) -> Snapshot {
        let at = Instant::now();
        let watched = self.watched();
        Snapshot {
            at,
            cpu: CpuTimes::read(),
            memory: Memory::read(),
            disk: self.place.as_ref().map(Place::read).unwrap_or_default(),
            interfaces: network::read(),
            waits: pressure::read(),
            watched,
            groups: self.groups.iter().map(|folder| cgroup::Counts::read(folder)).collect(),
        }
    }

    fn watched(&mut self) -> Vec<Option<Usage>> {
        if self.roots.is_empty() {
            return Vec::new();
        }
        let processes = self.candidates.list();
        let watched: Vec<_> = self.roots.iter().map(|root| (*root)?.usage(&processes)).collect();
        self.candidates.remember(&processes, watched.iter().flatten());
        watched
    }
}

/// The columns, in the order of [`Snapshot::values_since`].
pub fn columns(settings: &Settings) -> impl Iterator<Item = String> {
    let machine = [&cpu::COLUMNS[..], &memory::COLUMNS, &disk::COLUMNS, &network::COLUMNS, &pressure::COLUMNS];
    let machine = machine.into_iter().flatten().map(|column| (*column).to_owned());
    let of_watch = |watch: &Watch| usage::COLUMNS.map(|column| format!("{}.{column}", watch.name));
    let of_group = |group: &CgroupWatch| cgroup::COLUMNS.map(|column| format!("{}.{column}", group.name));
    let groups = settings.cgroups.iter().flat_map(of_group);
    machine.chain(settings.watches.iter().flat_map(of_watch)).chain(groups)
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
        values
    }
}
