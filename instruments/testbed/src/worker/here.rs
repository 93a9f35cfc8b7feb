//! A load without a coordinator: the thread of the caller is its only worker. Benchmarks use it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::task::{LocalSet, spawn_local};

use super::{Prepared, WorkerError, runtime};
use crate::inputs::Inputs;
use crate::plan::Plan;
use crate::reach::Reach;
use crate::scenario::Scenario;
use crate::tally::{self, Measured, Window};
use crate::wire::Job;

/// Makes the load of a plan at once, as one worker, and counts it. The second value is the time
/// from the beginning of the load until its last user is done. A fill of the plan is left out.
///
/// # Errors
/// The plan or the address is wrong, its load is an access log, the operating system refuses
/// something, or the events cannot be written or counted. What the candidate does is no error.
pub fn measure(inputs: &Inputs, reach: &Reach) -> Result<(Measured, Duration), WorkerError> {
    let plan = Plan { workers: 1, fill: None, ..inputs.plan.clone() };
    let job = Job {
        plan: plan.to_toml(),
        scenarios: inputs.scenarios.clone(),
        files: inputs.files.clone(),
        fill: None,
        reach: reach.clone(),
        worker: 0,
    };
    let prepared = Prepared::new(job)?;
    let (started_at, runtime) = (Timestamp::now(), runtime()?);
    let took = LocalSet::new().block_on(&runtime, prepared.make())?;
    let names = prepared.scenarios.iter().map(Scenario::names).collect();
    let window = Window::of(&plan, started_at, None);
    Ok((tally::count(&[prepared.events()], &names, window, &[], &mut std::io::sink())?, took))
}

impl Prepared {
    /// Makes the load, with its events in a file. Returns how long it took.
    async fn make(&self) -> Result<Duration, WorkerError> {
        let begin = Instant::now();
        let generator = self.generator(begin)?;
        let shared = generator.shared.clone();
        spawn_local(generator.run()).await.map_err(std::io::Error::other)??;
        let took = begin.elapsed();
        shared.log.finish().await?;
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;
    use std::path::PathBuf;

    use super::*;
    use crate::inputs::Files;

    #[test]
    fn what_is_due_counts_even_if_it_is_never_sent() {
        // It accepts connections, and answers nothing.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = "name = \"here\"\nscenarios = [{ scenario = \"own.toml\" }]\n\
                    load = { shape = \"constant\", rate = 500, duration = \"20ms\" }\n\
                    connections = { timeout = \"100ms\", users_max = 1 }\n";
        let step = "[[steps]]\nname = \"get\"\npath = \"/\"\n";
        let inputs = Inputs {
            plan: Plan::parse(plan).unwrap(),
            scenarios: vec![("own.toml".to_owned(), step.to_owned())],
            fill: None,
            files: Files::default(),
            folder: PathBuf::new(),
            log: None,
        };
        let reach = Reach::at(&format!("http://{}", listener.local_addr().unwrap()));
        let (measured, took) = measure(&inputs, &reach).unwrap();
        let all = &measured.summary.all;
        assert_eq!((all.due, all.done, all.failed + all.dropped), (10, 0, 10));
        assert!(all.failed >= 1 && took >= Duration::from_millis(100), "{all:?}, {took:?}");
    }
}
