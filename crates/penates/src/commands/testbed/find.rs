//! `penates testbed find`

use clap::Args;
use serde_json::json;
use testbed::find::{Bracket, Next, Precision, Search, WhyEnded};
use testbed::inputs::Inputs;
use testbed::results::Verdict;

use super::measure::MeasureArgs;
use super::run::word;
use crate::cli::OutputArgs;
use crate::exit::CliError;
use crate::output::Output;

/// Arguments of `penates testbed find`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates testbed find ingest --candidate penates
  penates testbed find ingest.toml --candidate ./fedora --precision 1.05 --confirmations 5")]
pub struct FindArgs {
    /// What is measured. The search begins with the load of the plan.
    #[command(flatten)]
    measure: MeasureArgs,
    /// End when the load that is not held is at most so many times the one that is held.
    #[arg(long, value_name = "RATIO", default_value_t = 1.1)]
    precision: f64,
    /// Confirm each end by so many runs.
    #[arg(long, value_name = "N", default_value_t = 3)]
    confirmations: usize,
    /// Use the seed of the plan for each run, for a load that reads what a run with this seed has
    /// written. Otherwise each run has a seed of its own, because what it creates must not be there.
    #[arg(long)]
    same_seed: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Searches, and prints the bracket.
pub async fn run(args: FindArgs) -> anyhow::Result<()> {
    if !args.precision.is_finite() || args.precision <= 1.0 {
        return Err(CliError::Usage("--precision is a ratio above 1, for example 1.1".to_owned()).into());
    }
    let inputs = args.measure.inputs()?;
    let users = inputs.plan.load.mean_rate(inputs.plan.workers);
    let Some(users) = users else {
        return Err(CliError::Usage("a closed loop has no rate to be found; use another shape".to_owned()).into());
    };
    let mut search = Search::new(Precision { ratio: args.precision, confirmations: args.confirmations });
    let mut output = Output::stdout();
    let mut requests_per_user = 1.0;
    let bracket = loop {
        let factor = match search.next() {
            Next::Try(factor) => factor,
            Next::Found(bracket) => break bracket,
            Next::Ended(why) => return Err(ended(why)),
        };
        let seed = if args.same_seed { 0 } else { search.trials().len() as u64 };
        let trial = trial_inputs(&inputs, factor, seed);
        let filed = args.measure.measure(&trial).await?;
        let (all, judgement) = (&filed.outcome.summary.all, &filed.outcome.judgement);
        if judgement.verdict == Verdict::Held {
            requests_per_user = all.due as f64 / filed.outcome.summary.duration_s / (users * factor);
        }
        search.add(factor, judgement.verdict);
        if args.output.json {
            output.json(&json!({
                "id": filed.record.id,
                "factor": factor,
                "users_per_s": users * factor,
                "verdict": judgement.verdict,
                "reasons": judgement.reasons,
                "p99_ms": all.response.p99_ms,
            }))?;
        } else {
            let reason = judgement.reasons.first().map(|reason| format!("  {reason}")).unwrap_or_default();
            let (rate, p99_ms, word) = (users * factor, all.response.p99_ms, word(judgement.verdict));
            output.line(format!("{rate:>10.1} users/s  {word:<9}  p99 {p99_ms:>8.2} ms{reason}"))?;
        }
        output.flush()?;
    };
    let Bracket { held, not_held } = bracket;
    if args.output.json {
        output.json(&json!({
            "held_users_per_s": users * held,
            "not_held_users_per_s": users * not_held,
            "held_requests_per_s": users * held * requests_per_user,
            "not_held_requests_per_s": users * not_held * requests_per_user,
            "runs": search.trials().len(),
        }))?;
    } else {
        let [held, not_held] = [held, not_held].map(|end| users * end * requests_per_user);
        let runs = search.trials().len();
        output.line(format!("\n{held:.1} requests per second held, {not_held:.1} not ({runs} runs)"))?;
    }
    output.finish()
}

/// The inputs of a run of the search, with a seed that is so far from the plan's.
fn trial_inputs(inputs: &Inputs, factor: f64, seed: u64) -> Inputs {
    let mut trial = inputs.clone();
    trial.plan.load = inputs.plan.load.scaled(factor);
    trial.plan.seed = inputs.plan.seed + seed;
    trial
}

fn ended(why: WhyEnded) -> anyhow::Error {
    match why {
        WhyEnded::Void => {
            eprintln!("penates: runs are void again and again; the last run's report says why");
            CliError::Void.into()
        }
        WhyEnded::NothingHeld => anyhow::anyhow!("not even a small part of the plan's load is held"),
        WhyEnded::EverythingHeld => anyhow::anyhow!("many times the plan's load is still held: begin with more"),
    }
}
