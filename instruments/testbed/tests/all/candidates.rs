//! The candidates that come with the program, as far as what they need is installed.
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{archiver, has_ended, is_installed};
use testbed::candidate::{Candidate, RunningCandidate, found};

/// Starts a shipped candidate, and checks that the record has no gap.
async fn start(name: &str, program: &str, package: &str) -> Option<(RunningCandidate, tempfile::TempDir)> {
    if !is_installed(program, package) {
        return None;
    }
    let work = tempfile::tempdir().unwrap();
    let candidate = Candidate::shipped(name).unwrap();
    let data = work.path().join("data");
    let running = RunningCandidate::start(&candidate, &data, work.path(), &archiver(work.path())).await.unwrap();
    let record = running.record().await.unwrap();
    assert_eq!(record.program.name, name);
    assert!(!record.program.version.is_empty() && record.program.sha256.is_some(), "{record:?}");
    Some((running, work))
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_syncs_as_its_record_says() {
    for (name, fsync) in [("redis", "always"), ("redis-everysec", "everysec")] {
        let Some((running, _work)) = start(name, "redis-server", "redis-server").await else { return };
        assert!(running.url().starts_with("redis://127.0.0.1:"), "{}", running.url());
        let configuration = running.record().await.unwrap().configuration.unwrap();
        assert!(configuration.contains(&format!("appendfsync\n{fsync}\n")), "{configuration}");
        assert!(configuration.contains("appendonly\nyes\n"), "{configuration}");
        let seen = found(running.reach()).await.program;
        assert_eq!(seen.name, "redis");
        assert!(running.record().await.unwrap().program.version.contains(&seen.version), "{seen:?}");
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_serves_the_files_of_its_data_folder() {
    let Some((running, work)) = start("nginx", "nginx", "nginx-light").await else { return };
    let configuration = running.record().await.unwrap().configuration.unwrap();
    let port = running.url().rsplit_once(':').unwrap().1.to_owned();
    assert!(configuration.contains(&format!("listen 127.0.0.1:{port};")), "{configuration}");
    assert_eq!(work.path().join("data/files/large").metadata().unwrap().len(), 8 << 20);
    let seen = found(running.reach()).await.program;
    assert_eq!(seen.name, "nginx");
    running.end().await;
}

/// A candidate that never answers. Its data folder gets a file with the id of a child of it.
fn parent(folder: &Path) -> Candidate {
    let spec = "name = \"parent\"\nready_within = \"120s\"\n\
                start = [\"sh\", \"-c\", \"sleep 600 & echo $! > $0/new; mv $0/new $0/child; wait\", \"${data}\"]\n";
    std::fs::write(folder.join("candidate.toml"), spec).unwrap();
    Candidate::read(folder).unwrap()
}

/// The id of its child, once it has one.
async fn child_in(folder: &Path) -> String {
    let child = async {
        loop {
            if let Ok(child) = std::fs::read_to_string(folder.join("child")) {
                break child;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), child).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_processes_of_a_candidate_that_is_given_up_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let candidate = parent(folder.path());
    // It is given up as soon as it has a child: it never answers.
    let child = tokio::select! {
        _ = RunningCandidate::start(&candidate, folder.path(), folder.path(), Path::new("")) => panic!("it has ended"),
        child = child_in(folder.path()) => child,
    };
    has_ended(&child).await;
}

/// Names the folder of the candidate that the process below starts.
const FOLDER: &str = "PENATES_TEST_CANDIDATE_FOLDER";

/// Starts a candidate that never answers, and waits to be killed.
#[tokio::test]
#[ignore = "the process that another test kills"]
async fn an_owner() {
    let folder = std::env::var_os(FOLDER).unwrap();
    let folder = Path::new(&folder);
    drop(RunningCandidate::start(&parent(folder), folder, folder, Path::new("")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_does_not_outlive_a_testbed_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "candidates::an_owner", "--ignored"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = child_in(folder.path()).await;
    owner.kill().unwrap();
    owner.wait().unwrap();
    has_ended(&child).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_candidate_has_started_ends_when_it_is_asked_to_end() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The first process ends at once when it is asked to, and the server ignores that.
    let spec = "name = \"parent\"\nstart = [\"sh\", \"-c\", \"(trap '' TERM; exec python3 -m http.server \
                --bind 127.0.0.1 --directory $0 $1) & echo $! > $0/child; trap 'exit 0' TERM; wait\", \
                \"${data}\", \"${port}\"]\n";
    std::fs::write(folder.path().join("candidate.toml"), spec).unwrap();
    let candidate = Candidate::read(folder.path()).unwrap();
    let running = RunningCandidate::start(&candidate, folder.path(), folder.path(), Path::new("")).await.unwrap();
    let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
    running.end().await;
    has_ended(&child).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_installed_is_named_with_how_it_can_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let spec = "name = \"odd\"\nneeds = [\"sh\", \"no-such-server\"]\ninstall = \"apt-get install odd\"\n\
                start = [\"no-such-server\"]\n";
    std::fs::write(folder.path().join("candidate.toml"), spec).unwrap();
    let candidate = Candidate::read(folder.path()).unwrap();
    let started = RunningCandidate::start(&candidate, &folder.path().join("data"), folder.path(), Path::new("")).await;
    let Err(error) = started else { panic!("it has started") };
    assert_eq!(
        error.to_string(),
        "candidate odd needs no-such-server, which this machine does not have (`apt-get install odd`)"
    );
}

#[test]
fn a_folder_that_postgresql_cannot_reach_is_refused_and_keeps_its_rights() {
    let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = folder.path().join("of-a-user/data");
    std::fs::create_dir_all(&data).unwrap();
    let rights = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let of_user = || [rights(&data), rights(data.parent().unwrap())];
    std::fs::set_permissions(data.parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
    let before = of_user();
    // As for the superuser, on a machine whose user postgres may not pass through the folder.
    for (name, script) in [("id", "echo 0"), ("chown", "exit 0"), ("setpriv", "exit 1")] {
        let program = programs.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    let of_candidate = Path::new(env!("CARGO_MANIFEST_DIR")).join("candidates/fedora-postgresql");
    let mut path = programs.path().as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    let mut start = Command::new("sh");
    start.arg(of_candidate.join("start-all.sh")).arg(&of_candidate).arg(&data).args(["/jars", "1", "2", "3", "4"]);
    let refused = start.env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("The user postgres cannot reach ") && said.contains("chmod o+x"), "{said}");
    assert_eq!(of_user(), before);
    // A folder may have a longer path than a socket may have.
    let script = std::fs::read_to_string(of_candidate.join("start-all.sh")).unwrap();
    assert!(script.contains(" -k '' &\n"), "{script}");
}

/// Why a candidate with this description does not start.
async fn refused(spec: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("candidate.toml"), spec).unwrap();
    let candidate = match Candidate::read(folder.path()) {
        Ok(candidate) => candidate,
        Err(error) => return error.to_string(),
    };
    let started = RunningCandidate::start(&candidate, &folder.path().join("data"), folder.path(), Path::new("")).await;
    let Err(error) = started else { panic!("it has started") };
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_cannot_be_run_has_a_reason() {
    let spec = |more: &str| format!("name = \"odd\"\nstart = [\"true\"]\n{more}\n");
    assert_eq!(refused(&spec("not_run = \"nobody sells it\"")).await, "candidate odd cannot be run: nobody sells it");
    let jars = "folders.jars = { variable = \"TESTBED_NOT_SET\", files = [\"a.war\", \"b.jar\"] }";
    assert_eq!(
        refused(&spec(jars)).await,
        "candidate odd needs a folder that TESTBED_NOT_SET names, with a.war and b.jar, which this machine does not have"
    );
    // A folder that is named and has not the file.
    let home = "folders.jars = { variable = \"HOME\", files = [\"no-such-file.war\"] }";
    assert!(refused(&spec(home)).await.contains("no-such-file.war in the folder /"));
    let taken = "folders.port = { variable = \"HOME\" }";
    assert_eq!(refused(&spec(taken)).await, "candidate: folders: `${port}` is a place of every candidate");
    let trellis = Candidate::shipped("trellis").unwrap().spec.not_run.unwrap();
    assert!(trellis.contains("Maven Central"), "{trellis}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_of_two_servers_with_a_secret_is_ready_when_both_are_and_is_asked_to_stop() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "Basic s3cret").unwrap();
    let spec = "name = \"two\"\nfurther_urls = [\"http://127.0.0.1:${port2}\"]\nready = \"/\"\n\
                headers = { Authorization = { file = \"secret\" } }\nprogram = \"${folder}/candidate.toml\"\n\
                start = [\"sh\", \"-c\", \"for port; do python3 -m http.server --bind 127.0.0.1 $port & done; wait\", \
                \"sh\", \"${port}\", \"${port2}\"]\nstop = [\"touch\", \"${data}/stopped\"]\n\
                cgroup = [\"echo\", \"/sys/fs/cgroup/two\"]\n";
    std::fs::write(folder.path().join("candidate.toml"), spec).unwrap();
    let candidate = Candidate::read(folder.path()).unwrap();
    let work = tempfile::tempdir().unwrap();
    let data = work.path().join("data");
    let running = RunningCandidate::start(&candidate, &data, work.path(), Path::new("")).await.unwrap();
    let reach = running.reach().clone();
    for worker in 0..2 {
        let address = reach.url_of(worker).strip_prefix("http://").unwrap().to_owned();
        tokio::net::TcpStream::connect(address).await.unwrap();
    }
    assert_eq!(reach.fields().unwrap()[0].1.to_str().unwrap(), "Basic s3cret");
    let record = running.record().await.unwrap();
    let facts: Vec<_> = record.facts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(facts, ["further address", "header Authorization"]);
    assert!(!format!("{record:?} {reach:?}").contains("s3cret"));
    let digests = candidate.digests().unwrap();
    assert_eq!(digests.iter().map(|input| input.name.as_str()).collect::<Vec<_>>(), ["candidate's candidate.toml"]);
    assert_eq!(record.program.sha256.as_ref(), Some(&digests[0].sha256));
    assert_eq!(running.cgroup().await.unwrap().unwrap(), Path::new("/sys/fs/cgroup/two"));
    running.end().await;
    assert!(data.join("stopped").exists());
}

#[test]
fn a_file_that_a_candidate_only_links_has_the_digest_of_what_it_links() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("candidate.toml"), "name = \"odd\"\nstart = [\"true\"]\n").unwrap();
    let file = elsewhere.path().join("server.conf");
    std::fs::write(&file, "one").unwrap();
    std::os::unix::fs::symlink(&file, folder.path().join("server.conf")).unwrap();
    let digests = || Candidate::read(folder.path()).unwrap().digests().unwrap();
    let before = digests();
    let names: Vec<_> = before.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["candidate's candidate.toml", "candidate's server.conf"]);
    std::fs::write(&file, "two").unwrap();
    assert_ne!(digests()[1].sha256, before[1].sha256);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(digests().len(), 1, "a link to nothing is no file");
}

#[test]
fn the_programs_that_are_measured_have_digests_and_a_new_build_has_others() {
    let folder = tempfile::tempdir().unwrap();
    let itself = folder.path().join("penates");
    std::fs::write(&itself, "one").unwrap();
    std::fs::write(folder.path().join("server.jar"), "server").unwrap();
    let digests = |more: &str| -> Vec<(String, String)> {
        std::fs::write(folder.path().join("candidate.toml"), format!("name = \"odd\"\n{more}\n")).unwrap();
        let digests = Candidate::read(folder.path()).unwrap().program_digests(&itself);
        digests.into_iter().map(|input| (input.name, input.sha256)).collect()
    };
    let names = |digests: &[(String, String)]| digests.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let script = "start = [\"sh\", \"${folder}/start.sh\", \"${self}\"]";
    let before = digests(script);
    assert_eq!(names(&before), ["candidate's this program", "candidate's program"]);
    let declared = format!("{script}\nprogram = \"${{folder}}/server.jar\"");
    let of_jar = digests(&declared);
    assert_ne!(of_jar[1], before[1], "not the shell, but what it runs");
    std::fs::write(&itself, "two").unwrap();
    let after = digests(script);
    assert!(after[0] != before[0] && after[1] == before[1]);
    std::fs::write(folder.path().join("server.jar"), "another server").unwrap();
    assert_ne!(digests(&declared)[1], of_jar[1]);
    assert_eq!(names(&digests("start = [\"${self}\", \"serve\"]")), ["candidate's program"]);
    assert!(digests("start = [\"no-such-server\"]").is_empty());
    assert!(digests("start = [\"sh\"]\nprogram = \"${data}/server\"").is_empty(), "it is not there yet");
}
