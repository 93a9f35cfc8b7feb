//! What workers measure of servers that speak the Redis protocol.
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Run, is_installed, runner_of, worker};
use testbed::inputs::Inputs;
use testbed::null::Null;
use testbed::plan::Plan;
use testbed::results::Verdict;
use testbed::runner::Runner;
use testbed::tally::Measured;
use testbed::wire::Progress;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers each command as `answer` says: with bytes, or by closing the connection after
/// them (the second is true). Counts connections.
async fn serve<F, A>(answer: F) -> (SocketAddr, Arc<AtomicU64>)
where
    F: Fn(Vec<String>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = (String, bool)> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let connections = count.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Some(words) = command(&mut stream).await {
                    let (bytes, is_last) = answer(words).await;
                    stream.get_mut().write_all(bytes.as_bytes()).await.unwrap();
                    if is_last {
                        break;
                    }
                }
            });
        }
    });
    (address, count)
}

/// The next command, as clients send it.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(stream, '*').await? {
        let mut word = vec![0; number(stream, '$').await? + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8(word).unwrap().trim_end().to_owned());
    }
    Some(words)
}

async fn number(stream: &mut BufReader<TcpStream>, sign: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.strip_prefix(sign)?.trim_end().parse().ok()
}

/// Forty users with this one step.
async fn measure(step: &str, address: SocketAddr) -> Measured {
    measure_within("60s", step, address).await
}

/// The same, if an answer may take so long.
async fn measure_within(timeout: &str, step: &str, address: SocketAddr) -> Measured {
    let plan = format!(
        "name = \"one\"\nscenarios = [{{ scenario = \"one.toml\" }}]\nworkers = 1\n\
         load = {{ shape = \"constant\", rate = 80, duration = \"500ms\" }}\n\
         [connections]\ntimeout = \"{timeout}\"\n"
    );
    let step = format!("[[steps]]\nname = \"one\"\n{step}\n");
    Run::new(&plan, &[("one", &step)]).measure(address).await.0
}

