//! The behaviour suite against a real Cassandra node.
