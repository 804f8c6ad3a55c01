//! Mirrors until a signal arrives.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ipnet::IpNet;
use serde::Deserialize;
use watchfire::feature::SectionType;
use watchfire::{Layers, LogSettings};
use watchfire_mirror::upstream::Registry;
use watchfire_mirror::{FleetSettings, Mirror, MirrorSettings, Region, RegionLink};
use watchfire_p2p::{HostSettings, read_swarm_key};
use watchfire_pages::P2pSettings;

use crate::cpu_profile::CpuProfileOption;
use crate::signals::Signals;

/// The price of what a registry sends, where a link between regions costs 1.
const REGISTRY_PRICE: f64 = 10.0;

/// Arguments of `watchfire mirror`.
///
/// Each can also be set by a variable, such as WATCHFIRE_MIRROR_STORE, or in the file of --config,
/// under its name with underscores. The command line overrides variables, and both override the file.
#[derive(clap::Args)]
pub struct Mirroring {
    /// A file with these options as TOML, such as `tag_ttl = "1m"`.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_MIRROR_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    pub cpu_profile: CpuProfileOption,
}

/// The options, each unset or set.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    /// A registry to mirror: docker.io, a URL, or <name>=<URL>; can be repeated. Requests that name
    /// no registry go to the first.
    #[arg(long, value_name = "REGISTRY", env = "WATCHFIRE_MIRROR_UPSTREAM", value_delimiter = ',')]
    upstream: Vec<String>,
    /// A server of files, such as huggingface.co, a URL, or <name>=<URL>; can be repeated. Its files are
    /// served at /proxy/<name>/. No other server is asked for files.
    #[arg(long, value_name = "HOST", env = "WATCHFIRE_MIRROR_PROXY_HOST", value_delimiter = ',')]
    proxy_host: Vec<String>,
    /// Listen on this address for container engines (default: 127.0.0.1:5000).
    #[arg(long, value_name = "ADDRESS", env = "WATCHFIRE_MIRROR_LISTEN")]
    listen: Option<SocketAddr>,
    /// A DNS name under which clients reach the mirror, such as mirror.example; can be repeated. Clients
    /// on this host need it for each name except localhost. With one, all clients need it.
    #[arg(long, value_name = "NAME", env = "WATCHFIRE_MIRROR_NAME", value_delimiter = ',')]
    name: Vec<String>,
    /// The folder for images (default: /var/lib/watchfire/mirror).
    #[arg(long, value_name = "DIR", env = "WATCHFIRE_MIRROR_STORE")]
    store: Option<PathBuf>,
    /// Read blobs also from containerd's content store, and keep no second copy of them. It is
    /// usually /var/lib/containerd/io.containerd.content.v1.content/blobs, which only root can read.
    #[arg(long, value_name = "DIR", env = "WATCHFIRE_MIRROR_CONTAINERD_BLOBS")]
    containerd_blobs: Option<PathBuf>,
    /// The size of the store in bytes (default: 50 GiB). When it is full, the blobs that were not
    /// used for the longest time are removed.
    #[arg(long, value_name = "BYTES", env = "WATCHFIRE_MIRROR_STORE_BYTES_MAX")]
    store_bytes_max: Option<u64>,
    /// A file with credentials for registries, as Docker, Podman and Kubernetes write it; can be
    /// repeated.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_MIRROR_CREDENTIALS", value_delimiter = ',')]
    credentials: Vec<PathBuf>,
    /// A network that is not public, such as 10.0.0.0/8, to which a registry may redirect; can be
    /// repeated.
    #[arg(
        long,
        value_name = "NETWORK",
        env = "WATCHFIRE_MIRROR_ALLOW_REDIRECT",
        value_delimiter = ','
    )]
    allow_redirect: Vec<IpNet>,
    /// Serve the manifest of a tag, or the version of a file, for this long before asking its server
    /// again (default: 1m).
    #[arg(long, value_name = "TIME", env = "WATCHFIRE_MIRROR_TAG_TTL", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde::option")]
    tag_ttl: Option<Duration>,
    /// Serve stored content for this long before asking the registry again whether this mirror may
    /// pull it (default: 1h).
    #[arg(long, value_name = "TIME", env = "WATCHFIRE_MIRROR_ACCESS_TTL", value_parser = humantime::parse_duration)]
    #[serde(with = "humantime_serde::option")]
    access_ttl: Option<Duration>,
    /// Serve stored images while the registry is down, even if they may be out of date.
    #[arg(long, env = "WATCHFIRE_MIRROR_OFFLINE_OK", num_args = 0..=1, default_missing_value = "true")]
    offline_ok: Option<bool>,
    /// Share images with the mirrors of other hosts: listen on this address for them. It needs
    /// --fleet-key.
    #[arg(long, value_name = "ADDRESS", env = "WATCHFIRE_MIRROR_PEER_LISTEN")]
    peer_listen: Option<SocketAddr>,
    /// The --peer-listen of another host of the fleet; can be repeated. One that runs is enough.
    #[arg(long, value_name = "ADDRESS", env = "WATCHFIRE_MIRROR_JOIN", value_delimiter = ',')]
    join: Vec<SocketAddr>,
    /// A DNS name and a port, such as mirrors.example:5001. Its addresses are hosts of the fleet; can
    /// be repeated.
    #[arg(
        long,
        value_name = "NAME:PORT",
        env = "WATCHFIRE_MIRROR_JOIN_DNS",
        value_delimiter = ','
    )]
    join_dns: Vec<String>,
    /// Find hosts of the fleet on the local network by mDNS.
    #[arg(long, env = "WATCHFIRE_MIRROR_MDNS", num_args = 0..=1, default_missing_value = "true")]
    mdns: Option<bool>,
    /// The region of this host, such as eu-west-1. It shares images with hosts of its region. Without a
    /// --region-link, the registry sends each image once to each region.
    #[arg(long, value_name = "NAME", env = "WATCHFIRE_MIRROR_REGION")]
    region: Option<String>,
    /// The --peer-listen of a host in another region, from which this region takes images when it is cheaper
    /// than the registry; can be repeated. The default price is 1.
    #[arg(
        long,
        value_name = "REGION=HOST:PORT[,price=N]",
        env = "WATCHFIRE_MIRROR_REGION_LINK",
        value_delimiter = ' '
    )]
    region_link: Vec<String>,
    /// The price of what a registry sends, to compare with that of a --region-link (default: 10).
    #[arg(long, value_name = "N", env = "WATCHFIRE_MIRROR_REGISTRY_PRICE")]
    registry_price: Option<f64>,
    /// The file with the key of the fleet, which `watchfire mirror key` makes. All hosts of a fleet
    /// have the same.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_MIRROR_FLEET_KEY")]
    fleet_key: Option<PathBuf>,
    /// The file with the key that --fleet-key replaces. Hosts with either key connect to this one, so
    /// the hosts of a fleet can get a new key one after the other.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_MIRROR_FLEET_KEY_BEFORE")]
    fleet_key_before: Option<PathBuf>,
    /// Give public images to IPFS peers by their CIDs, and get images from them.
    #[arg(long, env = "WATCHFIRE_MIRROR_IPFS", num_args = 0..=1, default_missing_value = "true")]
    ipfs: Option<bool>,
    /// Change a setting of --ipfs, as `watchfire serve` has it, such as
    /// p2p.listen=/ip4/0.0.0.0/tcp/4001; can be repeated.
    #[arg(long, value_name = "p2p.KEY=VALUE", env = "WATCHFIRE_MIRROR_SET", value_delimiter = ' ')]
    set: Vec<String>,
    /// The level of the log, or a filter such as "info,watchfire_mirror=debug" (default: info).
    #[arg(long, value_name = "LEVEL", env = "WATCHFIRE_MIRROR_LOG_LEVEL")]
    log_level: Option<String>,
    /// Requests that fetch one blob at once, if the registry sends ranges (default: 4).
    #[arg(long, value_name = "NUMBER", env = "WATCHFIRE_MIRROR_CONNECTIONS_PER_BLOB")]
    connections_per_blob: Option<usize>,
}

