//! One run: servers start and die, clients send requests, turns are given, and after each turn
//! everything is checked.

mod copying;
mod fast;
mod feed;
mod hold;
mod records;
mod remembered;
mod rest;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use ::records::Records;
use heads::{Compute, ObjectState, Rules, Surroundings, keys};
use library::Library;
use parking_lot::Mutex;
use store::{Clock, Store, UnixMillis};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::copying::Copying;
use self::hold::Suspension;
use crate::chance::{Chance, Purpose, SeededRandom};
use crate::clock::SimClock;
use crate::model::Reply;
use crate::setup::{LATE_MS_MAX, Setup};
use crate::store::world::World;
use crate::store::{SimStore, Tasks};
use crate::trace::Op;
use crate::turns::{Fate, Kind, Turns};
use crate::work::{Came, GROUPS, Seen, What, Work, parsed};

/// The turn at which a run is cut off, because it does not come to an end.
const TURNS_MAX: u64 = 60_000;

/// The time after which a pass revisits an object that may still be in use (`LOOKED_AT_AGAIN` in
/// objects).
const LOOKED_AT_AGAIN: Duration = Duration::from_secs(3_600);

/// What to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The seed. Each seed gives another run.
    pub seed: u64,
    /// The step after which the run stops, to inspect the events until then.
    pub stop_at: Option<u64>,
    /// The rule that the servers leave out.
    pub left_out: Option<heads::Rule>,
    /// Whether changes are announced, and consumers follow them. It makes another world of the same
    /// seed.
    pub feed: bool,
    /// Whether clients make transactions too. It makes another world of the same seed.
    pub transactions: bool,
    /// Whether clients make transactions, also in archival groups. It makes another world of the same
    /// seed.
    pub groups: bool,
    /// Whether clients ask for versions, send some, and restore and remove some. It makes another
    /// world of the same seed.
    pub versions: bool,
    /// Whether clients keep records, and do nothing else. It makes another world of the same seed.
    pub records: bool,
    /// Whether clients keep records, most of them of attributes that expire by themselves. It makes
    /// another world of the same seed.
    pub attributes: bool,
    /// Whether clients keep records in mode fast. It makes another world of the same seed.
    pub fast: bool,
    /// Whether clients keep records in a data folder, and change several without waiting in between.
    /// It makes another world of the same seed.
    pub pipelined: bool,
    /// Whether these changes give their turns back too early: a mistake that must be found.
    pub careless: bool,
    /// Whether the store is copied into another one meanwhile. It makes another world of the same
    /// seed.
    pub copies: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The violation, if there was one.
    pub violation: Option<String>,
    /// Turns that were given.
    pub steps: u64,
    /// Operations that were requested.
    pub operations: u64,
    /// A hash of all events.
    pub hash: u64,
    /// The last events.
    pub last: Vec<String>,
    /// The world that the seed made.
    pub setup: String,
}

/// Runs a seed.
pub fn simulate(options: Options) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async move {
        let mut run = Run::new(options);
        run.whole().await;
        run.report()
    }))
}

/// A server: starting, up, or dead until it is started again.
struct Server {
    clock: SimClock,
    /// The number of its starts.
    starts: u64,
    starting: Option<JoinHandle<Option<Library>>>,
    library: Option<Library>,
    /// Its way to the store, since its last start.
    store: Option<Arc<SimStore>>,
    records: Option<Arc<Records>>,
}

/// A running operation.
struct Running {
    op: Op,
    server: usize,
    work: Work,
    began: u64,
    began_ms: u64,
    /// The time of its server when it began.
    from: UnixMillis,
    task: AbortOnDropHandle<Came>,
}

struct Run {
    options: Options,
    setup: Setup,
    began: Instant,
    world: Arc<Mutex<World>>,
    turns: Arc<Turns>,
    tasks: Arc<Tasks>,
    servers: Vec<Server>,
    running: Vec<Running>,
    schedule: Chance,
    faults: Chance,
    workload: Chance,
    operations: u64,
    last_turn: u64,
    /// The operation that had the last turn.
    last_op: Option<Op>,
    /// The steps until which operations sleep.
    asleep: Vec<u64>,
    is_calm: bool,
    suspension: Suspension,
    /// Those who follow the change feed, if there is one.
    consumers: Vec<feed::Consumer>,
    /// The copy of the store, if there is one.
    copying: Option<Copying>,
}

