//! The behaviours, in every setting: `cargo test -p standpipe-conformance --test conformance`.

fn main() {
    standpipe_conformance::suite::main().exit();
}
