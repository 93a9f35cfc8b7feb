//! RFC 7089, with the pattern that the Fedora API chooses: a resource is its own TimeGate, and
//! redirects to its versions (section 4.1.1).

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use http::{Method, StatusCode};

use crate::link::Link;
use crate::sample::{SECOND, Sample};
use crate::statement::{Statement, statements};

/// The statements, in the order of sections.
pub const STATEMENTS: &[Statement] = statements! {
    Must "RFC 7089, 2.1.1" a_memento_has_its_memento_datetime;
    Must "RFC 7089, 2.1.1" each_answer_of_a_memento_has_its_memento_datetime;
    Must "RFC 7089, 2.1.1" only_mementos_have_a_memento_datetime;
    Must "RFC 7089, 2.1.1.1" a_memento_datetime_is_an_http_date_in_gmt;
    Must "RFC 7089, 2.1.2" a_timegate_varies_by_accept_datetime;
    Must "RFC 7089, 2.2.1" a_timegate_and_a_memento_have_exactly_one_link_to_the_original;
    Should "RFC 7089, 2.2.2" an_original_links_to_its_timegate;
    Should "RFC 7089, 2.2.3" an_original_and_a_memento_link_to_the_timemap;
    Must "RFC 7089, 2.2.4" a_link_to_a_memento_has_its_datetime;
    Must "RFC 7089, 2.2.4" links_of_a_memento_to_others_lead_to_the_first_last_and_adjacent_ones;
    Must "RFC 7089, 4.1.1" a_timegate_redirects_to_the_memento_of_a_time;
    Must "RFC 7089, 4.1.1" a_redirection_has_no_memento_datetime;
    Must "RFC 7089, 4.1.1" a_timegate_negotiates_with_head_as_with_get;
    Must "RFC 7089, 4.1.1" a_memento_does_not_vary_by_accept_datetime;
    Must "RFC 7089, 4.5.3" a_time_before_the_first_memento_leads_to_the_first;
    Must "RFC 7089, 4.5.3" a_time_after_the_last_memento_leads_to_the_last;
    Must "RFC 7089, 4.5.3" a_malformed_time_is_a_bad_request;
    Must "RFC 7089, 4.5" a_memento_ignores_accept_datetime;
    Must "RFC 7089, 5" a_timemap_is_available_in_link_format;
    Must "RFC 7089, 5" a_timemap_links_to_its_original;
    Should "RFC 7089, 5" a_timemap_links_to_the_timegate_and_to_itself;
    Must "RFC 7089, 5" each_memento_in_a_timemap_can_be_read_and_has_the_listed_datetime;
    Must "RFC 7089, 5.1" a_timemap_in_pages_lists_each_memento_once_and_within_its_times;
    Should "RFC 7089, 5.1" a_link_to_another_page_of_a_timemap_has_the_times_of_the_page;
};

/// The media type of TimeMaps (section 5).
const LINK_FORMAT: &str = "application/link-format";
/// The most pages of a TimeMap that are followed.
const PAGES_MAX: usize = 64;

async fn a_memento_has_its_memento_datetime(sample: &Sample<'_>) -> Result<()> {
    let (memento, time) = sample.first();
    let answer = sample.site.get(memento, &[]).await?;
    answer.expect(StatusCode::OK)?;
    let said = answer.header("memento-datetime").context("it has none")?;
    ensure!(said == time, "{said} instead of {time}");
    Ok(())
}

/// The whole of it, its headers, a part of it, and the answer that it is not modified.
async fn each_answer_of_a_memento_has_its_memento_datetime(sample: &Sample<'_>) -> Result<()> {
    for memento in [sample.first().0.clone(), sample.first_of_binary().await?] {
        let whole = sample.site.get(&memento, &[]).await?;
        let time = whole.header("memento-datetime").with_context(|| format!("{memento}: GET: there is none"))?;
        let known = whole.header("etag").map(|tag| (Method::GET, Some(("if-none-match", tag))));
        let asked = [(Method::HEAD, None), (Method::GET, Some(("range", "bytes=0-0")))];
        for (method, header) in asked.into_iter().chain(known) {
            let answer = sample.site.send(method.clone(), &memento, header.as_slice(), "").await?;
            let said = answer.header("memento-datetime");
            let status = answer.status;
            ensure!(said == Some(time), "{memento}: {method}, {header:?}: {said:?} in an answer of status {status}");
        }
    }
    Ok(())
}

