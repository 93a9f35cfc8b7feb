//! Worlds whose clients keep records: counters that are read, changed and deleted, and that expire.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use records::{Mode, Records};
use store::{Clock, Table};

use super::{Run, Running};
use crate::chance::Chance;
use crate::model::{Model, Ran, Reply};
use crate::setup::Engine;
use crate::store::SimStore;
use crate::work::{Answer, AttributeChange, Found, IDS, Pipelined, RecordChange, RecordWork, Work};

/// Times within which operations have to end, in milliseconds.
const WITHIN_MS: [u64; 4] = [20, 200, 2_000, 20_000];

/// A call ends so long after its deadline at most: a millisecond by promise, and the time between
/// two turns.
const LATE_MAX: Duration = Duration::from_millis(30);

impl Run {
    /// A server begins to keep records.
    pub(super) fn begin_records(&mut self, server: usize, store: &Arc<SimStore>) {
        if self.setup.keeps_records {
            let clock = Arc::new(self.servers[server].clock);
            let mode = if self.setup.is_fast { Mode::Fast } else { Mode::Atomic };
            // A drawn salt would make each run another one.
            let records = Records::in_mode(store.clone(), clock, mode).salted(0);
            self.servers[server].records = Some(Arc::new(records));
            self.servers[server].store = Some(store.clone());
        }
    }

    /// A server dies. What it had on its way to a disk may be lost.
    pub(super) fn end_records(&mut self, server: usize) {
        if let Some(store) = self.servers[server].store.take() {
            store.is_dead.store(true, Ordering::SeqCst);
            let now = self.servers[server].clock.now();
            self.world.lock().lose_lists(now);
        }
        self.servers[server].records = None;
    }

    /// The next operation of a client that keeps records.
    pub(super) fn keeps(&mut self) -> Option<Work> {
        if !self.setup.keeps_records {
            return None;
        }
        let chance = &mut self.workload;
        let within = Duration::from_millis(*chance.one_of(&WITHIN_MS));
        if self.setup.is_fast {
            return Some(self.keeps_fast(within));
        }
        if self.setup.pipelines && chance.permille(500) {
            let changes = changes_of_several(chance, within);
            return Some(Work::Pipelined(Pipelined { changes, within, is_careless: self.options.careless }));
        }
        let id = Bytes::from_static(chance.one_of(&IDS).as_bytes());
        let life_ms = chance.between(5, 3_000);
        let life = chance.permille(400).then(|| Duration::from_millis(life_ms));
        if self.setup.has_attributes && chance.permille(700) {
            let what = match chance.permille(300) {
                true => RecordChange::Read,
                false => a_change_of_attributes(chance),
            };
            return Some(Work::Records(RecordWork { ids: vec![id], what, within }));
        }
        let (ids, what) = match chance.below(10) {
            0..=3 => (vec![id], RecordChange::Read),
            4..=7 => (vec![id], RecordChange::Count { life }),
            8 if self.setup.engine == Engine::OneCommit => {
                let all = IDS.iter().map(|id| Bytes::from_static(id.as_bytes()));
                (all.collect(), RecordChange::Count { life })
            }
            8 => (vec![id], RecordChange::Count { life: None }),
            _ => (vec![id], RecordChange::Delete),
        };
        Some(Work::Records(RecordWork { ids, what, within }))
    }

    /// An operation on records has ended, or its server has died.
    pub(super) fn records_ended(&self, one: &Running, reply: Reply, found: &Found) {
        let Work::Records(work) = &one.work else { return };
        self.record_work_ended(one, work, reply, found);
    }

    /// Changes of several records have ended with these answers. Without one, their server has died.
    pub(super) fn pipelined_ended(&self, one: &Running, answers: &[Answer]) {
        let Work::Pipelined(Pipelined { changes, .. }) = &one.work else { return };
        let died = (Reply::Unknown("its server died".to_owned()), Found::new());
        for (place, change) in changes.iter().enumerate() {
            let (reply, found) = answers.get(place).unwrap_or(&died);
            self.record_work_ended(one, change, reply.clone(), found);
        }
    }

