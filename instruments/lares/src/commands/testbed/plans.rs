//! `lares testbed plans`

use clap::Args;
use serde_json::{Map, Value, json};
use testbed::plan::Plan;
use testbed::{plans, scenario};

use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares testbed plans`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed plans
  lares testbed plans records-90-10")]
pub struct PlansArgs {
    /// The plan to print. Copy it into a file to change it, and its scenarios into files beside it.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Lists the plans, or prints one.
pub fn run(args: &PlansArgs) -> anyhow::Result<()> {
    match &args.name {
        Some(name) => print(name, args.output.json),
        None => list(args.output.json),
    }
}

fn list(is_json: bool) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let plans: Vec<_> = plans::names().filter_map(plans::text).map(Plan::parse).collect::<Result<_, _>>()?;
    if is_json {
        for plan in plans {
            output.json(&json!({ "name": plan.name, "description": plan.description }))?;
        }
        return output.finish();
    }
    let rows: Vec<_> = plans.into_iter().map(|plan| vec![plan.name, plan.description]).collect();
    output.table(&["plan", "what it is for"], &rows)?;
    output.finish()
}

fn print(name: &str, is_json: bool) -> anyhow::Result<()> {
    let text = plans::text(name).ok_or_else(|| {
        let known = plans::names().collect::<Vec<_>>().join(", ");
        CliError::Usage(format!("there is no plan `{name}`, only {known}"))
    })?;
    let shares = Plan::parse(text)?.scenarios;
    let scenarios = shares.iter().filter_map(|of| Some((&of.scenario, scenario::shipped::text(&of.scenario)?)));
    let mut output = Output::stdout();
    if is_json {
        let scenarios: Map<String, Value> = scenarios.map(|(name, text)| (name.clone(), text.into())).collect();
        output.json(&json!({ "plan": text, "scenarios": scenarios }))?;
        return output.finish();
    }
    output.line(format!("# The plan: {name}.toml\n{text}"))?;
    for (scenario, text) in scenarios {
        output.line(format!(
            "# The scenario `{scenario}`. To change it, copy it to a file such as my-{scenario}.toml beside the\n\
             # plan, and name that file in the plan.\n{text}"
        ))?;
    }
    output.finish()
}