async fn only_mementos_have_a_memento_datetime(sample: &Sample<'_>) -> Result<()> {
    for url in [&sample.original, &sample.timemap, &sample.binary] {
        let answer = sample.site.get(url, &[]).await?;
        answer.expect(StatusCode::OK)?;
        ensure!(answer.header("memento-datetime").is_none(), "{url} has one");
    }
    Ok(())
}

async fn a_memento_datetime_is_an_http_date_in_gmt(sample: &Sample<'_>) -> Result<()> {
    for (_, time) in &sample.mementos {
        let parsed = httpdate::parse_http_date(time).with_context(|| time.clone())?;
        ensure!(httpdate::fmt_http_date(parsed) == *time, "{time} is not in the fixed form");
    }
    Ok(())
}

async fn a_timegate_varies_by_accept_datetime(sample: &Sample<'_>) -> Result<()> {
    let answers = [sample.site.get(&sample.original, &[]).await?, sample.at(&sample.first().1).await?];
    for answer in answers {
        ensure!(answer.lists("vary", "accept-datetime"), "status {} does not", answer.status);
    }
    Ok(())
}

async fn a_timegate_and_a_memento_have_exactly_one_link_to_the_original(sample: &Sample<'_>) -> Result<()> {
    let (memento, time) = sample.first();
    let original = sample.site.get(&sample.original, &[]).await?;
    for answer in [original, sample.at(time).await?, sample.site.get(memento, &[]).await?] {
        let links: Vec<_> = answer.links().into_iter().filter(|link| link.is("original")).collect();
        let [original] = &links[..] else { bail!("status {} has {} links", answer.status, links.len()) };
        ensure!(sample.site.absolute(&original.target)? == sample.original, "{}", original.target);
    }
    Ok(())
}

async fn an_original_links_to_its_timegate(sample: &Sample<'_>) -> Result<()> {
    sample.site.get(&sample.original, &[]).await?.link("timegate").context("there is no link").map(|_| ())
}

async fn an_original_and_a_memento_link_to_the_timemap(sample: &Sample<'_>) -> Result<()> {
    for url in [&sample.original, &sample.first().0] {
        let timemap = sample.site.get(url, &[]).await?.link("timemap").with_context(|| format!("{url} has no link"))?;
        ensure!(sample.site.absolute(&timemap)? == sample.timemap, "{timemap}");
    }
    Ok(())
}

async fn a_link_to_a_memento_has_its_datetime(sample: &Sample<'_>) -> Result<()> {
    let links = sample.site.get(&sample.first().0, &[]).await?.links();
    for link in links.iter().filter(|link| link.is("memento")) {
        ensure!(link.parameter("datetime").is_some(), "that to {} has none", link.target);
    }
    ensure!(sample.mementos.iter().all(|(_, time)| !time.is_empty()), "one in the TimeMap has none");
    Ok(())
}

/// A server may leave them out.
async fn links_of_a_memento_to_others_lead_to_the_first_last_and_adjacent_ones(sample: &Sample<'_>) -> Result<()> {
    let last = sample.mementos.len() - 1;
    for (at, (memento, _)) in sample.mementos.iter().enumerate() {
        let links = sample.site.get(memento, &[]).await?.links();
        let places = [("first", Some(0)), ("prev", at.checked_sub(1)), ("next", Some(at + 1)), ("last", Some(last))];
        for (relation, place) in places {
            let is_wanted = |link: &&Link| link.is("memento") && link.is(relation);
            let Some(link) = links.iter().find(is_wanted) else { continue };
            let other = place.and_then(|place| sample.mementos.get(place));
            let (url, time) = other.with_context(|| format!("{memento} has a link `{relation}` to {}", link.target))?;
            let is_other = sample.site.absolute(&link.target)? == sample.site.absolute(url)?;
            ensure!(is_other, "{memento}: `{relation}` leads to {}", link.target);
            let datetime = link.parameter("datetime");
            ensure!(datetime == Some(time.as_str()), "{memento}: `{relation}` has {datetime:?} instead of {time}");
        }
    }
    Ok(())
}

async fn a_timegate_redirects_to_the_memento_of_a_time(sample: &Sample<'_>) -> Result<()> {
    for (memento, time) in &sample.mementos {
        leads_to(sample, time, memento).await?;
    }
    Ok(())
}

