//! `penates fixity copies`

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use serde_json::json;
use store::Table;
use store_cassandra::{CassandraStore, Compared, Comparing, CopyFault, OnCompared, WrongCopy};

use crate::cli::{OutputArgs, Rate, StoreArgs, table};
use crate::exit::CliError;
use crate::local;
use crate::output::{Output, human_bytes};
use crate::progress;

/// Arguments of `penates fixity copies`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates fixity copies --store cassandra://node1/books
  penates fixity copies --store cassandra://node1/books --table packs --table contents
  penates fixity copies --store cassandra://node1/books --json > wrong.jsonl")]
pub struct CopiesArgs {
    /// A table to compare; may be repeated [default: all of them]
    #[arg(long = "table", value_name = "NAME", value_parser = table())]
    tables: Vec<Table>,
    /// Read at most so much per second, of all copies together.
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    rate: Rate,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub async fn run(args: CopiesArgs) -> anyhow::Result<()> {
    let options = local::cassandra_options(&args.store, "has several copies")?;
    let comparing = Comparing { tables: args.tables, bytes_per_second: args.rate.0.get() };
    let printer = Printer {
        output: Mutex::new(Output::stdout()),
        failed: Mutex::default(),
        form: args.output,
        bar: progress::ranges(),
        wrong: AtomicU64::default(),
        last: Mutex::default(),
    };
    let compared = CassandraStore::compare_copies(&options, &comparing, &printer).await;
    printer.bar.finish_and_clear();
    let Printer { output, failed, wrong, last, .. } = printer;
    output.into_inner().finish()?;
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let Compared { rows, bytes, unexamined, .. } = last.into_inner();
    let wrong = wrong.into_inner();
    note!("{rows} rows were compared ({} of all copies); wrong copies: {wrong}", human_bytes(bytes));
    if unexamined > 0 {
        note!("{unexamined} more rows differ: compare again once those above are repaired");
    }
    compared.map_err(local::cannot_open)?;
    if wrong + unexamined > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// Prints each wrong copy when it is found.
struct Printer {
    output: Mutex<Output>,
    /// Why something could not be printed.
    failed: Mutex<Option<anyhow::Error>>,
    form: OutputArgs,
    bar: ProgressBar,
    wrong: AtomicU64,
    /// How far comparing has come.
    last: Mutex<Compared>,
}

impl OnCompared for Printer {
    fn progress(&self, compared: Compared) -> ControlFlow<()> {
        self.bar.set_length(compared.ranges_in_all);
        self.bar.set_position(compared.ranges);
        *self.last.lock() = compared;
        match *self.failed.lock() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn found(&self, wrong: WrongCopy) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        let printed = self.bar.suspend(|| print(&mut self.output.lock(), &wrong, self.form));
        if let Err(error) = printed {
            self.failed.lock().get_or_insert(error);
        }
    }
}

fn print(output: &mut Output, wrong: &WrongCopy, form: OutputArgs) -> anyhow::Result<()> {
    let WrongCopy { node, table, partition, sort, chunk, fault } = wrong;
    let (name, detail) = match fault {
        CopyFault::Damaged => ("damaged", ""),
        CopyFault::Conflict => ("conflict", ""),
        CopyFault::Outdated => ("outdated", ""),
        CopyFault::Missing => ("missing", ""),
        CopyFault::Unreadable(why) => ("unreadable", why.as_str()),
        CopyFault::Unanswered(why) => ("unanswered", why.as_str()),
    };
    let (partition, sort) = (partition.escape_ascii().to_string(), sort.escape_ascii().to_string());
    if form.json {
        let node = node.to_string();
        output.json(&json!({
            "node": node,
            "fault": name,
            "table": table,
            "partition": partition,
            "sort": sort,
            "chunk": chunk,
            "detail": detail,
        }))?;
    } else {
        let chunk = chunk.to_string();
        let sort = if table == "content_chunks" { &chunk } else { &sort };
        let parts = [name, "at", &format!("{node}:"), table, &partition, sort, detail];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        output.line(said.join(" "))?;
    }
    output.flush()
}
