//! Writes out all rows of a keyspace, and loads them into another cluster.

use std::net::SocketAddr;

use futures::StreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

/// All rows of a keyspace, each with its table, as Cassandra shows them in JSON.
pub async fn dump(node: SocketAddr, keyspace: &str) -> Vec<(String, String)> {
    let session = session(node).await;
    let tables = format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    let tables = session.query_unpaged(tables, ()).await.unwrap().into_rows_result().unwrap();
    let mut all = Vec::new();
    for table in tables.rows::<(String,)>().unwrap() {
        let (table,) = table.unwrap();
        let rows = session.query_iter(format!("SELECT JSON * FROM {keyspace}.{table}"), ()).await.unwrap();
        let mut rows = std::pin::pin!(rows.rows_stream::<(String,)>().unwrap());
        while let Some(row) = rows.next().await {
            all.push((table.clone(), row.unwrap().0));
        }
    }
    all
}

/// Makes a keyspace by the statements of `schema`, which are separated by `;` and line ends, and
/// writes rows into it.
pub async fn load(node: SocketAddr, keyspace: &str, schema: &str, rows: Vec<(String, String)>) {
    let session = session(node).await;
    for statement in schema.split(";\n").filter(|statement| !statement.trim().is_empty()) {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    for (table, row) in rows {
        session.query_unpaged(format!("INSERT INTO {keyspace}.{table} JSON ?"), (row,)).await.unwrap();
    }
}

async fn session(node: SocketAddr) -> Session {
    SessionBuilder::new().known_node_addr(node).build().await.unwrap()
}