/// Refuses if the resource at a time is another one.
async fn leads_to(sample: &Sample<'_>, time: &str, memento: &str) -> Result<()> {
    let answer = sample.at(time).await?;
    answer.expect(StatusCode::FOUND)?;
    let location = answer.header("location").context("it leads nowhere")?;
    ensure!(sample.site.absolute(location)? == sample.site.absolute(memento)?, "{time} leads to {location}");
    Ok(())
}

async fn a_redirection_has_no_memento_datetime(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.at(&sample.first().1).await?;
    ensure!(answer.header("memento-datetime").is_none(), "it has one");
    Ok(())
}

async fn a_timegate_negotiates_with_head_as_with_get(sample: &Sample<'_>) -> Result<()> {
    let (memento, time) = sample.first();
    let headers = [("accept-datetime", time.as_str())];
    let answer = sample.site.send(Method::HEAD, &sample.original, &headers, "").await?;
    answer.expect(StatusCode::FOUND)?;
    ensure!(answer.header("location") == Some(memento), "{:?}", answer.header("location"));
    Ok(())
}

async fn a_memento_does_not_vary_by_accept_datetime(sample: &Sample<'_>) -> Result<()> {
    for memento in [sample.first().0.clone(), sample.first_of_binary().await?] {
        let answer = sample.site.get(&memento, &[]).await?;
        answer.expect(StatusCode::OK)?;
        ensure!(!answer.lists("vary", "accept-datetime"), "{memento} does");
    }
    Ok(())
}

async fn a_time_before_the_first_memento_leads_to_the_first(sample: &Sample<'_>) -> Result<()> {
    leads_to(sample, "Thu, 01 Jan 1998 00:00:00 GMT", &sample.first().0).await
}

/// A server may have mementos that its TimeMap does not list: a container with the members that it
/// had at the end of a second, say. Such a memento exists when that second is over, and it may be
/// later than the last version. So this asks at once, and again after some seconds.
async fn a_time_after_the_last_memento_leads_to_the_last(sample: &Sample<'_>) -> Result<()> {
    let (last, time) = sample.last();
    for wait in [Duration::ZERO, 2 * SECOND] {
        tokio::time::sleep(wait).await;
        let answer = sample.at("Fri, 01 Jan 2100 00:00:00 GMT").await?;
        answer.expect(StatusCode::FOUND)?;
        let location = sample.site.absolute(answer.header("location").context("it leads nowhere")?)?;
        if location == sample.site.absolute(last)? {
            continue;
        }
        let there = sample.site.get(&location, &[("accept", "text/turtle")]).await?;
        there.expect(StatusCode::OK)?;
        let datetime = there.header("memento-datetime").with_context(|| format!("{location} is no memento"))?;
        let is_later = httpdate::parse_http_date(datetime)? > httpdate::parse_http_date(time)?;
        ensure!(is_later, "it leads to {location}, of {datetime}, and the last is {last}, of {time}");
        ensure!(there.text().contains("state 3"), "{location}, of {datetime}, has not the last state");
    }
    Ok(())
}

async fn a_malformed_time_is_a_bad_request(sample: &Sample<'_>) -> Result<()> {
    sample.at("yesterday").await?.expect(StatusCode::BAD_REQUEST)
}

async fn a_memento_ignores_accept_datetime(sample: &Sample<'_>) -> Result<()> {
    let (memento, time) = sample.first();
    for asked in [sample.last().1.as_str(), "yesterday"] {
        let answer = sample.site.get(memento, &[("accept-datetime", asked)]).await?;
        answer.expect(StatusCode::OK)?;
        ensure!(answer.header("memento-datetime") == Some(time), "{:?}", answer.header("memento-datetime"));
    }
    Ok(())
}

async fn timemap(sample: &Sample<'_>) -> Result<Vec<Link>> {
    timemap_at(sample, &sample.timemap).await
}

/// The links in a TimeMap, or in a page of it.
async fn timemap_at(sample: &Sample<'_>, url: &str) -> Result<Vec<Link>> {
    let answer = sample.site.get(url, &[("accept", LINK_FORMAT)]).await?;
    answer.expect(StatusCode::OK)?;
    Ok(Link::parse_all(&answer.text()))
}

async fn a_timemap_is_available_in_link_format(sample: &Sample<'_>) -> Result<()> {
    let answer = sample.site.get(&sample.timemap, &[("accept", LINK_FORMAT)]).await?;
    answer.expect(StatusCode::OK)?;
    let media_type = answer.header("content-type").unwrap_or_default();
    ensure!(media_type.starts_with(LINK_FORMAT), "it is {media_type}");
    Ok(())
}

