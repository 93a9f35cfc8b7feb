//! Listeners, TLS, tokens, limits, metrics, logs, pages for people; wires the doors
