//! Which volumes a command is about: by conditions on their records, which the server compares.

use anyhow::Context;
use clap::Args;
use futures::StreamExt;
use hathi::VolumeId;
use volumes::find::{ConditionError, Conditions};

use crate::client::{Client, ClientError, query_value};
use crate::download::Patience;
use crate::exit::CliError;

/// Conditions on volumes.
#[derive(Clone, Debug, Default, Args)]
pub struct WhereArgs {
    /// The volumes that satisfy conditions: `FIELD OP VALUE`, joined by `and`. Texts (id, title,
    /// author, language, rights) have =, != and ~ (contains); numbers (year, pages, bytes) have =,
    /// !=, <, <=, > and >=. Values with spaces need quotes.
    #[arg(long = "where", value_name = "CONDITIONS")]
    where_text: Option<String>,
}

impl WhereArgs {
    /// The conditions as they were written.
    pub fn text(&self) -> Option<&str> {
        self.where_text.as_deref()
    }

    /// Checks them. The error points at the column.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(text) = self.text() else { return Ok(()) };
        let pointing = |error: ConditionError| {
            let space = " ".repeat(error.column - 1);
            CliError::Usage(format!("--where: {error}\n  {text}\n  {space}^"))
        };
        Ok(text.parse::<Conditions>().map(drop).map_err(pointing)?)
    }

    /// The ids of the volumes that satisfy them. It retries on a busy server.
    pub async fn volumes(&self, client: &Client, patience: Patience) -> anyhow::Result<Vec<VolumeId>> {
        let address = list_address(self.text(), []);
        let lines = patience.retried(|| lines(client, &address, patience)).await?;
        let ids: Result<Vec<_>, _> = lines.iter().map(|line| VolumeId::parse(line)).collect();
        let ids = ids.context("reading the list of volumes")?;
        match ids.is_empty() {
            true => Err(anyhow::anyhow!("no volume satisfies the conditions")),
            false => Ok(ids),
        }
    }
}

/// The lines of a list.
async fn lines(client: &Client, address: &str, patience: Patience) -> Result<Vec<String>, ClientError> {
    let mut lines = std::pin::pin!(patience.with(client.get_lines(address, "text/plain")).await?);
    let mut all = Vec::new();
    while let Some(line) = patience.with(async { lines.next().await.transpose() }).await? {
        all.push(line);
    }
    Ok(all)
}

/// The address of the list of volumes with conditions and further parameters.
pub fn list_address<const N: usize>(conditions: Option<&str>, more: [(&str, Option<String>); N]) -> String {
    let conditions = conditions.map(|text| format!("where={}", query_value(text)));
    let more = more.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", query_value(&value?))));
    let parameters: Vec<String> = conditions.into_iter().chain(more).collect();
    match parameters.is_empty() {
        true => "/volumes/".to_owned(),
        false => format!("/volumes/?{}", parameters.join("&")),
    }
}