impl Run {
    fn new(options: Options) -> Self {
        let mut setup = Setup::new(options.seed, options.left_out);
        if options.feed {
            setup.announce_changes();
        }
        if options.transactions || options.groups {
            setup.make_transactions();
        }
        setup.has_groups = options.groups;
        if options.versions {
            setup.ask_for_versions();
        }
        if options.records || options.attributes {
            setup.keep_records();
        }
        setup.has_attributes = options.attributes;
        if options.fast {
            setup.keep_fast_records();
        }
        if options.pipelined {
            setup.pipeline_records();
        }
        let began = Instant::now();
        let world = World::new(options.seed, setup.clone(), began);
        let server = |clock: &crate::setup::ClockSetup| Server {
            clock: SimClock::new(began, clock.offset_ms, clock.drift_ppm),
            starts: 0,
            starting: None,
            library: None,
            store: None,
            records: None,
        };
        let mut run = Self {
            options,
            began,
            world: Arc::new(Mutex::new(world)),
            turns: Arc::default(),
            tasks: Arc::default(),
            servers: setup.clocks.iter().map(server).collect(),
            running: Vec::new(),
            schedule: Chance::new(options.seed, Purpose::Schedule),
            faults: Chance::new(options.seed, Purpose::Faults),
            workload: Chance::new(options.seed, Purpose::Workload),
            operations: 0,
            last_turn: 0,
            last_op: None,
            asleep: Vec::new(),
            is_calm: true,
            suspension: Suspension::None,
            consumers: feed::consumers(&setup),
            copying: None,
            setup,
        };
        run.copying = Copying::of(&run);
        run
    }

    fn report(&self) -> Report {
        let world = self.world.lock();
        Report {
            violation: world.model.violation.clone(),
            steps: world.step,
            operations: self.operations,
            hash: world.trace.hash(),
            last: world.trace.last(),
            setup: format!("{:?}", self.setup),
        }
    }

    fn true_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_over(&self) -> bool {
        let world = self.world.lock();
        let stops = self.options.stop_at.is_some_and(|step| world.step >= step);
        stops || world.model.violation.is_some()
    }

    fn note(&self, what: &str) {
        let mut world = self.world.lock();
        let step = world.step;
        world.trace.note(format!("{step:>6} {what}"));
    }

    fn wrong(&self, what: String) {
        self.world.lock().model.wrong(what);
    }

    /// The whole run: phases of work with long pauses, then everything heals and comes to rest.
    async fn whole(&mut self) {
        // The first server creates the top containers undisturbed.
        self.start(0);
        self.until_idle().await;
        for server in 1..self.servers.len() {
            self.start(server);
        }
        self.until_idle().await;
        if self.setup.has_groups {
            for group in GROUPS {
                let what = What::Group(format!("t{}", self.operations));
                self.ask(0, Work::Create { path: parsed(group), what });
                self.until_idle().await;
            }
        }
        for _ in 0..self.setup.phases {
            self.is_calm = false;
            self.work(self.setup.ops_per_phase).await;
            self.is_calm = true;
            self.until_idle().await;
            if self.is_over() {
                return;
            }
            self.suspend_a_writer().await;
            self.pass_time().await;
        }
        match (self.setup.keeps_records, self.setup.is_fast) {
            (true, true) => self.fast_at_rest().await,
            (true, false) => self.records_at_rest().await,
            (false, _) => self.heal().await,
        }
        self.copied().await;
    }

    /// A server's way to the store.
    fn store(&self, server: usize) -> Arc<SimStore> {
        let of = self.servers[server].starts * 16 + server as u64;
        let random = SeededRandom::new(Chance::nth(self.options.seed, Purpose::Servers, of));
        let world = self.copying.as_ref().and_then(Copying::taken_over).unwrap_or(&self.world);
        Arc::new(SimStore {
            world: world.clone(),
            turns: self.turns.clone(),
            tasks: self.tasks.clone(),
            clock: self.servers[server].clock,
            random: Arc::new(random),
            server,
            center: self.setup.center_of(server),
            last_write: AtomicI64::new(0),
            is_dead: AtomicBool::new(false),
        })
    }

    fn start(&mut self, server: usize) {
        self.note(&format!("server {server} starts"));
        self.servers[server].starts += 1;
        let store = self.store(server);
        let surroundings = Surroundings {
            clock: Arc::new(self.servers[server].clock),
            random: store.random.clone(),
            compute: Compute::Inline,
            rules: self.options.left_out.map_or_else(Rules::default, Rules::without),
        };
        self.begin_records(server, &store);
        let options = self.setup.options.clone();
        let starting = tokio::spawn(async move {
            let store: Arc<dyn Store> = store;
            Library::open_within(store, surroundings, options).await.ok()
        });
        self.servers[server].starting = Some(starting);
    }

