//! Signing in with a browser, and pages of other sites that try to use that.

use http::{Method, StatusCode};
use server::config::Access;

use crate::support::*;

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

async fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let form = ("content-type", "application/x-www-form-urlencoded");
    server.ask_with(Method::POST, path, &[&[form, BROWSER], headers].concat(), body).await
}

async fn closed() -> (Server, tempfile::TempDir, String) {
    let (server, folder) = Server::start(|config| {
        config.auth.read = Access::Token;
        config.auth.write = Access::Token;
    })
    .await;
    let token = server.token("jane").await;
    (server, folder, token)
}

#[tokio::test]
async fn a_person_signs_in_once_and_returns_to_where_it_was_needed() {
    let (server, _folder, token) = closed().await;
    let refused = server.ask(Method::GET, "/rest/?a=b", &[BROWSER]).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.text().contains("href=\"../sign-in?to=rest%2F%3Fa%3Db\""), "{}", refused.text());
    let challenges: Vec<_> = refused.headers.get_all("www-authenticate").iter().collect();
    assert_eq!(challenges, ["Bearer realm=\"Penates\""], "a browser would ask before it shows the page");
    let program = server.get("/rest/").await;
    assert!(
        program.headers.get_all("www-authenticate").iter().any(|value| value.to_str().unwrap().starts_with("Basic"))
    );

    let wrong = post(&server, "/sign-in", &[], "token=wrong&to=rest%2F").await;
    assert_eq!((wrong.status, wrong.headers.contains_key("set-cookie")), (StatusCode::FORBIDDEN, false));
    let signed_in = post(&server, "/sign-in", &[], &format!("token={token}&to=rest%2F%3Fa%3Db")).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "./rest/?a=b"));
    let cookie = signed_in.header("set-cookie").to_owned();
    assert_eq!(cookie, format!("penates-token={token}; Path=/; HttpOnly; SameSite=Lax"));
    let cookie = ("cookie", cookie.split(';').next().unwrap());
    assert_eq!(server.ask(Method::GET, "/rest/", &[BROWSER, cookie]).await.status, StatusCode::OK);
    let page = server.ask(Method::GET, "/sign-in", &[cookie]).await;
    assert!(page.text().contains("href=\"./rest/\">Repository</a>"), "{}", page.text());
    assert!(page.text().contains("jane") && !page.text().contains(&token), "{}", page.text());

    let revoked = server.admin(Method::DELETE, "/admin/tokens/jane").await;
    assert!(revoked.status.is_success());
    assert_eq!(server.ask(Method::GET, "/rest/", &[BROWSER, cookie]).await.status, StatusCode::UNAUTHORIZED);
    let gone = post(&server, "/sign-out", &[cookie], "").await;
    assert_eq!((gone.status, gone.header("set-cookie").contains("Max-Age=0")), (StatusCode::SEE_OTHER, true));
}