    fn record_work_ended(&self, one: &Running, work: &RecordWork, reply: Reply, found: &Found) {
        let took = Duration::from_millis(self.true_ms() - one.began_ms);
        let center = self.setup.center_of(one.server);
        // A change sees every finished one, whatever usual reads may miss.
        let is_read = matches!(work.what, RecordChange::Read);
        let mut world = self.world.lock();
        let ran = Ran {
            steps: one.began..=world.step,
            from: one.from,
            to: self.servers[one.server].clock.now(),
            sees_all: (self.setup.usual_reads_are_strong(center) || !is_read) && self.setup.is_home(center),
            settles: self.setup.usual_reads_are_strong(center) && self.setup.centers() == 1,
        };
        check_time(&mut world.model, one, work.within, took);
        if let Some(wrong) = world.model.records.ended(one.op, work, reply, found, &ran) {
            world.model.wrong(format!("op {} ({work:?}): {wrong}", one.op));
        }
    }

    /// Everything heals, and every server is started.
    pub(super) async fn come_up(&mut self) {
        self.note("everything heals");
        self.until_idle().await;
        for server in 0..self.servers.len() {
            if self.servers[server].library.is_none() && self.servers[server].starting.is_none() {
                self.start(server);
            }
        }
        self.until_idle().await;
    }

    /// The end of a run: everything heals, every server reads the last state of each record, and
    /// each operation has made the changes that it reported.
    pub(super) async fn records_at_rest(&mut self) {
        self.come_up().await;
        {
            let now = self.servers[0].clock.now();
            let mut world = self.world.lock();
            world.heal(now);
            let step = world.step;
            IDS.iter().for_each(|id| world.model.records.settled(&Bytes::from_static(id.as_bytes()), step));
            // What is settled was so before the next operation.
            world.step += 1;
        }
        for server in 0..self.servers.len() {
            for id in IDS {
                for what in [RecordChange::Read, RecordChange::Count { life: None }, RecordChange::Read] {
                    let ids = vec![Bytes::from_static(id.as_bytes())];
                    self.ask(server, Work::Records(RecordWork { ids, what, within: Duration::from_secs(20) }));
                    self.until_idle().await;
                }
            }
        }
        let now = self.servers[0].clock.now();
        let mut world = self.world.lock();
        world.heal(now);
        let listed = world.all_partitions(Table::Records, now);
        let missing = IDS.iter().find(|id| !listed.iter().any(|listed| listed[..] == *id.as_bytes()));
        if let Some(id) = missing {
            world.model.wrong(format!("the record {id} was counted on, and is not there"));
        }
        let wrong = world.model.records.wrong_in_the_end();
        wrong.into_iter().for_each(|wrong| world.model.wrong(wrong));
    }
}

/// An operation has to end by its deadline.
pub(super) fn check_time(model: &mut Model, one: &Running, within: Duration, took: Duration) {
    if took > within + LATE_MAX {
        model.wrong(format!("op {} ({:?}) took {took:?}", one.op, one.work));
    }
}

/// Changes of several records, which arrive together.
fn changes_of_several(chance: &mut Chance, within: Duration) -> Vec<RecordWork> {
    let all: Vec<usize> = (0..IDS.len()).collect();
    let count = 2 + chance.place(IDS.len() - 1);
    let places = chance.some_of(&all, count);
    let change = |place: usize| {
        let life = Duration::from_millis(chance.between(5, 3_000));
        let what = match chance.below(10) {
            0..=5 => RecordChange::Count { life: chance.permille(400).then_some(life) },
            6 | 7 => a_change_of_attributes(chance),
            _ => RecordChange::Delete,
        };
        RecordWork { ids: vec![Bytes::from_static(IDS[place].as_bytes())], what, within }
    };
    places.into_iter().map(change).collect()
}

/// Names of attributes: few, so that operations meet.
const ATTRIBUTES: [&str; 2] = ["a", "b"];

/// A change of the attributes of a record, which may expire by themselves.
fn a_change_of_attributes(chance: &mut Chance) -> RecordChange {
    let name = *chance.one_of(&ATTRIBUTES);
    let life = Duration::from_millis(chance.between(5, 3_000));
    let change = match chance.below(10) {
        0..=4 => AttributeChange::Set { name, life: chance.permille(500).then_some(life) },
        5 | 6 => AttributeChange::Expire { name, life },
        7 => AttributeChange::Persist { name },
        8 => AttributeChange::Drop { name },
        _ => AttributeChange::ExpireAll { life },
    };
    let noted = Duration::from_millis(chance.between(5, 3_000));
    RecordChange::Attribute { change, noted: chance.permille(300).then_some(noted) }
}