/// Mirrors until a signal arrives.
pub fn run(arguments: Mirroring) -> anyhow::Result<()> {
    let file = match &arguments.config {
        Some(path) => read(path)?,
        None => Options::default(),
    };
    let options = arguments.options.over(file);
    let mut log = LogSettings::default();
    if let Some(level) = &options.log_level {
        log.level.clone_from(level);
    }
    watchfire::start_logging(&log)?;
    let _traces = crate::traces::start("mirror")?;
    let settings = options.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mirror = Mirror::new(settings).start().await?;
        println!("Mirroring on http://{} until you press Ctrl-C.", mirror.address());
        if let Some(fleet) = mirror.fleet().await {
            println!("Sharing images with other hosts at {}.", fleet.addresses.join(", "));
        }
        if let Some(addresses) = mirror.ipfs_addresses() {
            println!("Serving IPFS peers at {}.", addresses.join(", "));
        }
        signals.next().await;
        mirror.stop().await;
        Ok(())
    })
}

fn read(path: &Path) -> anyhow::Result<Options> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the settings file {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("invalid settings file {}", path.display()))
}

impl Options {
    /// These options; where one is unset, the option of `other`.
    fn over(self, other: Options) -> Options {
        fn either<T>(first: Vec<T>, second: Vec<T>) -> Vec<T> {
            if first.is_empty() { second } else { first }
        }
        Options {
            upstream: either(self.upstream, other.upstream),
            proxy_host: either(self.proxy_host, other.proxy_host),
            listen: self.listen.or(other.listen),
            name: either(self.name, other.name),
            store: self.store.or(other.store),
            containerd_blobs: self.containerd_blobs.or(other.containerd_blobs),
            store_bytes_max: self.store_bytes_max.or(other.store_bytes_max),
            credentials: either(self.credentials, other.credentials),
            allow_redirect: either(self.allow_redirect, other.allow_redirect),
            tag_ttl: self.tag_ttl.or(other.tag_ttl),
            access_ttl: self.access_ttl.or(other.access_ttl),
            offline_ok: self.offline_ok.or(other.offline_ok),
            peer_listen: self.peer_listen.or(other.peer_listen),
            join: either(self.join, other.join),
            join_dns: either(self.join_dns, other.join_dns),
            mdns: self.mdns.or(other.mdns),
            region: self.region.or(other.region),
            region_link: either(self.region_link, other.region_link),
            registry_price: self.registry_price.or(other.registry_price),
            fleet_key: self.fleet_key.or(other.fleet_key),
            fleet_key_before: self.fleet_key_before.or(other.fleet_key_before),
            ipfs: self.ipfs.or(other.ipfs),
            set: either(self.set, other.set),
            log_level: self.log_level.or(other.log_level),
            connections_per_blob: self.connections_per_blob.or(other.connections_per_blob),
        }
    }

