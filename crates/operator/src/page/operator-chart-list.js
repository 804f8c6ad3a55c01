// All charts of the page: which columns of the history each shows, and under which names.

const CONNECTIONS = {
  title: 'Connections',
  kind: 'count',
  series: [
    { column: 'connections', name: 'TCP' },
    { column: 'clients_websocket', name: 'WebSocket' },
    { column: 'clients_longpoll', name: 'Long poll' },
  ],
}
const MESSAGES = {
  title: 'Messages',
  kind: 'rate',
  series: [
    { column: 'deliveries', name: 'Deliveries' },
    { column: 'messages', name: 'From clients' },
    { column: 'broadcasts', name: 'Broadcasts' },
  ],
}
const BYTES = {
  title: 'Bytes',
  kind: 'byte_rate',
  series: [
    { column: 'sent_bytes', name: 'Out' },
    { column: 'received_bytes', name: 'In' },
  ],
}
const CPU = { title: 'CPU', kind: 'cores', series: [{ column: 'cpu', name: 'In use' }] }
const BUSY = { title: 'Busiest event loop', kind: 'share', series: [{ column: 'busy_max', name: 'Busy' }] }
const MEMORY = { title: 'Memory', kind: 'bytes', series: [{ column: 'resident_bytes', name: 'Resident' }] }
const BROADCAST = {
  title: 'Broadcast time',
  kind: 'seconds',
  series: [
    { column: 'broadcast_p99', name: 'p99' },
    { column: 'broadcast_p50', name: 'p50' },
  ],
}
const QUEUED = {
  title: 'Queued bytes',
  kind: 'bytes',
  series: [
    { column: 'queued_bytes', name: 'All connections' },
    { column: 'queued_bytes_max', name: 'Longest queue' },
  ],
}
const REFUSALS = {
  title: 'Refusals',
  kind: 'rate',
  series: [
    { column: 'refusals', name: 'All' },
    { column: 'refusals_origin', name: 'Wrong origin' },
    { column: 'refusals_relay_quota', name: 'Relay quota' },
  ],
}

export const HOME_CHARTS = [CONNECTIONS, MESSAGES, BYTES, BROADCAST, CPU, BUSY, MEMORY, QUEUED]

export const LIVE_CHARTS = [
  CONNECTIONS,
  {
    title: 'Joins',
    kind: 'rate',
    series: [
      { column: 'joins', name: 'Joins' },
      { column: 'joins_refused', name: 'Refused' },
    ],
  },
  MESSAGES,
  BYTES,
  CPU,
  BUSY,
  MEMORY,
  BROADCAST,
  QUEUED,
  REFUSALS,
  {
    title: 'Refusals at a limit',
    kind: 'rate',
    series: [
      { column: 'refusals_sockets_max', name: 'Connections' },
      { column: 'refusals_shard_queue', name: 'Queue of an event loop' },
      { column: 'refusals_broadcast_backlog', name: 'Broadcasts' },
    ],
  },
  {
    title: 'Closes',
    kind: 'rate',
    series: [
      { column: 'closes', name: 'All' },
      { column: 'closes_slow', name: 'Too slow' },
      { column: 'closes_idle', name: 'Idle' },
    ],
  },
  {
    title: 'Channels and topics',
    kind: 'count',
    series: [
      { column: 'channels', name: 'Channels' },
      { column: 'topics', name: 'Topics' },
      { column: 'presences', name: 'Presences' },
    ],
  },
  { title: 'Crashes of channels', kind: 'rate', series: [{ column: 'crashes', name: 'Crashes' }] },
  { title: 'Suspended webhooks', kind: 'count', series: [{ column: 'hooks_breakers_open', name: 'Processes' }] },
  {
    title: 'Join time',
    kind: 'seconds',
    series: [
      { column: 'join_p99', name: 'p99' },
      { column: 'join_p50', name: 'p50' },
    ],
  },
  {
    title: 'HTTP requests and accepted connections',
    kind: 'rate',
    series: [
      { column: 'http_requests', name: 'Requests' },
      { column: 'accepts', name: 'Accepted' },
      { column: 'backlog_overflows', name: 'Backlog overflows' },
    ],
  },
  {
    title: 'HTTP time',
    kind: 'seconds',
    series: [
      { column: 'http_p99', name: 'p99' },
      { column: 'http_p50', name: 'p50' },
    ],
  },
]

export const PAGE_CHARTS = [
  {
    title: 'Pages',
    kind: 'count',
    series: [
      { column: 'pages_open', name: 'Open' },
      { column: 'pages_available', name: 'Available' },
    ],
  },
  { title: 'Relayed bytes', kind: 'byte_rate', series: [{ column: 'relayed_bytes', name: 'Relayed' }] },
  { title: 'Relay time', kind: 'seconds', series: [{ column: 'relay_p99', name: 'p99' }] },
  { title: 'Refused by the relay quota', kind: 'rate', series: [{ column: 'refusals_relay_quota', name: 'Refused' }] },
  { title: 'Signals', kind: 'rate', series: [{ column: 'signals', name: 'Signals' }] },
  { title: 'Sprites', kind: 'count', series: [{ column: 'sprites', name: 'Sprites' }] },
  {
    title: 'libp2p connections',
    kind: 'count',
    series: [
      { column: 'p2p_connections', name: 'Connections' },
      { column: 'p2p_peers', name: 'Peers' },
    ],
  },
  {
    title: 'libp2p bytes',
    kind: 'byte_rate',
    series: [
      { column: 'p2p_sent_bytes', name: 'Out' },
      { column: 'p2p_received_bytes', name: 'In' },
      { column: 'p2p_duplicate_bytes', name: 'Duplicate' },
    ],
  },
]

export const CLUSTER_CHARTS = [
  { title: 'Links to other machines', kind: 'count', series: [{ column: 'cluster_links', name: 'Links' }] },
  { title: 'Processes', kind: 'count', series: [{ column: 'processes', name: 'Running' }] },
  { title: 'Bus queue', kind: 'bytes', series: [{ column: 'bus_queued_bytes', name: 'Queued' }] },
  { title: 'Bus drops', kind: 'rate', series: [{ column: 'bus_drops', name: 'Dropped' }] },
  { title: 'NATS', kind: 'count', series: [{ column: 'nats_connected', name: 'Connected processes' }] },
]

export const RUNTIME_CHARTS = [
  CPU,
  BUSY,
  {
    title: 'Memory',
    kind: 'bytes',
    series: [
      { column: 'resident_bytes', name: 'Resident' },
      { column: 'history_bytes', name: 'History' },
    ],
  },
  { title: 'Available memory of the machine', kind: 'bytes', series: [{ column: 'memory_available_bytes', name: 'Available' }] },
  { title: 'Available disk space', kind: 'bytes', series: [{ column: 'disk_available_bytes', name: 'Available' }] },
  { title: 'Open file descriptors', kind: 'count', series: [{ column: 'open_fds', name: 'Open' }] },
  { title: 'Threads', kind: 'count', series: [{ column: 'threads', name: 'Threads' }] },
]
