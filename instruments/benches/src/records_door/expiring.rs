//! Reads and writes while records expire and their space is reclaimed.

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use testbed::tally;

use super::bench::Bench;
use super::fill::fill;
use super::mixes::{Mix, SYNC};
use super::record::Draw;
use super::subject::{Kind, Subject};
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::Arrivals;
use crate::rig::work::disk_bytes;

/// A read or a write may take so many times its p99 at rest.
const TIMES: f64 = 2.0;

/// Records of so many times the kept ones expire.
const EXPIRING: u64 = 9;

/// The records that stay expire after a week, in milliseconds: not within this benchmark.
const STAYS_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// Writing all records takes at most so many times as long as at the rate of the first ones.
const SLOWER: u32 = 2;

/// At the end the files of a data folder have at most this share of their bytes before.
const LEFT_MAX: f64 = 0.5;

/// Reads in a hundred operations.
const READS: u64 = 90;

/// A server sweeps its store once in the time of two measurements, and once in this time at least.
/// By default it does so each minute, and a measurement would miss it.
const SWEEP_EVERY_MAX: Duration = Duration::from_secs(5);

/// For coming to rest (merging what was written, for example) a server has the time of so many
/// measurements before the one at rest, and this time at most.
const REST: u32 = 5;
const REST_MAX: Duration = Duration::from_secs(120);

/// If that was too short, the next try has twice as much, up to so many times.
const LONGER_MAX: u32 = 8;

/// After this time all that has expired has to be reclaimed, and its space too.
const RECLAIMED_WITHIN: Duration = Duration::from_secs(1_800);

/// The files of fewer deleted records are not merged.
const MERGED_FROM: u64 = 1_000;

/// The pause between two looks at the metrics of a server.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The metric of how late the sweep is: 0 if the last one found nothing that had expired.
const LAG: &str = "penates_records_reclaim_lag_seconds";

/// The metric of when the last sweep of the store ended, in whole seconds since 1970.
const ENDED: &str = "penates_background_last_success_timestamp_seconds{task=\"reclaim\"}";

/// Measures it: one record of ten stays and is read and written, and the others expire.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let sweep_every = (2 * bench.duration()).min(SWEEP_EVERY_MAX);
    let sweeps = format!("store.sweep_interval={}ms", sweep_every.as_millis().max(1));
    for _ in 0..bench.settings.repetitions {
        for kind in bench.settings.subjects.clone() {
            let mut longer = 1;
            while let Some(subject) = bench.start_with(kind, &[sweeps.as_str()])? {
                if let Some(seen) = Seen::of(bench, &subject, sweep_every, longer)? {
                    seen.report(&mut figures, kind)?;
                    break;
                }
                ensure!(longer < LONGER_MAX, "{kind}: records expire before the server is at rest");
                longer *= 2;
            }
        }
    }
    Ok(figures)
}

/// What was measured of a server.
struct Seen {
    /// How long the disk alone takes, in milliseconds.
    sync_ms: f64,
    rest: Arrivals<2>,
    /// While records expire and are reclaimed, piece by piece.
    busy: Vec<Arrivals<2>>,
    /// Bytes on disk before anything expired, and at the end.
    before: u64,
    after: u64,
    /// Records at the end.
    left: u64,
    /// For a data folder.
    reclaimed: Option<Reclaimed>,
}

/// How what had expired was reclaimed, in seconds.
struct Reclaimed {
    /// The longest for which a record had been expired when the sweep came to it.
    lag_s: f64,
    /// From the expiry of the last record until all were reclaimed.
    within_s: f64,
    /// Likewise until, after that, the files had at most [`LEFT_MAX`] of their bytes; `None`: they
    /// still have more.
    space_within_s: Option<f64>,
}

