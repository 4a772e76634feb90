//! Each suite once, very small, with both engines: does it run, and does it yield what it says?
//!
//! The suites fork, so nothing else may run in this process: the tests run one after the other on
//! the main thread, in a harness of their own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use libtest_mimic::{Arguments, Failed, Trial};
use standpipe_bench::clock::Stop;
use standpipe_bench::compute::Speed;
use standpipe_bench::engine::{Face, Kind};
use standpipe_bench::family::Family;
use standpipe_bench::measure::{Effort, Round, measure};
use standpipe_bench::pressure::Pressure;
use standpipe_bench::record::{Engine, Metric, Record};
use standpipe_bench::suites::{
    Pace, asynchronous, bw, create, fifo, grep, latency, object, pipe, pipeflex, readahead, ring,
    ring_scale, run, small, stage, thrash,
};
use standpipe_cache::sim::workload::Iozone;
use standpipe_origin::Manners;

type Test = fn() -> anyhow::Result<()>;

const BRIEF: Stop = Stop::after(Duration::from_millis(2));

fn main() {
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    let tests: [(&str, Test); 23] = [
        ("pipe", pipe_suite),
        ("bw", bw_suite),
        ("pipeflex", pipeflex_suite),
        ("small", small_suite),
        ("latency", latency_suite),
        ("create", create_suite),
        ("grep", grep_suite),
        ("fifo", fifo_suite),
        ("suites_through_the_c_abi", c_abi_suites),
        ("stage", stage_suite),
        ("stage_that_damages_its_bytes", damaged_stage),
        ("readahead", readahead_suite),
        ("thrash", thrash_suite),
        ("run", run_suite),
        ("object", object_suite),
        ("ring", ring_suite),
        ("ring_scale", ring_scale_suite),
        ("async", async_suite),
        ("run_with_a_runner_that_damages_its_output", damaged_run),
        ("memory_pressure_ends_with_its_guard", pressure),
        ("a_failing_child_fails_its_family", failing_child),
        ("a_killed_child_fails_its_family", killed_child),
        (
            "damage_is_told_rather_than_its_consequence",
            damage_before_consequence,
        ),
    ];
    let trial = |(name, test): (&str, Test)| {
        Trial::test(name, move || {
            test().map_err(|error| Failed::from(format!("{error:#}")))
        })
    };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit();
}

/// Runs the rounds once.
fn once(rounds: Vec<Round<'_>>) -> anyhow::Result<Vec<Record>> {
    measure(
        "smoke",
        rounds,
        Effort {
            runs: 1,
            budget: None,
        },
        &ProgressBar::hidden(),
    )
}

/// Both engines must have a plausible figure of each metric in each case, and nothing else.
fn expect(
    records: &[Record],
    rival: Engine,
    cases: &[&str],
    metrics: &[Metric],
) -> anyhow::Result<()> {
    ensure!(
        records.len() == 2 * cases.len() * metrics.len(),
        "{} records, expected those of {cases:?}",
        records.len()
    );
    for (case, metric, engine) in cases.iter().flat_map(|case| {
        metrics
            .iter()
            .flat_map(move |m| [rival, Engine::Standpipe].map(|e| (case, m, e)))
    }) {
        let found = records
            .iter()
            .find(|r| r.case == **case && r.metric == *metric && r.engine == engine)
            .with_context(|| format!("no {metric} of {engine} in case {case}"))?;
        let plausible = found.value.is_finite() && found.value > 0.0;
        ensure!(plausible && found.runs == [found.value], "{found:?}");
    }
    Ok(())
}

fn ring_suite() -> anyhow::Result<()> {
    let plan = ring::Plan {
        pipes: 3,
        rounds: 2,
        sizes_bytes: vec![1, 4096],
    };
    let records = once(plan.rounds())?;
    let cases = ["empty-1", "ready-1", "empty-4096", "ready-4096"];
    for rival in [Engine::IoUring, Engine::IoUringWorker, Engine::Epoll] {
        let pair = |record: &&Record| record.engine == rival || record.engine.is_ours();
        let records: Vec<_> = records.iter().filter(pair).cloned().collect();
        expect(&records, rival, &cases, &[Metric::WallMs])?;
    }
    Ok(())
}

fn ring_scale_suite() -> anyhow::Result<()> {
    let plan = ring_scale::Plan {
        pipes: vec![1, 5],
        events: 50,
    };
    let records = once(plan.rounds())?;
    let cases = ["idle-1", "armed-1", "busy-1", "idle-5", "armed-5", "busy-5"];
    for rival in [Engine::IoUring, Engine::Epoll] {
        let pair = |record: &&Record| record.engine == rival || record.engine.is_ours();
        let records: Vec<_> = records.iter().filter(pair).cloned().collect();
        expect(&records, rival, &cases, &[Metric::AvgNs])?;
    }
    Ok(())
}

