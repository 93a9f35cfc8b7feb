//! Signing in with a browser: a person types a token in once, and the browser sends it as a cookie
//! from then on (RFC 6265).
//!
//! The cookie has the token itself, so every server of a store knows it, and revoking the token
//! ends it. Scripts cannot read it (`HttpOnly`), and it ends with the browser's session. Pages of
//! other sites cannot send it along with changes (`SameSite=Lax`), and the server refuses changes
//! from other sites in any case ([`crate::access`]). Over HTTPS the name begins with `__Host-`, so
//! that no other host can set it.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, RawForm, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{RequestExt, Router};
use door_http::page::{self, STYLE_PATH};
use door_http::{MayRead, Page, Reason};
use door_ldp::SeenAs;
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use maud::{Markup, html};

use crate::access::{Right, is_from_another_site};
use crate::places::Places;
use crate::tokens::Tokens;
use crate::{problem, tokens};

/// The cookie's name without encryption.
const COOKIE: &str = "penates-token";
/// Its name over HTTPS (RFC 6265bis, section 4.1.3.2).
const HOST_COOKIE: &str = "__Host-penates-token";

/// The field of the form, and of the address of the page, with the path to return to.
pub(crate) const TO: &str = "to";
/// The field of the form with the token.
const TOKEN: &str = "token";

/// Most bytes of the form.
const FORM_BYTES_MAX: usize = 16 << 10;

/// Where people sign in.
pub(crate) const PATH: &str = "sign-in";

/// What the pages need.
#[derive(Clone)]
struct Known {
    tokens: Arc<Tokens>,
    places: Places,
}

/// The pages.
pub(crate) fn routes(tokens: Arc<Tokens>, places: Places) -> Router {
    Router::new()
        .route(&format!("/{PATH}"), get(show).post(sign_in))
        .route("/sign-out", post(sign_out))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .with_state(Known { tokens, places })
}

/// The token in the cookie of this way to connect. Over HTTPS only the one that no other host can
/// set counts: a page of a neighbouring host, or anyone on the line while a browser uses HTTP, could
/// plant the other one, and changes would be made with a token of theirs.
pub(crate) fn token_in(headers: &HeaderMap, is_encrypted: bool) -> Option<String> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = values.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == cookie_name(is_encrypted)).map(|(_, value)| value.to_owned())
}

/// Whether the client sees the connection of a request as encrypted.
pub(crate) fn is_encrypted(extensions: &Extensions) -> bool {
    extensions.get::<SeenAs>().is_some_and(|seen| seen.encrypted)
}

fn cookie_name(is_encrypted: bool) -> &'static str {
    if is_encrypted { HOST_COOKIE } else { COOKIE }
}

async fn show(State(known): State<Known>, request: Request) -> Response {
    let to = field(request.uri().query().unwrap_or_default().as_bytes(), TO);
    let token = token_in(request.headers(), is_encrypted(request.extensions()));
    let holder = token.and_then(|text| known.tokens.holder_of(&text));
    shown(StatusCode::OK, &known, holder.as_ref(), &to, None)
}

async fn sign_in(State(known): State<Known>, request: Request) -> Response {
    if is_from_another_site(&request) {
        return problem::respond(Reason::CROSS_SITE, "pages of other sites must not sign anyone in here");
    }
    let is_encrypted = is_encrypted(request.extensions());
    let Ok(RawForm(form)) = request.extract().await else {
        return problem::respond(Reason::MALFORMED_QUERY, "this is not the form of /sign-in");
    };
    let (token, to) = (field(&form, TOKEN), field(&form, TO));
    if known.tokens.holder_of(&token).is_none() {
        let why = "This server has no such token, or it has expired.";
        return shown(StatusCode::FORBIDDEN, &known, None, &to, Some(why));
    }
    moved(&to, &cookie(&token, is_encrypted))
}

async fn sign_out(request: Request) -> Response {
    if is_from_another_site(&request) {
        return problem::respond(Reason::CROSS_SITE, "pages of other sites must not sign anyone out here");
    }
    let is_encrypted = is_encrypted(request.extensions());
    // Without a form it signs out too.
    let form = request.extract::<RawForm, _>().await.map(|RawForm(form)| form).unwrap_or_default();
    let to = field(&form, TO);
    let page = match to.is_empty() {
        true => String::new(),
        false => {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair(TO, &to).finish();
            format!("{PATH}?{query}")
        }
    };
    moved(&page, &format!("{}; Max-Age=0", cookie("", is_encrypted)))
}