#[tokio::test]
async fn a_person_whose_token_does_not_reach_a_page_gets_there_with_another_one() {
    let (server, _folder, token) = closed().await;
    let limited = format!("penates-token={}", server.token_for("limited", "read rest:/a").await);
    let limited = ("cookie", limited.as_str());
    let refused = server.ask(Method::GET, "/rest/", &[BROWSER, limited]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let address = "sign-in?to=rest%2F";
    let link = format!("href=\"../{address}\">Sign in with another token</a>");
    assert!(refused.text().contains(&link), "{}", refused.text());

    let kept = "name=\"to\" value=\"rest/\"";
    let page = server.ask(Method::GET, &format!("/{address}"), &[BROWSER, limited]).await.text();
    assert!(page.contains("name=\"token\"") && page.contains("action=\"sign-out\""), "{page}");
    assert_eq!(page.matches(kept).count(), 2, "both forms lead back: {page}");
    let signed_in = post(&server, "/sign-in", &[limited], &format!("token={token}&to=rest%2F")).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "./rest/"));
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(server.ask(Method::GET, "/rest/", &[BROWSER, ("cookie", &cookie)]).await.status, StatusCode::OK);

    let signed_out = post(&server, "/sign-out", &[limited], "to=rest%2F").await;
    assert_eq!(signed_out.status, StatusCode::SEE_OTHER);
    assert_eq!(signed_out.header("location"), format!("./{address}"));
    let page = server.ask(Method::GET, &format!("/{address}"), &[BROWSER]).await.text();
    assert!(page.contains("name=\"token\"") && page.contains(kept), "{page}");
    let elsewhere = post(&server, "/sign-out", &[limited], "to=%2F%2Felsewhere.example").await;
    assert_eq!(elsewhere.header("location"), "./sign-in?to=%2F%2Felsewhere.example");
    let page = server.ask(Method::GET, "/sign-in?to=%2F%2Felsewhere.example", &[BROWSER, limited]).await.text();
    assert!(!page.contains("Go back"), "{page}");
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing_for_a_person_who_has_signed_in() {
    let (server, _folder, token) = closed().await;
    let cookie = format!("penates-token={token}");
    let (cookie, forged) = (("cookie", cookie.as_str()), ("content-type", "multipart/form-data; boundary=b"));
    let form = "--b\r\nContent-Disposition: form-data; name=\"action\"\r\n\r\ncreate\r\n\
                --b\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nforged\r\n--b--\r\n";
    for from in [
        ("origin", "https://elsewhere.example"),
        ("origin", "null"),
        ("origin", "http://localhost.elsewhere.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let sent = server.ask_with(Method::POST, "/rest/fcr:forms", &[cookie, forged, from], form).await;
        assert_eq!(sent.status, StatusCode::FORBIDDEN, "{from:?}: {}", sent.text());
        let signed_in = post(&server, "/sign-in", &[from], &format!("token={token}")).await;
        assert_eq!((signed_in.status, signed_in.headers.contains_key("set-cookie")), (StatusCode::FORBIDDEN, false));
    }
    for from in [("origin", "http://localhost"), ("sec-fetch-site", "same-origin")] {
        let sent = server.ask_with(Method::POST, "/rest/fcr:forms", &[cookie, forged, from], form).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{from:?}: {}", sent.text());
    }
}

#[tokio::test]
async fn pages_of_other_sites_read_nothing_in_the_name_of_a_person_who_has_signed_in() {
    let (server, _folder, token) = closed().await;
    let cookie = format!("penates-token={token}");
    let cookie = ("cookie", cookie.as_str());
    let foreign = ("origin", "https://elsewhere.example");
    let ids = format!("volumeIDs={VOLUME}");
    assert_eq!(post(&server, "/volumes", &[cookie], &ids).await.status, StatusCode::OK);
    assert_eq!(post(&server, "/volumes", &[cookie, foreign], &ids).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_a_person_sees_who_has_signed_in_is_kept_by_no_shared_cache() {
    let (server, _folder, token) = closed().await;
    let cookie = format!("penates-token={token}");
    let page = server.ask(Method::GET, "/rest/", &[BROWSER, ("cookie", &cookie)]).await;
    assert_eq!((page.status, page.header("cache-control")), (StatusCode::OK, "private, no-cache"));
}

#[tokio::test]
async fn pages_of_the_server_offer_a_search_to_those_who_may_read_only() {
    let (server, _folder, token) = closed().await;
    let cookie = format!("penates-token={token}");
    for path in ["/", "/rest/absent", "/sign-in"] {
        let page = async |headers: &[(&str, &str)]| server.ask(Method::GET, path, headers).await.text();
        assert!(!page(&[BROWSER]).await.contains("<form class=\"search\""), "{path}");
        let page = page(&[BROWSER, ("cookie", &cookie)]).await;
        let to_root = if path == "/rest/absent" { "../" } else { "./" };
        let form = format!("aria-label=\"Search by path\" action=\"{to_root}rest/fcr:search\"");
        assert!(page.contains(&form), "{path}: {page}");
    }
    server.end().await;

    let (open, _folder) = Server::start(|_| {}).await;
    assert!(open.get("/").await.text().contains("<form class=\"search\""));
    open.end().await;
    let (without, _folder) = Server::start(|config| config.search.index = false).await;
    for path in ["/", "/rest/absent", "/rest/"] {
        let page = without.ask(Method::GET, path, &[BROWSER]).await.text();
        assert!(page.contains("<header") && !page.contains("<form class=\"search\""), "{path}: {page}");
    }
    without.end().await;
}
