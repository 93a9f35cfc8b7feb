//! One node: its process, from start to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::control_group::ControlGroup;
use crate::cql::Reach;
use crate::error::{ClusterError, Doing, Result};
use crate::guard::Guarded;
use crate::jars::Jars;
use crate::java::Java;
use crate::plan::NodePlan;
use crate::spec::{NodeId, Settings};
use crate::tail::tail;
use crate::{cache, config, cql, jvm, nodetool};

/// How long a node may take to end when asked to. It writes its memtables first.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How long the processes of an earlier start, whose owner was killed, may take to end.
const GONE_PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks at a node.
const PAUSE: Duration = Duration::from_millis(50);

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It has been started and does not answer yet.
    Starting,
    /// It answers clients, or did when it was last asked.
    Up,
    /// It has been asked to end and has not yet.
    Stopping,
    /// It is held (SIGSTOP).
    Paused,
    /// It was never started, or it was stopped or killed by this cluster.
    Stopped,
    /// It ended by itself, or another process ended it.
    Died,
}

/// The state of a node, with its addresses and files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its state.
    pub state: NodeState,
    /// Its data center.
    pub datacenter: String,
    /// The address for clients.
    pub cql: SocketAddr,
    /// The address of JMX.
    pub jmx: SocketAddr,
    /// The process, if there is one.
    pub pid: Option<u32>,
    /// Its folder.
    pub folder: PathBuf,
    /// Its log.
    pub log: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub plan: NodePlan,
    process: Mutex<Process>,
}

#[derive(Debug, Default)]
enum Process {
    #[default]
    Stopped,
    Running(Running),
    Died(ExitStatus),
}

#[derive(Debug)]
struct Running {
    guarded: Guarded,
    phase: Phase,
    is_paused: bool,
    // Its process ends before its group is removed: fields are dropped in their order.
    _group: Option<ControlGroup>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Up,
    Stopping,
}

impl Process {
    /// Checks whether it still runs.
    fn looked_at(&mut self) -> &mut Self {
        if let Self::Running(running) = self
            && let Ok(Some(status)) = running.guarded.try_wait()
        {
            *self = if running.phase == Phase::Stopping { Self::Stopped } else { Self::Died(status) };
        }
        self
    }
}

impl Running {
    fn state(&self) -> NodeState {
        match self.phase {
            _ if self.is_paused => NodeState::Paused,
            Phase::Starting => NodeState::Starting,
            Phase::Up => NodeState::Up,
            Phase::Stopping => NodeState::Stopping,
        }
    }
}

impl Node {
    pub fn new(plan: NodePlan) -> Self {
        Self { plan, process: Mutex::default() }
    }

    pub fn status(&self) -> NodeStatus {
        let (state, pid) = match self.process.lock().looked_at() {
            Process::Stopped => (NodeState::Stopped, None),
            Process::Running(running) => (running.state(), Some(running.guarded.pid())),
            Process::Died(_) => (NodeState::Died, None),
        };
        NodeStatus {
            node: self.plan.id,
            state,
            datacenter: self.plan.datacenter.clone(),
            cql: self.plan.cql(),
            jmx: SocketAddr::from((self.plan.address, self.plan.ports.jmx)),
            pid,
            folder: self.plan.folder.clone(),
            log: self.plan.system_log(),
        }
    }

    /// Whether it knows this number of other nodes, and reaches all nodes of its ring.
    pub fn reach(&self, others: usize) -> Reach {
        cql::reach(self.plan.cql(), others)
    }