    /// A server dies, with all its operations.
    fn kill(&mut self, server: usize) {
        self.note(&format!("server {server} dies"));
        let (dead, alive) = std::mem::take(&mut self.running).into_iter().partition(|one| one.server == server);
        self.running = alive;
        let dead: Vec<Running> = dead;
        for one in dead {
            let reply = Reply::Unknown("its server died".to_owned());
            self.records_ended(&one, reply.clone(), &Vec::new());
            self.fast_ended(&one, &reply, None);
            self.pipelined_ended(&one, &[]);
            self.world.lock().model.replied(one.op, reply);
            one.task.abort();
        }
        self.end_records(server);
        if let Some(starting) = self.servers[server].starting.take() {
            starting.abort();
        }
        self.servers[server].library = None;
    }

    /// Servers that are up.
    fn up(&self) -> Vec<usize> {
        (0..self.servers.len()).filter(|server| self.servers[*server].library.is_some()).collect()
    }

    /// Works until that many further operations were requested.
    async fn work(&mut self, operations: u64) {
        let until = self.operations + operations;
        while self.operations < until && !self.is_over() {
            self.events();
            self.events_of_copies();
            let up = self.up();
            if self.running.len() < self.setup.at_once && !up.is_empty() && self.schedule.permille(300) {
                let server = *self.schedule.one_of(&up);
                let work = match self.follows().or_else(|| self.keeps()) {
                    Some(work) => work,
                    None => {
                        let drawn = Work::draw(&mut self.workload, self.operations, &self.setup);
                        drawn.aimed(&self.world.lock().model, &self.setup.options)
                    }
                };
                self.ask(server, work);
            }
            self.turn().await;
        }
    }

    /// Draws the events of servers and data centers.
    fn events(&mut self) {
        for server in 0..self.servers.len() {
            let is_down = self.servers[server].library.is_none() && self.servers[server].starting.is_none();
            if is_down && self.faults.permille(50) {
                self.start(server);
            } else if !is_down && self.faults.below(10_000) < self.setup.weather.deaths {
                self.kill(server);
            }
        }
        if self.setup.centers() > 1 {
            let is_cut = self.world.lock().is_cut;
            // A cut is short.
            let chances = if is_cut { 100 } else { self.setup.weather.cuts };
            if self.faults.below(10_000) < chances {
                self.note(if is_cut { "the centers are joined" } else { "the centers are cut off" });
                self.world.lock().is_cut = !is_cut;
            }
        }
        let outages = self.setup.weather.outages;
        if outages > 0 && self.faults.below(10_000) < outages {
            let turns = self.faults.between(300, 3_000);
            self.world.lock().take_down(turns);
        }
        if self.faults.below(10_000) < 10 {
            self.note("what replicas lack is repaired");
            self.world.lock().repair();
        }
    }

    fn ask(&mut self, server: usize, work: Work) {
        let Some(library) = self.servers[server].library.clone() else { return };
        let op = self.operations;
        self.operations += 1;
        self.note(&format!("op {op} at server {server}: {work:?}"));
        let mut world = self.world.lock();
        let began = world.step;
        world.model.begins(op, work.target(), format!("op {op} ({work:?})"), began);
        if work.asks_for_version() {
            world.model.asks_for_version(op);
        }
        drop(world);
        let task = match (&work, &self.servers[server].records) {
            (Work::Records(work), Some(records)) => {
                let (work, records) = (work.clone(), records.clone());
                tokio::spawn(async move { work.run(op, &records).await })
            }
            (Work::Pipelined(work), Some(records)) => {
                let (work, records) = (work.clone(), records.clone());
                tokio::spawn(async move { work.run(op, &records).await })
            }
            (Work::Fast(work), Some(records)) => {
                let (work, records) = (work.clone(), records.clone());
                tokio::spawn(async move { work.run(op, &records).await })
            }
            _ => tokio::spawn(work.clone().run(op, library, self.world.clone())),
        };
        self.tasks.lock().insert(task.id(), op);
        let (began_ms, from) = (self.true_ms(), self.servers[server].clock.now());
        self.running.push(Running { op, server, work, began, began_ms, from, task: AbortOnDropHandle::new(task) });
    }

