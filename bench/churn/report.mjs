// The report of a run: targets, figures and the chart. `watchfire-bench draw` writes its page.

import { axis, line, panel } from '../browser/chart.mjs'
import { machineSentence } from '../browser/report.mjs'

const CONNECTIONS_MAX = 12

export function targetsOf({ connectionsMax, relayedWhileDirect, wrong, dropped }) {
  const atMost = (what, value, bound) => ({ what, value, bound, unit: '', decimals: 0, is_least: false })
  return [
    atMost('connections of any peer at the same time', connectionsMax, CONNECTIONS_MAX),
    atMost('bytes of content relayed between peers with an open direct connection', relayedWhileDirect, 0),
    atMost('peers that stayed and do not have every byte as it was published', wrong, 0),
    atMost('peers that another peer dropped as malicious', dropped, 0),
  ]
}

export function reportOf({ options, machine, commit, figures, played, herds, command, seconds, date, isWhole }) {
  const { peers, megabytes, waves, herd } = options
  const s = (value) => `${value.toFixed(1)} s`
  const mb = (value) => `${(value / 1e6).toFixed(1)} MB`
  const row = (what, value) => ({ what, value })
  return {
    benchmark: 'churn',
    title: `One page, ${peers} simulated peers that join and leave`,
    is_whole: isWhole,
    date,
    commit,
    machine: `${machineSentence(machine)}. A page of ${megabytes} MB; one peer publishes it, ${peers} join in ${waves} waves; ${herds} processes with up to ${herd} peers each and one server, all on this machine`,
    command,
    seconds: Math.round(seconds),
    method: [
      '`bench/README.md` describes each figure.',
      'The peers run the code of the web client (`web/src/swarm`, `web/src/bitswap`, `web/src/channel`) on real sockets and real WebRTC, without a browser.',
      'The next wave joins when the peers of the last one have three tenths of the page on average. One in five peers of each wave closes its tab when it has two fifths of the page. Every second one of those returns. Half way, one process is killed, and its peers return.',
      'No uplink is a limit on one machine, so the page arrives soon, and much of it comes by relay while the first direct connections are made.',
      'The peers of the killed process are counted with their last report, at most a quarter of a second old.',
    ],
    targets: targetsOf(figures),
    figures: [
      row('visits; to the end; left or killed; returned', `${figures.visits}; ${figures.stayed}; ${figures.gone}; ${figures.returned}`),
      row('all present peers have the whole page after', s(figures.seconds)),
      row(
        'from joining to the last byte: fastest, half, 95 %, slowest',
        [figures.firstDone, figures.medianDone, figures.mostDone, figures.lastDone].map(s).join(', '),
      ),
      row('copies of the page that the publisher sent', figures.copies.toFixed(2)),
      row('share of the content over direct connections', `${(figures.directShare * 100).toFixed(1)} %`),
      row('content over direct connections', mb(figures.directBytes)),
      row('content by relay, before there was a direct connection', mb(figures.relayedBytes)),
      row('all bytes that the server relayed, by its own count', mb(figures.relayedByServer)),
      row('content that moved, for each byte that a peer received', figures.movedPerNeeded.toFixed(2)),
      row(
        'direct connections; the most at the same time',
        `${figures.directConnections.toFixed(0)}; ${figures.directConnectionsMax.toFixed(0)}`,
      ),
      row('memory of the server, at most', mb(figures.serverResidentMax)),
      row(`memory of a process of ${herd} peers, each with its copy of the page, at most`, mb(figures.peerResidentMax)),
      row('CPU-seconds of all peers', s(figures.cpuPeers)),
      row('CPU-seconds of the server', s(figures.cpuServer)),
    ],
    tables: [],
    chart: chartOf({ ...played, bytes: megabytes * 1e6, machine, options }),
  }
}

/** Peers present, content moved directly and by relay, and copies that the publisher sent. */
function chartOf({ samples, began, endedAt, bytes, machine, options }) {
  const points = (of) => samples.map((sample) => [(sample.at - began) / 1000, of(sample)])
  const time = () => axis('seconds since the page was published', { max: ((endedAt - began) / 1000) * 1.02 })
  return {
    label: 'Peers that join and leave, what moved directly and by relay, and what the publisher sent',
    panels: [
      panel('Peers', time(), axis('peers'), [
        line(
          'present',
          'Grey',
          points(({ here }) => here),
        ),
        line(
          'have the whole page',
          'Blue',
          points(({ complete }) => complete),
        ),
      ]),
      panel('Content that has moved, in copies of the page', time(), axis('copies'), [
        line(
          'directly',
          'Green',
          points(({ directBytes }) => directBytes / bytes),
        ),
        line(
          'by relay',
          'Purple',
          points(({ relayedBytes }) => relayedBytes / bytes),
        ),
      ]),
      panel('Copies that the publisher has sent', time(), axis('copies'), [
        line(
          '',
          'Orange',
          points(({ copies }) => copies),
        ),
      ]),
    ],
    notes: [`${options.peers} simulated peers, ${options.megabytes} MB; ${machine.cores} cores, Linux ${machine.kernel}.`],
  }
}
