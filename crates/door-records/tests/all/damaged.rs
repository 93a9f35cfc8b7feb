//! Damaged records, which are never served as data.

use budget::Memory;
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use store::Table;
use store::faults::{Damage, Faults, Harm};

use crate::support::{Subject, http as over_http, settings};

#[tokio::test]
async fn a_damaged_record_is_refused_and_counted_and_hides_no_others() {
    let (subject, faults) = Subject::wrapped(Faults::new, Memory::new(64 << 20), settings()).await;
    let mut connection = subject.connect();
    for (id, text) in [("a", "1"), ("b", "2")] {
        assert_eq!(connection.ask(&["SET", id, text]).await.text(), "OK");
    }
    let (partition, harm) = (Bytes::from_static(b"a"), Harm::FlippedBit);
    faults.damage(Damage { table: Table::Records, partition, sort: None, harm, strong_reads_are_whole: false });
    assert_eq!(subject.damage_found(), 0, "nobody has asked for it");

    let refused = connection.ask(&["GET", "a"]).await.text();
    assert!(refused.starts_with("DAMAGED "), "{refused}");
    assert_eq!(subject.damage_found(), 1);
    // Commands that are run as one, too.
    let answers = connection.ask_all(&[&["GET", "a"], &["GET", "b"]]).await;
    assert!(answers[0].text().starts_with("DAMAGED "), "{answers:?}");
    assert_eq!(answers[1].text(), "2");
    assert_eq!(subject.damage_found(), 2);
    let changed = connection.ask(&["APPEND", "a", "2"]).await.text();
    assert!(changed.starts_with("DAMAGED "), "{changed}");

    let router = subject.router();
    let problem = over_http::get(&router, "/records/a").await;
    assert_eq!((problem.status, &problem.json()["kind"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("damaged")));
    assert_eq!(over_http::get(&router, "/records/b").await.status, StatusCode::OK);
    assert_eq!(subject.damage_found(), 4);
}
