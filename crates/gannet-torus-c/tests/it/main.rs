//! The functions from a program in C, between two hosts of a torus on threads of this process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_measure::testing::skipped;
use gannet_torus_live::identity::Key;
use gannet_torus_live::member::{Member, Setup};
use gannet_torus_live::users::Users;
use gannet_torus_live::{Driver, Host, Patience, Port, memory};
use gannet_wire::neighbour::{HostId, Name};

const PATIENCE: Patience = Patience { watchdog_ns: 200_000_000, spin_ns: 0 };

/// A host until this is dropped.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn host(number: u64, processes: &Path, ports: Vec<memory::MemoryPort>) -> Running {
    let frames = ports.iter().map(Port::frame_bytes).enumerate();
    let setup = Setup {
        host: HostId(number + 1),
        life: 1,
        name: Name::of(&format!("n{number}")),
        ports: frames.map(|(at, bytes)| (Name::of(&format!("p{at}")), bytes)).collect(),
        services: Vec::new(),
        key: Key([1; 32]),
        protects: true,
        watchdog_ns: PATIENCE.watchdog_ns,
        lattice: None,
        settle_ns: 100_000_000,
    };
    let window = ports.iter().map(Port::window_bytes).min().unwrap();
    let users = Users::listen(processes).unwrap();
    let host = Host::new(Member::new(setup), PATIENCE, window).with_users(users);
    let mut driver = Driver::new(host, PATIENCE.spin_ns);
    for (at, port) in ports.into_iter().enumerate() {
        driver.plug(at, Box::new(port));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&stop);
    let thread = thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            if !driver.step() {
                driver.wait(Duration::from_millis(10)).unwrap();
            }
        }
    });
    Running { stop, thread: Some(thread) }
}

/// The directory with the library that was built with this test.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let directory = tests.parent().unwrap();
    assert!(directory.join("libgannet_torus_c.so").exists(), "no library in {directory:?}");
    directory.to_owned()
}

/// Compiles the program of the test; none where there is no compiler.
fn compiled(directory: &Path) -> Option<PathBuf> {
    let (root, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), library());
    let program = directory.join("there_and_back");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&program);
    compiler.arg(root.join("tests/it/there_and_back.c")).arg("-I").arg(root.join("include"));
    compiler.arg("-L").arg(&library).arg("-lgannet_torus_c");
    compiler.arg(format!("-Wl,-rpath,{}", library.display()));
    let output = match compiler.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn a_program_in_c_puts_and_gets() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path()) else {
        return skipped("a_program_in_c_puts_and_gets", "there is no C compiler `cc`");
    };
    let socket = |number: u64| directory.path().join(format!("n{number}"));
    let cables = [(); 2].map(|()| memory::cable(8972, 64).unwrap());
    let (near, far): (Vec<_>, Vec<_>) = cables.into_iter().unzip();
    let _hosts = [host(0, &socket(0), near), host(1, &socket(1), far)];
    let server = Command::new(&program).arg("serve").arg(socket(1)).spawn().unwrap();
    let client = Command::new(&program).arg("ask").arg(socket(0)).output().unwrap();
    let server = server.wait_with_output().unwrap();
    assert!(
        client.status.success() && server.status.success(),
        "{}{}",
        said(&client),
        said(&server)
    );
    assert_eq!(String::from_utf8_lossy(&client.stdout), "there and back\n");
}
