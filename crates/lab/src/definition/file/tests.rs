use std::time::Duration;

use super::*;
use crate::definition::{NatKind, TargetBound, TrialPlan, assert_refused};

/// The error of a file.
fn parsed(text: &str) -> Result<(), String> {
    Experiment::parse("bad.toml", text).map(drop).map_err(|error| error.to_string())
}

const GOOD: &str = r#"
seed = 3
repeat = 2

[peers.old]
implementation = "go-bitswap"
[peers.main]
build = { git = "main" }

[clusters.two-regions]
latency = "5ms"
paths = [{ between = ["eu", "us"], latency = "45ms" }]
[[clusters.two-regions.groups]]
name = "seeder"
region = "eu"
link = { up = "100Mbit", down = "1Gbit" }
[[clusters.two-regions.groups]]
name = "peers"
count = 30
region = "us"
labels = ["new"]
peer = "main"

[scenarios.spread]
objects.file = { random = "10MiB" }
seed = { seeder = "file" }
fetch = { "(not 'seeder')" = "file" }

[[trials]]
cluster = "two-regions"
scenario = "spread"
[[trials]]
cluster = "two-regions"
scenario = "spread"
peer = "old"
"#;

#[test]
fn a_file_becomes_an_experiment() {
    let experiment = Experiment::parse("good.toml", GOOD).unwrap();
    let cluster = &experiment.clusters["two-regions"];
    assert_eq!(cluster.paths[0][1].delay, Duration::from_millis(45));
    assert_eq!(cluster.paths[1][1].delay, Duration::from_millis(5));
    assert_eq!(cluster.groups[0].link.up, Some(12_500_000));
    assert_eq!(experiment.peers["main"].build, Build::Git("main".to_owned()));
    let names: Vec<_> = experiment.trials.iter().map(|trial| trial.name.as_str()).collect();
    assert_eq!(names, ["two-regions, spread", "two-regions, spread, old"]);
    let plan = experiment.plan(&experiment.trials[1], 0);
    assert!(
        plan.nodes.iter().all(|node| { node.peer.implementation == Implementation::GoBitswap })
    );
}

#[test]
fn an_error_names_its_line_and_key() {
    let cases: &[(&str, &str, usize, &str, &str)] = &[
        ("repeat = 2", "repeat = 0", 0, "repeat", "at most 1000"),
        ("\"go-bitswap\"", "\"gobitswap\"", 6, "implementation", "did you mean `go-bitswap`?"),
        ("{ git = \"main\" }", "{ git = \"-x\" }", 7, "git", "does not begin with -"),
        ("{ git = \"main\" }", "{ git = \"a\", path = \"b\" }", 7, "build", "either git or path"),
        ("\"us\"]", "\"uss\"]", 12, "between", "uss"),
        ("count = 30", "nat = \"conical\"", 17, "nat", "full-cone"),
        ("count = 30", "count = 0", 17, "count", "at least 1"),
        ("count = 30", "count = 100000", 17, "count", "at most 100000"),
        (
            "fetch = {",
            "waves = [{ nodes = 'peers', count = 0, interval = '1s' }]\nfetch = {",
            27,
            "waves",
            "between 1 and 1000",
        ),
        ("up = \"100Mbit\"", "up = \"0Mbit\"", 16, "up", "invalid rate"),
        ("peer = \"main\"", "peer = \"mian\"", 17, "peer", "known: main, old, watchfire"),
        ("name = \"peers\"", "name = \"seeder\"", 17, "name", "another group"),
        ("name = \"peers\"", "name = \"..\"", 17, "name", "begin with a letter or a digit"),
        ("name = \"seeder\"", "name = \"peers-7\"", 17, "name", "another node"),
        ("repeat = 2", "warm_up = 4294967295", 0, "warm_up", "at most 1000"),
        ("objects.file", "objects.\"/tmp/file\"", 25, "objects", "begin with a letter"),
        ("\"10MiB\"", "\"0B\"", 25, "random", "between 1B"),
        ("seeder = \"file\"", "sower = \"file\"", 29, "seed", "selects no node"),
        ("seeder = \"file\"", "seeder = \"fle\"", 26, "seed", "no object has the name"),
        ("(not 'seeder')", "(nor 'seeder')", 27, "fetch", "unknown operator"),
        ("scenario = \"spread\"", "scenario = \"x\"", 29, "scenario", "known: spread"),
        ("latency = \"5ms\"", "loss = 0.9", 0, "loss", "at most 0.5"),
        ("peer = \"old\"", "", 32, "name", "another trial"),
    ];
    for (old, new, line, key, problem) in cases {
        let text = GOOD.replacen(old, new, 1);
        assert_ne!(text, GOOD, "{old} is there");
        let error = Experiment::parse("bad.toml", &text).expect_err(new);
        let text = error.to_string();
        assert!(text.contains(problem), "{new}: {text}");
        assert_eq!((error.line(), error.key()), (*line, *key), "{new}: {text}");
    }
}