/// The kinds of failures, with how many there were of each.
fn failures(measured: &Measured) -> Vec<(&str, u64)> {
    measured.summary.errors.iter().map(|error| (error.kind.as_str(), error.count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_answer_is_checked_as_text() {
    let (address, _) = serve(async |words: Vec<String>| {
        let answer = match words[0].as_str() {
            "PING" => "+PONG\r\n".to_owned(),
            "INCR" => ":42\r\n".to_owned(),
            "ECHO" => format!("${}\r\n{}\r\n", words[1].len(), words[1]),
            "GET" => "$-1\r\n".to_owned(),
            _ => "*2\r\n$4\r\ncity\r\n$3\r\nUlm\r\n".to_owned(),
        };
        (answer, false)
    })
    .await;
    let right = [
        "command = [\"PING\"]\ncheck = { answer = \"^PONG$\", bytes = \"4\" }",
        "command = [\"INCR\", \"n\"]\ncheck = { answer = \"^42$\" }",
        "command = [\"ECHO\", \"user:${user} $$\"]\ncheck = { contains = \"user:${user} $$\" }",
        "command = [\"GET\", \"n\"]\ncheck = { answer = '^\\(nil\\)$' }",
        "command = [\"HGETALL\", \"n\"]\ncheck = { answer = '^city\\nUlm$' }",
    ];
    for step in right {
        let measured = measure(step, address).await;
        assert_eq!((measured.summary.all.due, measured.summary.all.done), (40, 40), "{step}");
    }
    for (check, kind) in [("answer", "check: answer"), ("contains", "check: contains"), ("bytes", "check: bytes")] {
        let measured = measure(&format!("command = [\"PING\"]\ncheck = {{ {check} = \"5\" }}"), address).await;
        assert_eq!(failures(&measured), [(kind, 40)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_by_kind() {
    let (address, _) = serve(async |words: Vec<String>| match words[0].as_str() {
        "ERR" => ("-ERR unknown command\r\n".to_owned(), false),
        "DEADLINE" => ("-DEADLINE 20 ms\r\n".to_owned(), false),
        "OVERLOADED" => ("-OVERLOADED try later\r\n".to_owned(), false),
        "LOADING" => ("-LOADING the data\r\n".to_owned(), false),
        "GARBAGE" => ("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(), false),
        "HALF" => ("$100\r\nonly so much".to_owned(), true),
        "SILENT" => std::future::pending().await,
        _ => (String::new(), true),
    })
    .await;
    let kinds = [
        ("ERR", "error ERR"),
        ("DEADLINE", "error DEADLINE"),
        ("OVERLOADED", "refused"),
        ("LOADING", "refused"),
        ("GARBAGE", "no RESP"),
        ("HALF", "closed early"),
        ("SILENT", "time-out"),
        ("CLOSE", "closed early"),
    ];
    for (command, kind) in kinds {
        // Only the server that never answers is waited for.
        let timeout = if command == "SILENT" { "2s" } else { "60s" };
        let measured = measure_within(timeout, &format!("command = [\"{command}\"]"), address).await;
        assert_eq!(failures(&measured), [(kind, 40)], "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_shows_as_the_queue_that_it_makes() {
    let stalled = Arc::new(tokio::sync::Mutex::new(false));
    let (address, _) = serve(move |_| {
        let stalled = stalled.clone();
        async move {
            let mut has_stalled = stalled.lock().await;
            if !*has_stalled {
                tokio::time::sleep(Duration::from_secs(1)).await;
                *has_stalled = true;
            }
            ("+OK\r\n".to_owned(), false)
        }
    })
    .await;
    let measured = measure("command = [\"PING\"]", address).await;
    // All were due within the first half of the stall, and waited for the second at least.
    assert_eq!(measured.summary.all.done, 40);
    assert!(measured.response_us.min() >= 490_000, "{}", measured.response_us.min());
    assert!(measured.response_us.max() >= 990_000, "{}", measured.response_us.max());
}

#[tokio::test(flavor = "multi_thread")]
async fn users_have_connections_of_their_own_unless_the_plan_says_otherwise() {
    for (keep, wanted) in [("user", 10..=10), ("request", 20..=20), ("worker", 1..=9)] {
        let (address, connections) = serve(async |_| ("+OK\r\n".to_owned(), false)).await;
        let plan = format!(
            "name = \"keep\"\nscenarios = [{{ scenario = \"two.toml\" }}]\nworkers = 1\n\
             load = {{ shape = \"constant\", rate = 10, duration = \"1s\" }}\n[connections]\nkeep = \"{keep}\"\n"
        );
        let two = "[[steps]]\nname = \"ping\"\nrepeat = 2\ncommand = [\"PING\"]\n";
        let (measured, _) = Run::new(&plan, &[("two", two)]).measure(address).await;
        assert_eq!(measured.summary.all.done, 20, "{keep}");
        let found = connections.load(Ordering::Relaxed);
        assert!(wanted.contains(&found), "{keep}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_records_is_done_by_the_server_that_does_nothing_and_reports_have_that_ceiling() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Null::redis(Duration::ZERO).serve(listener));
    // Each scenario of records has its users: they are drawn by the seed, so they are always the same.
    let plan = "name = \"records\"\nworkers = 1\nconnections = { keep = \"worker\" }\n\
                scenarios = [{ scenario = \"records-read\" }, { scenario = \"records-write\" }]\n\
                fill = { scenario = \"records-fill\", units = 100 }\n\
                load = { shape = \"constant\", rate = 100, duration = \"500ms\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
    let (archive, ignore) = (folder.path().join("archive"), |_: u32, _: Progress| {});
    let url = format!("redis://{address}");
    let run = async || {
        let measured = testbed::runner::Measured::Url(url.clone(), None);
        let runner = Runner { measured, ..runner_of(&inputs, address, &archive, &ignore) };
        runner.run(vec![worker()]).await.unwrap()
    };
    let (first, second) = (run().await, run().await);
    let all = &first.outcome.summary.all;
    assert_eq!((all.due, all.done, all.failed), (all.sent, all.due, 0), "{:?}", first.outcome.summary.errors);
    let due: Vec<_> = first.outcome.summary.steps.iter().map(|step| (step.step.as_str(), step.tally.due)).collect();
    assert!(due.len() == 3 && due.iter().all(|(_, due)| *due > 0), "{due:?}");
    assert_eq!(first.record.beside.fill.as_ref().unwrap().summary.all.done, 100);
    let program = &first.record.candidate.program;
    assert_eq!((program.name.as_str(), program.version.as_str()), ("null-redis", env!("CARGO_PKG_VERSION")));

    let report = std::fs::read_to_string(second.folder.join("data/report.html")).unwrap();
    // A machine that is busy with other tests may make the generator late.
    let wanted = match first.outcome.judgement.verdict {
        Verdict::Held => format!("href=\"../../{}/data/report.html\"", first.record.id),
        _ => "lares testbed find records-90-10 --candidate null-redis".to_owned(),
    };
    assert!(report.contains(&wanted), "{wanted}");
}

#[test]
fn a_plan_that_mixes_protocols_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[steps]]\nname = \"ping\"\ncommand = [\"PING\"]\n";
    std::fs::write(folder.path().join("ping.toml"), text).unwrap();
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }, { scenario = \"ping.toml\" }]\n\
                load = { shape = \"constant\", rate = 1, duration = \"1s\" }\n";
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
    let error = inputs.compiled().unwrap_err().to_string();
    assert_eq!(
        error,
        "plan: scenarios: `get` speaks HTTP and `ping` the Redis protocol; a run speaks one of them: make two plans"
    );
}

/// A real server, with its data in a folder that goes with it.
struct RealServer {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl RealServer {
    async fn start() -> Self {
        let started = async {
            loop {
                if let Some(server) = Self::start_once().await {
                    return server;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), started).await.unwrap()
    }

    /// `None`: another program has taken the port meanwhile, so that the server has ended.
    async fn start_once() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &address.port().to_string(), "--dir"]);
        let process = command.arg(folder.path()).stdout(Stdio::null()).spawn().unwrap();
        let mut server = Self { process, address, _folder: folder };
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if server.process.try_wait().unwrap().is_some() {
                return None;
            }
        }
        Some(server)
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_redis_keeps_what_steps_write_and_gives_what_they_save() {
    if !is_installed("redis-server", "redis-server") {
        return;
    }
    let server = RealServer::start().await;
    let plan = "name = \"redis\"\nscenarios = [{ scenario = \"records.toml\" }]\nworkers = 2\n\
                load = { shape = \"constant\", rate = 100, duration = \"500ms\" }\n";
    let scenario = r#"
        feeds = [{ name = "n", kind = "uniform", from = 1, to = 1000 }]
        [[steps]]
        name = "write"
        command = ["HSET", "user:${user}", "city", "Ulm ${n}", "empty", ""]
        check = { answer = "^2$" }
        [[steps]]
        name = "read"
        command = ["HGETALL", "user:${user}"]
        check = { contains = "Ulm ${n}" }
        save = { city = { answer = '(?m)^(Ulm .*)$' } }
        [[steps]]
        name = "echo"
        command = ["ECHO", "${city}"]
        check = { answer = "^Ulm [0-9]+$", contains = "Ulm ${n}" }
        [[steps]]
        name = "wrong"
        command = ["INCR", "user:${user}"]
    "#;
    let (measured, _) = Run::new(plan, &[("records", scenario)]).measure(server.address).await;
    assert_eq!(failures(&measured), [("error WRONGTYPE", 50)]);
    assert_eq!((measured.summary.all.done, measured.summary.all.failed), (150, 50));
}
