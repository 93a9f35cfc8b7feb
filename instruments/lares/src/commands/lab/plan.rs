//! `lares lab plan`

use clap::Args;
use lab::design::Design;
use lab::estimate;
use lab::execute;
use lab::schedule;
use serde_json::json;

use super::WhichArgs;
use terminal::OutputArgs;
use terminal::output::Output;

/// Arguments of `lares lab plan`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares lab plan thesis --scale 0.01 --repeats 3
  lares lab plan compaction.toml --toml")]
pub struct PlanArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Print the plan itself, for copying.
    #[arg(long)]
    toml: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints it.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let plan = args.which.plan()?;
    let mut output = Output::stdout();
    if args.toml {
        output.line(plan.to_toml()?.trim_end())?;
        return output.finish();
    }
    let runs = schedule::first_stage(&plan);
    let time = execute::time(&plan, runs.iter(), &[]);
    if args.output.json {
        for run in &runs {
            output.json(&json!(run))?;
        }
        return output.finish();
    }
    let headings = ["run", "block", "workload", "setting"];
    let row = |run: &schedule::Planned| {
        let control = if run.is_control { " (control)" } else { "" };
        vec![run.number.to_string(), run.block.to_string(), run.workload.clone(), format!("{}{control}", run.setting)]
    };
    output.table(&headings, &runs.iter().map(row).collect::<Vec<_>>())?;
    let settings = plan.design.settings(&plan.factors, plan.seed).len();
    let restarts = schedule::restarts(&plan, &runs);
    output.line(format!(
        "\n{} design: {settings} settings, {} workloads, {} blocks; {} runs with {restarts} starts of the node; \
         about {}",
        plan.design.name(),
        plan.workloads.len(),
        plan.repeats,
        runs.len(),
        humantime::format_duration(std::time::Duration::from_secs(time.as_secs())),
    ))?;
    if plan.design.has_union() {
        output.line("Then the best values of all factors together, beside the default.")?;
    }
    if let Design::Bayesian { batch, budget, .. } = &plan.design {
        output.line(format!(
            "Then rounds of {batch} settings that are expected to be better, beside the default, until {} have passed.",
            humantime::format_duration(*budget)
        ))?;
    }
    if plan.confirm > 0 {
        output.line(format!("Then {} fresh runs of what is best, each beside the default.", plan.confirm))?;
    }
    let later = schedule::later_stages(&plan);
    if !later.is_empty() {
        let time = execute::time(&plan, later.iter(), &[]);
        let time = humantime::format_duration(std::time::Duration::from_secs(time.as_secs()));
        let these = if matches!(plan.design, Design::Bayesian { .. }) { "The last are" } else { "These are" };
        output.line(format!("{these} at most {} runs, about {time} more.", later.len()))?;
    }
    if !plan.description.is_empty() {
        output.line(format!("\n{}", plan.description))?;
    }
    for note in estimate::notes_here(&plan) {
        output.line(format!("\nNote: {note}"))?;
    }
    output.finish()
}