#[test]
fn a_trial_can_have_a_peer_for_each_group() {
    let old = "scenario = \"spread\"\npeer = \"old\"";
    let text = GOOD.replace(old, &format!("{old}\npeers = {{ seeder = \"main\" }}"));
    let experiment = Experiment::parse("good.toml", &text).unwrap();
    let plan = experiment.plan(&experiment.trials[1], 0);
    assert_eq!(plan.nodes[0].peer.implementation, Implementation::Watchfire);
    assert_eq!(plan.nodes[1].peer.implementation, Implementation::GoBitswap);
    let error = Experiment::parse("bad.toml", &text.replace("{ seeder = \"main", "{ x = \"main"));
    assert!(error.unwrap_err().to_string().contains("has no group \"x\""));
}

#[test]
fn a_target_names_a_figure_of_a_trial() {
    let target = |trial: &str, figure: &str| {
        let text = format!(
            "{GOOD}[[targets]]\ntrial = \"{trial}\"\nfigure = \"{figure}\"\nat_most = 0.8\n\
             relative_to = [\"two-regions, spread, old\"]\n"
        );
        Experiment::parse("targets.toml", &text).map(|experiment| experiment.targets)
    };
    let known = target("two-regions, spread", "leecher_cpu").unwrap();
    assert_eq!(known[0].bound, TargetBound::AtMost(0.8));
    let error = target("two-regions", "leecher_cpu").unwrap_err().to_string();
    assert!(error.contains("no trial has the name \"two-regions\""), "{error}");
    let both = format!(
        "{GOOD}[[targets]]\ntrial = \"two-regions, spread\"\nfigure = \"messages\"\nat_most = 1\nat_least = 1\n"
    );
    let error = Experiment::parse("targets.toml", &both).unwrap_err().to_string();
    assert!(error.contains("needs either at_most or at_least"), "{error}");
    let error = Experiment::parse("figures.toml", &format!("figures = ['errors']\n{GOOD}"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no figure \"errors\""), "{error}");
    let error = target("two-regions, spread", "leecher_cpus").unwrap_err().to_string();
    assert!(error.contains("no figure \"leecher_cpus\"; known: first_byte"), "{error}");
}

#[test]
fn a_load_needs_servers() {
    let text = "
        [peers.server]
        implementation = 'server'
        [clusters.c]
        groups = [{ name = 'one', peer = 'server' }, { name = 'other' }]
        [scenarios.s]
        load = { file = 'lobby.toml', on = 'one' }
    ";
    let plan = TrialPlan::first_of(text);
    assert_eq!(plan.load.unwrap().file.to_str(), Some("lobby.toml"));
    assert!(plan.nodes[0].serves && !plan.nodes[1].serves);
    let change = ("on = 'one'", "on = 'other'", "load: the peer of other is not a server");
    assert_refused(text, &[change], parsed);
    for (settings, is_server) in [("serve = 'node ws.mjs'", true), ("seed = 'a'", false)] {
        let program = format!("implementation = 'program'\nsettings = {{ {settings} }}");
        let text = text.replace("implementation = 'server'", &program);
        assert_eq!(Experiment::parse("load.toml", &text).is_ok(), is_server, "{settings}");
    }
    let other = text.replace("'lobby.toml'", "'users.js', command = 'k6', users = 9");
    let experiment = Experiment::parse("load.toml", &other).unwrap();
    let load = experiment.plan(&experiment.trials[0], 0).load.unwrap();
    assert_eq!((load.command.as_deref(), load.users), (Some("k6"), Some(9)));
    let changes = [
        ("users = 9", "users = 0", "a nonzero u32"),
        ("users = 9", "set = { seed = 1 }", "not of a command"),
        ("command = 'k6', ", "", "users is of a command"),
    ];
    assert_refused(&other, &changes, parsed);
}

#[test]
fn a_load_has_other_values_in_each_scenario_and_in_a_short_check() {
    let text = "
        [peers.server]
        implementation = 'server'
        [clusters.c]
        private_network = true
        groups = [{ name = 'one', peer = 'server' }]
        [scenarios.s.load]
        file = 'room.toml'
        on = 'one'
        set = { 'phases.join.rate' = 1000, 'phases.join.duration' = '80s' }
        quick = { 'phases.join.duration' = '1s' }
    ";
    let mut experiment = Experiment::parse("load.toml", text).unwrap();
    let plan = |experiment: &Experiment| experiment.plan(&experiment.trials[0], 0);
    let value = |plan: TrialPlan, key: &str| plan.load.unwrap().set[key].clone();
    assert!(plan(&experiment).private_network);
    assert_eq!(value(plan(&experiment), "phases.join.rate"), "1000");
    assert_eq!(value(plan(&experiment), "phases.join.duration"), "80s");
    experiment.shorten(1);
    assert_eq!(value(plan(&experiment), "phases.join.rate"), "1000");
    assert_eq!(value(plan(&experiment), "phases.join.duration"), "1s");
}

