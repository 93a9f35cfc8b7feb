//! Worlds whose clients keep records in mode fast: the last write of an attribute wins, and most
//! changes are written without reading.

use std::time::Duration;

use bytes::Bytes;
use store::{Clock, Table};

use super::records::check_time;
use super::{Run, Running};
use crate::chance::Chance;
use crate::model::{RanFast, Reply};
use crate::work::{ATTRIBUTES, FastChange, FastFound, FastWork, IDS, Work};

/// Longer than any two clocks are apart: what is written after this time comes after all before.
const APART: Duration = Duration::from_secs(120);

impl Run {
    /// The next operation of a client that keeps records in mode fast.
    pub(super) fn keeps_fast(&mut self, within: Duration) -> Work {
        let chance = &mut self.workload;
        let id = Bytes::from_static(chance.one_of(&IDS).as_bytes());
        let name = Bytes::from_static(chance.one_of(&ATTRIBUTES).as_bytes());
        let what = match chance.below(20) {
            0..=7 => FastChange::Read,
            8..=13 => {
                let mut names = vec![name];
                if chance.permille(400) {
                    let other = Bytes::from_static(chance.one_of(&ATTRIBUTES).as_bytes());
                    names.extend((other != names[0]).then_some(other));
                }
                FastChange::Set { names, life: life(chance), of_record: life(chance) }
            }
            14 => FastChange::Put { life: life(chance) },
            15 => FastChange::Drop { name },
            16 => FastChange::Delete,
            17 | 18 => FastChange::Expire { name, life: some_time(chance) },
            _ => FastChange::Persist { name },
        };
        Work::Fast(FastWork { id, what, within })
    }

    /// An operation on records has ended, or its server has died.
    pub(super) fn fast_ended(&self, one: &Running, reply: &Reply, found: Option<&FastFound>) {
        let Work::Fast(work) = &one.work else { return };
        let took = Duration::from_millis(self.true_ms() - one.began_ms);
        let center = self.setup.center_of(one.server);
        let sees = (0..self.setup.centers()).filter(|writer| self.setup.sees_writes_of(center, *writer));
        let mut world = self.world.lock();
        let ran = RanFast {
            steps: one.began..=world.step,
            from: one.from,
            to: self.servers[one.server].clock.now(),
            sees: sees.collect(),
        };
        check_time(&mut world.model, one, work.within, took);
        if let Some(wrong) = world.model.fast.ended(one.op, work, reply, found, &ran) {
            world.model.wrong(format!("op {} ({work:?}): {wrong}", one.op));
        }
    }

    /// The end of a run: everything heals, and all replicas have what was written last. Then every
    /// server reads and writes each record.
    pub(super) async fn fast_at_rest(&mut self) {
        self.come_up().await;
        {
            let now = self.servers[0].clock.now();
            let mut world = self.world.lock();
            world.heal(now);
            let step = world.step;
            for id in IDS {
                let id = Bytes::from_static(id.as_bytes());
                let there = world.all_of(Table::Records, &id);
                if let Some(wrong) = world.model.fast.healed(&id, &there, step) {
                    world.model.wrong(wrong);
                }
            }
            // What has healed was so before the next operation.
            world.step += 1;
        }
        tokio::time::sleep(APART).await;
        for server in 0..self.servers.len() {
            for id in IDS {
                let names = ATTRIBUTES.map(|name| Bytes::from_static(name.as_bytes())).to_vec();
                let set = FastChange::Set { names, life: None, of_record: None };
                for what in [FastChange::Read, set, FastChange::Read] {
                    let id = Bytes::from_static(id.as_bytes());
                    self.ask(server, Work::Fast(FastWork { id, what, within: Duration::from_secs(20) }));
                    self.until_idle().await;
                }
            }
        }
    }
}

/// How long something is seen: for ever in most cases.
fn life(chance: &mut Chance) -> Option<Duration> {
    let time = some_time(chance);
    chance.permille(350).then_some(time)
}

fn some_time(chance: &mut Chance) -> Duration {
    Duration::from_millis(chance.between(5, 3_000))
}