impl Seen {
    /// Measures a server that is empty, and in which records expire `longer` times as late as seems
    /// enough. `None`: some expired before the measurement at rest had ended.
    fn of(bench: &Bench, subject: &Subject, sweep_every: Duration, longer: u32) -> Result<Option<Self>> {
        let (rate, span, all) = (bench.settings.rate, bench.duration(), bench.settings.records);
        let kept = all / (EXPIRING + 1);
        // Before the time of the records counts.
        let sync_ms = bench.sync_p99_ms()?;
        let begun = Instant::now();
        fill(subject.address, kept, Some(&|_| STAYS_MS))?;
        // At this rate. A store that grows gets slower.
        let writing = begun.elapsed().mul_f64((EXPIRING + 1) as f64);
        let expire_from = Instant::now() + longer * (SLOWER * writing + (REST * span).min(REST_MAX) + span);
        let all_expired = expire_from + span;
        let expires_in_ms = |number: u64| {
            if number < kept {
                return STAYS_MS;
            }
            let part = (number - kept) as f64 / (all - kept) as f64;
            let at = expire_from + span.mul_f64(part);
            at.saturating_duration_since(Instant::now()).as_millis() as u64
        };
        fill(subject.address, all, Some(&expires_in_ms))?;
        if Instant::now() >= expire_from {
            return Ok(None);
        }
        subject.process.settle()?;
        let before = disk_bytes(subject.folder.path())?;
        let mix = Mix { reads: READS, draw: Draw::Uniform, records: kept };
        let rest = mix.run(subject.address, rate, span)?;
        if Instant::now() >= expire_from {
            return Ok(None);
        }
        std::thread::sleep(expire_from.saturating_duration_since(Instant::now()));
        let mut sweeps = Sweeps::of(subject, all_expired, before)?;
        // The records expire in the first piece of this. Then sweeps delete the last of them, and
        // their files are merged. A server that does not show that is measured in two pieces.
        let mut busy = Vec::new();
        loop {
            let piece = std::thread::scope(|scope| {
                let load = scope.spawn(|| mix.run(subject.address, rate, span + sweep_every));
                while !load.is_finished() {
                    sweeps.iter_mut().try_for_each(Sweeps::look)?;
                    std::thread::sleep(LOOK_EVERY);
                }
                load.join().map_err(|_| anyhow!("the load panicked"))?
            })?;
            busy.push(piece);
            let is_over = match &sweeps {
                Some(sweeps) => sweeps.have_ended(all - kept),
                None => busy.len() > 1,
            };
            if is_over {
                break;
            }
        }
        let reclaimed = sweeps.map(Sweeps::end).transpose()?;
        subject.process.settle()?;
        let after = disk_bytes(subject.folder.path())?;
        let left: u64 = redis::cmd("DBSIZE").query(&mut subject.connect()?).context("DBSIZE")?;
        let is_penates = subject.kind.is_penates();
        ensure!(!is_penates || left == kept, "{left} records are left in place of {kept}");
        Ok(Some(Self { sync_ms, rest, busy, before, after, left, reclaimed }))
    }

    fn report(&self, figures: &mut Figures, kind: Kind) -> Result<()> {
        let what = |figure: &str| format!("{kind}: {figure}");
        figures.report(what(SYNC), "ms", self.sync_ms);
        for (of, name) in ["reads", "writes"].into_iter().enumerate() {
            let rest_ms = self.rest.loads[of].times().p99_ms;
            let mut busy_us = Histogram::new(3)?;
            self.busy.iter().try_for_each(|piece| busy_us.add(&piece.loads[of].latencies_us))?;
            let busy_ms = tally::times(&busy_us).p99_ms;
            let of_piece = |piece: &Arrivals<2>| piece.loads[of].times().p99_ms;
            let worst_ms = self.busy.iter().map(of_piece).fold(0.0, f64::max);
            figures.report(what(&format!("{name} p99 at rest")), "ms", rest_ms);
            figures.report(what(&format!("{name} p99 while records expire")), "ms", busy_ms);
            figures.report(what(&format!("{name} p99 while records expire, worst piece")), "ms", worst_ms);
            let over = what(&format!("{name} p99 while records expire, over rest"));
            match kind.is_penates() {
                true => figures.hold(over, "times", Goal::AtMost(TIMES), busy_ms / rest_ms),
                false => figures.report(over, "times", busy_ms / rest_ms),
            }
        }
        let failed = self.rest.errors + self.busy.iter().map(|piece| piece.errors).sum::<u64>();
        figures.report(what("failed"), "operations", failed as f64);
        let latest = self.busy.iter().max_by(|a, b| a.lateness.max_ms.total_cmp(&b.lateness.max_ms));
        for (when, arrivals) in [("at rest", Some(&self.rest)), ("while records expire", latest)] {
            if let Some(arrivals) = arrivals {
                arrivals.report_lateness(figures, |figure| what(&format!("{when}: {figure}")));
            }
        }
        figures.report(what("on disk before"), "MB", self.before as f64 / 1e6);
        figures.report(what("on disk at the end"), "MB", self.after as f64 / 1e6);
        figures.report(what("records left"), "records", self.left as f64);
        if let Some(Reclaimed { lag_s, within_s, space_within_s }) = self.reclaimed {
            figures.report(what("longest lag of the sweep"), "s", lag_s);
            figures.report(what("all reclaimed after the last record expired"), "s", within_s);
            if let Some(space_within_s) = space_within_s {
                figures.report(
                    what("all reclaimed and half of the disk free after the last record expired"),
                    "s",
                    space_within_s,
                );
            }
            let over = self.after as f64 / self.before as f64;
            figures.hold(what("on disk at the end, over before"), "times", Goal::AtMost(LEFT_MAX), over);
        }
        Ok(())
    }
}

