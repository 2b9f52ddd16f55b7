//! Putting a thread to sleep for good that does not come back from a library.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

/// Whoever has it can put a thread to sleep.
#[derive(Debug)]
pub struct Halt(libc::timer_t);

// SAFETY: a timer belongs to the process: what is here is its number, which any thread may use.
unsafe impl Send for Halt {}

impl Halt {
    /// For the thread that calls.
    ///
    /// # Errors
    /// When the system has no timer or no signal left for it.
    pub fn of_this_thread() -> io::Result<Self> {
        let signal = signal()?;
        let mut timer = ptr::null_mut();
        // SAFETY: zeros are valid; the system reads the event, and fills the number of the timer.
        let code = unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer)
        };
        if code == 0 { Ok(Self(timer)) } else { Err(io::Error::last_os_error()) }
    }

    /// Lets the thread use the processor for `rest` more, and sleep from then on, wherever it is.
    ///
    /// The clock is that of the thread: one that is only kept from the processor, or waits for the system, is
    /// left alone, since what it holds at that moment, a lock of the allocator say, others may need.
    pub fn after(self, rest: Duration) {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = libc::timespec {
            tv_sec: rest.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(rest.subsec_nanos() as i32),
        };
        let time = libc::itimerspec { it_interval: zero, it_value };
        // SAFETY: the timer is ours; what was set before is not asked for.
        unsafe { libc::timer_settime(self.0, 0, &time, ptr::null_mut()) };
        mem::forget(self);
    }
}

impl Drop for Halt {
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// A signal that nobody in this process used, and that puts the thread that it comes to to sleep.
fn signal() -> io::Result<c_int> {
    static SIGNAL: OnceLock<Option<c_int>> = OnceLock::new();
    let found = SIGNAL.get_or_init(|| {
        (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|&signal| {
            // SAFETY: zeros are valid; the system fills the action, and changes nothing.
            let is_free = unsafe {
                let mut action: libc::sigaction = mem::zeroed();
                libc::sigaction(signal, ptr::null(), &mut action) == 0
                    && action.sa_sigaction == libc::SIG_DFL
            };
            is_free && take(signal)
        })
    });
    found.ok_or_else(|| io::Error::other("all signals of the process are taken"))
}

fn take(signal: c_int) -> bool {
    let sleep: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = sleep_for_ever;
    // SAFETY: zeros are valid; the function is one for handlers with three arguments, as the flag says, and
    // calls nothing that a handler may not call. Who sleeps takes no other signals.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = sleep as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal, &action, ptr::null_mut()) == 0
    }
}

/// Stays in the handler, where a thread does not hinder the end of its process. A signal that somebody else sent does nothing.
extern "C" fn sleep_for_ever(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system gives every handler of its kind what it knows of the signal.
    let is_of_a_timer = unsafe { (*info).si_code } == libc::SI_TIMER;
    if is_of_a_timer {
        loop {
            // SAFETY: it waits for a signal, and nothing else.
            unsafe { libc::pause() };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// What a thread of this process does, as the system writes it: `R` runs, `S` sleeps.
    fn state(thread: libc::pid_t) -> char {
        let line = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        line.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    #[test]
    fn a_thread_that_never_comes_back_sleeps_when_it_is_told_to() {
        let (tell, told) = sync_channel(1);
        thread::spawn(move || {
            // SAFETY: it asks for a number.
            let thread = unsafe { libc::gettid() };
            tell.send((Halt::of_this_thread().unwrap(), thread)).unwrap();
            loop {
                std::hint::spin_loop();
            }
        });
        let (halt, thread) = told.recv().unwrap();
        assert_eq!(state(thread), 'R');
        halt.after(Duration::from_millis(1));
        let until = Instant::now() + Duration::from_secs(60);
        while state(thread) != 'S' {
            assert!(Instant::now() < until, "it runs on");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_that_waits_is_left_alone() {
        let (tell, told) = sync_channel(1);
        let (answer, question) = sync_channel(1);
        let waiting = thread::spawn(move || {
            tell.send(Halt::of_this_thread().unwrap()).unwrap();
            question.recv().unwrap()
        });
        told.recv().unwrap().after(Duration::from_secs(1));
        answer.send(7).unwrap();
        assert_eq!(waiting.join().unwrap(), 7);
    }
}
