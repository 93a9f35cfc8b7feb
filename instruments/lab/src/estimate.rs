//! What a run writes, before it is made: how much room it wants, and whether it can show what a
//! limit of compactions does.

use procfs::Current;
use testbed::page::number::significant;
use thiserror::Error;

use crate::plan::Plan;
use crate::rig::THROTTLE;
use crate::value;
use crate::workload::{Data, Workload};

/// Bytes of a key, as in cassandra-stress.
pub(crate) const KEY_BYTES: f64 = 10.0;

pub(crate) const MIB: f64 = 1_048_576.0;

/// What a row takes in files beside its key and values: times, lengths, its entry in the index.
const ROW_BYTES: f64 = 40.0;

/// A run may take so many times the size of what it writes: files before and after a compaction, and
/// the commit log.
const DISK_TIMES: f64 = 3.0;

/// How often a byte is compacted at most, where tables of a run are merged again and again.
pub(crate) const COMPACTED_TIMES: f64 = 10.0;

/// Writes and deletions of a load, its warm-up included.
fn changes(workload: &Workload) -> (f64, f64) {
    let mix = &workload.mix;
    let operations = workload.rate * workload.time().as_secs_f64() / (mix.write + mix.read + mix.delete);
    (operations * mix.write, operations * mix.delete)
}

/// Bytes of keys and values that a load writes, its warm-up included.
fn written_bytes(data: &Data, workload: &Workload) -> f64 {
    let (writes, deletes) = changes(workload);
    writes * (f64::from(data.record_bytes) + KEY_BYTES) + deletes * KEY_BYTES
}

/// The disk that a run wants, of all nodes: they share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Room {
    /// For the records that are there before the load.
    records: f64,
    /// For what the load writes, of the workload that writes most.
    load: f64,
}

/// The disk has too little room.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "a run wants about {wanted} MiB of disk ({records} MiB of records and {load} MiB that the load writes, \
     {times} times for compactions and the commit log), and {free} MiB are free: free some and resume, or measure \
     fewer records, a shorter time or a lower rate",
    times = DISK_TIMES
)]
pub(crate) struct NoRoom {
    wanted: f64,
    records: f64,
    load: f64,
    free: f64,
}

impl Room {
    /// What a run of this plan wants at most.
    pub fn of(plan: &Plan) -> Self {
        let row = f64::from(plan.data.record_bytes) + KEY_BYTES + ROW_BYTES;
        let of_load = |workload: &Workload| {
            let (writes, deletes) = changes(workload);
            (writes * row + deletes * (KEY_BYTES + ROW_BYTES)) * workload.loads().1
        };
        let load = plan.workloads.iter().map(of_load).fold(0.0, f64::max);
        // A cluster keeps its last table when one of another number of nodes follows.
        let times = f64::from(plan.copies_max()) * plan.node_counts().len() as f64;
        Self { records: plan.data.records as f64 * row * times, load: load * times }
    }

    /// Fails if so many free bytes are too few.
    pub fn fits(&self, free: f64) -> Result<(), NoRoom> {
        let wanted = (self.records + self.load) * DISK_TIMES;
        let mib = |bytes: f64| (bytes / MIB).round();
        if wanted > free {
            let (records, load) = (mib(self.records), mib(self.load));
            return Err(NoRoom { wanted: mib(wanted), records, load, free: mib(free) });
        }
        Ok(())
    }
}

/// What a plan cannot show, whatever is measured, with the figures.
pub fn notes(plan: &Plan) -> Vec<String> {
    throttle_cannot_bind(plan).into_iter().collect()
}

/// The same, with whether the records fit into the memory of this machine.
pub fn notes_here(plan: &Plan) -> Vec<String> {
    let memory = procfs::Meminfo::current().ok().map(|memory| memory.mem_total as f64);
    notes(plan).into_iter().chain(memory.and_then(|memory| in_memory(plan, memory))).collect()
}

/// Whether the records are larger or smaller than so many bytes of memory. Without reads it does not
/// matter.
fn in_memory(plan: &Plan, memory: f64) -> Option<String> {
    if plan.workloads.iter().all(|workload| workload.mix.read_share() == 0.0) {
        return None;
    }
    let row = f64::from(plan.data.record_bytes) + KEY_BYTES + ROW_BYTES;
    let each = row * f64::from(plan.copies_max());
    let records = plan.data.records as f64 * each;
    let what = if records > memory {
        "So reads reach the disk.".to_owned()
    } else {
        let enough = (memory / each).ceil();
        format!("So reads find most in memory, and the disk is no part of their time: about {enough} would not fit.")
    };
    let compressed = if plan.data.compressible { ", before compression," } else { "" };
    Some(format!(
        "the records take about {:.0} MiB in files{compressed} and this machine has {:.0} MiB of memory. {what}",
        records / MIB,
        memory / MIB
    ))
}

