//! nginx with `proxy_cache`, as the cache that all hosts share.

use std::fs;
use std::net::SocketAddrV4;
use std::path::Path;

use anyhow::Result;

use super::host::Host;
use super::registry::{PORT, Served};

/// Starts nginx with its cache on the disk of a host.
pub fn start(host: &Host<'_>, stem: &Path, upstream: SocketAddrV4) -> Result<Served> {
    let file = stem.with_extension("conf");
    let listen = SocketAddrV4::new(host.node.address(), PORT);
    let root = host.on_disk("nginx");
    fs::write(&file, configuration(&root, listen, upstream))?;
    let mut command = host.node.command("sh")?;
    let script = "mkdir -p \"$1\" && exec nginx -p \"$1\" -c \"$2\" -e stderr";
    command.args(["-c", script, "nginx"]).arg(&root).arg(&file);
    Served::start(command, host.node, "nginx", stem)
}

/// One request fetches a blob from the registry, and all others wait until it is in the cache.
fn configuration(root: &Path, listen: SocketAddrV4, upstream: SocketAddrV4) -> String {
    let root = root.display();
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("  {name}_temp_path \"{root}/{name}\";\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid \"{root}/pid\";\nevents {{ worker_connections 4096; }}\n\
         http {{\n{folders}  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  proxy_cache_path \
         \"{root}/cache\" levels=1:2 keys_zone=images:10m max_size=20g inactive=1d use_temp_path=off;\n  \
         server {{\n    listen {listen};\n    location /v2/ {{\n      proxy_pass http://{upstream};\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_read_timeout \
         1h;\n      proxy_cache images;\n      proxy_cache_key $request_uri;\n      proxy_cache_valid \
         200 1h;\n      proxy_cache_lock on;\n      proxy_cache_lock_timeout 1h;\n      \
         proxy_cache_lock_age 1h;\n    }}\n  }}\n}}\n"
    )
}
