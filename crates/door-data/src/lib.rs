//! The data door: the HTRC Data API and what lies beyond it, over HTTP