    fn settings(self) -> anyhow::Result<MirrorSettings> {
        let default = MirrorSettings::default();
        let (fleet, ipfs) = (self.fleet()?, self.ipfs()?);
        let is_name = |name: &&String| {
            !name.is_empty()
                && name.bytes().all(|one| one.is_ascii_alphanumeric() || b"-._".contains(&one))
        };
        if let Some(name) = self.name.iter().find(|name| !is_name(name)) {
            anyhow::bail!(
                "invalid --name {name:?}: write a DNS name without a port, such as mirror.example"
            );
        }
        let upstreams = self.upstream.iter().map(|text| text.parse::<Registry>());
        let proxy_hosts = self.proxy_host.iter().map(|text| {
            text.parse::<Registry>().map_err(|_| {
                anyhow::anyhow!(
                    "invalid --proxy-host {text:?}: write a host such as huggingface.co, a URL such as https://models.example:8443, or <name>=<URL>"
                )
            })
        });
        Ok(MirrorSettings {
            listen: self.listen.unwrap_or(default.listen),
            names: self.name,
            containerd_blobs: self.containerd_blobs,
            upstreams: upstreams.collect::<Result<_, _>>()?,
            proxy_hosts: proxy_hosts.collect::<Result<_, _>>()?,
            store: self.store.unwrap_or(default.store),
            store_bytes_max: self.store_bytes_max.unwrap_or(default.store_bytes_max),
            credentials: self.credentials,
            redirect_networks: self.allow_redirect,
            tag_ttl: self.tag_ttl.unwrap_or(default.tag_ttl),
            access_ttl: self.access_ttl.unwrap_or(default.access_ttl),
            offline_ok: self.offline_ok.unwrap_or(default.offline_ok),
            fleet,
            ipfs,
            connections_per_blob: self.connections_per_blob.unwrap_or(default.connections_per_blob),
            ..default
        })
    }
}

