use watchfire::Layers;

/// A settings file, `--set` arguments and environment variables: each is applied or rejected.
pub fn settings(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut layers = Layers::new();
    if layers.text("fuzz.toml", text).is_ok() {
        layers.settings().expect("the accepted settings are valid");
    }
    for line in text.lines().take(20) {
        let _ = layers.assign("--set", line);
        let name = format!("WATCHFIRE_{}", line.replace(['.', ' '], "_").to_uppercase());
        let value = line.split_once('=').map_or("", |(_, value)| value);
        let name = name.split('=').next().unwrap_or_default().to_owned();
        let _ = layers.environment([(name, value.to_owned())]);
    }
    layers.settings().expect("the accepted settings are valid");
}