fn pipe_suite() -> anyhow::Result<()> {
    let plan = pipe::Plan {
        cells: vec![(1, 1), (2, 5)],
        face: Face::Rust,
        block_bytes: 64 << 10,
        capacity_bytes: 1 << 20,
        stop: BRIEF,
    };
    let metrics = [Metric::MbPerS, Metric::AvgNs, Metric::P50Ns, Metric::P99Ns];
    expect(
        &once(plan.rounds())?,
        Engine::Kernel,
        &["1x1", "2x5"],
        &metrics,
    )
}

fn bw_suite() -> anyhow::Result<()> {
    let plan = bw::Plan {
        transfers_kib: vec![6],
        pipes_kib: vec![4, 8],
        face: Face::Rust,
        stop: Stop {
            time: Duration::ZERO,
            bytes: 100_000,
        },
    };
    let cases = [
        "ts6k-pipe4k-A",
        "ts6k-pipe4k-A+B",
        "ts6k-pipe8k-A",
        "ts6k-pipe8k-A+B",
    ];
    expect(
        &once(plan.rounds())?,
        Engine::Kernel,
        &cases,
        &[Metric::MbPerS],
    )
}

fn pipeflex_suite() -> anyhow::Result<()> {
    let plan = pipeflex::Plan {
        transfers_kib: vec![2],
        pipes_kib: vec![8],
        face: Face::Rust,
        children: 4,
        compute_us: 5,
        stop: BRIEF,
        speed: Speed::measure(),
    };
    let cases = ["ts2k-pipe8k-A", "ts2k-pipe8k-A+B"];
    expect(
        &once(plan.rounds())?,
        Engine::Kernel,
        &cases,
        &[Metric::MbPerS],
    )
}

fn small_suite() -> anyhow::Result<()> {
    let plan = small::Plan {
        sizes_bytes: vec![16, 64, 512, 4096],
        face: Face::Rust,
        stop: BRIEF,
    };
    let cases = ["16", "64", "512", "4096"];
    expect(
        &once(plan.rounds())?,
        Engine::Kernel,
        &cases,
        &[Metric::AvgNs, Metric::MbPerS],
    )
}

fn async_suite() -> anyhow::Result<()> {
    let plan = asynchronous::Plan {
        sizes_bytes: vec![64, 64 << 10],
        pairs: vec![1, 4],
        stop: BRIEF,
    };
    let cases = [
        "64-1",
        "64-4",
        "64k-1",
        "64k-4",
        "64-1-thread",
        "64-4-thread",
        "64k-1-thread",
        "64k-4-thread",
    ];
    let metrics = [Metric::AvgNs, Metric::MbPerS];
    let records = once(plan.rounds())?;
    for rival in [Engine::TokioPipe, Engine::Simplex] {
        let two = records
            .iter()
            .filter(|r| [rival, Engine::Standpipe].contains(&r.engine));
        expect(&two.cloned().collect::<Vec<_>>(), rival, &cases, &metrics)?;
    }
    Ok(())
}

fn latency_suite() -> anyhow::Result<()> {
    let plan = latency::Plan {
        free: true,
        face: Face::Rust,
        stop: BRIEF,
    };
    let metrics = [Metric::P50Ns, Metric::P99Ns];
    expect(
        &once(plan.rounds())?,
        Engine::Kernel,
        &["free", "shared", "unpinned"],
        &metrics,
    )
}

fn create_suite() -> anyhow::Result<()> {
    let plan = create::Plan::of(Face::Rust, BRIEF, 500)?;
    let records = once(plan.rounds())?;
    let (memories, times): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|record| record.case.starts_with("memory"));
    let cases = ["1kib", "idle", "fifo-1kib", "fifo-idle"];
    expect(&times, Engine::Kernel, &cases, &[Metric::AvgNs])?;
    expect(
        &memories,
        Engine::Kernel,
        &["memory", "memory-kernel"],
        &[Metric::BytesEach],
    )
}

/// Every policy has a plausible figure of each metric in each case, and the same when run again.
fn expect_policies(rounds: fn() -> Vec<Round<'static>>, cases: &[&str]) -> anyhow::Result<()> {
    let records = once(rounds())?;
    let policies = [
        Engine::Legacy,
        Engine::OnDemand,
        Engine::Context,
        Engine::Standpipe,
    ];
    ensure!(
        records.len() == cases.len() * policies.len() * 2,
        "{records:?}"
    );
    for (case, engine) in cases
        .iter()
        .flat_map(|case| policies.map(|engine| (case, engine)))
    {
        let mut of = records
            .iter()
            .filter(|r| r.case == **case && r.engine == engine);
        let is_plausible = |r: &Record| r.value.is_finite() && r.value > 0.0;
        ensure!(
            of.clone().count() == 2 && of.all(is_plausible),
            "{case} {engine}: {records:?}"
        );
    }
    ensure!(once(rounds())? == records, "another run had other figures");
    Ok(())
}

