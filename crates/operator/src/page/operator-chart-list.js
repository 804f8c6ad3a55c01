// All charts of the page: which columns of the history each shows, and under which names.

/**
 * `columns` has the names of the columns, in the order of the legend. `kind` says how their values are written. A column
 * with a kind of its own is drawn as a share of its highest value.
 */
const chart = (title, kind, columns) => ({ title, kind, columns })

const CONNECTIONS = chart('Connections', 'count', {
  connections: 'TCP',
  clients_websocket: 'WebSocket',
  clients_longpoll: 'Long poll',
  clients_events: 'Event streams',
})
const MESSAGES = chart('Messages', 'rate', { deliveries: 'Deliveries', messages: 'From clients', broadcasts: 'Broadcasts' })
const BYTES = chart('Bytes', 'byte_rate', { sent_bytes: 'Out', received_bytes: 'In' })
const CPU = chart('CPU', 'cores', { cpu: 'In use' })
const BUSY = chart('Busiest event loop', 'share', { busy_max: 'Busy' })
const MEMORY = chart('Memory', 'bytes', { resident_bytes: 'Resident' })
const BROADCAST = chart('Broadcast time', 'seconds', { broadcast_p99: 'p99', broadcast_p50: 'p50' })
const QUEUED = chart('Queued bytes', 'bytes', { queued_bytes: 'All connections', queued_bytes_max: 'Longest queue' })

export const HOME_CHARTS = [CONNECTIONS, MESSAGES, BYTES, BROADCAST, CPU, BUSY, MEMORY, QUEUED]

export const LIVE_CHARTS = [
  chart('People, memory and CPU', 'share', {
    clients_websocket: ['Connected', 'count'],
    page_loads: ['Page loads', 'rate'],
    resident_bytes: ['Memory', 'bytes'],
    cpu: ['CPU', 'cores'],
  }),
  CONNECTIONS,
  chart('Joins', 'rate', { joins: 'Joins', joins_refused: 'Refused' }),
  MESSAGES,
  BYTES,
  CPU,
  BUSY,
  MEMORY,
  BROADCAST,
  QUEUED,
  chart('Refusals', 'rate', { refusals: 'All', refusals_origin: 'Wrong origin', refusals_relay_quota: 'Relay quota' }),
  chart('Refusals at a limit', 'rate', {
    refusals_sockets_max: 'Connections',
    refusals_shard_queue: 'Queue of an event loop',
    refusals_broadcast_backlog: 'Broadcasts',
  }),
  chart('Closes', 'rate', { closes: 'All', closes_slow: 'Too slow', closes_idle: 'Idle' }),
  chart('Channels and topics', 'count', { channels: 'Channels', topics: 'Topics', presences: 'Presences' }),
  chart('Crashes of channels', 'rate', { crashes: 'Crashes' }),
  chart('Suspended webhooks', 'count', { hooks_breakers_open: 'Processes' }),
  chart('Join time', 'seconds', { join_p99: 'p99', join_p50: 'p50' }),
  chart('HTTP requests and accepted connections', 'rate', {
    http_requests: 'Requests',
    accepts: 'Accepted',
    backlog_overflows: 'Backlog overflows',
  }),
  chart('HTTP time', 'seconds', { http_p99: 'p99', http_p50: 'p50' }),
]

export const PAGE_CHARTS = [
  chart('Page loads', 'rate', { page_loads: 'Page loads', page_sessions: 'Sessions' }),
  chart('Visitors of the day', 'count', { page_visitors: 'Visitors' }),
  chart('Pages', 'count', { pages_open: 'Open', pages_available: 'Available' }),
  chart('Relayed bytes', 'byte_rate', { relayed_bytes: 'Relayed' }),
  chart('Relay time', 'seconds', { relay_p99: 'p99' }),
  chart('Refused by the relay quota', 'rate', { refusals_relay_quota: 'Refused' }),
  chart('Signals', 'rate', { signals: 'Signals' }),
  chart('Sprites', 'count', { sprites: 'Sprites' }),
  chart('libp2p connections', 'count', { p2p_connections: 'Connections', p2p_peers: 'Peers' }),
  chart('libp2p bytes', 'byte_rate', { p2p_sent_bytes: 'Out', p2p_received_bytes: 'In', p2p_duplicate_bytes: 'Duplicate' }),
]

export const CLUSTER_CHARTS = [
  chart('Links to other machines', 'count', { cluster_links: 'Links' }),
  chart('Processes', 'count', { processes: 'Running' }),
  chart('Bus queue', 'bytes', { bus_queued_bytes: 'Queued' }),
  chart('Bus drops', 'rate', { bus_drops: 'Dropped' }),
  chart('NATS', 'count', { nats_connected: 'Connected processes' }),
]

export const RUNTIME_CHARTS = [
  CPU,
  BUSY,
  chart('Memory', 'bytes', { resident_bytes: 'Resident', history_bytes: 'History' }),
  chart('Available memory of the machine', 'bytes', { memory_available_bytes: 'Available' }),
  chart('Available disk space', 'bytes', { disk_available_bytes: 'Available' }),
  chart('Open file descriptors', 'count', { open_fds: 'Open' }),
  chart('Threads', 'count', { threads: 'Threads' }),
]
