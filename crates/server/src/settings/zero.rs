//! Settings for which zero would mean that no client can be served.

use super::sections::Settings;

impl Settings {
    /// The first setting that is zero and must not be. For other settings, zero has a meaning: no
    /// limit, a limit that is derived, no wait.
    pub(crate) fn zero(&self) -> Option<&'static str> {
        let Settings { socket, limits, auth, hooks, api, .. } = self;
        let durations = [
            ("socket.idle_timeout", socket.idle_timeout),
            ("socket.slow_timeout", socket.slow_timeout),
            ("socket.longpoll_window", socket.longpoll_window),
            ("auth.jwks_refresh", auth.jwks_refresh),
            ("hooks.timeout", hooks.timeout),
        ];
        let numbers: [(_, u64); 8] = [
            ("limits.frame_bytes_max", limits.frame_bytes_max.into()),
            ("limits.partial_bytes_max", limits.partial_bytes_max),
            ("limits.queued_bytes_max", limits.queued_bytes_max.into()),
            ("limits.channels_per_socket_max", limits.channels_per_socket_max.into()),
            ("limits.joins_per_second_per_socket", limits.joins_per_second_per_socket.into()),
            ("limits.messages_per_second_per_socket", limits.messages_per_second_per_socket.into()),
            ("limits.sockets_per_address_max", limits.sockets_per_address_max.into()),
            ("limits.blocks_in_flight_max", limits.blocks_in_flight_max.into()),
        ];
        let of_parts = [("api.body_bytes_max", api.is_on() && api.body_bytes_max == 0)];
        let durations = durations.into_iter().map(|(name, value)| (name, value.is_zero()));
        let numbers = numbers.into_iter().map(|(name, value)| (name, value == 0));
        let mut all = durations.chain(numbers).chain(of_parts);
        all.find_map(|(name, is_zero)| is_zero.then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_serves_no_client_at_zero_is_named() {
        assert_eq!(Settings::default().zero(), None);
        for name in
            ["socket.longpoll_window", "auth.jwks_refresh", "limits.channels_per_socket_max"]
        {
            let (section, key) = name.split_once('.').unwrap();
            let is_duration = ["socket", "auth"].contains(&section);
            let zero = if is_duration { "\"0s\"" } else { "0" };
            let settings: Settings =
                toml::from_str(&format!("[{section}]\n{key} = {zero}")).unwrap();
            assert_eq!(settings.zero(), Some(name));
            let error = crate::Server::new(settings).check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot use {name} = 0: ")), "{error}");
        }
        for text in [
            "[server]\ndrain_period = \"0s\"",
            "[limits]\nsockets_max = 0",
            "[auth]\nleeway = \"0s\"",
        ] {
            assert_eq!(toml::from_str::<Settings>(text).unwrap().zero(), None, "{text}");
        }
    }
}
