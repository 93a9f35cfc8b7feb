//! Damages contents with CQL, without the engine. Each content must be small enough for one part.

use bytes::Bytes;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use store::ContentId;

use crate::options::CassandraOptions;

/// Bytes of each chunk but the last.
const CHUNK_BYTES: u64 = 128 << 10;

/// The bytes before those of a chunk.
const SEAL_BYTES: u64 = store::envelope::OVERHEAD as u64;

/// Flips one bit of a byte of a content. A second time, the content is as it was.
pub async fn flip_bit(options: &CassandraOptions, id: ContentId, at: u64) {
    let session = session(options).await;
    let (number, chunk) = chunks_of(options, &session, id).await.swap_remove((at / CHUNK_BYTES) as usize);
    let mut chunk = chunk.to_vec();
    chunk[(at % CHUNK_BYTES + SEAL_BYTES) as usize] ^= 0x10;
    put_chunk(options, &session, id, number, &chunk).await;
}

/// Sets one bit of a byte of a content. As on a damaged disk, the write time stays.
pub async fn set_bit_unnoticed(options: &CassandraOptions, id: ContentId, at: u64) {
    let session = session(options).await;
    let (number, chunk) = chunks_of(options, &session, id).await.swap_remove((at / CHUNK_BYTES) as usize);
    let mut chunk = chunk.to_vec();
    let byte = &mut chunk[(at % CHUNK_BYTES + SEAL_BYTES) as usize];
    // Of two values of one write time the greater one stays.
    assert_ne!(*byte, u8::MAX, "no bit of it can be set");
    *byte |= *byte + 1;
    let of_chunk = format!("content = {} AND part = 0 AND number = {number}", hex(&id.0));
    let time = format!("SELECT WRITETIME(chunk) FROM {} WHERE {of_chunk}", chunks(options));
    let time = session.query_unpaged(time, ()).await.unwrap().into_rows_result().unwrap();
    let (time_us,) = time.first_row::<(i64,)>().unwrap();
    let (table, chunk) = (chunks(options), hex(&chunk));
    let put = format!("UPDATE {table} USING TIMESTAMP {time_us} SET chunk = {chunk} WHERE {of_chunk}");
    session.query_unpaged(put, ()).await.unwrap();
}

/// Deletes the bytes of a content, but not its header.
pub async fn lose_bytes(options: &CassandraOptions, id: ContentId) {
    let remove = format!("DELETE FROM {} WHERE content = {} AND part = 0", chunks(options), hex(&id.0));
    session(options).await.query_unpaged(remove, ()).await.unwrap();
}

/// Exchanges the bytes of two contents.
pub async fn exchange(options: &CassandraOptions, one: ContentId, other: ContentId) {
    let session = session(options).await;
    let of_one = chunks_of(options, &session, one).await;
    let of_other = chunks_of(options, &session, other).await;
    for (id, chunks) in [(one, of_other), (other, of_one)] {
        for (number, chunk) in chunks {
            put_chunk(options, &session, id, number, &chunk).await;
        }
    }
}

async fn session(options: &CassandraOptions) -> Session {
    // Nodes that are down need not take part.
    let one = ExecutionProfile::builder().consistency(Consistency::One).build().into_handle();
    let builder = SessionBuilder::new().known_node(options.address.hosts()[0].clone());
    builder.default_execution_profile_handle(one).build().await.unwrap()
}

fn chunks(options: &CassandraOptions) -> String {
    format!("{}.content_chunks", options.address.keyspace())
}

async fn chunks_of(options: &CassandraOptions, session: &Session, id: ContentId) -> Vec<(i32, Bytes)> {
    let all = format!("SELECT number, chunk FROM {} WHERE content = {} AND part = 0", chunks(options), hex(&id.0));
    let rows = session.query_unpaged(all, ()).await.unwrap().into_rows_result().unwrap();
    rows.rows::<(i32, Bytes)>().unwrap().map(Result::unwrap).collect()
}

/// Bytes as a literal of CQL.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

async fn put_chunk(options: &CassandraOptions, session: &Session, id: ContentId, number: i32, chunk: &[u8]) {
    // With values in the text, because the node forgets prepared statements when another test drops
    // its keyspace.
    let (table, id, chunk) = (chunks(options), hex(&id.0), hex(chunk));
    let put = format!("UPDATE {table} SET chunk = {chunk} WHERE content = {id} AND part = 0 AND number = {number}");
    session.query_unpaged(put, ()).await.unwrap();
}