#[test]
fn programs_can_have_a_server() {
    let text = "
        [peers.server]
        implementation = 'server'
        [clusters.c]
        groups = [{ name = 'one', peer = 'server' }, { name = 'a' }, { name = 'b' }]
        [scenarios.s]
        objects.file = { random = '1MiB' }
        serve = 'one'
        seed = { a = 'file' }
        fetch = { b = 'file' }
    ";
    let plan = TrialPlan::first_of(text);
    assert!(plan.nodes[0].serves && !plan.nodes[1].serves);
    let changes = [
        ("serve = 'one'", "serve = 'a'", "serve: the peer of a is not a server"),
        ("serve = 'one'", "serve = 'x'", "serve: the query 'x' of \"s\" selects no node"),
    ];
    assert_refused(text, &changes, parsed);
}

#[test]
fn without_trials_each_cluster_meets_each_scenario() {
    let (head, _) = GOOD.split_once("[[trials]]").unwrap();
    let experiment = Experiment::parse("good.toml", head).unwrap();
    assert_eq!(experiment.trials.len(), 1);
}

const CLUSTERED: &str = "
    figures = [{ figure = 'load: a: b', title = 'c', times = 0.5 }, 'messages']
    [peers.server]
    implementation = 'server'
    settings = { 'cluster.nats' = ['nats://${address of broker}:4222'] }
    [peers.broker]
    implementation = 'program'
    settings.serve = 'broker'
    [clusters.c]
    groups = [{ name = 'broker', peer = 'broker' }, { name = 'machines', count = 3, peer = 'server' }]
    [scenarios.s]
    serve = 'broker'
    load = { file = 'lobby.toml', on = 'machines' }
";

#[test]
fn servers_may_need_backends_and_the_addresses_of_other_groups() {
    let plan = TrialPlan::first_of(CLUSTERED);
    assert!(plan.nodes.iter().all(|node| node.serves));
    let with_users: Vec<_> = plan.nodes.iter().map(|node| node.has_users).collect();
    assert_eq!(with_users, [false, true, true, true]);
    let changes = [
        ("of broker}", "of brokers}", "need the address of \"brokers\""),
        ("serve = 'broker'\n    load", "serve = 'nobody'\n    load", "selects no node"),
        ("settings.serve", "settings.seed", "the peer of broker is not a server"),
    ];
    assert_refused(CLUSTERED, &changes, parsed);
}

#[test]
fn the_figures_of_a_page_are_checked() {
    let experiment = Experiment::parse("cluster.toml", CLUSTERED).unwrap();
    let titles: Vec<_> =
        experiment.figures.iter().map(|one| (one.title.as_str(), one.times)).collect();
    assert_eq!(titles, [("c", 0.5), ("messages", 1.0)]);
    let changes = [
        ("'messages'", "'massages'", "no figure \"massages\""),
        ("times = 0.5", "times = 0", "must be above 0"),
        ("title = 'c'", "title = \"c\\nd\"", "title: must be one line"),
    ];
    assert_refused(CLUSTERED, &changes, parsed);
}

#[test]
fn an_entry_makes_a_trial_for_each_pair_of_networks() {
    let natted = |nat: &str| {
        let entry =
            format!("name = 'pair'\ncluster = 'two-regions'\nscenario = 'spread'\nnat = {nat}");
        Experiment::parse("good.toml", &format!("{GOOD}[[trials]]\n{entry}\n"))
    };
    let pairs = "{ peers = ['carrier', 'udp-blocked'], seeder = ['open', 'symmetric'] }";
    let experiment = natted(pairs).unwrap();
    let names: Vec<_> = experiment.trials.iter().map(|trial| trial.name.as_str()).collect();
    assert_eq!(
        names[2..],
        [
            "pair: open to carrier",
            "pair: open to udp-blocked",
            "pair: symmetric to carrier",
            "pair: symmetric to udp-blocked"
        ]
    );
    let plan = experiment.plan(&experiment.trials[4], 0);
    assert_eq!(plan.nodes[0].nat, NatKind::Symmetric);
    assert!(plan.nodes[1..].iter().all(|node| node.nat == NatKind::Carrier));
    assert_eq!(natted("{ peers = 'carrier' }").unwrap().trials[2].name, "pair");

    for (nat, problem) in [
        ("{ others = 'open' }", "no group \"others\""),
        ("{ peers = [] }", "needs a kind of NAT"),
        ("{ peers = 'tunnel' }", "unknown kind of NAT"),
    ] {
        let error = natted(nat).unwrap_err().to_string();
        assert!(error.contains(problem), "{nat}: {error}");
    }
}