/// A limit of compactions that is far above all that a run can give them to do.
pub(crate) fn throttle_cannot_bind(plan: &Plan) -> Option<String> {
    let factor = plan.factor(THROTTLE)?;
    let limits = factor.values.iter().chain(&factor.default).filter_map(|limit| value::bytes(limit));
    // Zero is no limit.
    let least = limits.filter(|limit| *limit > 0.0).min_by(f64::total_cmp)?;
    // A node has the limit for itself, and its share of the load.
    let nodes = plan.node_counts().into_iter().fold(u8::MAX, u8::min);
    let share = f64::from(plan.copies_max()) / f64::from(nodes);
    let per_s = |workload: &Workload| share * written_bytes(&plan.data, workload) / workload.time().as_secs_f64();
    // A load whose rate is looked for, or follows from the node, may write as much as that takes.
    let has_rate = |workload: &&Workload| workload.hold.is_none() && workload.closed.is_none();
    let compared = plan.compared_workloads().into_iter().filter(has_rate);
    let most = compared.max_by(|one, other| per_s(one).total_cmp(&per_s(other)))?;
    let (bytes, compacted) = (share * written_bytes(&plan.data, most), per_s(most) * COMPACTED_TIMES);
    if compacted >= least {
        return None;
    }
    let rate = most.rate * least / compacted;
    let could = match rate.is_finite() {
        true => format!(", and a rate of {} operations per second could show one", significant(rate)),
        false => String::new(),
    };
    Some(format!(
        "{THROTTLE}: a run under {} writes {} MiB in {} s, {} MiB/s. If all of it is compacted {COMPACTED_TIMES} \
         times, that is {} MiB/s, and the least limit is {} MiB/s. It binds within single compactions only: that its \
         values make no difference follows from this plan{could}.",
        most.name,
        significant(bytes / MIB),
        significant(most.time().as_secs_f64()),
        significant(bytes / MIB / most.time().as_secs_f64()),
        significant(compacted / MIB),
        significant(least / MIB),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plan(rate: f64, duration: &str) -> Plan {
        Plan::parse(&format!(
            r#"
            name = "x"
            design = {{ kind = "one-at-a-time" }}
            data = {{ records = 1000, record_bytes = 950 }}
            workloads = [
              {{ name = "reads", mix = {{ read = 1 }}, rate = {rate}, duration = "{duration}" }},
              {{ name = "even", mix = {{ write = 4, read = 5, delete = 1 }}, rate = {rate}, duration = "{duration}" }},
            ]
            [[factors]]
            name = "compaction_throughput"
            default = "16MiB/s"
            values = ["0MiB/s", "32MiB/s"]
            "#
        ))
        .unwrap()
    }

    #[test]
    fn a_run_wants_room_for_what_its_load_writes_too_and_an_error_says_how_much() {
        // Rows of 1,000 bytes: a million of records, and 400 writes and 100 deletions in each second.
        let room = Room::of(&plan(1_000.0, "10s"));
        assert_eq!(room, Room { records: 1e6, load: 4_000.0 * 1_000.0 + 1_000.0 * 50.0 });
        room.fits(3.0 * 5.05e6).unwrap();
        // The records alone would have had room enough.
        assert!(room.fits(3.0 * 5.05e6 - 1.0).is_err());
        let error = Room::of(&plan(1_000.0, "20h")).fits(100.0 * MIB).unwrap_err().to_string();
        for part in ["a run wants about 83", "1 MiB of records", "3 times", "100 MiB are free"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let mut copied = plan(1_000.0, "10s");
        copied.node.copies = 3;
        assert_eq!(Room::of(&copied), Room { records: 3.0 * room.records, load: 3.0 * room.load });
    }

    #[test]
    fn a_plan_whose_load_cannot_bind_the_limit_of_compactions_says_so_with_figures() {
        let [note] = &notes(&plan(1_000.0, "10s"))[..] else { panic!("one note") };
        // 0.4 × 960 + 0.1 × 10 bytes, a thousand times a second.
        let figures = ["under even writes 3.67 MiB in 10 s, 0.367 MiB/s", "that is 3.67 MiB/s", "limit is 16 MiB/s"];
        for part in figures {
            assert!(note.contains(part), "{part}: {note}");
        }
        assert!(notes(&plan(10_000.0, "10s")).is_empty(), "ten times as much can bind it");
        let mut without = plan(1_000.0, "10s");
        without.factors[0].name = "concurrent_compactors".to_owned();
        assert!(notes(&without).is_empty());
    }

    #[test]
    fn a_plan_says_whether_its_records_fit_into_memory() {
        // A thousand records of 1,000 bytes.
        let plan = plan(1_000.0, "10s");
        let smaller = in_memory(&plan, 1e9).unwrap();
        assert!(smaller.contains("about 1 MiB in files and this machine has 954 MiB"), "{smaller}");
        assert!(smaller.contains("1000000 would not fit"), "{smaller}");
        assert!(in_memory(&plan, 0.9e6).unwrap().ends_with("So reads reach the disk."));
        let mut writes = plan;
        writes.workloads.iter_mut().for_each(|workload| workload.mix.read = 0.0);
        writes.workloads.remove(0);
        assert_eq!(in_memory(&writes, 1e9), None);
    }

    #[test]
    fn a_load_without_writes_names_no_rate_that_could_bind_a_limit() {
        let mut plan = plan(1_000.0, "10s");
        plan.workloads.truncate(1);
        let [note] = &notes(&plan)[..] else { panic!("one note") };
        assert!(note.contains("writes 0 MiB") && note.ends_with("follows from this plan."), "{note}");
    }
}