    /// Starts it; it is not up yet.
    pub fn start(&self, settings: &Settings, heap_mib: u32, jars: &Jars, java: &Java) -> Result<()> {
        let mut process = self.process.lock();
        if matches!(process.looked_at(), Process::Running(_)) {
            return Err(ClusterError::Running { node: self.plan.id });
        }
        config::write(&self.plan, settings)?;
        let console_log = self.plan.console_log();
        let Some(output) = cache::lock(&console_log, GONE_PATIENCE)? else {
            return Err(ClusterError::NotGone { node: self.plan.id, waited: GONE_PATIENCE, log: console_log });
        };
        let arguments = jvm::node(&self.plan, settings, heap_mib, jars);
        // Its address is its own among all nodes of the machine.
        let name = format!("penates-{}", self.plan.address);
        let group = settings.limits.map(|limits| ControlGroup::new(&name, limits)).transpose();
        let group = group.doing("limiting the node in", &self.plan.folder)?;
        let program = java.program.to_string_lossy().into_owned();
        let (program, arguments) = match &group {
            Some(group) => group.within(&program, &arguments),
            None => (program, arguments),
        };
        let guarded = Guarded::spawn(program.as_ref(), arguments, output, |command| {
            command.current_dir(&self.plan.folder);
        })
        .doing("starting", &java.program)?;
        *process = Process::Running(Running { guarded, phase: Phase::Starting, is_paused: false, _group: group });
        Ok(())
    }

    /// Waits until it is up.
    pub fn wait_until_up(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let answers = cql::answers(self.plan.cql());
            match self.process.lock().looked_at() {
                Process::Running(running) if running.phase == Phase::Starting && answers => {
                    running.phase = Phase::Up;
                    return Ok(());
                }
                Process::Running(_) => {}
                Process::Died(status) => return Err(self.died(*status)),
                Process::Stopped => return Err(ClusterError::NotRunning { node: self.plan.id }),
            }
            if Instant::now() >= deadline {
                self.kill()?;
                let (log, tail) = (self.plan.system_log(), self.log_tail());
                return Err(ClusterError::NotUp { node: self.plan.id, patience, log, tail });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn died(&self, status: ExitStatus) -> ClusterError {
        ClusterError::Died { node: self.plan.id, status, log: self.plan.system_log(), tail: self.log_tail() }
    }

    /// The error of a node that runs, but has not reached the others.
    pub fn not_met(&self, patience: Duration) -> ClusterError {
        ClusterError::NotMet { node: self.plan.id, patience, log: self.plan.system_log(), tail: self.log_tail() }
    }

    /// The end of the node's log, and the output of the Java machine.
    fn log_tail(&self) -> String {
        format!("{}\n{}", tail(&self.plan.system_log()), tail(&self.plan.console_log()))
    }

    /// Asks it to end, and waits until it has. A held node continues for that.
    pub fn stop(&self) -> Result<()> {
        self.with_running(|running| {
            running.guarded.signal(Signal::TERM)?;
            running.guarded.signal(Signal::CONT)?;
            (running.phase, running.is_paused) = (Phase::Stopping, false);
            Ok(())
        })?;
        let deadline = Instant::now() + STOP_PATIENCE;
        while matches!(self.process.lock().looked_at(), Process::Running(_)) {
            if Instant::now() >= deadline {
                self.kill()?;
                let (node, log) = (self.plan.id, self.plan.system_log());
                return Err(ClusterError::NotStopped { node, patience: STOP_PATIENCE, log });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub fn kill(&self) -> Result<()> {
        self.with_running(|running| {
            running.phase = Phase::Stopping;
            running.guarded.kill().map(drop)
        })
    }

    /// Holds it (SIGSTOP): it keeps its connections and answers nothing.
    pub fn pause(&self) -> Result<()> {
        self.with_running(|running| {
            running.is_paused = true;
            running.guarded.signal(Signal::STOP)
        })
    }

    /// Lets it continue (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.with_running(|running| {
            running.is_paused = false;
            running.guarded.signal(Signal::CONT)
        })
    }

    fn with_running(&self, signal: impl FnOnce(&mut Running) -> std::io::Result<()>) -> Result<()> {
        match self.process.lock().looked_at() {
            Process::Running(running) => signal(running).doing("signalling the node in", &self.plan.folder),
            _ => Err(ClusterError::NotRunning { node: self.plan.id }),
        }
    }

    /// Runs Cassandra's `nodetool` against this node by JMX and returns its output.
    pub fn nodetool(&self, command: &[&str], jars: &Jars, java: &Java) -> Result<String> {
        let (config, own) = (self.plan.config_folder(), self.plan.folder.join("tmp"));
        nodetool::run(self.plan.jmx(), command, [&config, &own], jars, java)
    }
}
