//! Figures of the original study, for comparison by the reader: the HTRC data service of 2013 on
//! six virtual machines with network storage, Cassandra with two replicas, zlib. They are
//! historical: ratios to them mean nothing. Only the known ones are here; most of the thirty ratios
//! of its Table I are not.

use pack::{Layout, Level};

/// Ratios of its Table I: layouts `pages` and combined, at levels 1 and 9; and of level 0 with
/// layout `pages`, from its overhead of 5.5 %.
///
/// Its combined layout corresponds to our `volumes`: all pages of a volume in one entry.
pub fn ratio(layout: Layout, level: Level) -> Option<f64> {
    match (layout, level) {
        (Layout::Pages, Level::Stored) => Some(1.055),
        (Layout::Pages, Level::Recompressed(1)) => Some(0.58),
        (Layout::Pages, Level::Recompressed(9)) => Some(0.559),
        (Layout::Volumes, Level::Recompressed(1)) => Some(0.452),
        (Layout::Volumes, Level::Recompressed(9)) => Some(0.382),
        _ => None,
    }
}

/// The best rates of its store in MB/s, with 12 to 16 fetch threads of the whole service: cold, and
/// warm.
pub const STORE_RATES: (f64, f64) = (60.0, 180.0);

/// The rates of its server in MB/s over HTTP and over HTTPS, by the distance of the client.
pub const SERVER_RATES: [(&str, f64, f64); 5] = [
    ("on the same machine", 500.0, 70.0),
    ("one hop", 237.0, 54.0),
    ("two hops", 109.0, 52.0),
    ("five hops", 44.0, 27.0),
    ("fifteen hops", 2.7, 2.7),
];
