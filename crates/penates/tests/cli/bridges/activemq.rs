//! ActiveMQ from Maven Central, on loopback.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::wait_until;

const VERSION: &str = "5.18.3";

/// A broker with STOMP and AMQP, one user, and a store that outlives it. Dropping the value kills it.
pub struct ActiveMq {
    home: PathBuf,
    folder: TempDir,
    child: Option<Child>,
    pub stomp_port: u16,
    pub amqp_port: u16,
}

/// The user of the broker, and the password.
pub const USER: &str = "penates";
pub const PASSWORD: &str = "correct-horse";

impl ActiveMq {
    /// Fetches it once, and starts it.
    pub fn start() -> Self {
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [stomp_port, amqp_port] = ports.each_ref().map(|port| port.local_addr().unwrap().port());
        drop(ports);
        let mut broker =
            Self { home: home(), folder: tempfile::tempdir().unwrap(), child: None, stomp_port, amqp_port };
        broker.restart();
        broker
    }

    /// Starts it again with what it has stored.
    pub fn restart(&mut self) {
        let folder = self.folder.path().display();
        let configuration = self.folder.path().join("activemq.xml");
        let text = CONFIGURATION
            .replace("FOLDER", &folder.to_string())
            .replace("STOMP", &self.stomp_port.to_string())
            .replace("AMQP", &self.amqp_port.to_string())
            .replace("USER", USER)
            .replace("PASSWORD", PASSWORD);
        fs::write(&configuration, text).unwrap();
        let log = self.folder.path().join("log");
        let mut command = Command::new("java");
        command.args(["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC"]);
        for name in ["home", "base", "conf"] {
            command.arg(format!("-Dactivemq.{name}={}", self.home.display()));
        }
        command.arg(format!("-Dactivemq.data={folder}")).arg("-jar").arg(self.home.join("bin/activemq.jar"));
        command.args(["start", &format!("xbean:file:{}", configuration.display())]).stdin(Stdio::null());
        command.stdout(File::create(&log).unwrap()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let child = self.child.as_mut().unwrap();
        wait_until(|| {
            assert!(child.try_wait().unwrap().is_none(), "{}", fs::read_to_string(&log).unwrap());
            [self.stomp_port, self.amqp_port].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        });
    }

    /// Ends it as a power cut does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for ActiveMq {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The folder of ActiveMQ, which is kept from run to run.
fn home() -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("activemq-{VERSION}"));
    let home = kept.join(format!("apache-activemq-{VERSION}"));
    if !kept.join("fetched").exists() {
        let mut command = Command::new("mvn");
        command.args(["--quiet", "--batch-mode", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"]);
        command.arg(format!("-Dartifact=org.apache.activemq:apache-activemq:{VERSION}:zip:bin"));
        command.arg(format!("-DoutputDirectory={}", kept.display()));
        let output = command.current_dir(env!("CARGO_TARGET_TMPDIR")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        fs::write(kept.join("fetched"), "").unwrap();
    }
    home
}

const CONFIGURATION: &str = r#"<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="test" dataDirectory="FOLDER/data"
      useJmx="false" advisorySupport="false">
    <persistenceAdapter><kahaDB directory="FOLDER/data/kahadb" journalMaxFileLength="4mb"/></persistenceAdapter>
    <plugins><simpleAuthenticationPlugin><users>
      <authenticationUser username="USER" password="PASSWORD" groups="all"/>
    </users></simpleAuthenticationPlugin></plugins>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:STOMP"/>
      <transportConnector name="amqp" uri="amqp://127.0.0.1:AMQP"/>
    </transportConnectors>
  </broker>
</beans>
"#;
