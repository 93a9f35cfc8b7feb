//! `lares testbed run`

use clap::Args;
use testbed::results::{Tally, Times, Verdict};
use testbed::runner::Filed;

use super::measure::MeasureArgs;
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares testbed run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed run ingest --candidate penates
  lares testbed run records-90-10 --url redis://127.0.0.1:6379 --untraceable
  lares testbed run read.toml --url http://127.0.0.1:8080 --untraceable
  lares testbed run ingest.toml --candidate ./fedora --workers 16 --data /mnt/disk/run")]
pub struct RunArgs {
    /// What is measured.
    #[command(flatten)]
    measure: MeasureArgs,
    /// The load of the plan times this.
    #[arg(long, value_name = "FACTOR")]
    times: Option<f64>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Makes the run, and prints what it showed.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let mut inputs = args.measure.inputs()?;
    if let Some(factor) = args.times {
        inputs.plan.load = inputs.plan.load.scaled(factor);
    }
    let filed = args.measure.measure(&inputs).await?;
    show(&filed, args.output)?;
    Ok(ended(filed.outcome.judgement.verdict)?)
}

/// How the command ends.
fn ended(verdict: Verdict) -> Result<(), CliError> {
    match verdict {
        Verdict::Held => Ok(()),
        Verdict::Void => Err(CliError::Void),
        Verdict::Degrading | Verdict::Failed => Err(CliError::Incomplete),
    }
}

/// Prints what a run showed.
fn show(filed: &Filed, form: OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let Filed { folder, record, outcome } = filed;
    if form.json {
        output.json(&serde_json::json!({
            "id": record.id,
            "folder": folder,
            "judgement": outcome.judgement,
            "summary": outcome.summary,
            "saturated": outcome.saturated,
            "log": outcome.log,
            "logs_elsewhere": outcome.logs_elsewhere,
        }))?;
        return output.finish();
    }
    let steps = outcome.summary.steps.iter().map(|step| row(format!("{}/{}", step.scenario, step.step), &step.tally));
    let rows: Vec<_> = steps.chain(std::iter::once(row("all".to_owned(), &outcome.summary.all))).collect();
    let counts = ["step", "due", "done", "conflicts", "refused", "failed"];
    let times = ["mean ms", "p50", "p90", "p99", "p99.9", "max"];
    output.table(&[&counts[..], &times[..]].concat(), &rows)?;
    let rate = outcome.summary.done_per_s;
    output.line(format!("\nVerdict: {} ({rate:.1} requests per second)", word(outcome.judgement.verdict)))?;
    if let (Some(costs), Some((of_request, of_gigabyte))) = (outcome.summary.costs, outcome.summary.cpu_ms()) {
        let (received, memory) = (outcome.summary.received_bytes_per_s() / 1e6, costs.memory_peak_bytes / 1e6);
        output.line(format!(
            "Received: {received:.1} MB/s. The candidate took {of_request:.3} ms of processor time a request, \
             {of_gigabyte:.0} ms a GB, and {memory:.0} MB of memory at most."
        ))?;
    }
    outcome.judgement.reasons.iter().try_for_each(|reason| output.line(format!("- {reason}")))?;
    for log in outcome.logs().filter(|log| !log.lines.is_empty()) {
        let source = log.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
        output.line(format!("\nWhat the candidate printed around the first error, at {:.3} s{source}:", log.at_s))?;
        log.lines.iter().try_for_each(|line| output.line(format!("    {line}")))?;
        output.line("")?;
    }
    for (name, fact) in record.beside.facts() {
        output.line(format!("{name}: {fact}"))?;
    }
    if !record.missing.is_empty() {
        output.line(format!("Untraceable: it is not known {}.", record.missing.join(", ")))?;
    }
    output.line(format!("Run: {}", folder.display()))?;
    output.line(format!("Report: {}", folder.join("data/report.html").display()))?;
    output.finish()
}

fn row(name: String, tally: &Tally) -> Vec<String> {
    let counts = [tally.due, tally.done, tally.conflicts, tally.refused, tally.failed + tally.dropped];
    let counts = counts.map(|count| count.to_string());
    let Times { mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, max_ms, .. } = tally.response;
    let times = [mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, max_ms].map(|ms| format!("{ms:.2}"));
    std::iter::once(name).chain(counts).chain(times).collect()
}

/// A verdict as people read it.
pub fn word(verdict: Verdict) -> String {
    format!("{verdict:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use terminal::exit::report;

    #[test]
    fn the_exit_code_is_that_of_the_verdict() {
        let code = |verdict| ended(verdict).map_or_else(|error| report("lares", &error.into(), None), |()| Some(0));
        let all = [(Verdict::Held, 0), (Verdict::Degrading, 1), (Verdict::Failed, 1), (Verdict::Void, 4)];
        for (verdict, wanted) in all {
            assert_eq!(code(verdict), Some(wanted), "{verdict:?}");
        }
    }
}