    /// One turn: time advances by a moment, all tasks run as far as they can without a turn, then
    /// one of the waiting steps gets the turn.
    async fn turn(&mut self) {
        if self.is_over() {
            return;
        }
        let moment = if self.turns.is_empty() { 10 } else { self.setup.moment_ms };
        tokio::time::sleep(Duration::from_millis(moment)).await;
        self.check().await;
        let step = {
            let mut world = self.world.lock();
            world.step += 1;
            let now = self.servers[0].clock.now();
            world.arrivals(now, false);
            world.step
        };
        self.copying.iter().for_each(|copying| copying.arrivals(step));
        self.hold_some(step);
        let (schedule, last, stays) = (&mut self.schedule, self.last_op, self.setup.pace.stays);
        let choose = |ops: &[Option<Op>]| match ops.iter().position(|op| op.is_some() && *op == last) {
            Some(same) if stays > 0 && schedule.permille(stays) => same,
            _ => copying::place(schedule, ops),
        };
        let Some(next) = self.turns.take(step, choose) else { return };
        self.last_op = next.op;
        // Records are changed in tasks of their own.
        let is_start = next.op.is_none() && next.kind != Kind::Record;
        let fate = if self.is_calm || is_start { Fate::Go } else { self.fate(next.kind) };
        let mut world = self.world.lock();
        let op = next.op.map_or_else(|| "-".to_owned(), |op| op.to_string());
        world.trace.note(format!("{step:>6} {op:>4} {} {fate:?}", next.what));
        drop(world);
        next.go(fate);
    }

    fn fate(&mut self, kind: Kind) -> Fate {
        let weather = self.setup.weather;
        let late_max = (LATE_MS_MAX / self.setup.moment_ms).max(1);
        let mut happens = |permille: u64| permille > 0 && self.faults.permille(permille);
        match kind {
            Kind::Head if happens(weather.unknown_heads) => {
                return match self.faults.permille(500) {
                    true => Fate::UnknownApplied,
                    false => Fate::UnknownLate(self.faults.between(1, late_max)),
                };
            }
            Kind::Confirmation if happens(weather.lost_confirmations) => return Fate::UnknownLost,
            _ => {}
        }
        if !self.faults.permille(weather.faults) {
            return Fate::Go;
        }
        match self.faults.below(8) {
            _ if kind.is_read() => Fate::Fail,
            0 => Fate::Fail,
            1 | 2 => Fate::UnknownApplied,
            3..=6 => Fate::UnknownLate(self.faults.between(1, late_max)),
            _ => Fate::UnknownLost,
        }
    }

    /// Handles started servers and ended operations, and checks what must hold at every step.
    async fn check(&mut self) {
        for server in 0..self.servers.len() {
            if let Some(starting) = self.servers[server].starting.take_if(|starting| starting.is_finished()) {
                self.servers[server].library = starting.await.ok().flatten();
            }
        }
        self.check_copy().await;
        let mut still = Vec::new();
        for mut one in std::mem::take(&mut self.running) {
            if !one.task.is_finished() {
                still.push(one);
                continue;
            }
            match (&mut one.task).await {
                Ok(came) => self.ended(&one, came),
                Err(error) => self.wrong(format!("op {} ({:?}) ended with {error}", one.op, one.work)),
            }
        }
        self.running = still;
        let true_ms = self.true_ms();
        let mut world = self.world.lock();
        match world.step.is_multiple_of(500) {
            true => world.check_all(true_ms),
            false => world.check_touched(true_ms),
        }
    }

