//! Figures of the study that is remade here, for reading beside ours: the HTRC data service of 2013 on six virtual machines with
//! network storage, Cassandra with two replicas, zlib. They are history, not something to make ratios of. Only those are here that we
//! know; of the thirty ratios of its Table I, the others are not.

use pack::{Layout, Level};

/// Ratios of its Table I: pages apart and combined, at levels 1 and 9; and of level 0 with pages apart, from the 5.5 % that it costs.
///
/// What it calls combined stands beside our volumes: all pages of a volume in one entry.
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

/// MB/s out of its store at best, with 12 to 16 fetch threads of the whole service: cold, and warm.
pub const STORE_RATES: (f64, f64) = (60.0, 180.0);

/// MB/s of its server over HTTP and over HTTPS, by how far away the client was.
pub const SERVER_RATES: [(&str, f64, f64); 5] = [
    ("on the same machine", 500.0, 70.0),
    ("one hop", 237.0, 54.0),
    ("two hops", 109.0, 52.0),
    ("five hops", 44.0, 27.0),
    ("fifteen hops", 2.7, 2.7),
];
