// The page about a run: marks and figures.

const LINES_MAX = 12

export function marksOf({ linesMost, relayedWhileDirect, wrong, sentAway }) {
  return [
    { mark: 'connections of any peer at once', value: linesMost, atMost: LINES_MAX },
    { mark: 'bytes of content relayed between two who had a direct way', value: relayedWhileDirect, atMost: 0 },
    { mark: 'peers who stayed and have not every byte as it was published', value: wrong, atMost: 0 },
    { mark: 'peers that another took for one of ill will, and heard no more', value: sentAway, atMost: 0 },
  ]
}

export function pageOf({ options, machine, figures, command, herds, seconds, date }) {
  const { peers, megabytes, waves, herd } = options
  const s = (value) => `${value.toFixed(1)} s`
  const mb = (value) => `${(value / 1e6).toFixed(1)} MB`
  const row = (name, value) => `| ${name} | ${value} |`
  return [
    `# One page, ${peers} simulated peers that come and go`,
    '',
    `Written by \`${command}\` on ${date}; it took ${seconds.toFixed(0)} s. How it measures is told in \`bench/README.md\`.`,
    '',
    `Machine: ${machine.cores} cores (${machine.model}), ${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB of memory, Linux ${machine.kernel}, load ${machine.load.toFixed(1)} before the run. A page of ${megabytes} MB; one publishes it, ${peers} come in ${waves} waves; ${herds} processes, up to ${herd} peers in each, and one server, all on this machine.`,
    '',
    '![Who is here and who has all of it, what moved directly and by relay, and what the publisher sent, second by second](churn.svg)',
    '',
    'They run the web client\'s own code (`web/src/swarm`, `web/src/bitswap`, `web/src/channel`) on real sockets and real WebRTC, without a browser around it. The next wave comes when the last one has three tenths of the page on average. Of each wave one in five closes its tab with two fifths of it; every second of those returns. Half way one process is cut off without a word, and its peers return.',
    '',
    '| mark | measured | at most | |',
    '|---|---:|---:|---|',
    ...marksOf(figures).map(({ mark, value, atMost }) => `| ${mark} | ${value} | ${atMost} | ${value <= atMost ? 'met' : 'MISSED'} |`),
    '',
    '| figure | measured |',
    '|---|---:|',
    row('visits; of them to the end; left or were cut off; came back', `${figures.visits}; ${figures.stayed}; ${figures.gone}; ${figures.returned}`),
    row('all who are here have all of it, after', s(figures.seconds)),
    row('from coming to the last byte: the fastest, half, nineteen of twenty, the slowest', [figures.firstDone, figures.medianDone, figures.mostDone, figures.lastDone].map(s).join(', ')),
    row('copies of the page that the publisher sent', figures.copies.toFixed(2)),
    row('share of the content that went directly', `${(figures.directShare * 100).toFixed(1)} %`),
    row('content that went directly', mb(figures.directBytes)),
    row('content that went by relay, before there was a direct way', mb(figures.relayedBytes)),
    row('all that the server relayed, by its own count', mb(figures.relayedByServer)),
    row('content that moved, for each byte that a peer came to have', figures.movedPerNeeded.toFixed(2)),
    row('direct ways that were made; connections at once, at most', `${figures.ways.toFixed(0)}; ${figures.waysMost.toFixed(0)}`),
    row('memory of the server, at most', mb(figures.residentServerMost)),
    row(`memory of a process of ${herd} peers, each with its copy of the page, at most`, mb(figures.residentPeerMost)),
    row('CPU-seconds of all peers', s(figures.cpuPeers)),
    row('CPU-seconds of the server', s(figures.cpuServer)),
    '',
    'Nobody\'s uplink is a limit on one machine, so a page is here soon, and much of it comes by relay while the first direct ways are being made. A process that is cut off is counted as it last told of itself, a quarter of a second before at most.',
    '',
  ].join('\n')
}