    fn ended(&mut self, one: &Running, came: Came) {
        let Running { op, server, began, .. } = one;
        self.note(&format!("op {op} came to {:?}", came.reply));
        match &came.seen {
            Seen::Records(found) => {
                self.note(&format!("op {op} found {found:?}"));
                self.records_ended(one, came.reply.clone(), found);
            }
            Seen::Pipelined(answers) => {
                self.note(&format!("op {op} got {answers:?}"));
                self.pipelined_ended(one, answers);
            }
            Seen::Fast(found) => {
                self.note(&format!("op {op} found {found:?}"));
                self.fast_ended(one, &came.reply, Some(found));
            }
            _ => {
                self.records_ended(one, came.reply.clone(), &Vec::new());
                self.fast_ended(one, &came.reply, None);
            }
        }
        if let Seen::Events { consumer, from, page } = came.seen {
            self.world.lock().model.replied(*op, came.reply);
            self.consumers[consumer].takes(from, page);
            return;
        }
        if let (Some(_), Reply::Unknown(why)) = (self.copying.as_ref().and_then(Copying::taken_over), &came.reply) {
            self.wrong(format!("op {op} ({:?}) fails over the copy: {why}", one.work));
        }
        let center = self.setup.center_of(*server);
        let (is_home, sees_all) = (self.setup.is_home(center), self.setup.usual_reads_are_strong(center));
        let mut world = self.world.lock();
        world.model.replied(*op, came.reply);
        let ended = world.step;
        match came.seen {
            Seen::Nothing => {}
            // Away from home, reads may lag.
            Seen::Wrong(what) if is_home => world.model.wrong(format!("op {op} ({:?}): {what}", one.work)),
            Seen::Resource { path, revision } if is_home => {
                let partition = keys::resource_partition(&path);
                let heads = world.model.readable(&partition, *began, ended);
                let is_known = |revision| {
                    heads.iter().flatten().any(|head| head.revision == revision && head.state == ObjectState::Live)
                };
                let chain: Vec<_> = path.chain().map(|path| keys::resource_partition(&path)).collect();
                let lives = chain.iter().all(|partition| world.model.live(partition, *began, ended).1);
                let steady = chain.iter().all(|partition| world.model.readable(partition, *began, ended).len() == 1);
                let wrong = match revision {
                    Some(revision) if !is_known(revision) => {
                        Some(format!("reads /{path} at {revision}, which it was not"))
                    }
                    None if lives && steady && world.model.is_reachable(&chain) => {
                        Some(format!("does not find /{path}"))
                    }
                    _ => None,
                };
                if let Some(wrong) = wrong {
                    world.model.wrong(format!("op {op} {wrong}"));
                }
            }
            Seen::Gone { path } if is_home && world.model.is_of_an_earlier_container(&path, *began, ended) => {
                world.model.wrong(format!("op {op}: /{path} keeps its name, though what it was in is another now"));
            }
            Seen::Children { container, incarnation, names } if is_home && sees_all => {
                let wrong = world.model.wrong_listing(
                    &keys::resource_partition(&container),
                    Some(incarnation),
                    &names,
                    *began,
                    ended,
                );
                if let Some(wrong) = wrong {
                    world.model.wrong(format!("op {op} lists /{container}: {wrong}"));
                }
            }
            Seen::Past { question, past } => {
                if let Some(wrong) = world.model.wrong_past(&question, &past, &self.setup.options) {
                    world.model.wrong(format!("op {op}, the past of {}: {wrong}", question.object.escape_ascii()));
                }
            }
            Seen::Versions(found) if is_home => {
                let keep = self.setup.options.kept_at(&found.path);
                if let Some(wrong) = world.model.wrong_versions(&found, keep, *began, ended) {
                    world.model.wrong(format!("op {op} reads the versions of /{}: {wrong}", found.path));
                }
            }
            Seen::Volumes(names) if is_home && sees_all => {
                let volumes = keys::container_partition(heads::VOLUMES);
                if let Some(wrong) = world.model.wrong_listing(&volumes, None, &names, *began, ended) {
                    world.model.wrong(format!("op {op} lists volumes: {wrong}"));
                }
            }
            _ => {}
        }
    }

    /// Runs until all operations have ended.
    async fn until_idle(&mut self) {
        self.turns.release();
        let from = self.world.lock().step;
        loop {
            self.turn().await;
            let is_idle = self.running.is_empty()
                && self.turns.is_empty()
                && !self.copying.as_ref().is_some_and(Copying::is_running)
                && self.servers.iter().all(|server| server.starting.is_none());
            if is_idle || self.is_over() {
                return;
            }
            if self.world.lock().step > from + TURNS_MAX {
                let running: Vec<String> = self.running.iter().map(|one| format!("{:?}", one.work)).collect();
                return self.wrong(format!("it does not come to an end: {}", running.join("; ")));
            }
        }
    }

    /// A long time passes without requests. Pending decisions are made before, because none of them
    /// takes that long.
    async fn pass_time(&mut self) {
        let now = self.servers[0].clock.now();
        self.world.lock().decide_all_late(now);
        let time = self.schedule.between(0, self.setup.pause_ms_max);
        self.note(&format!("{time} ms pass"));
        tokio::time::sleep(Duration::from_millis(time)).await;
    }
}