fn readahead_suite() -> anyhow::Result<()> {
    let rounds = || {
        let cases = vec![
            readahead::Case::Iozone(Iozone::Stride),
            readahead::Case::Oltp(200, 4),
        ];
        let plan = readahead::Plan {
            cases,
            file_bytes: 16 << 20,
        };
        plan.rounds()
    };
    expect_policies(rounds, &["iozone-stride", "oltp-200-4"])
}

fn thrash_suite() -> anyhow::Result<()> {
    expect_policies(thrash::rounds, &[thrash::CASE])
}

/// A program that is called as `standpipe run --quiet -- PIPELINE` and does `script` with it: the
/// suites are under test here, not the command.
fn runner(dir: &Path, script: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join("standpipe");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
    Ok(path)
}

const SIZES: run::Sizes = run::Sizes {
    big_bytes: 300_000,
    middle_bytes: 200_000,
    small_bytes: 200_000,
};
const HONEST: &str = "[ \"$1 $2 $3\" = 'run --quiet --' ] && exec sh -c \"$4\"";

fn grep_suite() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let plan = grep::Plan::new(500_000, runner(dir.path(), HONEST)?)?;
    expect(
        &once(plan.rounds())?,
        Engine::Shell,
        &["run", "aware-cat"],
        &[Metric::WallS],
    )
}

fn run_suite() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let plan = run::Plan::new(SIZES, runner(dir.path(), HONEST)?)?;
    let records = once(plan.rounds())?;
    ensure!(
        records.len() == 20,
        "{} records, expected ten pipelines",
        records.len()
    );
    let cases = records
        .iter()
        .map(|record| record.case.as_str())
        .collect::<Vec<_>>();
    let cases = cases
        .chunks_exact(2)
        .map(|pair| pair[0])
        .collect::<Vec<_>>();
    expect(&records, Engine::Shell, &cases, &[Metric::WallS])
}

fn fifo_suite() -> anyhow::Result<()> {
    let plan = fifo::Plan::of(Face::Rust, 2, BRIEF)?;
    let records = once(plan.rounds())?;
    let (openings, streams): (Vec<_>, Vec<_>) = records
        .into_iter()
        .partition(|record| record.case.starts_with("open"));
    expect(
        &openings,
        Engine::Kernel,
        &["open-close", "open-1kib"],
        &[Metric::AvgNs],
    )?;
    let names = fifo::SIZES.map(|(name, _)| name.to_owned());
    let cold = names.clone().map(|name| format!("cold-{name}"));
    let cases = names
        .iter()
        .chain(&cold)
        .map(String::as_str)
        .collect::<Vec<_>>();
    expect(
        &streams,
        Engine::Kernel,
        &cases,
        &[Metric::MbPerS, Metric::AvgNs],
    )
}

fn object_suite() -> anyhow::Result<()> {
    let manners = Manners::default();
    let plan = object::Plan::of(20 << 20, manners, Duration::from_secs(60))?;
    let records = once(plan.rounds())?;
    let engines = plan.rounds()[0].len();
    ensure!(records.len() == 2 * engines, "{records:?}");
    for engine in [Engine::GetStream, Engine::BufReader] {
        let of = |record: &&Record| [engine, Engine::Standpipe].contains(&record.engine);
        let of = records.iter().filter(of).cloned().collect::<Vec<_>>();
        expect(&of, engine, &["64KiB", "1MiB"], &[Metric::MbPerS])?;
    }
    Ok(())
}

/// Every suite that runs pipes itself.
fn c_abi_suites() -> anyhow::Result<()> {
    let face = Face::C;
    let pipe = pipe::Plan {
        cells: vec![(2, 5)],
        stop: BRIEF,
        ..pipe::Plan::new(Pace::Quick, face)
    };
    let bw = bw::Plan {
        transfers_kib: vec![6],
        pipes_kib: vec![4, 8],
        stop: BRIEF,
        ..bw::Plan::new(Pace::Quick, face)
    };
    let pipeflex = pipeflex::Plan {
        transfers_kib: vec![2],
        pipes_kib: vec![8],
        stop: BRIEF,
        ..pipeflex::Plan::new(Pace::Quick, face)
    };
    let small = small::Plan {
        stop: BRIEF,
        ..small::Plan::new(Pace::Quick, face)
    };
    let latency = latency::Plan {
        stop: BRIEF,
        ..latency::Plan::new(Pace::Quick, face, 2)
    };
    let create = create::Plan::of(face, BRIEF, 500)?;
    let fifo = fifo::Plan::of(face, 2, BRIEF)?;
    for (name, rounds) in [
        ("pipe", pipe.rounds()),
        ("bw", bw.rounds()),
        ("pipeflex", pipeflex.rounds()),
        ("small", small.rounds()),
        ("latency", latency.rounds()),
        ("create", create.rounds()),
        ("fifo", fifo.rounds()),
    ] {
        let records = once(rounds).with_context(|| name)?;
        let pairs = standpipe_bench::table::pairs(&records);
        ensure!(
            !pairs.is_empty() && records.len() == 2 * pairs.len(),
            "{name}: {records:?}"
        );
        for pair in pairs {
            let engines = (pair.rival.engine, pair.ours.engine);
            ensure!(
                engines == (Engine::Kernel, Engine::StandpipeC),
                "{name}: {pair:?}"
            );
            ensure!(
                pair.ratio().is_finite() && pair.ratio() > 0.0,
                "{name}: {pair:?}"
            );
        }
    }
    Ok(())
}

