//! How many bytes are unread (item 72).

use super::{CAPACITY, PAGE, fill};
use crate::fail::Fail;
use crate::raw;
use crate::remote::Warmth;
use crate::setting::Setting;
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends do not count"):
        item_72_unread_bytes_are_told_at_either_end,
        item_72_fionread_is_the_kernels_after_use_kernel;
    everywhere():
        item_72_other_requests_are_enotty;
    kernel("Rust has no bad addresses"):
        item_72_a_bad_pointer_is_efault;
}

fn item_72_unread_bytes_are_told_at_either_end(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        assert_eq!((r.unread_bytes(), w.unread_bytes()), (Ok(0), Ok(0)));
        assert_eq!((w.write(b"abc"), w.write(b"defg")), (Ok(3), Ok(4)));
        assert_eq!((r.unread_bytes(), w.unread_bytes()), (Ok(7), Ok(7)));
        assert_eq!(r.read(2), Ok(b"ab".to_vec()));
        assert_eq!((r.unread_bytes(), w.unread_bytes()), (Ok(5), Ok(5)));
        drop(r.read_exactly(5));
        fill(&w);
        assert_eq!(
            (r.unread_bytes(), w.unread_bytes()),
            (Ok(CAPACITY), Ok(CAPACITY))
        );
        drop(r.read_exactly(PAGE));
        let left = CAPACITY - PAGE;
        r.close();
        assert_eq!(w.unread_bytes(), Ok(left), "although nobody reads");
    }
}

fn item_72_fionread_is_the_kernels_after_use_kernel(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        assert_eq!(w.write(b"queued"), Ok(6));
        w.use_kernel();
        assert_eq!(raw::ioctl(w.fd(), libc::FIONREAD, -1), Ok(6));
        assert_eq!(w.write(b", more"), Ok(6));
        assert_eq!(raw::ioctl(w.fd(), libc::FIONREAD, -1), Ok(12));
        assert_eq!(r.read_exactly(12), b"queued, more");
        assert_eq!(raw::ioctl(w.fd(), libc::FIONREAD, -1), Ok(0));
    }
}

fn item_72_other_requests_are_enotty(s: Setting) {
    let (r, w) = s.pipe();
    let refused = |fd: i32| {
        for request in [libc::TIOCOUTQ, 0x1234_5678] {
            assert_eq!(raw::ioctl(fd, request, 0), Err(Fail::NOTTY));
        }
    };
    refused(r.fd());
    s.spawn(w, move |w| refused(w.fd())).join();
}

fn item_72_a_bad_pointer_is_efault(s: Setting) {
    let (r, w) = s.pipe();
    for fd in [r.fd(), w.fd()] {
        assert_eq!(raw::ioctl_nowhere(fd, libc::FIONREAD), Err(Fail::FAULT));
    }
}
