//! `lares cluster up --detach`: a process in the background that runs the cluster.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use cluster::NodeStatus;

use super::print_nodes;
use super::up::{UpArgs, what_to_try};
use terminal::exit::CliError;
use terminal::interrupt;

/// The file in the cluster's folder with the messages of the background process.
const LOG: &str = "up.log";

/// Starts the process, and waits until all nodes are up or it ends.
pub async fn run(args: &UpArgs) -> anyhow::Result<()> {
    let folder = &args.folder.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
    let log = folder.join(LOG);
    let output = File::create(&log).with_context(|| format!("making {}", log.display()))?;
    let itself = std::env::current_exe().context("finding the program")?;
    let mut process = Command::new(itself)
        .args(std::env::args_os().skip(1))
        .arg("--is-detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output)
        .spawn()
        .context("starting the process in the background")?;
    let stdout = process.stdout.take().context("the process in the background has no output")?;
    let reading = tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next().transpose());
    let line = tokio::select! {
        line = reading => line??,
        () = interrupt::asked_to_end()? => {
            end(&mut process);
            return Err(CliError::Interrupted.into());
        }
    };
    let Some(line) = line else {
        let status = process.wait().context("waiting for the process in the background")?;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        anyhow::bail!("the cluster did not start ({status}); {} says:\n{said}", log.display());
    };
    let nodes: Vec<NodeStatus> =
        serde_json::from_str(&line).context("reading what the process in the background says")?;
    if args.output.json {
        return print_nodes(&nodes, args.output);
    }
    what_to_try(args, &nodes, &format!("It runs until: lares cluster down --folder {}", folder.display()))
}

/// Ends the process; the nodes end with it.
fn end(process: &mut Child) {
    // It may have ended by itself.
    let _ = process.kill();
    let _ = process.wait();
}

/// Reports to the process that started this one in the background that all nodes are up.
pub fn report(nodes: &[NodeStatus]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, nodes)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}
