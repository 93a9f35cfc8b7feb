//! `lares testbed cassandra`

use std::net::SocketAddr;

use anyhow::Context;
use clap::Args;
use lab::node::InForce;

use terminal::output::Output;

/// Settings with this in their names are secrets.
const SECRET: &str = "password";

/// Arguments of `lares testbed cassandra`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares testbed cassandra 127.0.1.1:9042")]
pub struct CassandraArgs {
    /// The address at which the node speaks CQL, without a password and without TLS.
    #[arg(value_name = "ADDRESS")]
    node: SocketAddr,
}

/// Asks the node, and prints what it says.
pub async fn run(args: CassandraArgs) -> anyhow::Result<()> {
    let asked = lab::node::in_force(args.node).await;
    let asked = asked.with_context(|| format!("asking the node at {}", args.node))?;
    let mut output = Output::stdout();
    lines(&asked).try_for_each(|line| output.line(line))?;
    output.finish()
}

/// A line for each version and each setting. Passwords are hidden.
fn lines(in_force: &InForce) -> impl Iterator<Item = String> {
    in_force.versions.iter().chain(&in_force.settings).map(|(name, value)| {
        let value = if name.contains(SECRET) { "(hidden)" } else { value.as_str() };
        format!("{name} = {value}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_before_settings_and_passwords_are_hidden() {
        let named = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let in_force = InForce {
            versions: [("cassandra", "5.0.6"), ("java", "17.0.9")].map(named).into(),
            settings: [("a_setting", "50ms"), ("client_encryption_options.keystore_password", "x")].map(named).into(),
        };
        let hidden = "client_encryption_options.keystore_password = (hidden)";
        let wanted = ["cassandra = 5.0.6", "java = 17.0.9", "a_setting = 50ms", hidden];
        assert_eq!(lines(&in_force).collect::<Vec<_>>(), wanted);
    }
}