async fn a_timemap_links_to_its_original(sample: &Sample<'_>) -> Result<()> {
    let links = timemap(sample).await?;
    let original = links.iter().find(|link| link.is("original")).context("there is no link")?;
    ensure!(original.target == sample.original, "{}", original.target);
    Ok(())
}

async fn a_timemap_links_to_the_timegate_and_to_itself(sample: &Sample<'_>) -> Result<()> {
    let links = timemap(sample).await?;
    for relation in ["timegate", "self"] {
        ensure!(links.iter().any(|link| link.is(relation)), "there is no link `{relation}`");
    }
    Ok(())
}

async fn each_memento_in_a_timemap_can_be_read_and_has_the_listed_datetime(sample: &Sample<'_>) -> Result<()> {
    for (memento, time) in &sample.mementos {
        let answer = sample.site.get(memento, &[]).await?;
        ensure!(answer.status == StatusCode::OK, "{memento}: {}", answer.status);
        let said = answer.header("memento-datetime");
        ensure!(said == Some(time), "{memento}: {said:?} instead of {time}");
    }
    Ok(())
}

/// The address of the first page of the TimeMap. How to ask for pages is up to a server. One that
/// does not know `limit` sends its own pages.
async fn first_page(sample: &Sample<'_>) -> Result<String> {
    let short = format!("{}?limit=1", sample.timemap);
    let is_known = sample.site.get(&short, &[("accept", LINK_FORMAT)]).await?.status == StatusCode::OK;
    Ok(if is_known { short } else { sample.timemap.clone() })
}

async fn a_timemap_in_pages_lists_each_memento_once_and_within_its_times(sample: &Sample<'_>) -> Result<()> {
    let mut open = vec![first_page(sample).await?];
    let (mut pages, mut listed) = (BTreeSet::new(), Vec::new());
    while let Some(url) = open.pop() {
        if !pages.insert(url.clone()) {
            continue;
        }
        ensure!(pages.len() <= PAGES_MAX, "there are more than {PAGES_MAX} pages");
        let links = timemap_at(sample, &url).await?;
        let original =
            links.iter().find(|link| link.is("original")).with_context(|| format!("{url} has no original"))?;
        ensure!(original.target == sample.original, "{url}: {}", original.target);
        let own = links.iter().find(|link| link.is("self"));
        for link in &links {
            if link.is("memento") {
                ensure!(own.is_none_or(|own| is_within(own, link)), "{url}: {} is not within its times", link.target);
                listed.push(sample.site.absolute(&link.target)?);
            } else if link.is("timemap") && !link.is("self") {
                open.push(sample.site.absolute(&link.target)?);
            }
        }
    }
    for (memento, _) in &sample.mementos {
        let memento = sample.site.absolute(memento)?;
        let times = listed.iter().filter(|one| **one == memento).count();
        ensure!(times == 1, "{memento} is listed {times} times, on {} pages", pages.len());
    }
    Ok(())
}

async fn a_link_to_another_page_of_a_timemap_has_the_times_of_the_page(sample: &Sample<'_>) -> Result<()> {
    let links = timemap_at(sample, &first_page(sample).await?).await?;
    let others: Vec<_> = links.iter().filter(|link| link.is("timemap") && !link.is("self")).collect();
    for link in others {
        let page = timemap_at(sample, &sample.site.absolute(&link.target)?).await?;
        let mementos = page.iter().filter(|link| link.is("memento"));
        let mut times: Vec<_> = mementos.filter_map(|memento| time_in(memento, "datetime")).collect();
        times.sort_unstable();
        for (name, time) in [("from", times.first()), ("until", times.last())] {
            let said = time_in(link, name).with_context(|| format!("that to {} has no `{name}`", link.target))?;
            ensure!(Some(&said) == time, "that to {} has another `{name}`", link.target);
        }
    }
    Ok(())
}

/// A time in a parameter of a link.
fn time_in(link: &Link, name: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(link.parameter(name)?).ok()
}

/// Whether a memento is within the times of a TimeMap, as far as its links say them.
fn is_within(own: &Link, memento: &Link) -> bool {
    let Some(then) = time_in(memento, "datetime") else { return true };
    time_in(own, "from").is_none_or(|from| from <= then) && time_in(own, "until").is_none_or(|until| then <= until)
}