/// The sweeps of a data folder, as the metrics of its server and its files show them.
struct Sweeps {
    client: Client<TcpStream>,
    folder: PathBuf,
    /// Bytes on disk before anything expired.
    before: u64,
    /// When the last record expires.
    all_expired: Instant,
    /// The longest lag so far, in seconds.
    lag_s: f64,
    /// When the last sweep had ended, at each look from `all_expired` on at which that was another one.
    ended: Vec<f64>,
    /// As in [`Reclaimed`], once they are known.
    within_s: Option<f64>,
    space_within_s: Option<f64>,
}

impl Sweeps {
    /// `None`: the server is none of Penates, or Cassandra reclaims.
    fn of(subject: &Subject, all_expired: Instant, before: u64) -> Result<Option<Self>> {
        if !subject.kind.is_penates() || subject.kind.is_on_cassandra() {
            return Ok(None);
        }
        let client = Client::connect(subject.http.context("a server without metrics")?)?;
        let folder = subject.folder.path().to_owned();
        let (within_s, space_within_s) = (None, None);
        Ok(Some(Self { client, folder, before, all_expired, lag_s: 0.0, ended: Vec::new(), within_s, space_within_s }))
    }

    /// Looks at what is reclaimed.
    fn look(&mut self) -> Result<()> {
        let now = Instant::now();
        let (_, metrics) = self.client.text(&Request::get("/metrics"))?;
        let lag_s = value(&metrics, LAG)?;
        self.lag_s = self.lag_s.max(lag_s);
        if now < self.all_expired {
            return Ok(());
        }
        let ended = value(&metrics, ENDED)?;
        if self.ended.last() != Some(&ended) {
            self.ended.push(ended);
        }
        let since_s = (now - self.all_expired).as_secs_f64();
        // The second of these sweeps has ended after all had expired, and the third has begun after
        // that.
        if self.ended.len() > 2 && lag_s == 0.0 {
            self.within_s.get_or_insert(since_s);
        }
        if self.within_s.is_some()
            && self.space_within_s.is_none()
            && disk_bytes(&self.folder)? as f64 <= LEFT_MAX * self.before as f64
        {
            self.space_within_s = Some(since_s);
        }
        Ok(())
    }

    /// Whether nothing is to be waited for any more, after so many records have expired.
    fn have_ended(&self, expired: u64) -> bool {
        let has_space = self.space_within_s.is_some() || expired < MERGED_FROM;
        self.within_s.is_some() && has_space || self.all_expired.elapsed() > RECLAIMED_WITHIN
    }

    /// What they have reclaimed.
    fn end(self) -> Result<Reclaimed> {
        let within_s = self.within_s.with_context(|| format!("not all is reclaimed in {RECLAIMED_WITHIN:?}"))?;
        Ok(Reclaimed { lag_s: self.lag_s, within_s, space_within_s: self.space_within_s })
    }
}

/// The value of a series in the text format of Prometheus.
fn value(metrics: &str, series: &str) -> Result<f64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    value.with_context(|| format!("the metrics lack {series}"))
}