/// The value of a field of a form; empty if it has none.
fn field(form: &[u8], name: &str) -> String {
    let found = form_urlencoded::parse(form).find(|(field, _)| field == name);
    found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// The cookie. A token has letters and digits only, so it needs no quotes; what has others was no
/// token.
fn cookie(token: &str, is_encrypted: bool) -> String {
    let (name, secure) = (cookie_name(is_encrypted), if is_encrypted { "; Secure" } else { "" });
    format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax{secure}")
}

/// To a path of this server, with a cookie.
fn moved(to: &str, cookie: &str) -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = local(to).and_then(|to| HeaderValue::try_from(to).ok());
    let location = to.unwrap_or(HeaderValue::from_static(PATH));
    response.headers_mut().insert(header::LOCATION, location);
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The address to return to, relative to this page: a path below the root of this server, without
/// the slash at its beginning. Anything else could lead to another site, and leads to this page.
fn local(to: &str) -> Option<String> {
    let is_local = !to.is_empty() && !to.starts_with(['/', '\\']) && to.bytes().all(|byte| byte.is_ascii_graphic());
    is_local.then(|| format!("./{to}"))
}

fn shown(status: StatusCode, known: &Known, holder: Option<&tokens::Holder>, to: &str, why: Option<&str>) -> Response {
    let page = Page {
        title: if holder.is_some() { "Signed in".to_owned() } else { "Sign in".to_owned() },
        style: STYLE_PATH.to_owned(),
        home: "./".to_owned(),
        places: known.places.named("./", "volumes/?format=html", None),
        search: holder
            .and_then(|holder| known.places.search("./", holder.scopes.allow(Right::Read).then_some(&MayRead))),
        way: Vec::new(),
    };
    let content = html! {
        @if let Some(why) = why { p.note role="alert" { (why) } }
        @match holder {
            Some(holder) => {
                p { "You use the token " strong { (holder.name) } " with the scopes " code { (holder.scopes.to_string()) } "." }
                section.form {
                    form method="post" action="sign-out" {
                        input type="hidden" name=(TO) value=(to);
                        p { button { "Sign out" } }
                    }
                }
                @if let Some(to) = local(to) { p { a.button href=(to) { "Go back" } } }
                h2 { "Use another token" }
                (form_for_token(to))
            }
            None => {
                p.lead { "Type in a token. An operator makes one with " code { "penates token create" } "." }
                (form_for_token(to))
            }
        }
    };
    let mut response = Response::new(page.with(&content).into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, page::TYPE);
    headers.insert(header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// The form in which people type a token, with the path to return to.
fn form_for_token(to: &str) -> Markup {
    html! {
        section.form {
            form method="post" action=(PATH) {
                input type="hidden" name=(TO) value=(to);
                p {
                    label for="token" { "Token" }
                    input id="token" name=(TOKEN) type="password" required autocomplete="current-password";
                }
                p { button.primary { "Sign in" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn token(cookies: &[&str], is_encrypted: bool) -> Option<String> {
        let headers = cookies.iter().map(|cookie| (header::COOKIE, cookie.parse().unwrap()));
        token_in(&headers.collect(), is_encrypted)
    }

    #[test]
    fn a_token_is_found_among_cookies_and_over_https_only_in_that_of_the_host() {
        assert_eq!(token(&["a=b; penates-token=t; c=d"], false).as_deref(), Some("t"));
        assert_eq!(token(&["a=b; penates-token=planted; c=d"], true), None);
        for both in [&["penates-token=t", "__Host-penates-token=u"][..], &["__Host-penates-token=u; penates-token=t"]] {
            assert_eq!(token(both, true).as_deref(), Some("u"));
            assert_eq!(token(both, false).as_deref(), Some("t"));
        }
        for none in [&["a=b"][..], &[], &["xpenates-token=t"], &["penates-token"]] {
            assert_eq!(token(none, false), None, "{none:?}");
        }
    }

    #[test]
    fn people_return_to_this_server_only() {
        for to in ["/rest/a", "//a.example/", "\\\\a.example/", "", "a b", "a\r\nset-cookie: b"] {
            assert_eq!(local(to), None, "{to}");
        }
        assert_eq!(local("rest/a?b=c").as_deref(), Some("./rest/a?b=c"));
        assert_eq!(local("https://a.example/").as_deref(), Some("./https://a.example/"), "it has no scheme");
    }
}
