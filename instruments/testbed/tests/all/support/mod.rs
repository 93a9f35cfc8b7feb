//! Workers on threads of a test, and runs of plans.
#![allow(dead_code, clippy::unwrap_used)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use testbed::candidate::Given;
use testbed::coordinator::{Collected, Coordinator, WorkerPlace};
use testbed::event::StepNames;
use testbed::inputs::Inputs;
use testbed::plan::Plan;
use testbed::reach::Reach;
use testbed::record::{Machine, Program};
use testbed::replay::ReplayRecord;
use testbed::results::Judgement;
use testbed::runner::Runner;
use testbed::scenario::{Protocol, Scenario};
use testbed::tally::{self, Measured, Window};
use testbed::verdict::judge;
use testbed::wire::Progress;
use testbed::worker::Worker;
use tokio::net::TcpListener;

/// The token of the workers of tests.
pub const TOKEN: &str = "only for tests";

/// A worker on a thread of this process, for one run.
pub fn worker() -> WorkerPlace {
    worker_on(Machine::find(None), Program::default())
}

/// The same with what it says of its machine and of its program.
pub fn worker_on(machine: Machine, program: Program) -> WorkerPlace {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let worker = Worker { token: TOKEN.to_owned(), program, machine };
        // What goes wrong reaches the coordinator.
        drop(worker.serve_once(listener, &mut |_| {}));
    });
    WorkerPlace::At(address)
}

/// A run of a plan in a folder of its own.
pub struct Run {
    pub inputs: Inputs,
    pub folder: tempfile::TempDir,
}

impl Run {
    /// A run of a plan whose scenarios are files `NAME.toml` with these texts.
    pub fn new(plan: &str, scenarios: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in scenarios {
            std::fs::write(folder.path().join(format!("{name}.toml")), text).unwrap();
        }
        let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
        Self { inputs, folder }
    }

    pub async fn collect(&self, address: SocketAddr, places: Vec<WorkerPlace>) -> Collected {
        let scheme = match self.inputs.compiled().unwrap()[0].protocol {
            Protocol::Http => "http",
            Protocol::Resp => "redis",
        };
        let url = format!("{scheme}://{address}");
        let coordinator = Coordinator {
            inputs: &self.inputs,
            reach: &Reach::at(&url),
            token: TOKEN,
            folder: self.folder.path(),
            on_progress: &|_, _| {},
            on_start: &|_| {},
            objections: &|_, _| Vec::new(),
        };
        coordinator.run(places).await.unwrap()
    }

    pub fn names(&self) -> StepNames {
        self.inputs.compiled().unwrap().iter().map(Scenario::names).collect()
    }

    pub fn count(&self, files: &[PathBuf]) -> Measured {
        self.count_replayed(files, None)
    }

    /// Counts what is measured of a load, which may replay a log.
    pub fn count_replayed(&self, files: &[PathBuf], replay: Option<&ReplayRecord>) -> Measured {
        let started_at = "2026-01-01T00:00:00Z".parse().unwrap();
        let window = Window::of(&self.inputs.plan, started_at, replay);
        tally::count(files, &self.names(), window, &[], &mut Vec::new()).unwrap()
    }

    pub async fn measure(&self, address: SocketAddr) -> (Measured, Judgement) {
        let places = (0..self.inputs.plan.workers).map(|_| worker()).collect();
        let collected = self.collect(address, places).await;
        let measured = self.count(&collected.events);
        // The generator shares its processors with other tests here: its lateness is not judged.
        let mut lenient = self.count(&collected.events);
        lenient.summary.all.lateness.max_ms = 0.0;
        (measured, judge(&self.inputs.plan, &lenient, collected.lost.into_iter().collect()))
    }
}

/// A whole run of a server of a test, on a machine that may be busy. Its record may have gaps.
pub fn runner_of<'a>(
    inputs: &'a Inputs,
    address: SocketAddr,
    archive: &'a Path,
    on_progress: &'a (dyn Fn(u32, Progress) + Sync),
) -> Runner<'a> {
    Runner {
        inputs,
        measured: testbed::runner::Measured::Url(format!("http://{address}"), None),
        archive,
        data: None,
        cgroup: None,
        given: Given::default(),
        expect_version: None,
        who: "a test".to_owned(),
        program: Program::default(),
        program_path: Path::new("/bin/false"),
        token: TOKEN,
        monitors: &[],
        is_untraceable: true,
        may_be_busy: true,
        on_progress,
    }
}

/// Whether a program is installed. If not, that is reported, and is a failure if `CI` is set.
pub fn is_installed(program: &str, package: &str) -> bool {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin");
    if std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        return true;
    }
    let message = format!("{program} is not installed (Debian: {package})");
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {message}");
    eprintln!("not run: {message}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut list, format!("{message}\n").as_bytes()).unwrap();
    }
    false
}

/// Writes a program. A shell does it: another thread that starts a process just now could hold it
/// open.
pub fn write_program(place: &Path, text: &str) {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", text]).arg(place);
    assert!(command.status().unwrap().success());
}

/// A program in place of `penates`: it lists one volume, and its archives are lists of volumes.
pub fn archiver(folder: &Path) -> PathBuf {
    let program = folder.join("archiver");
    write_program(&program, "#!/bin/sh\ncase $1 in\nls) echo v.1 ;;\nget) cp \"$5\" \"$7\" ;;\nesac\n");
    program
}

/// Returns when a process has ended.
pub async fn has_ended(id: &str) {
    let stat = format!("/proc/{}/stat", id.trim());
    let has_ended = async {
        // A process that nobody has waited for yet is a zombie.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), has_ended).await.unwrap();
}

/// A server that answers as `answer` says.
pub async fn serve<F, A>(answer: F) -> SocketAddr
where
    F: Fn(Request<Bytes>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    Ok::<_, Infallible>(answer(Request::from_parts(head, body)).await)
                }
            });
            tokio::spawn(async move {
                drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
    address
}

/// An answer.
pub fn ok() -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from_static(b"here")))
}
