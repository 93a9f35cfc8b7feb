//! `lares testbed find`

use clap::Args;
use serde_json::json;
use testbed::find::{Above, Next, PlanSearch, Precision, WhyEnded};
use testbed::runner::Filed;
use testbed::saturation::sentences;

use super::measure::MeasureArgs;
use super::run::word;
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares testbed find`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed find ingest --candidate penates
  lares testbed find ingest.toml --candidate ./fedora --precision 1.05 --confirmations 5")]
pub struct FindArgs {
    /// What is measured. The search begins with the load of the plan.
    #[command(flatten)]
    measure: MeasureArgs,
    /// End when the load that is not held is at most so many times the one that is held: 1.001 or more.
    #[arg(long, value_name = "RATIO", default_value_t = 1.1)]
    precision: f64,
    /// Confirm each end by so many runs: 1 to 100.
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
    let precision = Precision { ratio: args.precision, confirmations: args.confirmations };
    precision.check("--").map_err(|error| CliError::Usage(error.to_string()))?;
    let inputs = args.measure.inputs()?;
    let Some(mut search) = PlanSearch::new(&inputs.plan, precision) else {
        return Err(
            CliError::Usage("a closed loop or a replay has no rate to be found; use another shape".to_owned()).into()
        );
    };
    let mut output = Output::stdout();
    let bracket = loop {
        let factor = match search.next() {
            Next::Try(factor) => factor,
            Next::Found(bracket) => break bracket,
            Next::Ended(why) => return Err(ended(why)),
        };
        let filed = args.measure.measure(&search.inputs(&inputs, factor, args.same_seed)).await?;
        add(&mut search, factor, &filed);
        if args.output.json {
            let (all, judgement) = (&filed.outcome.summary.all, &filed.outcome.judgement);
            output.json(&json!({
                "id": filed.record.id,
                "factor": factor,
                "users_per_s": search.users_per_s(factor),
                "verdict": judgement.verdict,
                "reasons": judgement.reasons,
                "saturated": filed.outcome.saturated,
                "p99_ms": all.response.p99_ms,
            }))?;
        } else {
            output.line(shown(&search, factor, &filed))?;
        }
        output.flush()?;
    };
    let rates = search.rates(bracket);
    if args.output.json {
        output.json(&json!({
            "held_users_per_s": rates.held_users_per_s,
            "not_held_users_per_s": rates.not_held_users_per_s,
            "held_requests_per_s": rates.held_requests_per_s,
            "not_held_requests_per_s": rates.not_held_requests_per_s,
            "above": rates.above,
            "runs": search.runs(),
        }))?;
    } else {
        let (held, not_held) = (rates.held_requests_per_s, rates.not_held_requests_per_s);
        let runs = search.runs();
        let not = match rates.above {
            Above::NotHeld => "not",
            Above::NotMeasured => "could not be measured",
        };
        output.line(format!("\n{held:.1} requests per second held, {not_held:.1} {not} ({runs} runs)"))?;
    }
    output.finish()
}

/// Adds what a run has shown. Returns how many requests were due per second.
pub fn add(search: &mut PlanSearch, factor: f64, filed: &Filed) -> f64 {
    let summary = &filed.outcome.summary;
    let due_per_s = summary.all.due as f64 / summary.duration_s;
    search.add(factor, filed.outcome.judgement.verdict, due_per_s);
    due_per_s
}

/// A line about a run.
pub fn shown(search: &PlanSearch, factor: f64, filed: &Filed) -> String {
    let (all, judgement) = (&filed.outcome.summary.all, &filed.outcome.judgement);
    // The first reason, and what was saturated first, which follows all reasons.
    let saturated = sentences(&filed.outcome.saturated);
    let reasons = judgement.reasons.first().into_iter().chain(saturated.first());
    let reason: String = reasons.map(|reason| format!("  {reason}")).collect();
    let (rate, p99_ms, word) = (search.users_per_s(factor), all.response.p99_ms, word(judgement.verdict));
    format!("{rate:>10.1} users/s  {word:<9}  p99 {p99_ms:>8.2} ms{reason}")
}

fn ended(why: WhyEnded) -> anyhow::Error {
    match why {
        WhyEnded::Void => {
            note!("lares: {why}");
            CliError::Void.into()
        }
        WhyEnded::NothingHeld | WhyEnded::EverythingHeld => anyhow::anyhow!("{why}"),
    }
}
