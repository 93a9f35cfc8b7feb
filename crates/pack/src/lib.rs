//! Page frames and ZIP layouts as pure functions and streams: no store, no HTTP
