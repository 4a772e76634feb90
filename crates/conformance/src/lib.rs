//! One suite of pipe behaviours, run against the kernel and against standpipe.