fn stage_plan(dir: &Path, ours: &str) -> anyhow::Result<stage::Plan> {
    let rivals = vec![
        stage::Rival {
            engine: Engine::Pv,
            case: "pv",
            stage: "cat",
        },
        stage::Rival {
            engine: Engine::Mbuffer,
            case: "mbuffer",
            stage: "cat",
        },
    ];
    let script =
        format!("[ \"$1\" = cat ] && exec \"$@\"; [ \"$*\" = 'buffer --quiet' ] && {ours}");
    stage::Plan::of(500_000, runner(dir, &script)?, rivals)
}

fn stage_suite() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let plan = stage_plan(dir.path(), "exec cat")?;
    let records = once(plan.rounds())?;
    let metrics = [Metric::MbPerS, Metric::WallS];
    for (rival, cases) in [
        (Engine::Pv, &["pv", "own-cats"][..]),
        (Engine::Mbuffer, &["mbuffer"]),
    ] {
        let of = |record: &&Record| cases.contains(&record.case.as_str());
        expect(
            &records.iter().filter(of).cloned().collect::<Vec<_>>(),
            rival,
            cases,
            &metrics,
        )?;
    }
    Ok(())
}

fn damaged_stage() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let plan = stage_plan(dir.path(), "exec tr a b")?;
    let error = once(plan.rounds()).err().context("damage went unseen")?;
    let error = format!("{error:#}");
    ensure!(
        error.contains("CRC-32") && error.contains("standpipe"),
        "{error}"
    );
    Ok(())
}

fn damaged_run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let plan = run::Plan::new(SIZES, runner(dir.path(), "sh -c \"$4\" | tr 1 2")?)?;
    let error = format!(
        "{:#}",
        once(plan.rounds()).err().context("damage went unseen")?
    );
    ensure!(
        error.contains("CRC-32") && error.contains("standpipe"),
        "{error}"
    );
    Ok(())
}

fn pressure() -> anyhow::Result<()> {
    let children = || -> anyhow::Result<usize> {
        let path = "/proc/thread-self/children";
        Ok(std::fs::read_to_string(path)?.split_whitespace().count())
    };
    let before = children()?;
    let pressure = Pressure::of(64 << 20, None)?;
    ensure!(
        pressure.bytes == 64 << 20 && children()? == before + 1,
        "no process took memory"
    );
    drop(pressure);
    ensure!(
        children()? == before,
        "the process that takes memory is still there"
    );
    Ok(())
}

fn failing_child() -> anyhow::Result<()> {
    let mut family = Family::new()?;
    family.spawn("good", (), |()| Ok(vec![1, 2, 3]))?;
    family.spawn("bad", (), |()| anyhow::bail!("did not feel like it"))?;
    let error = format!("{:#}", family.run().err().context("no error")?);
    ensure!(error == "bad: did not feel like it", "{error}");
    Ok(())
}

fn killed_child() -> anyhow::Result<()> {
    let mut family = Family::new()?;
    family.spawn("victim", (), |()| {
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL)?;
        Ok(Vec::new())
    })?;
    let error = format!("{:#}", family.run().err().context("no error")?);
    ensure!(error == "victim: died without a word", "{error}");
    Ok(())
}

/// A reader that finds damage closes its end, and its writer fails as well, with EPIPE.
fn damage_before_consequence() -> anyhow::Result<()> {
    let ends = Kind::Kernel.pipe(4096)?;
    let mut family = Family::new()?;
    let ends = family.spawn("writer", ends, |(source, mut sink)| {
        drop(source);
        loop {
            std::io::Write::write_all(&mut sink, &[0; 4096])?;
        }
    })?;
    let ends = family.spawn("reader", ends, |(source, sink)| {
        drop((source, sink));
        anyhow::bail!("damaged")
    })?;
    drop(ends);
    let error = format!("{:#}", family.run().err().context("no error")?);
    ensure!(error == "reader: damaged", "{error}");
    Ok(())
}
