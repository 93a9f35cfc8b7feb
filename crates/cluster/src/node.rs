//! One node: its process, from start to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, Doing, Result};
use crate::guard::Guarded;
use crate::jars::Jars;
use crate::java::Java;
use crate::plan::NodePlan;
use crate::spec::{NodeId, Settings};
use crate::tail::tail;
use crate::{cache, config, cql, jvm};

/// How long a node may take to end when it is asked to: it writes its memtables first.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How long the processes of a node's former life, whose owner was killed, may take to be gone.
const GONE_PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks at a node.
const PAUSE: Duration = Duration::from_millis(50);

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It has been started and does not answer yet.
    Starting,
    /// It answers clients, or did when it was last asked.
    Up,
    /// It is held (SIGSTOP).
    Paused,
    /// It was never started, or it was stopped or killed by this cluster.
    Stopped,
    /// It ended by itself, or was ended by somebody else.
    Died,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// What it does.
    pub state: NodeState,
    /// Its data center.
    pub datacenter: String,
    /// Where clients connect.
    pub cql: SocketAddr,
    /// Where JMX is to be had.
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
    Running {
        guarded: Guarded,
        state: NodeState,
    },
    Died(ExitStatus),
}

impl Process {
    /// Looks whether it still runs.
    fn looked_at(&mut self) -> &mut Self {
        if let Self::Running { guarded, .. } = self
            && let Ok(Some(status)) = guarded.try_wait()
        {
            *self = Self::Died(status);
        }
        self
    }
}

impl Node {
    pub fn new(plan: NodePlan) -> Self {
        Self { plan, process: Mutex::default() }
    }

    pub fn status(&self) -> NodeStatus {
        let (state, pid) = match self.process.lock().looked_at() {
            Process::Stopped => (NodeState::Stopped, None),
            Process::Running { guarded, state } => (*state, Some(guarded.pid())),
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

    /// Starts it; it is not up yet.
    pub fn start(&self, settings: &Settings, heap_mib: u32, jars: &Jars, java: &Java) -> Result<()> {
        let mut process = self.process.lock();
        if matches!(process.looked_at(), Process::Running { .. }) {
            return Err(ClusterError::Running { node: self.plan.id });
        }
        config::write(&self.plan, settings)?;
        let console_log = self.plan.console_log();
        let Some(output) = cache::lock(&console_log, GONE_PATIENCE)? else {
            return Err(ClusterError::NotGone { node: self.plan.id, waited: GONE_PATIENCE, log: console_log });
        };
        let arguments = jvm::node(&self.plan, settings, heap_mib, jars);
        let guarded = Guarded::spawn(java.program.as_os_str(), arguments, output, |command| {
            command.current_dir(&self.plan.folder);
        })
        .doing("starting", &java.program)?;
        *process = Process::Running { guarded, state: NodeState::Starting };
        Ok(())
    }

    /// Waits until it is up.
    pub fn wait_until_up(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let answers = cql::answers(self.plan.cql());
            match self.process.lock().looked_at() {
                Process::Running { state, .. } if answers => {
                    *state = NodeState::Up;
                    return Ok(());
                }
                Process::Running { .. } => {}
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

    /// What the node logged last, and what the Java machine said.
    fn log_tail(&self) -> String {
        format!("{}\n{}", tail(&self.plan.system_log()), tail(&self.plan.console_log()))
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&self) -> Result<()> {
        let mut process = self.process.lock();
        let guarded = self.running(&mut process)?;
        guarded.signal(Signal::TERM).doing("stopping the node in", &self.plan.folder)?;
        guarded.signal(Signal::CONT).doing("stopping the node in", &self.plan.folder)?;
        let ended = guarded.wait_for(STOP_PATIENCE).doing("stopping the node in", &self.plan.folder)?;
        // Dropping what still runs kills it.
        *process = Process::Stopped;
        match ended {
            Some(_) => Ok(()),
            None => {
                let (node, log) = (self.plan.id, self.plan.system_log());
                Err(ClusterError::NotStopped { node, patience: STOP_PATIENCE, log })
            }
        }
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub fn kill(&self) -> Result<()> {
        let mut process = self.process.lock();
        self.running(&mut process)?.kill().doing("killing the node in", &self.plan.folder)?;
        *process = Process::Stopped;
        Ok(())
    }

    /// Holds it (SIGSTOP): it keeps its connections and answers nothing.
    pub fn pause(&self) -> Result<()> {
        self.send(Signal::STOP, NodeState::Paused)
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.send(Signal::CONT, NodeState::Up)
    }

    fn send(&self, signal: Signal, then: NodeState) -> Result<()> {
        let mut process = self.process.lock();
        self.running(&mut process)?.signal(signal).doing("signalling the node in", &self.plan.folder)?;
        if let Process::Running { state, .. } = &mut *process {
            *state = then;
        }
        Ok(())
    }

    fn running<'a>(&self, process: &'a mut Process) -> Result<&'a mut Guarded> {
        match process.looked_at() {
            Process::Running { guarded, .. } => Ok(guarded),
            _ => Err(ClusterError::NotRunning { node: self.plan.id }),
        }
    }

    /// Asks this node by JMX, with Cassandra's `nodetool`; what that prints.
    pub fn nodetool(&self, command: &[&str], jars: &Jars, java: &Java) -> Result<String> {
        let mut nodetool = Command::new(&java.program);
        nodetool.args(jvm::nodetool(&self.plan, jars, command)).current_dir(&self.plan.folder).stdin(Stdio::null());
        let output = nodetool.output().doing("starting", &java.program)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let output_text = said + &String::from_utf8_lossy(&output.stderr);
        Err(ClusterError::NodeTool { node: self.plan.id, status: output.status, output: output_text })
    }
}
