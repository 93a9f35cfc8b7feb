//! Commands on texts.

use bytes::Bytes;
use records::{Draft, Record, RecordError, integer};
use store::UnixMillis;

use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::words::{ExpiryWord, TimeUnit, Words};

fn stored(draft: &Draft) -> CommandResult<Option<Bytes>> {
    Ok(draft.record().map(Record::as_text).transpose()?.cloned())
}

/// Replaces the text and keeps the expiry.
fn replace(draft: &mut Draft, value: Bytes) {
    let expires_at = draft.record().and_then(|record| record.expires_at);
    draft.put(Record { expires_at, ..Record::text(value) });
}

pub(super) fn get(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    Ok(Reply::bytes_or_nothing(stored(draft)?))
}

/// `MGET` has nothing where there is no text.
pub(super) fn get_if_text(draft: &mut Draft, _words: Words<'_>) -> CommandResult<Reply> {
    Ok(Reply::bytes_or_nothing(stored(draft).ok().flatten()))
}

/// What `SET` sets, and on which conditions.
pub(super) struct SetText {
    pub(super) value: Bytes,
    pub(super) only_absent: bool,
    pub(super) only_present: bool,
    pub(super) gets: bool,
    pub(super) keeps: bool,
    pub(super) at: Option<UnixMillis>,
}

impl SetText {
    pub(super) fn take(mut words: Words<'_>, now: UnixMillis) -> CommandResult<Self> {
        let value = words.next()?.clone();
        let (mut only_absent, mut only_present, mut gets) = (false, false, false);
        let (mut keeps, mut expiry) = (false, None);
        while !words.is_empty() {
            if !only_present && words.takes("NX") {
                only_absent = true;
            } else if !only_absent && words.takes("XX") {
                only_present = true;
            } else if words.takes("GET") {
                gets = true;
            } else if expiry.is_none() && words.takes("KEEPTTL") {
                keeps = true;
            } else if !keeps && let Some(time) = words.expiry(expiry)? {
                expiry = Some(time);
            } else {
                return Err(Refusal::syntax());
            }
        }
        let at = expiry.map(|time| time.moment(now)).transpose()?;
        Ok(Self { value, only_absent, only_present, gets, keeps, at })
    }
}

pub(super) fn set(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    let SetText { value, only_absent, only_present, gets, keeps, at } = SetText::take(words, draft.now)?;
    let before = if gets { Some(stored(draft)?) } else { None };
    let is_wanted = if draft.record().is_some() { !only_absent } else { !only_present };
    if is_wanted {
        let kept = draft.record().and_then(|record| record.expires_at).filter(|_| keeps);
        draft.put(Record { expires_at: at.or(kept), ..Record::text(value) });
    }
    Ok(match before {
        Some(before) => Reply::bytes_or_nothing(before),
        None if is_wanted => Reply::OK,
        None => Reply::Nothing,
    })
}

/// The text of `SETEX` or `PSETEX`: the time until it expires, and the value.
pub(super) fn expiring(mut words: Words<'_>, unit: TimeUnit, now: UnixMillis) -> CommandResult<Record> {
    let (time, value) = (words.time(ExpiryWord::In(unit))?, words.next()?.clone());
    let expires_at = Some(time.moment(now)?);
    Ok(Record { expires_at, ..Record::text(value) })
}

pub(super) fn set_for_seconds(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    draft.put(expiring(words, TimeUnit::Seconds, draft.now)?);
    Ok(Reply::OK)
}

pub(super) fn set_for_milliseconds(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    draft.put(expiring(words, TimeUnit::Milliseconds, draft.now)?);
    Ok(Reply::OK)
}

pub(super) fn set_if_absent(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let is_absent = draft.record().is_none();
    if is_absent {
        draft.put(Record::text(words.next()?.clone()));
    }
    Ok(Reply::flag(is_absent))
}

pub(super) fn get_and_set(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let before = stored(draft)?;
    draft.put(Record::text(words.next()?.clone()));
    Ok(Reply::bytes_or_nothing(before))
}

/// A key and value of `MSET`.
pub(super) fn set_plainly(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    draft.put(Record::text(words.next()?.clone()));
    Ok(Reply::OK)
}

pub(super) fn get_and_expire(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let (mut drops, mut expiry) = (false, None);
    while !words.is_empty() {
        if expiry.is_none() && words.takes("PERSIST") {
            drops = true;
        } else if !drops && let Some(time) = words.expiry(expiry)? {
            expiry = Some(time);
        } else {
            return Err(Refusal::syntax());
        }
    }
    // Redis looks at the time only if there is something to expire.
    let Some(value) = stored(draft)? else { return Ok(Reply::Nothing) };
    let at = expiry.map(|time| time.moment(draft.now)).transpose()?;
    if drops || at.is_some() {
        draft.change_record(|record| record.expires_at = at);
    }
    Ok(Reply::Bytes(value))
}

pub(super) fn get_and_delete(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    let value = stored(draft)?;
    draft.delete();
    Ok(Reply::bytes_or_nothing(value))
}

pub(super) fn append(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let more = words.next()?;
    let value = Bytes::from([stored(draft)?.unwrap_or_default(), more.clone()].concat());
    let length = value.len();
    replace(draft, value);
    Ok(Reply::count(length))
}

pub(super) fn length(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    Ok(Reply::count(stored(draft)?.map_or(0, |value| value.len())))
}

pub(super) fn add_one(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    add(draft, 1)
}

pub(super) fn subtract_one(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    add(draft, -1)
}

pub(super) fn add_number(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let by = words.integer()?;
    add(draft, by)
}

pub(super) fn subtract_number(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let by = words.integer()?.checked_neg().ok_or_else(|| Refusal::error("decrement would overflow"))?;
    add(draft, by)
}

fn add(draft: &mut Draft, by: i64) -> CommandResult<Reply> {
    let before = stored(draft)?.map_or(Ok(0), |value| integer(&value))?;
    let sum = before.checked_add(by).ok_or(RecordError::Overflow)?;
    replace(draft, sum.to_string().into());
    Ok(Reply::Integer(sum))
}
