//! The end of a run: everything heals and comes to rest, nothing superfluous is left, every name can
//! be used, and nothing of the past is lost.

use std::time::Duration;

use heads::{ObjectState, keys};
use store::{Clock, Table};

use super::{LOOKED_AT_AGAIN, Run};
use crate::work::{CONTAINERS, Tend, VOLUMES, Work, parsed, volume_id};

impl Run {
    /// Heals everything, ends all operations, and collects all that can be collected.
    pub(super) async fn heal(&mut self) {
        self.note("everything heals");
        let now = self.servers[0].clock.now();
        self.world.lock().heal(now);
        for server in 0..self.servers.len() {
            if self.servers[server].library.is_none() && self.servers[server].starting.is_none() {
                self.start(server);
            }
        }
        self.until_idle().await;
        let all = LOOKED_AT_AGAIN + 2 * self.setup.options.grace + self.setup.options.selection_life;
        for _ in 0..5 {
            tokio::time::sleep(all).await;
            let ends = self.setup.has_transactions.then_some(Tend::EndTransactions);
            for work in ends.into_iter().chain(Tend::ALL) {
                // Some passes visit one part per call.
                let times = if matches!(work, Tend::Collect | Tend::Grow) { 2 } else { 1 };
                for _ in 0..times {
                    self.ask(0, Work::Tend(work));
                    self.until_idle().await;
                    let now = self.servers[0].clock.now();
                    self.world.lock().heal(now);
                }
            }
            for container in CONTAINERS {
                self.ask(0, Work::List { container: parsed(container), page: 2 });
            }
            self.ask(0, Work::ListVolumes { page: 2 });
            self.until_idle().await;
            if self.is_over() {
                return;
            }
        }
        self.at_rest();
        if self.is_over() {
            return;
        }
        self.usable().await;
        self.followed().await;
        self.remembered().await;
        let true_ms = self.true_ms();
        self.world.lock().check_all(true_ms);
    }

    /// Checks that nothing is left that must not be.
    fn at_rest(&self) {
        let now = self.servers[0].clock.now();
        let mut world = self.world.lock();
        let mut wrong = Vec::new();
        for partition in world.all_partitions(Table::Work, now) {
            let left = world.all_of(Table::Work, &partition);
            let sorts: Vec<String> = left.cells.keys().map(|sort| sort.escape_ascii().to_string()).collect();
            // The record that a partition is to be dropped may arrive late, after the partition was
            // dropped.
            if sorts.is_empty() || partition.starts_with(b"d/") || partition.starts_with(b"feed\0") {
                continue;
            }
            wrong.push(format!("work is left: {} {}", partition.escape_ascii(), sorts.join(", ")));
        }
        for (partition, versions) in &world.model.versions {
            if versions.last().is_some_and(|version| version.head.state == ObjectState::Deleting) {
                wrong.push(format!("{} is being deleted for ever", partition.escape_ascii()));
            }
        }
        for id in world.all_partitions(Table::Contents, now) {
            let id = store::ContentId(id[..].try_into().unwrap_or_default());
            if world.has_header(id) && !world.model.naming.contains_key(&id) {
                wrong.push(format!("content {id}, which nothing ever named, is still there"));
            }
        }
        if self.setup.has_versions {
            wrong.extend(world.kept_too_long(now));
        }
        wrong.extend(world.model.wrong_transactions());
        wrong.extend(world.model.wrong_holdings());
        wrong.into_iter().for_each(|wrong| world.model.wrong(wrong));
    }

    /// Checks that every name can be used: existing resources can be read, deleted ones can be
    /// created again, and all servers list the same.
    async fn usable(&mut self) {
        let paths = [&CONTAINERS[1..], &["n0", "n1", "c", "a/n0", "a/n1", "b/n0", "b/n1", "b/c", "a/c/n0"]].concat();
        for path in ["a", "b"] {
            self.ask(0, Work::Delete { path: parsed(path) });
            self.until_idle().await;
        }
        for path in &paths {
            for work in [
                Work::RemoveTombstone { path: parsed(path) },
                Work::Create { path: parsed(path), what: crate::work::What::Container },
            ] {
                self.ask(0, work);
                self.until_idle().await;
            }
            self.ask(0, Work::Read { path: parsed(path) });
            self.until_idle().await;
            let partition = keys::resource_partition(&parsed(path));
            let state = self.world.lock().model.head(&partition).map(|head| head.state);
            if state != Some(ObjectState::Live) {
                return self.wrong(format!("/{path} cannot be used: it is {state:?}"));
            }
        }
        for volume in VOLUMES {
            let token = format!("t{}", self.operations);
            self.ask(0, Work::Import { volume: volume_id(volume), token });
            self.until_idle().await;
            let partition = keys::volume_partition(&volume_id(volume));
            let state = self.world.lock().model.head(&partition).map(|head| head.state);
            if state != Some(ObjectState::Live) {
                self.wrong(format!("{volume} cannot be imported: it is {state:?}"));
            }
        }
        let now = self.servers[0].clock.now();
        self.world.lock().heal(now);
        for server in 0..self.servers.len() {
            for container in CONTAINERS {
                self.ask(server, Work::List { container: parsed(container), page: 3 });
            }
            self.ask(server, Work::ListVolumes { page: 2 });
            self.ask(server, Work::ReadVolumes { volumes: VOLUMES.map(volume_id).to_vec(), pause: Duration::ZERO });
            self.until_idle().await;
        }
    }
}