impl Options {
    /// The libp2p host for IPFS peers; `None` without --ipfs.
    fn ipfs(&self) -> anyhow::Result<Option<HostSettings>> {
        if self.ipfs != Some(true) {
            anyhow::ensure!(self.set.is_empty(), "cannot use --set: it needs --ipfs");
            return Ok(None);
        }
        let store = self.store.clone().unwrap_or(MirrorSettings::default().store);
        let mut layers = Layers::new().with(vec![SectionType::of::<P2pSettings>()]);
        let identity = format!("p2p.identity={}", store.join("ipfs.key").display());
        for default in ["p2p.listen=/ip4/0.0.0.0/tcp/4001", "p2p.dht=client", &identity] {
            layers.assign("--ipfs", default)?;
        }
        for assignment in &self.set {
            let is_ours = assignment.starts_with("p2p.");
            anyhow::ensure!(
                is_ours,
                "cannot use --set {assignment}: only p2p.KEY=VALUE is possible"
            );
            layers.assign("--set", assignment)?;
        }
        let settings = layers.settings()?.section::<P2pSettings>();
        Ok(Some(watchfire_pages::host_settings(&settings)?))
    }

    /// The fleet to join; `None` without --peer-listen.
    fn fleet(&self) -> anyhow::Result<Option<FleetSettings>> {
        let Some(listen) = self.peer_listen else {
            let unused = [
                ("--join", !self.join.is_empty()),
                ("--join-dns", !self.join_dns.is_empty()),
                ("--mdns", self.mdns == Some(true)),
                ("--region", self.region.is_some()),
                ("--region-link", !self.region_link.is_empty()),
                ("--registry-price", self.registry_price.is_some()),
                ("--fleet-key", self.fleet_key.is_some()),
                ("--fleet-key-before", self.fleet_key_before.is_some()),
            ];
            if let Some((option, _)) = unused.iter().find(|(_, is_set)| *is_set) {
                anyhow::bail!(
                    "cannot join a fleet: {option} needs --peer-listen ADDRESS, on which the other hosts reach this one"
                );
            }
            return Ok(None);
        };
        let key = self.fleet_key.as_deref().context(
            "cannot join a fleet: --peer-listen needs --fleet-key FILE; make the file once with `watchfire mirror key > FILE`, and copy it to all hosts",
        )?;
        if let Some(name) = self.join_dns.iter().find(|name| !name.contains(':')) {
            anyhow::bail!(
                "cannot join a fleet: --join-dns {name:?} has no port; write {name}:5001, with the port of --peer-listen"
            );
        }
        let registry_price = self.registry_price.unwrap_or(REGISTRY_PRICE);
        if !registry_price.is_finite() || registry_price < 0.0 {
            anyhow::bail!(
                "cannot use --registry-price {registry_price}: write a number of at least 0, such as 10"
            );
        }
        let mdns = self.mdns.unwrap_or(false);
        if mdns && listen.ip().is_loopback() {
            anyhow::bail!(
                "cannot find hosts with --mdns: --peer-listen {listen} is reachable only from this host; use its address on the local network, or 0.0.0.0:{}",
                listen.port()
            );
        }
        let region = self.region.as_deref().map(str::parse::<Region>).transpose();
        let before = self.fleet_key_before.as_deref().map(read_swarm_key).transpose();
        let links = self.region_link.iter().map(|text| text.parse::<RegionLink>());
        let links = links.collect::<Result<Vec<_>, _>>().context("cannot link regions")?;
        let is_own = |link: &&RegionLink| {
            self.region.as_ref().is_none_or(|own| *own == link.region.to_string())
        };
        if let Some(link) = links.iter().find(is_own) {
            anyhow::bail!(
                "cannot link the region {}: --region-link needs another --region NAME for this host",
                link.region
            );
        }
        let has_two_prices = |link: &&RegionLink| {
            links.iter().any(|other| other.region == link.region && other.price != link.price)
        };
        if let Some(link) = links.iter().find(has_two_prices) {
            anyhow::bail!(
                "cannot link the region {}: its --region-link options name two prices; write the same one",
                link.region
            );
        }
        let default = MirrorSettings::default();
        let store = self.store.clone().unwrap_or(default.store);
        Ok(Some(FleetSettings {
            listen,
            join: self.join.clone(),
            join_dns: self.join_dns.clone(),
            mdns,
            region: region.context("cannot join a fleet")?,
            links,
            registry_price,
            key: read_swarm_key(key).context(
                "cannot join a fleet: no valid --fleet-key; make the file with `watchfire mirror key > FILE`",
            )?,
            key_before: before.context("cannot join a fleet: no valid --fleet-key-before")?,
            identity: Some(store.join("identity")),
            leases_per_blob: self.connections_per_blob.unwrap_or(default.connections_per_blob),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_override_the_file_and_the_file_overrides_the_defaults() {
        let file: Options = toml::from_str(
            "upstream = [\"docker.io\", \"http://127.0.0.1:5001\"]\ntag_ttl = \"5m\"\noffline_ok = true",
        )
        .unwrap();
        let options = Options { tag_ttl: Some(Duration::from_secs(1)), ..Options::default() };
        let settings = options.over(file).settings().unwrap();
        assert_eq!(settings.upstreams.len(), 2);
        assert_eq!(settings.tag_ttl, Duration::from_secs(1));
        assert!(settings.offline_ok);
        assert_eq!(settings.access_ttl, MirrorSettings::default().access_ttl);
        assert!(toml::from_str::<Options>("upstrem = []").is_err());
        let bad = Options { upstream: vec!["a b".into()], ..Options::default() };
        assert!(bad.settings().is_err());
        let proxy_host = vec!["a.example=http://127.0.0.1:1".into()];
        let options = Options { proxy_host, ..Options::default() };
        assert_eq!(options.settings().unwrap().proxy_hosts[0].name(), "a.example");
        let bad = Options { proxy_host: vec!["http://a/b".into()], ..Options::default() };
        assert!(bad.settings().unwrap_err().to_string().contains("--proxy-host \"http://a/b\""));
        let bad = Options { name: vec!["mirror.example:5000".into()], ..Options::default() };
        assert!(bad.settings().unwrap_err().to_string().contains("--name \"mirror.example:5000\""));
    }

    #[test]
    fn a_fleet_needs_an_address_and_a_key() {
        let join = vec!["127.0.0.1:5001".parse().unwrap()];
        let error = |options: Options| format!("{:#}", options.settings().unwrap_err());
        let without = Options { join: join.clone(), ..Options::default() };
        assert!(error(without).contains("--join needs --peer-listen"));
        let without = Options { registry_price: Some(1.0), ..Options::default() };
        assert!(error(without).contains("--registry-price needs --peer-listen"));
        let peer_listen = Some("127.0.0.1:0".parse().unwrap());
        let without = Options { peer_listen, join, ..Options::default() };
        assert!(error(without).contains("watchfire mirror key"));
        let missing = Options {
            peer_listen,
            fleet_key: Some("/nonexistent/key".into()),
            ..Options::default()
        };
        assert!(error(missing).contains("/nonexistent/key"));
        for price in [f64::NAN, f64::INFINITY, -1.0] {
            let wrong = Options {
                peer_listen,
                fleet_key: Some("/nonexistent/key".into()),
                registry_price: Some(price),
                ..Options::default()
            };
            assert!(error(wrong).contains("cannot use --registry-price"));
        }
        let two_prices = Options {
            peer_listen,
            fleet_key: Some("/nonexistent/key".into()),
            region: Some("us".into()),
            region_link: vec!["eu=10.1.0.1:5001,price=2".into(), "eu=10.1.0.2:5001".into()],
            ..Options::default()
        };
        assert!(error(two_prices).contains("cannot link the region eu"));
    }

    #[test]
    fn mdns_needs_an_address_that_other_hosts_reach_and_a_region_a_valid_name() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("/key/swarm/psk/1.0.0/\n/base16/\n{}", "ab".repeat(32)))
            .unwrap();
        let options = |listen: &str| Options {
            peer_listen: Some(listen.parse().unwrap()),
            fleet_key: Some(key.clone()),
            mdns: Some(true),
            ..Options::default()
        };
        let fleet = |options: Options| options.settings().map(|settings| settings.fleet.unwrap());
        let error = |options: Options| format!("{:#}", fleet(options).unwrap_err());
        assert!(error(options("127.0.0.1:5001")).contains("0.0.0.0:5001"));
        let spaced = Options { region: Some("eu west".into()), ..options("0.0.0.0:5001") };
        assert!(error(spaced).contains("invalid region \"eu west\""));
        let file: Options = toml::from_str("mdns = true\nregion = \"eu\"").unwrap();
        let merged = Options { mdns: None, ..options("0.0.0.0:5001") }.over(file);
        let found = fleet(merged).unwrap();
        assert!(found.mdns);
        assert_eq!(found.region, Some("eu".parse().unwrap()));
        let linked = |link: &str| Options {
            mdns: None,
            region: Some("eu".into()),
            region_link: vec![link.into()],
            ..options("0.0.0.0:5001")
        };
        assert_eq!(fleet(linked("us=10.1.0.7:5001,price=2")).unwrap().links[0].price, 2.0);
        assert!(error(linked("us=10.1.0.7")).contains("invalid region link \"us=10.1.0.7\""));
        assert!(error(linked("eu=10.1.0.7:5001")).contains("needs another --region"));
        let without = Options { region: None, ..linked("us=10.1.0.7:5001") };
        assert!(error(without).contains("needs another --region"));
        let alone = Options { region: Some("eu".into()), ..Options::default() };
        assert!(format!("{:#}", alone.settings().unwrap_err()).contains("--region needs"));
    }

    #[test]
    fn the_settings_for_ipfs_are_those_of_a_server_with_defaults_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let options = |set: &[&str]| Options {
            ipfs: Some(true),
            store: Some(folder.path().to_owned()),
            set: set.iter().map(|text| (*text).to_owned()).collect(),
            ..Options::default()
        };
        let default = options(&[]).settings().unwrap().ipfs.unwrap();
        assert_eq!(default.listen, ["/ip4/0.0.0.0/tcp/4001".parse().unwrap()]);
        assert_eq!(default.identity, Some(folder.path().join("ipfs.key")));
        assert!(!default.dht_peers.is_empty() && default.dht == watchfire_p2p::Dht::Client);
        let changed = options(&["p2p.bootstrap=/ip4/192.0.2.1/tcp/1", "p2p.dht=off"]);
        let changed = changed.settings().unwrap().ipfs.unwrap();
        assert_eq!((changed.bootstrap.len(), changed.dht_peers.len()), (1, 0));
        let error = |options: Options| format!("{:#}", options.settings().unwrap_err());
        assert!(error(options(&["server.listen=127.0.0.1:1"])).contains("only p2p.KEY=VALUE"));
        assert!(error(options(&["p2p.listen=x"])).contains("\"x\""));
        assert!(error(options(&["p2p.nothing=1"])).contains("nothing"));
        let without = Options { ipfs: None, ..options(&["p2p.dht=off"]) };
        assert!(error(without).contains("needs --ipfs"));
    }
}
