//! Chromium without a window, asked over a pipe (Chrome DevTools Protocol).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use crate::support::is_installed;

/// How long the browser may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser. The browser ends with this value.
pub struct Page {
    process: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// How often a page was loaded.
    loaded: usize,
    /// Errors of scripts and of the console, and what was asked of a network.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Page {
    /// A page without content; `None` if Chromium is not installed.
    pub fn new() -> Option<Self> {
        if !is_installed("chromium", "chromium") {
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        // Chromium reads requests from the descriptor 3, and writes to the descriptor 4.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", "chromium", "--headless"])
            .args(["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-quic"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (requests, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let (session, complaints) = (None, Vec::new());
        let mut page = Self { process, requests, messages, session, last: 0, loaded: 0, complaints, _profile: profile };
        let target = page.ask("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].take();
        let attached = page.ask("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        page.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(page)
    }

    /// The result of a request.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut request = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut message = self.next(method, deadline);
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn next(&self, what: &str, deadline: Instant) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(left).unwrap_or_else(|error| panic!("{what}: the browser says nothing ({error})"))
    }

    /// Notes what has happened on the page.
    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let is_complaint = match message["method"].as_str() {
            Some("Page.loadEventFired") => {
                self.loaded += 1;
                false
            }
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error" || params["type"] == "assert",
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                !["file:", "data:", "about:"].iter().any(|scheme| url.starts_with(scheme))
            }
            _ => false,
        };
        if is_complaint {
            self.complaints.push(params.to_string());
        }
    }

    /// Opens a file, and waits until it is loaded.
    pub fn open(&mut self, file: &Path) {
        let before = self.loaded;
        let opened = self.ask("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        assert!(opened["errorText"].is_null(), "{}: {opened}", file.display());
        let deadline = Instant::now() + PATIENCE;
        while self.loaded == before {
            let message = self.next("loading", deadline);
            self.note(&message);
        }
    }

    /// Shows the page so wide, in the dark or not.
    pub fn view(&mut self, width: u32, is_dark: bool) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Shows the page as it is printed on A4, or on a wide screen again.
    pub fn print(&mut self, is_printed: bool) {
        let (width, media, event) = if is_printed { (688, "print", "beforeprint") } else { (1_280, "", "afterprint") };
        self.view(width, false);
        self.ask("Emulation.setEmulatedMedia", json!({ "media": media }));
        self.value(&format!("dispatchEvent(new Event('{event}'))"));
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.ask("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            assert!(Instant::now() < deadline, "{expression} does not become true; {:?}", self.complaints);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Keeps an image of the whole page in the folder that the variable `TESTBED_SCREENSHOTS` names, if any.
    pub fn keep_image(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("TESTBED_SCREENSHOTS") else { return };
        let size = self.ask("Page.getLayoutMetrics", json!({}))["cssContentSize"].take();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let image = self.ask("Page.captureScreenshot", json!({ "captureBeyondViewport": true, "clip": clip }));
        let image = BASE64_STANDARD.decode(image["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), image).unwrap();
    }
}
